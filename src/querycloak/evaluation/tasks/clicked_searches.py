"""The cases of retrieval: searches of TEST with clicks; relevant are the urls clicked in them."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.kernels.random_walk import Wanted
from querycloak.evaluation.numbered_logs import Clicks
from querycloak.evaluation.rank_measures import Hits

SEED = 2016


def some_searches(clicks: Clicks, most: int) -> Clicks:
    """The clicks of so many searches, drawn evenly by a fixed seed, and numbered anew; all if they are not more."""
    searches = int(clicks.search.max(initial=-1)) + 1
    if searches <= most:
        return clicks
    drawn = np.zeros(searches, np.bool_)
    drawn[np.random.default_rng(SEED).choice(searches, most, replace=False)] = True
    kept = drawn[clicks.search]
    columns = {each.name: getattr(clicks, each.name)[kept] for each in fields(clicks)}
    return Clicks(**{**columns, "search": (np.cumsum(drawn) - 1)[columns["search"]]})


@dataclass(frozen=True, eq=False)
class ClickedSearches:
    """Searches as cases; `which` tells for each click its place among the distinct pairs of query and url wanted."""

    clicks: Clicks
    user: NDArray[np.int64]
    query: NDArray[np.int32]
    relevant: NDArray[np.int64]
    wanted: Wanted
    which: NDArray[np.int64]

    @classmethod
    def of(cls, clicks: Clicks, urls: int) -> ClickedSearches:
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
