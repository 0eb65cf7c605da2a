"""Task ranking: order of a query's urls against the clicks of other people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.evaluation.graphs import Graphs
from querycloak.evaluation.numbered_logs import WeightedPairs
from querycloak.evaluation.subjects import CLICKS, lacks
from querycloak.evaluation.task import READINGS, CaseScores, Figure, Floats, Logs, Measure, Subject
from querycloak.text.compiled import kernel, part


def taus(first: Floats, second: Floats, starts: NDArray[np.int64]) -> Floats:
    """tau-b of each list `starts[i]:starts[i + 1]`; NaN where one side is all tied, or there are fewer than two.

    Knight's way: sort by the first, then count the exchanges that sorting by the second takes.
    """
    lists = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    # Here, because sorting within the kernel takes seconds to compile.
    order = starts[0] + np.lexsort((second[starts[0] : starts[-1]], first[starts[0] : starts[-1]], lists))
    values = np.full(starts.size - 1, np.nan)
    _taus(first[order], second[order], np.empty(order.size), starts - starts[0], values)
    return values


@kernel
def _taus(first, second, other, starts, values):  # type: ignore[no-untyped-def]
    for place in range(starts.size - 1):
        begin, end = starts[place], starts[place + 1]
        size = end - begin
        pairs, tied_first = size * (size - 1) // 2, _ties(first, begin, end)
        tied_both = _ties_of_both(first, second, begin, end)
        exchanges = _exchanges(second, other, begin, end)
        tied_second = _ties(second, begin, end)  # which is sorted by now
        if pairs not in (tied_first, tied_second):
            agreed = pairs - tied_first - tied_second + tied_both - 2 * exchanges
            values[place] = agreed / np.sqrt(float(pairs - tied_first)) / np.sqrt(float(pairs - tied_second))


@part
def _ties(values, begin, end):  # type: ignore[no-untyped-def]
    """Pairs of equal values among sorted ones."""
    total, run = 0, 1
    for place in range(begin + 1, end):
        run = run + 1 if values[place] == values[place - 1] else 1
        total += run - 1
    return total


@part
def _ties_of_both(first, second, begin, end):  # type: ignore[no-untyped-def]
    """Pairs that are equal in both, of rows sorted by both."""
    total, run = 0, 1
    for place in range(begin + 1, end):
        same = first[place] == first[place - 1] and second[place] == second[place - 1]
        run = run + 1 if same else 1
        total += run - 1
    return total


@part
def _exchanges(values, other, begin, end):  # type: ignore[no-untyped-def]
    """Sort by merging, and count pairs that stood the wrong way round."""
    total, width = 0, 1
    while width < end - begin:
        for low in range(begin, end, 2 * width):
            middle, high = min(low + width, end), min(low + 2 * width, end)
            left, right = low, middle
            for place in range(low, high):
                if left < middle and (right >= high or values[left] <= values[right]):
                    other[place] = values[left]
                    left += 1
                else:
                    other[place] = values[right]
                    right += 1
                    total += middle - left
        for place in range(begin, end):
            values[place] = other[place]
        width *= 2
    return total


def _single(first: Floats, second: Floats) -> float:
    lists = [np.asarray(values, np.float64) for values in (first, second)]
    return float(taus(lists[0], lists[1], np.array([0, lists[0].size]))[0])


UNDEFINED = Measure(
    "undefined",
    "queries with two urls or more that have no tau-b, because all their urls are tied in TEST or in the release",
    "querycloak",
    "none",
    compute=lambda values: int(np.isnan(values).sum()),
)
TAU_B = Measure(
    "tau-b",
    "pairs of urls in whose order release and TEST agree, less those in which they disagree, divided by the geometric "
    "mean of the pairs that are not tied in the one and of those not tied in the other",
    "Kendall, The treatment of ties in ranking problems, Biometrika 1945",
    "higher",
    compute=_single,
)


class Ranking:
    """Kendall's tau-b between urls by released count and by clicks in TEST, over the urls of TEST."""

    name: ClassVar[str] = "ranking"
    summary: ClassVar[str] = "the urls of a query in the order in which other people click them"
    citation: ClassVar[str] = "Kendall, The treatment of ties in ranking problems, Biometrika 1945"

    measures = (TAU_B, UNDEFINED)
    readings = READINGS

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It takes clicks."""
        why = lacks(subject, CLICKS)
        return why and f"{why}; clicks, sessions, optimal and k-anonymity have clicks"

    def prepare(self, logs: Logs) -> PreparedRanking:
        """The queries of TEST with two urls or more that were not clicked equally often."""
        return PreparedRanking(logs.graphs)


class PreparedRanking:
    """The task for one TEST.

    A case is a query, with all users' clicks: cases are drawn as wholes for intervals. Drawing users instead would make
    ties of what is none and break those that are.
    """

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        clicks = graphs.logs.test.click_counts()
        several = np.diff(clicks.starts) >= 2
        ordered = several & ~np.isnan(taus(clicks.weight, clicks.weight, clicks.starts))
        self._starts = np.concatenate([[0], np.cumsum(np.diff(clicks.starts)[ordered])])
        kept = ordered[clicks.left]
        self._clicks = WeightedPairs(clicks.left[kept], clicks.right[kept], clicks.weight[kept], clicks.lefts)
        self._volume, self._tied = clicks.totals[ordered], int(several.sum() - ordered.sum())

    def case_queries(self) -> pa.LargeStringArray:
        """The query of each case."""
        return self._graphs.logs.vocabulary["query"].texts.take(pa.array(self._clicks.left[self._starts[:-1]]))

    def scores(self, subject: Subject) -> Iterator[CaseScores | Figure]:
        """Absent queries count 0. A case with ties only has no tau and is unanswered."""
        released = _looked_up(self._graphs.clicks(subject), self._clicks, self._graphs.logs.urls)
        values = taus(released, self._clicks.weight, self._starts)
        cases = np.arange(len(values))
        for where, undefined in (("test", self._tied), ("release", UNDEFINED(values))):
            yield Figure(UNDEFINED, undefined, f"tied={where}", cases=len(values) + self._tied)
        yield CaseScores(TAU_B, values, cases, pooled=True)
        yield CaseScores(TAU_B, values, cases, "weight=clicks", weights=self._volume, pooled=True)


def _looked_up(pairs: WeightedPairs, wanted: WeightedPairs, rights: int) -> Floats:
    """The weights of the pairs wanted; 0 where there is none."""
    own_keys = pairs.left.astype(np.int64) * rights + pairs.right
    key = wanted.left.astype(np.int64) * rights + wanted.right
    at = np.minimum(np.searchsorted(own_keys, key), max(0, len(own_keys) - 1))
    known = own_keys[at] == key if len(own_keys) else np.zeros(len(key), np.bool_)
    return np.where(known, pairs.weight[at] if len(own_keys) else 0.0, 0.0)
