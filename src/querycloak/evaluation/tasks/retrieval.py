"""Task retrieval-walk, and the base of both retrieval tasks: the urls that a user clicks, by the paper's measures.

The walk over queries and urls takes three steps from each query asked, exactly. From a query it stays with probability
s, else goes on to a url or to another query in proportion to clicks and transitions. At a url it stays. So
after three steps the probability of a url is the sum over the first three places of the walk (0, 1 and 2 steps) of the
probability of stepping from there to the url.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.evaluation.graphs import Graphs
from querycloak.evaluation.numbered_logs import NumberedClicks, WeightedPairs
from querycloak.evaluation.rank_measures import RANK_MEASURES, Hits, scores
from querycloak.evaluation.subjects import CLICKS, lacks
from querycloak.evaluation.task import READINGS, CaseScores, Logs, Subject

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
    """Urls to rank for each query, ascending: `url[starts[i]:starts[i + 1]]`."""

    query: NDArray[np.int32]
    starts: NDArray[np.int64]
    url: NDArray[np.int32]


def walk_of(clicks: WeightedPairs, transitions: WeightedPairs, stay: float = STAY) -> Walk:
    """The walk that clicks and transitions make; at a query that leads nowhere it stays."""
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


ZHANG_YANG_SINGH = "Zhang, Yang & Singh, Anonymizing query logs by differential privacy, SIGIR 2016"
_MEASURES = ("nDCG@10", "P@5", "P@10", "AP")
MOST_SEARCHES = 200_000
"""Frequent queries lead to hundreds of thousands of others: of a larger TEST as many searches are judged, exactly."""
SEED = 2016


def some_searches(clicks: NumberedClicks, most: int) -> NumberedClicks:
    """The clicks of `most` searches, drawn evenly by a fixed seed, and numbered anew; all if they are not more."""
    searches = int(clicks.search.max(initial=-1)) + 1
    if searches <= most:
        return clicks
    drawn = np.zeros(searches, np.bool_)
    drawn[np.random.default_rng(SEED).choice(searches, most, replace=False)] = True
    kept = drawn[clicks.search]
    columns = {each.name: getattr(clicks, each.name)[kept] for each in fields(clicks)}
    return NumberedClicks(**{**columns, "search": (np.cumsum(drawn) - 1)[columns["search"]]})


@dataclass(frozen=True, eq=False)
class ClickedSearches:
    """Searches as cases; `which` tells for each click its place among the distinct pairs of query and url wanted."""

    clicks: NumberedClicks
    user: NDArray[np.int64]
    query: NDArray[np.int32]
    relevant: NDArray[np.int64]
    wanted: Wanted
    which: NDArray[np.int64]

    @classmethod
    def of(cls, clicks: NumberedClicks, urls: int) -> ClickedSearches:
        """All searches with clicks."""
        relevant = np.bincount(clicks.search)
        first = np.concatenate([[0], np.cumsum(relevant)[:-1]]).astype(np.int64) if relevant.size else relevant
        key, which = np.unique(clicks.query.astype(np.int64) * urls + clicks.url, return_inverse=True)
        query, starts = np.unique(key // urls, return_index=True)
        wanted = Wanted(
            query.astype(np.int32), np.append(starts, len(key)).astype(np.int64), (key % urls).astype(np.int32)
        )
        return cls(clicks, clicks.user[first].astype(np.int64), clicks.query[first], relevant, wanted, which)

    def hits(self, ranks: NDArray[np.int64]) -> Hits:
        """Ranks of the clicks' urls, 0 where they are not found, as hits of the cases."""
        return Hits.of_pairs(self.clicks.search, ranks, self.relevant)


class ClickRetrieval:
    """A task that is judged by the clicks of test searches."""

    measures = tuple(RANK_MEASURES[name] for name in _MEASURES)
    readings = READINGS

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It takes clicks."""
        why = lacks(subject, CLICKS)
        return why and f"{why}; clicks, sessions, optimal, k-anonymity and query-pool with clicks have some"


class PreparedSearches:
    """The searches of TEST with clicks, or as many of them as a task can judge."""

    def __init__(self, graphs: Graphs, most: int | None = None) -> None:
        self._graphs = graphs
        clicks = graphs.logs.test.clicks()
        self._cases = ClickedSearches.of(clicks if most is None else some_searches(clicks, most), graphs.logs.urls)

    def _scored(
        self, ranks: NDArray[np.int64], unanswered: NDArray[np.bool_], part: str | None = None
    ) -> Iterator[CaseScores]:
        """Every measure of every search, from the ranks of its clicked urls."""
        for name, values in scores(_MEASURES, self._cases.hits(ranks)).items():
            values[unanswered] = np.nan
            yield CaseScores(RANK_MEASURES[name], values, self._cases.user, part)


class RetrievalWalk(ClickRetrieval):
    """Three steps from the query, staying with probability .1; urls by the probability of ending there."""

    name: ClassVar[str] = "retrieval-walk"
    summary: ClassVar[str] = "the urls that a user clicks for a query, found by a random walk over clicks"
    citation: ClassVar[str] = f"{ZHANG_YANG_SINGH}, after Craswell & Szummer, SIGIR 2007"

    def prepare(self, logs: Logs) -> PreparedWalk:
        """The searches of TEST with clicks; of more than can be judged as many, drawn evenly."""
        return PreparedWalk(logs.graphs, MOST_SEARCHES)


class PreparedWalk(PreparedSearches):
    """The task for one TEST."""

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """A search is unanswered if no url is reached from its query."""
        logs, cases = self._graphs.logs, self._cases
        walk = walk_of(self._graphs.clicks(subject), self._graphs.next(subject))
        rank, reached = ranks(cases.wanted, walk, logs.urls, logs.engine.threads)
        answered = reached[np.searchsorted(cases.wanted.query, cases.query)]
        yield from self._scored(rank[cases.which], ~answered)
