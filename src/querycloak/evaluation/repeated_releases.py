"""Several releases by one method with the same parameters: they differ by their noise alone, so they show it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from querycloak.evaluation.aggregations import LEVEL
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.target import Target
from querycloak.methods.method import DRAWN_TOTAL


def rows_of_repeats(rows: Sequence[Row], releases: Sequence[Target]) -> Iterator[Row]:
    """For each kind of which there are two or more: the mean of each value, and where a further release would lie.

    That interval is the t-distribution's prediction for one more value, at 95 %.
    """
    for name, members in _repeats(releases).items():
        values: dict[tuple[str, str | None, str], list[Row]] = {}
        for row in rows:
            if row.release in members:
                values.setdefault((row.measure, row.slice, row.reading), []).append(row)
        for same in values.values():
            yield _together(name, same)


def _repeats(releases: Sequence[Target]) -> Mapping[str, list[str]]:
    return repeats({release.name: (release.method or "", release.variant, release.parameters) for release in releases})


def repeats(kinds: Mapping[str, tuple[str, str, Mapping[str, Any]]]) -> Mapping[str, list[str]]:
    """Names of releases of one kind, under a name for all of them; kinds are method, variant and parameters."""
    names_by_kind: dict[str, list[str]] = {}
    for name, (method, variant, parameters) in kinds.items():
        settings = {each: value for each, value in parameters.items() if each != DRAWN_TOTAL}
        kind = json.dumps([method, variant, settings], sort_keys=True, default=str)
        names_by_kind.setdefault(kind, []).append(name)
    return {_shown(names): names for names in names_by_kind.values() if len(names) > 1}


def _shown(names: Sequence[str]) -> str:
    listed = ", ".join(names) if len(names) <= 3 else f"{names[0]} ... {names[-1]}"
    return f"{listed} ({len(names)} releases)"


def different_names(names: Sequence[str], taken: Collection[str]) -> list[str]:
    """The names, with a number after each that is taken already."""
    used, names_given = set(taken), []
    for each in names:
        name, number = each, 2
        while name in used:
            name, number = f"{each}-{number}", number + 1
        used.add(name)
        names_given.append(name)
    return names_given


def _together(name: str, rows: Sequence[Row]) -> Row:
    values = np.array([row.value for row in rows if row.value is not None])
    base = replace(rows[0], release=name, digest=None, p_value=None, difference=None, low=None, high=None)
    if values.size < 2:
        return replace(base, value=None, why=rows[0].why or "fewer than two of these releases have a value")
    from scipy.stats import t

    reach = t.ppf((1 + LEVEL) / 2, values.size - 1) * values.std(ddof=1) * np.sqrt(1 + 1 / values.size)
    mean = float(values.mean())
    differences = [row.difference for row in rows if row.difference is not None]
    answered = [row.answered for row in rows if row.answered is not None]
    return replace(
        base, value=mean, low=mean - float(reach), high=mean + float(reach), why=None,
        difference=float(np.mean(differences)) if differences else None,
        answered=round(float(np.mean(answered))) if answered else None,
    )  # fmt: skip
