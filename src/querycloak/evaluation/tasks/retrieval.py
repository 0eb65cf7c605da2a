"""Task retrieval-walk, and the base of both retrieval tasks: the urls that a user clicks, by the paper's measures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.kernels.graphs import Graphs
from querycloak.evaluation.kernels.random_walk import Wanted, ranks, walk_of
from querycloak.evaluation.numbered_logs import NumberedClicks
from querycloak.evaluation.rank_measures import RANK_MEASURES, Hits, scores
from querycloak.evaluation.subject_tables import CLICKS, lacks
from querycloak.evaluation.task import CaseScores, CaseTask, Logs, Measure, Subject

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


class ClickRetrieval(CaseTask):
    """A task that is judged by the clicks of test searches."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """As in the paper."""
        return tuple(RANK_MEASURES[name] for name in _MEASURES)

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
        """A search from whose query no url is reached is not answered."""
        logs, cases = self._graphs.logs, self._cases
        walk = walk_of(self._graphs.clicks(subject), self._graphs.next(subject))
        rank, reached = ranks(cases.wanted, walk, logs.urls, logs.engine.threads)
        answered = reached[np.searchsorted(cases.wanted.query, cases.query)]
        yield from self._scored(rank[cases.which], ~answered)
