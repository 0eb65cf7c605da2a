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
from numpy.typing import NDArray

from querycloak.evaluation.numbered_logs import WeightedPairs
from querycloak.text.compiled import kernel, part

NOBODY = -1
# Scores are compared as whole numbers of this step: sums that differ by rounding alone are ties.
STEPS = 10**12


class ClickIndex(NamedTuple):
    """Queries as unit vectors of urls, and for each url who has it: alone, or among others by falling weight.

    by_length: the places of a query's urls, those that fewest others have first.
    """

    starts: NDArray[np.int64]
    url: NDArray[np.int32]
    weight: NDArray[np.float64]
    by_length: NDArray[np.int64]
    alone_starts: NDArray[np.int64]
    alone: NDArray[np.int32]
    others_starts: NDArray[np.int64]
    others: NDArray[np.int32]
    others_weight: NDArray[np.float64]


class Followers(NamedTuple):
    """Queries that follow each query, with their shares."""

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
    others_starts = _starts(url, urls)
    by_length = np.lexsort((np.diff(others_starts)[clicks.right], clicks.left))
    return ClickIndex(
        clicks.starts, clicks.right, weight, by_length,
        _starts(clicks.right[alone], urls), clicks.left[alone][by_text],
        others_starts, query[by_weight], among[by_weight],
    )  # fmt: skip


def _starts(owner: NDArray[np.int32], owners: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=owners))]).astype(np.int64)


def followers(later: WeightedPairs) -> Followers:
    """e(q, x) / d(q) of every pair."""
    return Followers(later.starts, later.right, later.weight / later.totals[later.left])


def suggested(
    asked: NDArray[np.int32], index: ClickIndex, follow: Followers, cosine_share: float, most: int, threads: int
) -> NDArray[np.int32]:
    """By query: the `most` suggestions of highest score above 0, ties by number; `NOBODY` fills up shorter lists."""
    suggestions = np.full((len(asked), most), NOBODY, np.int32)
    # Neighbours in number are neighbours in text and often alike: dealt out in turn, threads end at the same time.
    shares = [slice(first, None, threads) for first in range(threads)]
    queries, urls = len(index.starts) - 1, len(index.alone_starts) - 1
    most_urls = int(np.diff(index.starts).max(initial=0))

    def work(share: slice) -> None:
        room = _Room(np.full(queries, -1, np.int32), np.zeros(urls), np.zeros(most_urls + 1), np.zeros(most, np.int64))
        _suggest(asked[share], index, follow, cosine_share, room, suggestions[share])

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, shares))
    return suggestions


class _Room(NamedTuple):
    """Working memory of a thread: the last case that saw each query; q as a vector of urls.

    remaining: the squared norm of q on the urls from this one on. keys: the scores of what is in the list.
    """

    seen: NDArray[np.int32]
    vector: NDArray[np.float64]
    remaining: NDArray[np.float64]
    keys: NDArray[np.int64]


@kernel
def _suggest(asked, index, follow, cosine_share, room, suggestions):  # type: ignore[no-untyped-def]
    for case in range(asked.size):
        query = asked[case]
        for place in range(index.starts[query], index.starts[query + 1]):
            room.vector[index.url[place]] = index.weight[place]
        for place in range(room.keys.size):
            room.keys[place] = 0
        room.seen[query] = case
        for place in range(follow.starts[query], follow.starts[query + 1]):
            other = follow.query[place]
            room.seen[other] = case
            score = cosine_share * _cosine(index, room.vector, other) + (1 - cosine_share) * follow.share[place]
            _enter(room.keys, suggestions, case, _key(score), other)
        if cosine_share > 0:
            _by_clicks(index, query, cosine_share, case, room, suggestions)
        for place in range(index.starts[query], index.starts[query + 1]):
            room.vector[index.url[place]] = 0.0


@part
def _by_clicks(index, query, cosine_share, case, room, suggestions):  # type: ignore[no-untyped-def]
    """Enter queries that share urls with the one asked."""
    first, last, keys = index.starts[query], index.starts[query + 1], room.keys
    room.remaining[last - first] = 0.0
    for place in range(last - 1, first - 1, -1):
        room.remaining[place - first] = room.remaining[place - first + 1] + index.weight[index.by_length[place]] ** 2
    for place in range(first, last):
        mine, rest = index.weight[index.by_length[place]], np.sqrt(room.remaining[place - first + 1])
        here, reach = index.url[index.by_length[place]], np.sqrt(mine**2 + rest**2)
        if _key(cosine_share * reach) + 1 < keys[-1]:
            break
        for at in range(index.alone_starts[here], index.alone_starts[here + 1]):
            other = index.alone[at]
            if room.seen[other] != case:
                room.seen[other] = case
                if not _enter(keys, suggestions, case, _key(cosine_share * mine), other):
                    break
        for at in range(index.others_starts[here], index.others_starts[here + 1]):
            if _key(cosine_share * _bound(mine, rest, reach, index.others_weight[at])) + 1 < keys[-1]:
                break
            other = index.others[at]
            if room.seen[other] != case:
                room.seen[other] = case
                _enter(keys, suggestions, case, _key(cosine_share * _cosine(index, room.vector, other)), other)


@part
def _bound(mine, rest, reach, theirs):  # type: ignore[no-untyped-def]
    """The largest cosine of a query not seen before whose weight on the url is at most `theirs` (3 above)."""
    return reach if theirs * reach >= mine else mine * theirs + rest * np.sqrt(max(0.0, 1.0 - theirs**2))


@part
def _cosine(index, vector, other):  # type: ignore[no-untyped-def]
    total = 0.0
    for place in range(index.starts[other], index.starts[other + 1]):
        total += index.weight[place] * vector[index.url[place]]
    return total


@part
def _key(score):  # type: ignore[no-untyped-def]
    return np.int64(score * STEPS + 0.5)


@part
def _enter(keys, suggestions, case, key, query):  # type: ignore[no-untyped-def]
    """Put a query where it belongs in a list by falling key and rising number; whether it belongs there."""
    place = keys.size
    while place > 0 and (key > keys[place - 1] or (key == keys[place - 1] and query < suggestions[case, place - 1])):
        place -= 1
    if place == keys.size or key == 0:
        return False
    for at in range(keys.size - 1, place, -1):
        keys[at], suggestions[case, at] = keys[at - 1], suggestions[case, at - 1]
    keys[place], suggestions[case, place] = key, query
    return True
