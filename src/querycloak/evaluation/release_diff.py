"""Changes between two releases that exceed their noise (public).

A key of both releases is tested for equal true counts, a key of one release for a true count that hides it in the
other. P-values are the largest over all true counts that the published counts leave plausible; a count that was
published because it passed a threshold has the law of noise beyond that threshold. Benjamini and Hochberg (1995) turn
p-values into q-values over all keys of all tables.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.evaluation.count_law import CountLaw, count_law
from querycloak.methods.evidence import load
from querycloak.privacy.parameters import share
from querycloak.releases.release import Release

IMPLAUSIBLE = 1e-9
"""Probability of noise beyond the plausible true counts; added to every p-value (Berger and Boos, 1994)."""
_NOISY = ("one-draw", "fresh-draw", "weighed", "public-keys", "exact")
FloatArray = NDArray[np.float64]
Key = tuple[Any, ...]


@dataclass(frozen=True)
class ChangedKey:
    """A key with a change that exceeds noise; `before` is None if it appeared, `after` is None if it vanished."""

    table: str
    key: Mapping[str, Any]
    before: int | None
    after: int | None
    q_value: float

    def to_json(self) -> dict[str, Any]:
        """Return the row that `diff --json` prints."""
        key = {name: list(value) if isinstance(value, tuple) else value for name, value in self.key.items()}
        return {"table": self.table, "key": key, "before": self.before, "after": self.after, "q_value": self.q_value}


@dataclass(frozen=True)
class ReleaseDiff:
    """Keys that appeared, vanished or changed beyond noise; `tested` is the number of keys compared."""

    appeared: tuple[ChangedKey, ...]
    vanished: tuple[ChangedKey, ...]
    changed: tuple[ChangedKey, ...]
    tested: int
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the document that `diff --json` prints."""
        return {
            "appeared": len(self.appeared),
            "vanished": len(self.vanished),
            "changed": [each.to_json() for each in self.changed],
            "appeared_keys": [each.to_json() for each in self.appeared],
            "vanished_keys": [each.to_json() for each in self.vanished],
            "tested": self.tested,
            "notes": list(self.notes),
        }


def diff(
    before: Release | str | os.PathLike[str], after: Release | str | os.PathLike[str], *, fdr: float = 0.05
) -> ReleaseDiff:
    """Compare two releases; at most a share `fdr` of the reported changes is expected to be noise."""
    share("fdr", fdr, "such as 0.05")
    old, new = (_loaded(name, each) for name, each in (("before", before), ("after", after)))
    tables = [kind for kind in old.tables if kind in new.tables]
    if not tables:
        raise ParameterError(
            f"the releases share no table: one has {', '.join(old.tables)}, the other {', '.join(new.tables)}"
        )
    for release in (old, new):
        if release.counts not in _NOISY:
            raise ParameterError(
                f"{release.method} publishes no counts with known noise; queries, clicks, sessions and query-pool do"
            )
    tests = [test for kind in tables for test in _tests(kind, old, new)]
    q_values = benjamini_hochberg(np.array([test.p_value for test in tests]))
    beyond = [
        ChangedKey(test.table, test.key, test.before, test.after, float(q))
        for test, q in zip(tests, q_values, strict=True)
        if q <= fdr
    ]
    beyond.sort(key=lambda each: (each.q_value, each.table, str(tuple(each.key.values()))))
    return ReleaseDiff(
        tuple(each for each in beyond if each.before is None),
        tuple(each for each in beyond if each.after is None),
        tuple(each for each in beyond if each.before is not None and each.after is not None),
        len(tests),
        tuple(_notes(old, new)),
    )


def benjamini_hochberg(p_values: FloatArray) -> FloatArray:
    """Return the q-value of each test: the smallest false discovery rate at which it is reported."""
    if not p_values.size:
        return p_values
    order = np.argsort(p_values, kind="stable")
    ranked = p_values[order] * p_values.size / np.arange(1, p_values.size + 1)
    q_values = np.empty_like(ranked)
    q_values[order] = np.minimum.accumulate(ranked[::-1])[::-1].clip(max=1.0)
    return q_values


@dataclass(frozen=True)
class _Test:
    table: str
    key: Mapping[str, Any]
    before: int | None
    after: int | None
    p_value: float


def _loaded(name: str, release: Release | str | os.PathLike[str]) -> Release:
    if isinstance(release, Release):
        return release
    if not isinstance(release, (str, os.PathLike)):
        raise ParameterError(f"{name} must be a release, or the name of its folder; querycloak.load reads one")
    return load(Path(release))


def _tests(kind: str, old: Release, new: Release) -> Iterator[_Test]:
    tables = [release.table(kind) for release in (old, new)]
    columns = [name for name in tables[0].column_names if name != "count"]
    if columns != [name for name in tables[1].column_names if name != "count"]:
        raise ParameterError(f"table {kind} has other columns in the other release; compare releases with the same")
    counts = [_counts(table, columns) for table in tables]
    laws = count_law(old, kind), count_law(new, kind)
    compared = ComparedCounts(*laws)
    for key in counts[0].keys() | counts[1].keys():
        pair = counts[0].get(key), counts[1].get(key)
        p_value = compared.p_value(key in counts[0], key in counts[1], *pair)
        if p_value is not None:
            yield _Test(kind, dict(zip(columns, key, strict=True)), *pair, p_value)


def _counts(table: pa.Table, columns: list[str]) -> dict[Key, int | None]:
    keys = zip(*(map(_hashable, table[name].to_pylist()) for name in columns), strict=True)
    counts = table["count"].to_pylist() if "count" in table.column_names else [None] * table.num_rows
    return dict(zip(keys, counts, strict=True))


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class ComparedCounts:
    """P-values of two published counts of one key, or of one count and an absence."""

    def __init__(self, before: CountLaw, after: CountLaw) -> None:
        self._laws = (before, after)
        self._tails: dict[int, FloatArray] = {}

    def p_value(self, was: bool, now: bool, before: int | None, after: int | None) -> float | None:
        """Return the largest p-value over plausible true counts; None if a count is missing or clamped."""
        if was and now:
            return None if before is None or after is None else self._changed(before, after)
        count, present, absent = (before, *self._laws) if was else (after, self._laws[1], self._laws[0])
        return None if count is None else _hidden(count, present, absent)

    def _changed(self, before: int, after: int) -> float:
        distance = abs(before - after)
        if distance == 0:
            return 1.0
        ranges = [law.plausible(count, IMPLAUSIBLE / 2) for law, count in zip(self._laws, (before, after), strict=True)]
        low, high = max(each[0] for each in ranges), min(each[1] for each in ranges)
        # Beyond its threshold's influence every true count has the same tail.
        same = max(law.steady_from for law in self._laws)
        centres = range(min(low, same), min(high, same) + 1) if low <= high else ()
        return min(1.0, max((self._tail(centre, distance) for centre in centres), default=0.0) + IMPLAUSIBLE)

    def _tail(self, centre: int, distance: int) -> float:
        if centre not in self._tails:
            self._tails[centre] = _distance_tail(*(law.published(centre) for law in self._laws))
        tail = self._tails[centre]
        return float(tail[distance]) if distance < tail.size else 0.0


def _distance_tail(first: tuple[int, FloatArray], second: tuple[int, FloatArray]) -> FloatArray:
    """Return Pr[|X - Y| >= d] for d = 0, 1, ... of two independent counts, each a first value and its probabilities."""
    (start, law), (other_start, other) = first, second
    size = 1 << math.ceil(math.log2(law.size + other.size))
    product = np.fft.irfft(np.fft.rfft(law, size) * np.fft.rfft(other[::-1], size), size)[: law.size + other.size - 1]
    distances = np.abs(np.arange(product.size) + start - other_start - other.size + 1)
    mass: FloatArray = np.bincount(distances, weights=np.maximum(product, 0.0)).astype(np.float64)
    return np.cumsum(mass[::-1])[::-1]


def _hidden(count: int, present: CountLaw, absent: CountLaw) -> float:
    """Return the largest chance, over true counts, of at least `count` in one release and no row in the other."""
    slack = present.beyond(IMPLAUSIBLE)
    centres = np.arange(max(0, count - slack), count + slack + 1)
    joint = [present.at_least(count, int(centre)) * absent.absent(int(centre)) for centre in centres]
    return min(1.0, max(joint) + IMPLAUSIBLE)


def _notes(old: Release, new: Release) -> Iterator[str]:
    if old.method != new.method or old.variant != new.variant:
        yield f"the releases come from different methods ({old.method}, {new.method}): their counts may differ by rule"
    bounds = [release.parameters.get("per_user") for release in (old, new)]
    if bounds[0] != bounds[1]:
        yield "the releases bound a user's keys differently: counts may differ without any change in the log"
    if any(release.seeded for release in (old, new)):
        yield "a release was made with a seed, for a test: its noise is known"
