"""What both tasks of web search share: the urls that a user clicks for a query, by the paper's measures."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.kernels.graphs import Graphs
from querycloak.evaluation.measure import Measure
from querycloak.evaluation.rank_measures import RANK_MEASURES, scores
from querycloak.evaluation.subject_tables import CLICKS, lacks
from querycloak.evaluation.task import READINGS, CaseScores, Subject
from querycloak.evaluation.tasks.clicked_searches import ClickedSearches, some_searches

ZHANG_YANG_SINGH = "Zhang, Yang & Singh, Anonymizing query logs by differential privacy, SIGIR 2016"
_MEASURES = ("nDCG@10", "P@5", "P@10", "AP")


class ClickRetrieval:
    """A task that is judged by the clicks of test searches."""

    @property
    def measures(self) -> tuple[Measure, ...]:
        """As in the paper."""
        return tuple(RANK_MEASURES[name] for name in _MEASURES)

    @property
    def readings(self) -> tuple[str, ...]:
        """All three."""
        return READINGS

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
