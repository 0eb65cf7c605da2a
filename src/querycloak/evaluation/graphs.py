"""Numbered graphs of each subject: clicks, successive queries, pairs within sessions, frequencies of queries.

The original knows what TRAIN knows: `count` is how often something happened. A release knows what its tables say. The
rule without data guesses one url for each query that TEST asks.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.evaluation.numbered_logs import NumberedLogs, Steps, Vocabulary, WeightedPairs
from querycloak.evaluation.subjects import CLICKS, LATER, NEXT, QUERIES, ROWS, guessed_clicks, source_of, table_of
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
        """Pairs of query and url: clicks in TRAIN, or counts in the release; empty if the subject has none."""
        if subject.name == ORIGINAL:
            return self.logs.train.click_counts()
        return self._pairs(subject, CLICKS, "url")

    def later(self, subject: Subject) -> WeightedPairs:
        """Pairs of a query and one asked anywhere after it in a session, with counts; no query follows itself."""
        if subject.name == ORIGINAL:
            return later_pairs(self.logs.train.steps, self.logs.queries)
        if source_of(subject, LATER) == "log":
            return later_pairs(self._steps(subject), self.logs.queries)
        return self._pairs(subject, LATER, "next_query").without_loops()

    def next(self, subject: Subject) -> WeightedPairs:
        """Pairs of a query and the one asked right after it, with counts; anywhere after it if only that is known."""
        if subject.name == ORIGINAL:
            return next_pairs(self.logs.train.steps, self.logs.queries)
        if source_of(subject, NEXT) == "log":
            return next_pairs(self._steps(subject), self.logs.queries)
        return self._pairs(subject, NEXT, "next_query").without_loops()

    def queries(self, subject: Subject) -> NDArray[np.float64]:
        """Searches in TRAIN, or counts in the release, by number of the query; 0 if the subject lacks it."""
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


_PAIRS_AT_ONCE = 1 << 25


def session_starts(steps: Steps) -> NDArray[np.int64]:
    """Start of each session, and the end of the last."""
    return np.append(np.flatnonzero(steps.begins), len(steps.begins)).astype(np.int64)


def next_pairs(steps: Steps, queries: int) -> WeightedPairs:
    """Number of times that a query was asked right after another in a session."""
    inside = ~steps.begins[1:]
    left, right = steps.query[:-1][inside], steps.query[1:][inside]
    return WeightedPairs.of(left, right, np.ones(len(left)), queries)


def later_pairs(steps: Steps, queries: int) -> WeightedPairs:
    """Number of times that a query was asked anywhere after another in a session; no query follows itself."""
    starts = session_starts(steps)
    lengths = np.diff(starts)
    reached = np.cumsum(lengths * (lengths - 1) // 2)
    parts: list[WeightedPairs] = []
    first = 0
    while first < len(lengths):
        # Some sessions at a time, one at least: a single session of thousands of queries has millions of pairs.
        before = int(reached[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(reached, before + _PAIRS_AT_ONCE, side="right")))
        room = int(reached[last - 1]) - before
        keys = _later(steps.query, starts[first : last + 1], room, np.int64(queries))
        distinct, counts = np.unique(keys, return_counts=True)
        left, right = (distinct // queries).astype(np.int32), (distinct % queries).astype(np.int32)
        parts.append(WeightedPairs(left, right, counts.astype(np.float64), queries))
        first = last
    return _together(parts, queries)


def _together(parts: list[WeightedPairs], queries: int) -> WeightedPairs:
    if len(parts) == 1:
        return parts[0]
    columns = [
        np.concatenate([getattr(part, name) for part in parts] or [np.empty(0)]) for name in ("left", "right", "weight")
    ]
    return WeightedPairs.of(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2], queries)


@njit(cache=True, nogil=True)
def _later(query, starts, room, queries):  # type: ignore[no-untyped-def]
    """Every pair of different queries of one session, in order, as one number each."""
    keys = np.empty(room, np.int64)
    used = 0
    for session in range(starts.size - 1):
        for i in range(starts[session], starts[session + 1]):
            for j in range(i + 1, starts[session + 1]):
                if query[i] != query[j]:
                    keys[used] = query[i] * queries + query[j]
                    used += 1
    return keys[:used]
