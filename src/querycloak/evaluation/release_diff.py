"""Changes between two releases that exceed their noise (public).

A key of both releases is tested for equal true counts, a key of one release for a true count that hides it in the
other. P-values are the largest over all true counts that the published counts leave plausible; a count that was
published because it passed a threshold has the law of noise beyond that threshold. Benjamini and Hochberg (1995) turn
p-values into q-values over all keys of all tables.
"""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.errors import ParameterError, QuerycloakError
from querycloak.methods.evidence import load
from querycloak.methods.registry import METHODS
from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage, TableAccuracy, at_least
from querycloak.privacy.parameters import share
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
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

    @property
    def text(self) -> str:
        """The key on one line, for people."""
        values = (" > ".join(each) if isinstance(each, tuple) else str(each) for each in self.key.values())
        return " | ".join(values)

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

    @property
    def strongest(self) -> list[ChangedKey]:
        """All changes, those that noise explains least first."""
        return sorted((*self.appeared, *self.vanished, *self.changed), key=lambda each: each.q_value)

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
    values = ([tuple(each) if isinstance(each, list) else each for each in table[name].to_pylist()] for name in columns)
    keys = zip(*values, strict=True)
    counts = table["count"].to_pylist() if "count" in table.column_names else [None] * table.num_rows
    return dict(zip(keys, counts, strict=True))


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


_TWO_SIDED_95 = 1.959963984540054
"""The 97.5 % point of the normal law: a 95 % margin is this many standard deviations."""


@dataclass(frozen=True)
class CountLaw:
    """Noise of a published count, and the chance that a key is published at all.

    noise: None if counts are exact. threshold: a count is published only above it, by the same draw; None if another
    draw selects. tie_probability: the chance of a count that equals the threshold. route: the selection; None if the
    card does not determine it: then every key may be absent.
    """

    noise: Noise | None
    threshold: int | None = None
    tie_probability: float = 0.0
    route: ReleaseProbability | None = None
    least_users: int | None = None
    """Users from which a rule without noise publishes every key; None if there is no such rule."""

    def beyond(self, probability: float) -> int:
        """Return a distance that noise exceeds, on either side, with at most this probability."""
        if self.noise is None:
            return 0
        if isinstance(self.noise, Laplace):
            return math.ceil(self.noise.size * math.log(2 / probability)) + 1
        return math.ceil(self.noise.size * math.sqrt(2 * math.log(4 / probability))) + 1

    @property
    def steady_from(self) -> int:
        """The true count from which the threshold no longer shapes the published count; 0 without threshold."""
        return 0 if self.threshold is None else self.threshold + self._reach + 1

    def published(self, true: int) -> tuple[int, FloatArray]:
        """Return the smallest published count considered and the probabilities from there on, given publication."""
        if self.noise is None:
            return true, np.ones(1)
        values = np.arange(-self._reach, self._reach + 1) + true
        law = self._masses.copy()
        if self.threshold is not None:
            law[values < self.threshold] = 0.0
            law[values == self.threshold] *= self.tie_probability
            if law.sum() <= 0:  # a true count far below: the first values above the threshold, as likely as noise says
                return self._far_below(true, self.noise)
        return int(values[0]), law / law.sum()

    def _far_below(self, true: int, noise: Noise) -> tuple[int, FloatArray]:
        """Noise beyond a distant threshold: geometric, as for Laplace; a Gaussian's own law falls faster still."""
        start = (self.threshold or 0) + 1
        size = noise.size if isinstance(noise, Laplace) else noise.size**2 / (start - true)
        ratio = math.exp(-1 / size)
        law = ratio ** np.arange(math.ceil(40 * size) + 1)
        return start, law / law.sum()

    def plausible(self, count: int, probability: float) -> tuple[int, int]:
        """Return the smallest and largest true count under which `count` is not rarer, either way, than this."""
        slack = self.beyond(probability)
        if self.threshold is None:
            return max(0, count - slack), count + slack
        # Given that it passed a threshold, a count may lie further above its true count.
        lower = range(max(0, count - slack))
        low = bisect_left(lower, probability / 2, key=lambda true: self._published_at_least(count, true))
        return low, count + slack

    def _published_at_least(self, count: int, true: int) -> float:
        start, law = self.published(true)
        return float(law[max(0, count - start) :].sum())

    def at_least(self, count: int, true: int) -> float:
        """Return an upper bound of the chance that at least `count` is published for this true count."""
        return float(count <= true) if self.noise is None else at_least(self.noise, count - true)[1]

    def absent(self, true: int) -> float:
        """Return an upper bound of the chance that no row is published for this true count."""
        if self.least_users is not None:
            return float(true < self.least_users)
        return 1.0 if self.route is None else 1.0 - self.route.comes_out(true * self.route.least)

    @property
    def _reach(self) -> int:
        return self.beyond(1e-12)

    @cached_property
    def _masses(self) -> FloatArray:
        size = self.noise.size if self.noise is not None else 1.0
        places = np.arange(-self._reach, self._reach + 1)
        exponents = np.abs(places) / size if isinstance(self.noise, Laplace) else 0.5 * (places / size) ** 2
        masses: FloatArray = np.exp(-exponents)
        masses /= masses.sum()
        return masses


def count_law(release: Release, table: str) -> CountLaw:
    """Return the law of a table's counts, made again from the options on the card."""
    accuracy = release.reach.get(table)
    if release.counts == "exact":
        least = accuracy.users50 if accuracy is not None else None
        return CountLaw(None, least_users=None if least is None else least.high)
    route = _route(release, table, accuracy)
    if route is not None:
        return _law_of_route(route)
    if accuracy is None or accuracy.margin95 is None:
        raise ParameterError(f"the card does not say how exact the counts of {table} are; nothing can be compared")
    return CountLaw(Gaussian(max(accuracy.margin95.high / _TWO_SIDED_95, 1e-3)))


def _law_of_route(route: ReleaseProbability) -> CountLaw:
    if route.published_noise is not None:
        return CountLaw(route.published_noise, route=route)
    last = route.stages[-1]
    if not isinstance(last, Stage):
        raise ParameterError("the release has no counts to compare; release it with counts")
    return CountLaw(last.noise, last.threshold, last.tie_probability, route)


def _route(release: Release, table: str, accuracy: TableAccuracy | None) -> ReleaseProbability | None:
    """Return the selection of a table; where the log chose it, the one whose accuracy stands on the card."""
    if release.method not in METHODS or release.options is None:
        return None
    try:
        routes = METHODS[release.method](**release.options).routes().get(table, ())
    except (QuerycloakError, TypeError):
        return None
    for route in routes:
        same = TableAccuracy.of_route(route, "")
        if accuracy is None or (same.margin95, same.users50, same.users95) == (
            accuracy.margin95, accuracy.users50, accuracy.users95,
        ):  # fmt: skip
            return route
    return None
