"""Kendall's tau-b of many short lists at once, compiled; scipy's gives the same of each."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.utility.measure import Measure

Floats = NDArray[np.float64]


def taus(first: Floats, second: Floats, starts: NDArray[np.int64]) -> Floats:
    """tau-b of each list `starts[i]:starts[i + 1]`; NaN where one side is all tied, or there are fewer than two."""
    found: Floats = _taus(first, second, starts)
    return found


@njit(cache=True, nogil=True)
def _taus(first, second, starts):  # type: ignore[no-untyped-def]
    found = np.full(starts.size - 1, np.nan)
    for place in range(starts.size - 1):
        own = slice(starts[place], starts[place + 1])
        found[place] = _tau(first[own], second[own])
    return found


@njit(cache=True, nogil=True)
def _tau(first, second):  # type: ignore[no-untyped-def]
    """Knight's way: sort by the first, then count the exchanges that sorting by the second takes."""
    order = np.argsort(first, kind="mergesort")
    x, y = first[order], second[order]
    tied_both = 0
    begin = 0
    for place in range(1, x.size + 1):
        if place == x.size or x[place] != x[begin]:
            y[begin:place] = np.sort(y[begin:place])
            tied_both += _ties(y[begin:place])
            begin = place
    pairs, tied_x = x.size * (x.size - 1) // 2, _ties(x)
    exchanges = _exchanges(y)
    tied_y = _ties(y)  # now sorted
    if pairs in (tied_x, tied_y):
        return np.nan
    agreed = pairs - tied_x - tied_y + tied_both - 2 * exchanges
    return agreed / np.sqrt(float(pairs - tied_x)) / np.sqrt(float(pairs - tied_y))


@njit(cache=True, nogil=True)
def _ties(values):  # type: ignore[no-untyped-def]
    """Pairs of equal values among sorted ones."""
    total, run = 0, 1
    for place in range(1, values.size):
        run = run + 1 if values[place] == values[place - 1] else 1
        total += run - 1
    return total


@njit(cache=True, nogil=True)
def _exchanges(values):  # type: ignore[no-untyped-def]
    """Sort by merging, and count pairs that stood the wrong way round."""
    total, width = 0, 1
    other = np.empty_like(values)
    while width < values.size:
        for low in range(0, values.size, 2 * width):
            middle, high = min(low + width, values.size), min(low + 2 * width, values.size)
            left, right = low, middle
            for place in range(low, high):
                if left < middle and (right >= high or values[left] <= values[right]):
                    other[place] = values[left]
                    left += 1
                else:
                    other[place] = values[right]
                    right += 1
                    total += middle - left
        values[:] = other
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
