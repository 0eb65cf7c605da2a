"""A random walk over queries and urls, three steps from each query asked, exactly.

From a query the walk stays with probability s, else goes on to a url or to another query in proportion to clicks and
transitions. Urls keep whoever comes there. So after three steps the probability of a url is the sum over the first
three places of the walk (0, 1 and 2 steps) of the probability of stepping from there to the url.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.evaluation.kernels.weighted_pairs import WeightedPairs

STAY = 0.1
# Probabilities are compared as whole numbers of this step: sums that differ by rounding alone are ties.
STEPS = 10**12


class Walk(NamedTuple):
    """Probabilities of the next step from each query: to urls, to other queries, and of staying."""

    url_starts: NDArray[np.int64]
    url: NDArray[np.int32]
    to_url: NDArray[np.float64]
    query_starts: NDArray[np.int64]
    query: NDArray[np.int32]
    to_query: NDArray[np.float64]
    stay: NDArray[np.float64]


class Wanted(NamedTuple):
    """For each query asked the urls whose ranks are wanted, ascending: `url[starts[i]:starts[i + 1]]`."""

    query: NDArray[np.int32]
    starts: NDArray[np.int64]
    url: NDArray[np.int32]


def walk_of(clicks: WeightedPairs, transitions: WeightedPairs, stay: float = STAY) -> Walk:
    """The walk that clicks and transitions make; a query that leads nowhere keeps whoever is there."""
    out = clicks.totals + transitions.totals
    onwards = np.divide(1 - stay, out, out=np.zeros_like(out), where=out > 0)
    return Walk(
        clicks.starts, clicks.right, clicks.weight * onwards[clicks.left],
        transitions.starts, transitions.right, transitions.weight * onwards[transitions.left],
        np.where(out > 0, stay, 1.0),
    )  # fmt: skip


def ranks(wanted: Wanted, walk: Walk, urls: int, threads: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The rank, from 1, of each url wanted among all that the walk reaches, ties by number, 0 if it does not.

    Also whether the walk from each query asked reaches any url at all.
    """
    rank, reached = np.zeros(len(wanted.url), np.int64), np.zeros(len(wanted.query), np.bool_)
    queries = len(walk.stay)

    def work(first: int) -> None:
        _ranks(wanted, walk, np.arange(first, len(wanted.query), threads), queries, urls, rank, reached)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return rank, reached


class _Sums(NamedTuple):
    """Probabilities that add up, and the numbers of those that are not 0."""

    value: NDArray[np.float64]
    touched: NDArray[np.int32]
    used: NDArray[np.int64]


@njit(cache=True, nogil=True)
def _ranks(wanted, walk, cases, queries, urls, rank, reached):  # type: ignore[no-untyped-def]
    places = _Sums(np.zeros(queries), np.empty(queries, np.int32), np.zeros(1, np.int64))
    ends = _Sums(np.zeros(urls), np.empty(urls, np.int32), np.zeros(1, np.int64))
    for case in cases:
        _visit(walk, wanted.query[case], places)
        for at in range(places.used[0]):
            query = places.touched[at]
            for step in range(walk.url_starts[query], walk.url_starts[query + 1]):
                _add(ends, walk.url[step], places.value[query] * walk.to_url[step])
        own = slice(wanted.starts[case], wanted.starts[case + 1])
        reached[case] = ends.used[0] > 0
        rank[own] = _ranked(ends, wanted.url[own])
        _clear(places)
        _clear(ends)


@njit(cache=True, nogil=True)
def _visit(walk, start, places):  # type: ignore[no-untyped-def]
    """Add up where the walk is after 0, 1 and 2 steps, as far as it is at a query."""
    _add(places, start, 1.0)
    _pass_on(walk, start, walk.stay[start], places)
    for step in range(walk.query_starts[start], walk.query_starts[start + 1]):
        _pass_on(walk, walk.query[step], walk.to_query[step], places)


@njit(cache=True, nogil=True)
def _pass_on(walk, query, probability, places):  # type: ignore[no-untyped-def]
    """Add a place after 1 step, and where the walk goes from there."""
    _add(places, query, probability + probability * walk.stay[query])
    for step in range(walk.query_starts[query], walk.query_starts[query + 1]):
        _add(places, walk.query[step], probability * walk.to_query[step])


@njit(cache=True, nogil=True)
def _add(sums, number, probability):  # type: ignore[no-untyped-def]
    if sums.value[number] == 0.0:
        sums.touched[sums.used[0]] = number
        sums.used[0] += 1
    sums.value[number] += probability


@njit(cache=True, nogil=True)
def _clear(sums):  # type: ignore[no-untyped-def]
    for at in range(sums.used[0]):
        sums.value[sums.touched[at]] = 0.0
    sums.used[0] = 0


@njit(cache=True, nogil=True)
def _ranked(ends, wanted):  # type: ignore[no-untyped-def]
    """The ranks of some urls among all: each of all is put before the first of them that it precedes."""
    keys = np.empty(wanted.size, np.int64)
    for at in range(wanted.size):
        keys[at] = _key(ends.value[wanted[at]])
    order = np.argsort(-keys, kind="mergesort")  # stable, and the urls wanted ascend
    before = np.zeros(wanted.size + 1, np.int64)
    for at in range(ends.used[0]):
        url = ends.touched[at]
        before[_first_after(_key(ends.value[url]), url, keys, wanted, order)] += 1
    ranks, passed = np.zeros(wanted.size, np.int64), 0
    for place in range(wanted.size):
        passed += before[place]
        if ends.value[wanted[order[place]]] > 0:
            ranks[order[place]] = passed + 1
    return ranks


@njit(cache=True, nogil=True)
def _first_after(key, url, keys, wanted, order):  # type: ignore[no-untyped-def]
    """The place of the first wanted url that comes strictly after this one."""
    low, high = 0, order.size
    while low < high:
        middle = (low + high) // 2
        theirs = order[middle]
        if keys[theirs] < key or (keys[theirs] == key and wanted[theirs] > url):
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def _key(probability):  # type: ignore[no-untyped-def]
    return np.int64(probability * STEPS + 0.5)
