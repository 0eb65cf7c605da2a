"""A comparison with made-up results: two budgets, every kind of promise, a failure, an alarm, texts that break out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from querycloak.audits.release_audit import COLUMNS
from querycloak.comparison.comparison import Comparison
from querycloak.comparison.comparison_plan import PlannedRelease
from querycloak.comparison.comparison_views import ATTACK_VIEWS, TASK_VIEWS
from querycloak.evaluation.evaluation_file import SCHEMA
from querycloak.methods.registry import METHODS

NASTY = '<img src="https://evil.example/x.png" onerror="alert(1)">\u202e' + "averylongwordwithoutanyblank" * 8
RELEASES: dict[str, tuple[str, dict[str, Any], float | None, float]] = {
    "clicks-e1": ("clicks", {"epsilon": 1.0, "delta": 1e-6}, 0.12, 0.01),
    "clicks-e8": ("clicks", {"epsilon": 8.0, "delta": 1e-6}, 0.31, 0.03),
    "sessions-e1": ("sessions", {"epsilon": 1.0, "delta": 1e-6}, 0.09, 0.0),
    "sessions-e8": ("sessions", {"epsilon": 8.0, "delta": 1e-6}, 0.28, 0.02),
    "optimal-paper": ("optimal", {"epsilon": 8.0, "delta": 0.1, "variant": "paper"}, 0.2, 0.4),
    "semantic-e8": ("semantic", {"epsilon": 8.0, "max_queries": 4}, None, 0.05),
    "affinity-k5-paper": ("affinity", {"min_users": 5, "variant": "paper"}, 0.64, 0.73),
    "a-name-that-somebody-has-chosen-and-that-is-rather-long.2026": ("k-anonymity", {"min_users": 5}, 0.42, 0.66),
}
BROKEN = PlannedRelease("broken", "semantic", {"epsilon": 1.0, "max_queries": 4})
WHY = "its rows hold other texts in place of what was asked"


def canned(folder: Path, *, demo: bool = False) -> Comparison:
    """The comparison; nothing of it is on the disk."""
    evaluation = [row for name in ("original", "k-anonymity", "no-data", *RELEASES, "broken")
                  for row in _values(name)]  # fmt: skip
    audit = [row for name in ("original", "pseudonyms", "k-anonymity", *RELEASES, "broken") for row in _risks(name)]
    about = {
        "demo": demo,
        "log": {"train.parquet": {"rows": 51234, "users": 900}, "test.parquet": {"rows": 5678, "users": 100}},
        "releases": [*(_facts(name) for name in RELEASES), {**BROKEN.to_json(), "summary": "x", "failed": "no memory"}],
        "alarms": ["membership: clicks-e8 lets find more members than its proven guarantee allows"],
        "seconds": 95.0,
    }
    tables = pa.Table.from_pylist(evaluation, SCHEMA), pa.Table.from_pylist(audit, pa.schema(list(COLUMNS.items())))
    return Comparison(folder, about, *tables)


def _kept(name: str) -> float | None:
    return RELEASES[name][2] if name in RELEASES else {"original": 1.0, "k-anonymity": 0.5, "no-data": 0.2}.get(name)


def _values(name: str) -> list[dict[str, Any]]:
    rows = []
    for place, (task, view) in enumerate(TASK_VIEWS.items()):
        kept = 0.98 if task == "profiles" and name in RELEASES else _kept(name)
        row: dict[str, Any] = {
            "release": name,
            "task": task,
            "measure": view.measure,
            "slice": view.slices[0],
            "reading": "all",
        }
        if kept is None:
            rows.append({**row, "why": WHY})
            continue
        value = 1 - kept if view.share == "loss" else kept * (0.4 if view.share == "of-original" else 1)
        value *= 1 if name == "original" else 1 - 0.03 * place
        rows.append({**row, "value": value, "low": value * 0.8, "high": value * 1.3, "cases": 100, "answered": 60})
    return rows


def _risks(name: str) -> list[dict[str, Any]]:
    risk = 1.0 if name in ("original", "pseudonyms") else RELEASES[name][3] if name in RELEASES else 0.6
    rows = []
    for attack, view in ATTACK_VIEWS.items():
        row: dict[str, Any] = {"release": name, "attack": attack, "setting": view.setting}
        counted = attack in ("singling-out", "reconstruction") and name.startswith(("clicks", "sessions"))
        if counted or name == "broken" or attack == "linkage-periods":
            rows.append({**row, "why": "its tables hold counts"})
            continue
        idle = attack == "secrets" and risk < 0.5
        found = 0.0 if idle else risk
        ends = {"low": max(found - 0.05, 0), "high": min(found + 0.05, 1)}
        why = "invalid: no better than without the release" if idle else None
        rows.append(
            {**row, "main": found, "control": 0.0, "baseline": 0.0, "risk": found, **ends, "targets": 900, "why": why}
        )
    if name in RELEASES:
        rows.append(
            {"release": name, "attack": "forced-out", "setting": "7 accounts, 1 text", "main": 0.7, "risk": 0.7}
        )
    return rows


def _facts(name: str) -> dict[str, Any]:
    method, options, _, _ = RELEASES[name]
    made = METHODS[method](**options)
    claimed = made.claimed()
    log = method in ("semantic", "affinity", "optimal")
    row = ["0123456789abcdef", NASTY] if log else [NASTY, "http://www.example.com/" + "x" * 200, 12]
    examples = {"rows": 1234, "columns": ["user", "query"] if log else ["query", "url", "count"], "examples": [row] * 5}
    return {
        **PlannedRelease(name, method, options).to_json(),
        "summary": METHODS[method].summary,
        "failed": None,
        "variant": made.variant,
        "parameters": made.parameters(),
        "claimed": claimed and claimed.to_json(),
        "proven": made.proven().to_json(),
        "counts": "exact",
        "rows": {"semantic": "replaced", "affinity": "alike"}.get(method, "asked"),
        "digest": "0" * 64,
        "seconds": 1.0,
        "examples": {"log" if log else "clicks": examples},
        "secrets": {"out": 3, "planted": 99, "example": {"query": NASTY, "kind": "own name", "users": 1}},
    }
