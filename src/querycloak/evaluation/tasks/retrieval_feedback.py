"""Task retrieval-feedback: urls for a query by their clicks in the release, moved by clicks in TEST.

In the paper the click that moves a url is the very click by which the order is judged: that reading is circular. It is
here, labelled so, with a random order beside it, which shows how much the release's own order adds. By default
the clicks that move urls are those of other test users.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.evaluation.numbered_logs import WeightedPairs
from querycloak.evaluation.task import CaseScores, Logs, Subject
from querycloak.evaluation.tasks.retrieval import (
    ZHANG_YANG_SINGH,
    ClickedSearches,
    ClickRetrieval,
    PreparedSearches,
)

NONE, OWN, OTHERS = 0, 1, 2
"""No feedback, that of the case itself, that of other users who asked the same."""
CLICK_SHARE = 0.6
ABSENT = -1
# Scores are compared as whole numbers of this step: sums that differ by rounding alone are ties.
STEPS = 10**12


class RankedUrls(NamedTuple):
    """The release's urls of each query by rank: `url[starts[i]:starts[i + 1]]`."""

    starts: NDArray[np.int64]
    url: NDArray[np.int32]


class JudgedSearches(NamedTuple):
    """Searches in numbers: the query asked, their clicks, and what their user clicked for the query in all.

    `place` is where each distinct pair of query and url stands among the ranked urls; `rank_sum` and `rank_count` add
    up at which ranks it was clicked. The pairs of query i are `pair_starts[i]` to `pair_starts[i + 1]`.
    """

    asked: NDArray[np.int64]
    click_starts: NDArray[np.int64]
    click_pair: NDArray[np.int64]
    click_rank: NDArray[np.int32]
    pair_starts: NDArray[np.int64]
    place: NDArray[np.int64]
    rank_sum: NDArray[np.float64]
    rank_count: NDArray[np.int64]
    own_group: NDArray[np.int64]
    own_starts: NDArray[np.int64]
    own_pair: NDArray[np.int64]
    own_rank: NDArray[np.int32]


def ranked_urls(cases: ClickedSearches, clicks: WeightedPairs, generator: np.random.Generator | None) -> RankedUrls:
    """The urls of the queries asked by falling count, ties by text; or in random order."""
    chosen = np.isin(clicks.left, cases.wanted.query)
    left, url, weight = clicks.left[chosen], clicks.right[chosen], clicks.weight[chosen]
    order = np.lexsort((url, -weight if generator is None else generator.random(len(url)), left))
    starts = np.searchsorted(left, cases.wanted.query)
    ends = np.searchsorted(left, cases.wanted.query, side="right")
    if not np.array_equal(starts[1:], ends[:-1]):
        raise TypeError("pairs must be sorted by query")
    return RankedUrls(np.append(starts, len(left)).astype(np.int64), url[order].astype(np.int32))


def searches_of(cases: ClickedSearches, lists: RankedUrls, urls: int) -> JudgedSearches:
    """The searches beside one release's lists."""
    clicks, wanted = cases.clicks, cases.wanted
    pairs = len(wanted.url)
    ranked = clicks.rank > 0
    # What one user clicked for one query, over all of the user's searches for it.
    group = clicks.user.astype(np.int64) * (int(clicks.query.max(initial=0)) + 1) + clicks.query
    groups, own = np.unique(group, return_inverse=True)
    order = np.argsort(own, kind="stable")
    order = order[ranked[order]]
    own_starts = np.searchsorted(own[order], np.arange(len(groups) + 1))
    first = np.concatenate([[0], np.cumsum(cases.relevant)]).astype(np.int64)
    return JudgedSearches(
        np.searchsorted(wanted.query, cases.query), first, cases.which, clicks.rank,
        wanted.starts, _places(wanted.starts, wanted.url, lists, urls),
        np.bincount(cases.which[ranked], clicks.rank[ranked], minlength=pairs).astype(np.float64),
        np.bincount(cases.which[ranked], minlength=pairs),
        own[first[:-1]], own_starts.astype(np.int64), cases.which[order], clicks.rank[order],
    )  # fmt: skip


def _places(starts: NDArray[np.int64], url: NDArray[np.int32], lists: RankedUrls, urls: int) -> NDArray[np.int64]:
    """Place of each wanted pair among the ranked urls, or `ABSENT`."""
    listed = np.repeat(np.arange(len(lists.starts) - 1), np.diff(lists.starts)) * urls + lists.url
    key = np.repeat(np.arange(len(starts) - 1), np.diff(starts)) * urls + url
    order = np.argsort(listed)
    at = np.minimum(np.searchsorted(listed, key, sorter=order), max(0, len(listed) - 1))
    if not len(listed):
        return np.full(len(key), ABSENT, np.int64)
    return np.where(listed[order[at]] == key, order[at], ABSENT).astype(np.int64)


def click_ranks(searches: JudgedSearches, lists: RankedUrls, feedback: int, threads: int) -> NDArray[np.int64]:
    """Rank of each clicked url after feedback, from 1, ties by text; 0 if the release lacks the url."""
    rank = np.zeros(len(searches.click_pair), np.int64)
    base = _keys_of_ranks(lists)

    def work(first: int) -> None:
        cases = np.arange(first, len(searches.asked), threads)
        _click_ranks(searches, lists, base, cases, feedback, rank)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, range(threads)))
    return rank


def _keys_of_ranks(lists: RankedUrls) -> NDArray[np.int64]:
    """S(d) of every url without a click, as whole numbers."""
    rank = np.arange(len(lists.url)) - np.repeat(lists.starts[:-1], np.diff(lists.starts)) + 1
    return (STEPS / (rank + 1) + 0.5).astype(np.int64)


@njit(cache=True, nogil=True)
def _click_ranks(searches, lists, base, cases, feedback, rank):  # type: ignore[no-untyped-def]
    keys, rank_sum, rank_count = base.copy(), searches.rank_sum.copy(), searches.rank_count.copy()
    for case in cases:
        asked = searches.asked[case]
        first, last = lists.starts[asked], lists.starts[asked + 1]
        clicks = range(searches.click_starts[case], searches.click_starts[case + 1])
        if feedback == OWN:
            for click in clicks:
                _move(keys, searches.place[searches.click_pair[click]], first, searches.click_rank[click])
        elif feedback == OTHERS:
            _move_by_others(searches, case, keys, first, rank_sum, rank_count)
        for click in clicks:
            place = searches.place[searches.click_pair[click]]
            if place != ABSENT:
                rank[click] = _rank(keys, lists.url, place, first, last)
        keys[first:last] = base[first:last]


@njit(cache=True, nogil=True)
def _move_by_others(searches, case, keys, first, rank_sum, rank_count):  # type: ignore[no-untyped-def]
    """Move every url by the mean rank at which users other than the case's clicked it for the same query."""
    group, asked = searches.own_group[case], searches.asked[case]
    own = range(searches.own_starts[group], searches.own_starts[group + 1])
    for click in own:
        rank_sum[searches.own_pair[click]] -= searches.own_rank[click]
        rank_count[searches.own_pair[click]] -= 1
    for pair in range(searches.pair_starts[asked], searches.pair_starts[asked + 1]):
        if rank_count[pair] > 0:
            _move(keys, searches.place[pair], first, rank_sum[pair] / rank_count[pair])
    for click in own:
        rank_sum[searches.own_pair[click]] += searches.own_rank[click]
        rank_count[searches.own_pair[click]] += 1


@njit(cache=True, nogil=True)
def _move(keys, place, first, clicked):  # type: ignore[no-untyped-def]
    if place != ABSENT and clicked > 0:
        score = CLICK_SHARE / (clicked + 1) + (1 - CLICK_SHARE) / (place - first + 2)
        keys[place] = np.int64(score * STEPS + 0.5)


@njit(cache=True, nogil=True)
def _rank(keys, url, place, first, last):  # type: ignore[no-untyped-def]
    rank = 1
    for other in range(first, last):
        if keys[other] > keys[place] or (keys[other] == keys[place] and url[other] < url[place]):
            rank += 1
    return rank


SEED = 2016
_SLICES: tuple[tuple[str | None, int, bool], ...] = (
    (None, OTHERS, False),
    ("order=random", OTHERS, True),
    ("feedback=none", NONE, False),
    ("feedback=none,order=random", NONE, True),
    ("feedback=own (circular)", OWN, False),
    ("feedback=own (circular),order=random", OWN, True),
)
"""Users whose clicks move urls, and True if a random order replaces the release's."""


class RetrievalFeedback(ClickRetrieval):
    """The release's urls of a query by count, moved by the clicks of other test users who asked the same."""

    name: ClassVar[str] = "retrieval-feedback"
    summary: ClassVar[str] = "the urls that a user clicks for a query, by the release's counts and others' clicks"
    citation: ClassVar[str] = f"{ZHANG_YANG_SINGH}, after Agichtein, Brill & Dumais, Improving web search, SIGIR 2006"

    def prepare(self, logs: Logs) -> PreparedFeedback:
        """The searches of TEST with clicks."""
        return PreparedFeedback(logs.graphs)


class PreparedFeedback(PreparedSearches):
    """The task for one TEST."""

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """A search is unanswered if the release has no url for its query."""
        logs, cases = self._graphs.logs, self._cases
        clicks = self._graphs.clicks(subject)
        for random in (False, True):
            lists = ranked_urls(cases, clicks, np.random.default_rng(SEED) if random else None)
            searches = searches_of(cases, lists, logs.urls)
            unanswered = np.diff(lists.starts)[searches.asked] == 0
            for part, feedback, _ in (each for each in _SLICES if each[2] == random):
                rank = click_ranks(searches, lists, feedback, logs.engine.threads)
                yield from self._scored(rank, unanswered, part)
