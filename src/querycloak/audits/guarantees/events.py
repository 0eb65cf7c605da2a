"""Candidate events for the sampling test: one number beyond a point, or the likelihood ratio of all numbers.

Which event is best is learnt from runs. Other runs judge it, so learning cannot bias the result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from querycloak.audits.guarantees.mechanism import Floats, Ints, Outcomes

Happened = NDArray[np.bool_]
ROWS, SUM = "number of rows", "sum of all counts"
_MOST_NAMES = 64
_MOST_POINTS = 60
_MOST_SCORES = 200
_SMOOTHING = 2.0
_MISSING = 0


@dataclass(frozen=True)
class Reaches:
    """A number is published and reaches a point; `below`: it does not. The first point is reached by all published."""

    place: int
    name: str
    point: float
    is_first: bool
    below: bool = False

    def happened(self, numbers: Floats) -> Happened:
        """Runs in which it happened; `numbers` has a row for each run, NaN where a number is missing."""
        return np.asarray((numbers[:, self.place] >= self.point) != self.below)

    def __str__(self) -> str:
        words = "comes out" if self.is_first else f"is at least {self.point:g}"
        if self.below:
            words = "does not come out" if self.is_first else f"is below {self.point:g}, or does not come out"
        return f"{self.name!r} {words}"


@dataclass(frozen=True, eq=False)
class Score:
    """Sum of the log-likelihood ratios of all numbers, as if they were independent."""

    edges: tuple[Floats, ...]
    weights: tuple[Floats, ...]
    point: float = -np.inf

    @classmethod
    def learnt(cls, likely: Floats, unlikely: Floats) -> Score:
        """Log-likelihood ratios of every number, by bins, where a missing one is a bin of its own."""
        edges, weights = [], []
        for one, other in zip(likely.T, unlikely.T, strict=True):
            edge = _points(np.concatenate([one, other]))
            counts = [np.bincount(_bins(side, edge), minlength=len(edge) + 2) + _SMOOTHING for side in (one, other)]
            edges.append(edge)
            weights.append(np.log(counts[0] / counts[1]))
        return cls(tuple(edges), tuple(weights))

    def scores(self, numbers: Floats) -> Floats:
        """Evidence for the first law, by run."""
        total = np.zeros(len(numbers))
        for place, (edge, weight) in enumerate(zip(self.edges, self.weights, strict=True)):
            total += weight[_bins(numbers[:, place], edge)]
        return total

    def happened(self, numbers: Floats) -> Happened:
        """Runs with enough evidence."""
        return np.asarray(self.scores(numbers[:, : len(self.edges)]) >= self.point)

    def __str__(self) -> str:
        return f"all {len(self.edges)} numbers together: log-likelihood ratio of at least {self.point:.3g}"


Event = Reaches | Score


@dataclass(frozen=True)
class CandidateEvent:
    """An event, and its frequency in runs of each of the two laws."""

    event: Event
    likely: float
    unlikely: float


@dataclass(frozen=True, eq=False)
class Features:
    """The numbers of both laws, a row for each run: those that are single, then how many there are, and their sum."""

    names: tuple[str, ...]
    likely: Floats
    unlikely: Floats
    choosing: int
    """Number of first runs that choose an event; the others judge it."""

    @classmethod
    def of(cls, likely: Outcomes, unlikely: Outcomes, choosing: int) -> Features:
        """Features of all names, or of those that differ most in the runs that choose."""
        names = _telling(likely, unlikely, choosing)
        return cls(names, _dense(likely, names), _dense(unlikely, names), choosing)

    def judging(self) -> tuple[Floats, Floats]:
        """The runs that judge."""
        return self.likely[self.choosing :], self.unlikely[self.choosing :]


def candidates(features: Features) -> list[CandidateEvent]:
    """Events to choose from, with how often they happened in the runs that choose."""
    likely, unlikely = features.likely[: features.choosing], features.unlikely[: features.choosing]
    events = [
        candidate
        for place, name in enumerate((*features.names, ROWS, SUM))
        for candidate in _of_one_number(place, name, likely[:, place], unlikely[:, place])
    ]
    single = len(features.names)
    if single > 1:
        events += _of_all_numbers(likely[:, :single], unlikely[:, :single])
    return events


def _of_one_number(place: int, name: str, likely: Floats, unlikely: Floats) -> Iterator[CandidateEvent]:
    points = _points(np.concatenate([likely, unlikely]))
    published = [np.sort(side[~np.isnan(side)]) for side in (likely, unlikely)]
    for rank, point in enumerate(points):
        rates = [(len(side) - np.searchsorted(side, point)) / len(likely) for side in published]
        event = Reaches(place, name, float(point), rank == 0)
        yield CandidateEvent(event, *rates)
        yield CandidateEvent(replace(event, below=True), 1 - rates[0], 1 - rates[1])


def _of_all_numbers(likely: Floats, unlikely: Floats) -> Iterator[CandidateEvent]:
    half = len(likely) // 2
    learnt = Score.learnt(likely[:half], unlikely[:half])
    scores = [np.sort(learnt.scores(side[half:])) for side in (likely, unlikely)]
    pooled = np.unique(np.concatenate(scores))
    for point in _spread(pooled, _MOST_SCORES):
        rates = [(len(side) - np.searchsorted(side, point)) / max(len(side), 1) for side in scores]
        yield CandidateEvent(Score(learnt.edges, learnt.weights, float(point)), *rates)


def _points(numbers: Floats) -> Floats:
    """Values at which to part numbers: all of them, or some that have equally many numbers between them."""
    values = np.unique(numbers[~np.isnan(numbers)])
    if len(values) <= _MOST_POINTS:
        return values
    return np.unique(_spread(np.sort(numbers[~np.isnan(numbers)]), _MOST_POINTS))


def _spread(ordered: Floats, most: int) -> Floats:
    """Some of them, evenly spread in their order."""
    return ordered[np.linspace(0, len(ordered) - 1, min(most, len(ordered))).astype(np.int64)]


def _bins(numbers: Floats, edges: Floats) -> Ints:
    inside = np.searchsorted(edges, numbers, side="right") + 1
    return np.where(np.isnan(numbers), _MISSING, inside)


def _telling(likely: Outcomes, unlikely: Outcomes, choosing: int) -> tuple[str, ...]:
    names = list(dict.fromkeys([*likely.names, *unlikely.names]))
    if len(names) <= _MOST_NAMES:
        return tuple(names)
    place = {name: number for number, name in enumerate(names)}
    counts, sums = np.zeros((2, len(names))), np.zeros((2, len(names)))
    for side, each in enumerate((likely, unlikely)):
        mine = each.run < choosing
        where = np.array([place[name] for name in each.names], np.int64)[each.name[mine]]
        counts[side] = np.bincount(where, minlength=len(names))
        sums[side] = np.bincount(where, weights=each.value[mine], minlength=len(names))
    difference = (counts[0] - counts[1]) ** 2 / (counts.sum(axis=0) + 1)
    difference += (sums[0] - sums[1]) ** 2 / (np.abs(sums).sum(axis=0) + 1)
    return tuple(names[number] for number in np.argsort(-difference, kind="stable")[:_MOST_NAMES])


def _dense(outcomes: Outcomes, names: tuple[str, ...]) -> Floats:
    place = {name: number for number, name in enumerate(names)}
    columns = np.array([place.get(name, -1) for name in outcomes.names], np.int64)
    numbers = np.full((outcomes.runs, len(names) + 2), np.nan)
    column = columns[outcomes.name]
    kept = column >= 0
    numbers[outcomes.run[kept], column[kept]] = outcomes.value[kept]
    numbers[:, -2] = np.bincount(outcomes.run, minlength=outcomes.runs)
    numbers[:, -1] = np.bincount(outcomes.run, weights=outcomes.value, minlength=outcomes.runs)
    return numbers
