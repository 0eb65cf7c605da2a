"""Releases to test with."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from querycloak.privacy.guarantee import Guarantee
from querycloak.releases.release import Release

PROVEN = Guarantee(
    kind="approximate-dp",
    unit="user",
    neighbours="add-remove-user",
    epsilon=2.0,
    delta=1e-7,
    unprotected=("the gap between sessions",),
    because="each user counts once per key",
)
CLAIMED = Guarantee(
    kind="approximate-dp",
    unit="user",
    neighbours="add-remove-user",
    epsilon=1.0,
    delta=1e-8,
    because="as stated by its authors",
)
SYNTACTIC = Guarantee(kind="syntactic", unit="query", neighbours=None, k=5, because="five users ask it")
SAMPLING = Guarantee(
    kind="sampling-only", unit="user", neighbours="add-remove-user", epsilon=0.0, delta=0.5, because="multinomial"
)

QUERIES = pa.table({"query": ["weather", "news", "maps"], "count": pa.array([30, 20, 10], pa.int64())})
CLICKS = pa.table({"query": ["weather"], "url": ["weather.example/today"], "count": pa.array([12], pa.int64())})
TRANSITIONS = pa.table({"query": ["weather"], "next_query": ["maps"], "count": pa.array([9], pa.int64())})
SESSIONS = pa.table({"queries": [["weather", "maps"], ["news", "maps"]], "count": pa.array([7, 6], pa.int64())})
LOG = pa.table(
    {
        "user": ["u1", "u2"],
        "query": ["weather", "maps"],
        "url": ["weather.example/today", None],
        "count": pa.array([1, 1], pa.int64()),
        "time": pa.array([1_141_205_400_000_000, None], pa.timestamp("us")),
    }
)
TABLES = {"queries": QUERIES, "clicks": CLICKS, "transitions": TRANSITIONS, "sessions": SESSIONS, "log": LOG}


def a_release(**changed: Any) -> Release:
    fields: dict[str, Any] = {
        "method": "clicks",
        "variant": "default",
        "parameters": {"threshold": 9, "per_user": 4},
        "claimed": CLAIMED,
        "proven": PROVEN,
        "tables": {"queries": QUERIES},
    }
    return Release(**fields | changed)
