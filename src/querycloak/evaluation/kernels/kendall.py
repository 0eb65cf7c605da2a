"""Kendall's tau-b of many short lists at once, compiled; scipy's gives the same of each."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.measure import Measure
from querycloak.text.compiled import kernel, part

Floats = NDArray[np.float64]


def taus(first: Floats, second: Floats, starts: NDArray[np.int64]) -> Floats:
    """tau-b of each list `starts[i]:starts[i + 1]`; NaN where one side is all tied, or there are fewer than two.

    Knight's way: sort by the first, then count the exchanges that sorting by the second takes.
    """
    lists = np.repeat(np.arange(starts.size - 1), np.diff(starts))
    # Here, for sorting within the kernel takes seconds to compile.
    order = starts[0] + np.lexsort((second[starts[0] : starts[-1]], first[starts[0] : starts[-1]], lists))
    found = np.full(starts.size - 1, np.nan)
    _taus(first[order], second[order], np.empty(order.size), starts - starts[0], found)
    return found


@kernel
def _taus(first, second, other, starts, found):  # type: ignore[no-untyped-def]
    for place in range(starts.size - 1):
        begin, end = starts[place], starts[place + 1]
        size = end - begin
        pairs, tied_first = size * (size - 1) // 2, _ties(first, begin, end)
        tied_both = _ties_of_both(first, second, begin, end)
        exchanges = _exchanges(second, other, begin, end)
        tied_second = _ties(second, begin, end)  # which is sorted by now
        if pairs not in (tied_first, tied_second):
            agreed = pairs - tied_first - tied_second + tied_both - 2 * exchanges
            found[place] = agreed / np.sqrt(float(pairs - tied_first)) / np.sqrt(float(pairs - tied_second))


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
