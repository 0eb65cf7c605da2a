"""The queries most worth suggesting after a query, found exactly without comparing it with all that share a url.

The score is lambda cos(q, x) + (1 - lambda) e(q, x) / d(q). Queries that follow q are scored one by one. For the
others cos alone counts, and three things spare most comparisons:

1. All queries with one url u have one direction: their cosine with q is q's own weight on u. The first few by text
   are enough.
2. The urls of q are taken in turn, those of fewest queries first. A query that none of the urls so far led to has
   weight on the remaining ones only, so its cosine is at most their norm within q (Cauchy and Schwarz).
3. The queries of a url u are taken by falling weight t on it. With w = q's weight on u and r = the norm of q on the
   urls still to come, a query not seen before has a cosine of at most max over y <= t of w y + r sqrt(1 - y^2): that
   is w t + r sqrt(1 - t^2) where t < w / sqrt(w^2 + r^2), and sqrt(w^2 + r^2) else.

Where the bound lies below the worst of a full list, nothing that follows can enter it. No url is left out.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.utility.weighted_pairs import WeightedPairs

NOBODY = -1
# Scores are compared as whole numbers of this step: sums that differ by rounding alone are ties.
STEPS = 10**12


class ClickIndex(NamedTuple):
    """Queries as unit vectors of urls, and for each url who has it: alone, or among others by falling weight."""

    starts: NDArray[np.int64]
    url: NDArray[np.int32]
    weight: NDArray[np.float64]
    alone_starts: NDArray[np.int64]
    alone: NDArray[np.int32]
    others_starts: NDArray[np.int64]
    others: NDArray[np.int32]
    others_weight: NDArray[np.float64]


class Followers(NamedTuple):
    """Which queries follow which, each with its share."""

    starts: NDArray[np.int64]
    query: NDArray[np.int32]
    share: NDArray[np.float64]


def click_index(clicks: WeightedPairs, urls: int, most_queries: int | None = None) -> ClickIndex:
    """The index of a click graph; with `most_queries`, without urls that more queries share."""
    if most_queries is not None:
        few = np.bincount(clicks.right, minlength=urls)[clicks.right] <= most_queries
        clicks = WeightedPairs(clicks.left[few], clicks.right[few], clicks.weight[few], clicks.lefts)
    norms = np.sqrt(np.bincount(clicks.left, clicks.weight**2, minlength=clicks.lefts))
    weight = clicks.weight / norms[clicks.left]
    alone = np.diff(clicks.starts)[clicks.left] == 1
    weight[alone] = 1.0
    by_text = np.lexsort((clicks.left[alone], clicks.right[alone]))
    query, url, among = clicks.left[~alone], clicks.right[~alone], weight[~alone]
    by_weight = np.lexsort((query, -among, url))
    return ClickIndex(
        clicks.starts, clicks.right, weight,
        _starts(clicks.right[alone], urls), clicks.left[alone][by_text],
        _starts(url, urls), query[by_weight], among[by_weight],
    )  # fmt: skip


def _starts(owner: NDArray[np.int32], owners: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=owners))]).astype(np.int64)


def followers(later: WeightedPairs) -> Followers:
    """e(q, x) / d(q) of every pair."""
    return Followers(later.starts, later.right, later.weight / later.totals[later.left])


def suggested(
    asked: NDArray[np.int32], index: ClickIndex, follow: Followers, cosine_share: float, most: int, threads: int
) -> NDArray[np.int32]:
    """For each query asked the `most` of highest scores above 0, ties by number; `NOBODY` where there are fewer."""
    found = np.full((len(asked), most), NOBODY, np.int32)
    # Neighbours in number are neighbours in text and often alike: dealt out in turn, threads end at the same time.
    shares = [slice(first, None, threads) for first in range(threads)]
    queries, urls = len(index.starts) - 1, len(index.alone_starts) - 1

    def work(share: slice) -> None:
        found[share] = _suggest(asked[share], index, follow, cosine_share, most, queries, urls)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, shares))
    return found


@njit(cache=True, nogil=True)
def _suggest(asked, index, follow, cosine_share, most, queries, urls):  # type: ignore[no-untyped-def]
    found = np.full((asked.size, most), NOBODY, np.int32)
    keys = np.zeros(most, np.int64)
    seen = np.full(queries, -1, np.int32)
    vector = np.zeros(urls)
    for case in range(asked.size):
        query = asked[case]
        own = slice(index.starts[query], index.starts[query + 1])
        vector[index.url[own]] = index.weight[own]
        keys[:] = 0
        seen[query] = case
        for place in range(follow.starts[query], follow.starts[query + 1]):
            other = follow.query[place]
            seen[other] = case
            score = cosine_share * _cosine(index, vector, other) + (1 - cosine_share) * follow.share[place]
            _enter(keys, found[case], _key(score), other)
        if cosine_share > 0:
            _by_clicks(index, own, vector, cosine_share, seen, case, keys, found[case])
        vector[index.url[own]] = 0.0
    return found


@njit(cache=True, nogil=True)
def _by_clicks(index, own, vector, cosine_share, seen, case, keys, found):  # type: ignore[no-untyped-def]
    """Enter queries that share urls with the one asked."""
    url, weight = index.url[own], index.weight[own]
    lengths = index.others_starts[url + 1] - index.others_starts[url]
    order = np.argsort(lengths, kind="mergesort")
    remaining = np.zeros(url.size + 1)
    remaining[:-1] = np.cumsum(weight[order[::-1]] ** 2)[::-1]
    for place in range(url.size):
        here, mine, rest = url[order[place]], weight[order[place]], np.sqrt(remaining[place + 1])
        reach = np.sqrt(mine**2 + rest**2)
        if _key(cosine_share * reach) + 1 < keys[-1]:
            break
        for at in range(index.alone_starts[here], index.alone_starts[here + 1]):
            other = index.alone[at]
            if seen[other] != case:
                seen[other] = case
                if not _enter(keys, found, _key(cosine_share * mine), other):
                    break
        for at in range(index.others_starts[here], index.others_starts[here + 1]):
            if _key(cosine_share * _bound(mine, rest, reach, index.others_weight[at])) + 1 < keys[-1]:
                break
            other = index.others[at]
            if seen[other] != case:
                seen[other] = case
                _enter(keys, found, _key(cosine_share * _cosine(index, vector, other)), other)


@njit(cache=True, nogil=True)
def _bound(mine, rest, reach, theirs):  # type: ignore[no-untyped-def]
    """The largest cosine of a query not seen before whose weight on the url is at most `theirs` (3 above)."""
    return reach if theirs * reach >= mine else mine * theirs + rest * np.sqrt(max(0.0, 1.0 - theirs**2))


@njit(cache=True, nogil=True)
def _cosine(index, vector, other):  # type: ignore[no-untyped-def]
    total = 0.0
    for place in range(index.starts[other], index.starts[other + 1]):
        total += index.weight[place] * vector[index.url[place]]
    return total


@njit(cache=True, nogil=True)
def _key(score):  # type: ignore[no-untyped-def]
    return np.int64(score * STEPS + 0.5)


@njit(cache=True, nogil=True)
def _enter(keys, found, key, query):  # type: ignore[no-untyped-def]
    """Put a query where it belongs in a list by falling key and rising number; whether it belongs there."""
    place = keys.size
    while place > 0 and (key > keys[place - 1] or (key == keys[place - 1] and query < found[place - 1])):
        place -= 1
    if place == keys.size or key == 0:
        return False
    for at in range(keys.size - 1, place, -1):
        keys[at], found[at] = keys[at - 1], found[at - 1]
    keys[place], found[place] = key, query
    return True
