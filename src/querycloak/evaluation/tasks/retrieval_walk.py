"""Task retrieval-walk: urls for a query by a random walk over clicks and transitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from querycloak.evaluation.kernels.random_walk import ranks, walk_of
from querycloak.evaluation.task import CaseScores, Logs, Subject
from querycloak.evaluation.tasks.click_retrieval import ZHANG_YANG_SINGH, ClickRetrieval, PreparedSearches

MOST_SEARCHES = 200_000
"""Frequent queries lead to hundreds of thousands of others: of a larger TEST as many searches are judged, exactly."""


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
        found, reached = ranks(cases.wanted, walk, logs.urls, logs.engine.threads)
        answered = reached[np.searchsorted(cases.wanted.query, cases.query)]
        yield from self._scored(found[cases.which], ~answered)
