"""Figures of use as lines of a page: the release, the log itself, the rule without data; with a measure's meaning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from querycloak.evaluation.task import NO_DATA, ORIGINAL
from querycloak.evaluation.task_registry import measures

Rows = Sequence[Mapping[str, Any]]


def public_figures(measured: Rows, method: str) -> list[dict[str, Any]]:
    """A line for every measure, or for each slice of one that has slices alone, of the release of a public twin.

    The rule without data and the synthetic log itself stand beside it. method: of the release.
    """
    rows = [row for row in measured if row.get("reading") == "all"]
    values = {(row["release"], *_case(row)): row.get("value") for row in rows}
    own = [row for row in rows if row["release"] == method and row.get("value") is not None]
    whole = {(row["task"], row["measure"]) for row in own if not row.get("slice")}
    return [
        {
            **row,
            **_meaning(row),
            "without_data": values.get((NO_DATA, *_case(row))),
            "original": values.get((ORIGINAL, *_case(row))),
        }
        for row in own
        if not row.get("slice") or (row["task"], row["measure"]) not in whole
    ]


_BESIDE_ALL = ("answered", "common")


def private_figures(measured: Rows) -> list[dict[str, Any]]:
    """A line for every measure of every task that was passed: all cases first, then those that the release answers.

    The original and the rule without data stand beside it. A measure with slices alone has a line for each slice.
    """
    rows = [row for row in measured if row.get("digest")]
    answered, common = ({_case(row): row for row in rows if row.get("reading") == name} for name in _BESIDE_ALL)
    original, without_data = (
        {_case(row): row["value"] for row in measured if row["release"] == name and row.get("reading") == "all"}
        for name in (ORIGINAL, NO_DATA)
    )
    whole = {(row["task"], row["measure"]) for row in rows if not row.get("slice")}
    lines = []
    for row in (row for row in rows if row.get("reading") == "all"):
        if row.get("slice") and (row["task"], row["measure"]) in whole:
            continue
        case = _case(row)
        has_cases = case in answered and row.get("cases") and row.get("answered") is not None
        lines.append({
            **row,
            **_meaning(row),
            "original": original.get(case),
            "without_data": without_data.get(case),
            "coverage": row["answered"] / row["cases"] if has_cases else None,
            "answered_value": answered.get(case, {}).get("value"),
            "original_answered": common.get(case, {}).get("value"),
        })  # fmt: skip
    return lines


def _case(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["task"], row["measure"], row.get("slice")


@cache
def _measures() -> dict[str, dict[str, tuple[str, str]]]:
    return {task: {name: (each.meaning, each.better) for name, each in of.items()} for task, of in measures().items()}


def _meaning(row: Mapping[str, Any]) -> dict[str, str]:
    """Meaning of a row's measure, and the direction that is better; empty for a task that is not installed."""
    name = str(row["measure"]).partition("(")[0]
    meaning, better = _measures().get(row["task"], {}).get(name, ("", ""))
    return {"meaning": meaning, "better": better}
