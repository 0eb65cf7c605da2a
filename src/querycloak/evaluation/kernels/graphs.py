"""Numbered graphs of each subject: clicks, successive queries, frequencies of queries.

The original knows what TRAIN knows: `count` is how often something happened. A release knows what its tables say. The
rule without data guesses one url for each query that TEST asks.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.evaluation.kernels.session_pairs import later_pairs, next_pairs
from querycloak.evaluation.kernels.weighted_pairs import WeightedPairs
from querycloak.evaluation.no_data import guessed_clicks
from querycloak.evaluation.numbered_logs import NumberedLogs, Steps, Vocabulary
from querycloak.evaluation.subject_tables import CLICKS, LATER, NEXT, QUERIES, ROWS, source_of, table_of
from querycloak.evaluation.task import NO_DATA, ORIGINAL, Subject
from querycloak.logs.searchlog import SearchLog

_TEXTS = {
    CLICKS: {"query": "query", "url": "url"},
    LATER: {"query": "query", "next_query": "query"},
    NEXT: {"query": "query", "next_query": "query"},
    QUERIES: {"query": "query"},
    ROWS: {"query": "query"},
}


class Graphs:
    """The two logs and all subjects, numbered alike."""

    def __init__(self, train: SearchLog, test: SearchLog, subjects: Sequence[Subject]) -> None:
        self._engine, self._test = train.engine, test
        self._tables = {
            (subject.name, known): self._uploaded(subject, known)
            for subject in subjects
            if subject.name != ORIGINAL
            for known in _TEXTS
            if _is_kept(subject, known)
        }
        texts: dict[str, list[ir.Table]] = {"query": [], "url": []}
        for (_, known), table in self._tables.items():
            for column, holds in _TEXTS[known].items():
                texts[holds].append(table.select(text=table[column]).distinct())
        self.logs = NumberedLogs(train, test, texts)

    def _uploaded(self, subject: Subject, known: str) -> ir.Table:
        table = guessed_clicks(self._test) if subject.name == NO_DATA else table_of(subject, known)
        # An engine unites columns only if they agree on whether they may be empty.
        return self._engine.upload(table.cast(pa.schema([field.with_nullable(True) for field in table.schema])))

    def clicks(self, subject: Subject) -> WeightedPairs:
        """Number of clicks on urls for queries; empty if the subject has none."""
        if subject.name == ORIGINAL:
            return self.logs.train.click_counts()
        return self._pairs(subject, CLICKS, "url")

    def later(self, subject: Subject) -> WeightedPairs:
        """Number of times that a query was asked anywhere after another in a session; no query follows itself."""
        if subject.name == ORIGINAL:
            return later_pairs(self.logs.train.steps, self.logs.queries)
        if source_of(subject, LATER) == "log":
            return later_pairs(self._steps(subject), self.logs.queries)
        return self._pairs(subject, LATER, "next_query").without_loops()

    def next(self, subject: Subject) -> WeightedPairs:
        """Number of times that a query was asked right after another; anywhere after it if only that is known."""
        if subject.name == ORIGINAL:
            return next_pairs(self.logs.train.steps, self.logs.queries)
        if source_of(subject, NEXT) == "log":
            return next_pairs(self._steps(subject), self.logs.queries)
        return self._pairs(subject, NEXT, "next_query").without_loops()

    def queries(self, subject: Subject) -> NDArray[np.float64]:
        """Number of searches of each query, by its number; 0 for queries that the subject does not have."""
        if subject.name == ORIGINAL:
            return self.logs.train.search_counts()
        counts = np.zeros(self.logs.queries)
        table = self._numbered(subject, QUERIES)
        if table is not None:
            fetched = self._engine.fetch(table)
            counts[fetched["query"].to_numpy()] = np.maximum(fetched["count"].to_numpy(), 0)
        return counts

    def _pairs(self, subject: Subject, known: str, right: str) -> WeightedPairs:
        table = self._numbered(subject, known)
        if table is None:
            nothing = np.empty(0, np.int32)
            return WeightedPairs(nothing, nothing, np.empty(0), self.logs.queries)
        return self.logs.pairs(table, "query", right)

    def _steps(self, subject: Subject) -> Steps:
        rows = self.logs.numbered(self._tables[subject.name, ROWS], **_TEXTS[ROWS])
        users = Vocabulary(self._engine, [rows.select(text=rows.user)])
        return self.logs.steps(users.number(rows, "user"))

    def _numbered(self, subject: Subject, known: str) -> ir.Table | None:
        table = self._tables.get((subject.name, known))
        return None if table is None else self.logs.numbered(table, **_TEXTS[known])


def _is_kept(subject: Subject, known: str) -> bool:
    """True if a subject's table is to be kept: what comes of its log's times is kept as rows, once.

    Public phrases are not numbered: completion looks them up by itself.
    """
    source = source_of(subject, known)
    if subject.name == NO_DATA and known == QUERIES:
        return False
    return source is not None and not (known in (LATER, NEXT) and source == "log")
