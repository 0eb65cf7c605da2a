"""From scores of cases to rows: three readings, means over cases and over users, intervals, paired tests.

A release answers other cases than the original does, so that orders flip between readings. `answered` is the mean
over the cases that the release answers, `all` counts the others as 0, and `common` is the original on the cases that
the release answers: the only fair pair, and the only one that is tested. The slice `difference` is the release minus
the original on these, with the interval of that difference: what is not significant need not be equal.

Several releases by one method with the same parameters differ by their noise alone, so they show it.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import CaseScores
from querycloak.methods.method import DRAWN_TOTAL

RESAMPLES = 1000
SEED = 2017
LEVEL = 0.95
RULE_OF_THREE = 3.0
"""If none of n shows an event, a share of up to 3/n of all may show it (95 %); Hanley & Lippman-Hand, JAMA 1983."""
_AT_ONCE = 100


@lru_cache(maxsize=2)
def _weights(users: int) -> NDArray[np.uint8]:
    """Number of times each user is drawn in each resample."""
    generator = np.random.default_rng(SEED)
    drawn = np.empty((RESAMPLES, users), np.uint8)
    for number in range(RESAMPLES):
        drawn[number] = np.bincount(generator.integers(users, size=users), minlength=users)
    return drawn


def intervals(numerators: Sequence[Floats], denominators: Sequence[Floats]) -> list[tuple[float, float]]:
    """Low and high of each ratio of sums over users; NaN where fewer than two users count."""
    above, below = _resampled(numerators), _resampled(denominators)
    tail = (1 - LEVEL) / 2
    bounds = []
    for numerator, denominator in zip(numerators, denominators, strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            means = above[id(numerator)] / below[id(denominator)]
        means = means[np.isfinite(means)]  # a resample without any user that counts has no mean
        enough = np.count_nonzero(denominator) >= 2
        low, high = np.quantile(means, [tail, 1 - tail]) if enough else (np.nan, np.nan)
        bounds.append((float(low), float(high)))
    return bounds


def _resampled(sums: Sequence[Floats]) -> dict[int, Floats]:
    """The total of each array in all resamples, by the array's identity: many means share one."""
    distinct = {id(array): array for array in sums}
    stacked = np.column_stack(list(distinct.values())).astype(np.float32)
    drawn = _weights(len(stacked))
    totals = np.empty((RESAMPLES, len(distinct)))
    for first in range(0, RESAMPLES, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        totals[some] = drawn[some].astype(np.float32) @ stacked
    return dict(zip(distinct, totals.T, strict=True))


Floats = NDArray[np.float64]
OVER_USERS, DIFFERENCE = "over=users", "difference"
NO_CASES, NO_ANSWER = "TEST has no such case", "none of the cases is answered"

_SUMS = ("numerator", "denominator")


@dataclass(frozen=True)
class RowLabel:
    """Release and task of a row."""

    release: str
    digest: str | None
    task: str

    def row(self, measure: str, part: str | None, reading: str) -> Row:
        """An empty row."""
        return Row(self.release, self.digest, self.task, measure, part, reading)


@dataclass(frozen=True, eq=False)
class _Mean:
    """Parts of a mean: contribution and weight of each user, and the difference to the original."""

    row: Row
    numerator: Floats
    denominator: Floats
    difference: Floats | None = None
    signed: bool = False

    @property
    def value(self) -> float | None:
        """The mean; None if nothing counts."""
        return _ratio(self.numerator, self.denominator)

    def over_users(self) -> _Mean:
        """The mean over users of each user's own mean."""
        row = replace(self.row, slice=_joined(OVER_USERS, self.row.slice))
        difference = None if self.difference is None else self._own(self.difference)
        counted = (self.denominator > 0).astype(np.float64)
        return _Mean(row, self._own(self.numerator), counted, difference, self.signed)

    def _own(self, sums: Floats) -> Floats:
        return np.divide(sums, self.denominator, out=np.zeros_like(sums), where=self.denominator > 0)

    def finished(self, low: float, high: float) -> Row:
        """The row with its value, interval and test."""
        value, counted = self.value, self.denominator > 0
        if value is None:
            return replace(self.row, why=NO_CASES if not self.row.cases else NO_ANSWER)
        low, high = self._widened(low, high, counted)
        row = replace(self.row, value=value, low=_known(low), high=_known(high))
        if self.difference is None:
            return row
        own = self.difference[counted] / self.denominator[counted]
        return replace(row, difference=_ratio(self.difference, self.denominator), p_value=p_value(own))

    def _widened(self, low: float, high: float, counted: NDArray[np.bool_]) -> tuple[float, float]:
        """The interval; where all users show 0, or all 1, resamples have no width, and the rule of three gives it."""
        width = min(1.0, RULE_OF_THREE / int(counted.sum()))
        if not self.numerator.any():
            return (-width if self.signed else 0.0), width
        if np.array_equal(self.numerator, self.denominator):
            return 1 - width, 1.0
        return low, high


def rows_of(about: RowLabel, scores: Sequence[CaseScores], original: Sequence[CaseScores], users: int) -> Iterator[Row]:
    """All rows of one subject and task; `original` are the original's scores of the same cases, in the same order."""
    means = [mean for ours, theirs in zip(scores, original, strict=True) for mean in _means(about, ours, theirs, users)]
    bounds: dict[int, tuple[float, float]] = {}
    for size in {mean.numerator.size for mean in means}:  # means of as many users share resamples
        places = [place for place, mean in enumerate(means) if mean.numerator.size == size]
        numerators, denominators = ([getattr(means[place], name) for place in places] for name in _SUMS)
        bounds |= dict(zip(places, intervals(numerators, denominators), strict=True))
    return (mean.finished(*bounds[place]) for place, mean in enumerate(means))


def _means(about: RowLabel, scores: CaseScores, original: CaseScores, users: int) -> Iterator[_Mean]:
    """Every reading of one measure, over cases and (of all cases) over users."""
    for mean in _over_cases(about, scores, original, users):
        yield mean
        if scores.slice is None and not scores.pooled:
            yield mean.over_users()


def _over_cases(about: RowLabel, scores: CaseScores, original: CaseScores, users: int) -> Iterator[_Mean]:
    there = ~np.isnan(scores.scores)
    weights = np.ones(there.size) if scores.weights is None else scores.weights
    size = there.size if scores.pooled else users

    def summed(values: Floats) -> Floats:
        return np.bincount(scores.users, values * weights, minlength=size).astype(np.float64)

    ours, theirs = np.nan_to_num(scores.scores), np.nan_to_num(original.scores)
    cases, answers = _counted(scores, there)
    row = replace(about.row(scores.measure.name, scores.slice, "answered"), cases=cases, answered=answers)
    answered, difference = summed(there.astype(np.float64)), summed((ours - theirs) * there)
    yield _Mean(row, summed(ours), answered)
    yield _Mean(replace(row, reading="all"), summed(ours), summed(np.ones(there.size)))
    row = replace(row, reading="common")
    yield _Mean(row, summed(theirs * there), answered, difference)
    yield _Mean(replace(row, slice=_joined(scores.slice, DIFFERENCE)), difference, answered, difference, signed=True)


def _counted(scores: CaseScores, there: NDArray[np.bool_]) -> tuple[int, int]:
    """Numbers of cases and of answered cases; by unit, one answer is enough."""
    if scores.units is None:
        return there.size, int(there.sum())
    return np.unique(scores.units).size, np.unique(scores.units[there]).size


def p_value(differences: Floats) -> float | None:
    """Two-tailed t-test of users' differences against 0; 1 if all are 0, None for fewer than two users."""
    if differences.size < 2:
        return None
    if not differences.any():
        return 1.0
    from scipy.stats import ttest_1samp

    with warnings.catch_warnings():  # of differences that are nearly the same for all: then p is 0, and rightly so
        warnings.simplefilter("ignore", RuntimeWarning)
        value = float(ttest_1samp(differences, 0.0).pvalue)
    return value if np.isfinite(value) else None


def _ratio(numerator: Floats, denominator: Floats) -> float | None:
    whole = float(denominator.sum())
    return float(numerator.sum()) / whole if whole else None


def _known(value: float) -> float | None:
    return value if np.isfinite(value) else None


def _joined(*parts: str | None) -> str:
    return ",".join(part for part in parts if part)


def rows_of_repeats(rows: Sequence[Row], releases: Sequence[Target]) -> Iterator[Row]:
    """By kind with two or more releases: the mean of each value, and a prediction interval for a further release.

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
