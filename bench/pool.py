"""Public keys that nobody asked for: a million queries and all their pairs, against a draw for each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUERIES = 1_000_000
SCALE = 1.5


def _seconds(work: Callable[[], Any]) -> float:
    """The fastest of three: the first one also loads what it needs."""
    taken = []
    for _ in range(3):
        start = time.perf_counter()
        work()
        taken.append(time.perf_counter() - start)
    return min(taken)


def main(_: Path, __: int, ___: Path) -> None:
    """One line of JSON; the size of the log does not matter here."""
    from querycloak.privacy.calibration.histogram import release
    from querycloak.privacy.calibration.public_counts import public_cut
    from querycloak.privacy.sampling.noise import Laplace
    from querycloak.privacy.sampling.randomness import Randomness

    noise, randomness = Laplace(SCALE), Randomness()

    def zeros(keys: int) -> Callable[[], Any]:
        return lambda: release([], noise, public_cut(noise, keys), randomness, zeros=keys)

    each = _seconds(lambda: randomness.noise(noise, QUERIES // 100)) * 100
    ours = _seconds(zeros(QUERIES))
    report = {
        "bench": f"{QUERIES:,} public queries that nobody asked",
        "milliseconds": round(1000 * ours, 2),
        "milliseconds_of_a_draw_each": round(1000 * each),
        "ratio": round(ours / each, 6),
        "milliseconds_for_all_pairs": round(1000 * _seconds(zeros(QUERIES * (QUERIES - 1))), 2),
    }
    print(json.dumps(report), flush=True)
