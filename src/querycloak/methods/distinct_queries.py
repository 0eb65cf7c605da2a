"""Queries of each user once, and every distinct query once: with a number from the method, and the users who asked it.

Texts pass by in batches; what stays of uses (a user and a query) is two whole numbers each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.logs.searchlog import SearchLog
from querycloak.text.compiled import kernel
from querycloak.text.lexicon import Lexicon, spans_of
from querycloak.text.spans import Spans


def uses_of(log: SearchLog) -> ir.Table:
    """user, query and the number of searches, in the engine's private space."""
    searches = log.asked.distinct()
    return log.engine.stage(searches.group_by(["user", "query"]).agg(searches=searches.count()))


def searches_of(uses: ir.Table) -> ir.Table:
    """user and query, a row for each search."""
    return uses.select("user", "query", number=ibis.range(0, uses.searches).unnest())


def sorted_uses(uses: ir.Table) -> ir.Table:
    """query and user, sorted: the uses of a query follow each other."""
    return uses.select("query", "user").order_by(["query", "user"])


Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class DistinctQueries:
    """Queries in the order of the batches; uses only of queries whose number is not negative."""

    queries: pa.ChunkedArray
    own_users: Numbers
    numbers: Numbers
    use_numbers: Numbers
    use_users: Numbers
    number_of_users: int


def gather(uses: Iterable[pa.RecordBatch], number: Callable[[Spans], Numbers]) -> DistinctQueries:
    """Gather batches of (query, user), each pair once, sorted by query."""
    gathering = _Gathering(number)
    for batch in uses:
        if batch.num_rows:
            gathering.add(batch)
    return gathering.finished()


class _Gathering:
    def __init__(self, number: Callable[[Spans], Numbers]) -> None:
        self._number = number
        self._users = Lexicon()
        self._texts: list[pa.Array] = []
        self._own: list[Numbers] = []
        self._numbers: list[Numbers] = []
        self._use_numbers: list[Numbers] = []
        self._use_users: list[Numbers] = []
        self._last: bytes | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        texts = Spans.of(batch.column("query"))
        users = self._users.add(batch.column("user"))
        begins = np.empty(len(texts), np.bool_)
        _mark_changes(*spans_of(texts), begins)
        begins[0] = texts.bytes_at(0) != self._last
        self._last = texts.bytes_at(len(texts) - 1)
        fresh = texts.where(begins)
        numbers = self._number(fresh)
        # The first rows may still belong to the query that the batch before ended with.
        carried = self._numbers[-1][-1:] if self._numbers else np.empty(0, np.int32)
        place = np.cumsum(begins) - 1 + len(carried)
        of_use = np.concatenate([carried, numbers])[place]
        self._use_numbers.append(of_use[of_use >= 0])
        self._use_users.append(users[of_use >= 0])
        own = np.bincount(place, minlength=len(carried) + len(numbers)).astype(np.int32)
        if len(carried):
            self._own[-1][-1] += own[0]
        if len(fresh):
            self._texts.append(fresh.strings())
            self._own.append(own[len(carried) :])
            self._numbers.append(numbers)

    def finished(self) -> DistinctQueries:
        none = np.empty(0, np.int32)
        own, numbers, use_numbers, use_users = (
            np.concatenate([none, *parts]) for parts in (self._own, self._numbers, self._use_numbers, self._use_users)
        )
        texts = pa.chunked_array(self._texts, pa.string())
        return DistinctQueries(texts, own, numbers, use_numbers, use_users, len(self._users))


@kernel
def _mark_changes(data, starts, ends, begins):  # type: ignore[no-untyped-def]
    """Mark the texts that differ from the one before."""
    for row in range(1, starts.size):
        length = ends[row] - starts[row]
        differs = length != ends[row - 1] - starts[row - 1]
        for i in range(0 if differs else length):
            if data[starts[row] + i] != data[starts[row - 1] + i]:
                differs = True
                break
        begins[row] = differs
