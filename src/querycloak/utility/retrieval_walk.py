"""Task retrieval-walk: urls for a query by a random walk over clicks and transitions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from querycloak.utility.clicked_searches import ClickedSearches
from querycloak.utility.graphs import Graphs
from querycloak.utility.measure import Measure
from querycloak.utility.random_walk import ranks, walk_of
from querycloak.utility.rank_measures import RANK_MEASURES, scores
from querycloak.utility.subject_tables import CLICKS, lacks
from querycloak.utility.task import READINGS, CaseScores, Logs, Subject

ZHANG_YANG_SINGH = "Zhang, Yang & Singh, Anonymizing query logs by differential privacy, SIGIR 2016"
RETRIEVAL_MEASURES = ("nDCG@10", "P@5", "P@10", "AP")


class RetrievalWalk:
    """Three steps from the query, staying with probability .1; urls by the probability of ending there."""

    name: ClassVar[str] = "retrieval-walk"
    summary: ClassVar[str] = "the urls that a user clicks for a query, found by a random walk over clicks"
    citation: ClassVar[str] = f"{ZHANG_YANG_SINGH}, after Craswell & Szummer, SIGIR 2007"

    @property
    def measures(self) -> tuple[Measure, ...]:
        """As in the paper."""
        return tuple(RANK_MEASURES[name] for name in RETRIEVAL_MEASURES)

    @property
    def readings(self) -> tuple[str, ...]:
        """All three."""
        return READINGS

    def why_not(self, subject: Subject) -> str | None:
        """It takes clicks; transitions help."""
        why = lacks(subject, CLICKS)
        return why and f"{why}; clicks, sessions, optimal, k-anonymity and query-pool with clicks have some"

    def prepare(self, logs: Logs) -> PreparedWalk:
        """The searches of TEST with clicks."""
        return PreparedWalk(logs.graphs)


class PreparedWalk:
    """The task for one TEST."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        self._cases = ClickedSearches.of(graphs.logs.test.clicks(), graphs.logs.urls)

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """A search from whose query no url is reached is not answered."""
        logs, cases = self._graphs.logs, self._cases
        walk = walk_of(self._graphs.clicks(subject), self._graphs.next(subject))
        found, reached = ranks(cases.wanted, walk, logs.urls, logs.engine.threads)
        answered = reached[np.searchsorted(cases.wanted.query, cases.query)]
        for name, values in scores(RETRIEVAL_MEASURES, cases.hits(found[cases.which])).items():
            values[~answered] = np.nan
            yield CaseScores(RANK_MEASURES[name], values, cases.user)
