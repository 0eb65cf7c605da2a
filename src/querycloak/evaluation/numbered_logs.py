"""TRAIN and TEST with numbers in place of texts, for compiled work; numbers go by text, so ties break by number.

An engine gives the numbers and counts with them; what comes out is arrays of numbers, never a Python object for a
row. All of it is private.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.sequences import steps_of

Ints = NDArray[np.int32]
Places = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedPairs:
    """Each pair once, by left and then right; weights above 0. `lefts` is the number of possible lefts."""

    left: Ints
    right: Ints
    weight: Floats
    lefts: int

    @classmethod
    def of(
        cls, left: NDArray[np.integer], right: NDArray[np.integer], weight: NDArray[np.number], lefts: int
    ) -> WeightedPairs:
        """From pairs in any order, repeats allowed: weights add up; sums of 0 or less are left out."""
        span = int(right.max(initial=0)) + 1
        key = left.astype(np.int64) * span + right
        order = np.argsort(key)
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if key.size else np.empty(0, np.int64)
        total = np.add.reduceat(weight[order].astype(np.float64), first) if key.size else np.empty(0)
        kept = total > 0
        key, total = key[first][kept], total[kept]
        return cls((key // span).astype(np.int32), (key % span).astype(np.int32), total, lefts)

    def __len__(self) -> int:
        return len(self.left)

    @cached_property
    def starts(self) -> Places:
        """Start of the pairs of each left side, and the end of the last."""
        return np.searchsorted(self.left, np.arange(self.lefts + 1)).astype(np.int64)

    @cached_property
    def totals(self) -> Floats:
        """The weights of each left together."""
        return np.bincount(self.left, self.weight, minlength=self.lefts).astype(np.float64)

    def without_loops(self) -> WeightedPairs:
        """The pairs of different numbers."""
        kept = self.left != self.right
        return WeightedPairs(self.left[kept], self.right[kept], self.weight[kept], self.lefts)


GAP_MINUTES = 30


@dataclass(frozen=True, eq=False)
class Steps:
    """Queries one after another, user by user; `begins` marks the first of each session."""

    user: NDArray[np.int32]
    query: NDArray[np.int32]
    begins: NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class NumberedClicks:
    """Clicks of searches, search by search; `rank` is 0 where the log does not tell."""

    search: NDArray[np.int64]
    user: NDArray[np.int32]
    query: NDArray[np.int32]
    url: NDArray[np.int32]
    rank: NDArray[np.int32]


class Vocabulary:
    """Texts and their numbers, in an engine."""

    def __init__(self, engine: Engine, texts: Iterable[ir.Table]) -> None:
        """Number the distinct texts of all tables, which have one column, `text`."""
        texts_of_both = ibis.union(*texts).distinct()
        texts_of_both = texts_of_both.filter(texts_of_both.text.notnull())
        # One window over everything: evaluation numbers a log once, on the machine that computes it.
        order = ibis.window(order_by=texts_of_both.text)
        self._engine = engine
        self.table = engine.stage(texts_of_both.mutate(number=ibis.row_number().over(order).cast("int32")))
        self.size = int(engine.fetch(self.table.agg(size=self.table.count()))["size"][0].as_py())

    @cached_property
    def texts(self) -> pa.LargeStringArray:
        """All texts, in the order of their numbers."""
        fetched = self._engine.fetch(self.table.order_by("number").select(text=self.table.text))
        return fetched["text"].cast(pa.large_string()).combine_chunks()

    def number(self, table: ir.Table, column: str) -> ir.Table:
        """The table with numbers in place of a column of texts; null stays null."""
        numbers = self.table.select(_text="text", _number="number")
        joined = table.left_join(numbers, table[column] == numbers._text)
        return joined.mutate(**{column: joined._number}).drop("_text", "_number")


class NumberedLogs:
    """The two sides of a split, and the texts of all subjects."""

    def __init__(self, train: SearchLog, test: SearchLog, others: dict[str, list[ir.Table]]) -> None:
        """`others` are further tables of one column, `text`: under `query` and `url`."""
        self.engine = train.engine
        self.vocabulary = {
            name: Vocabulary(self.engine, [*(_texts(log.rows, name) for log in (train, test)), *others.get(name, ())])
            for name in ("query", "url")
        }
        self.train, self.test = (_Side(self, log) for log in (train, test))

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.vocabulary["query"].size

    @property
    def urls(self) -> int:
        """Number of urls."""
        return self.vocabulary["url"].size

    def pairs(self, table: ir.Table, left: str, right: str) -> WeightedPairs:
        """A table of two columns of numbers and a count, as pairs."""
        fetched = self.engine.fetch(table.select(left=table[left], right=table[right], weight=table["count"]))
        first, second, weight = (fetched[name].to_numpy() for name in ("left", "right", "weight"))
        return WeightedPairs.of(first, second, weight, self.queries)

    def numbered(self, table: ir.Table, **columns: str) -> ir.Table:
        """The table with numbers in place of texts; `columns` maps each column to its content, `query` or `url`."""
        for column, holds in columns.items():
            table = self.vocabulary[holds].number(table, column)
        return table

    def steps(self, rows: ir.Table) -> Steps:
        """Successive queries of users, from rows of user, time and query."""
        steps = steps_of(rows, GAP_MINUTES)
        fetched = self.engine.fetch(steps.order_by(["user", "at", "query"]).select("user", "query", "begins"))
        columns = {name: fetched[name].to_numpy() for name in ("user", "query")}
        return Steps(columns["user"], columns["query"], fetched["begins"].to_numpy().astype(np.bool_))


class _Side:
    """TRAIN or TEST."""

    def __init__(self, logs: NumberedLogs, log: SearchLog) -> None:
        self._logs, self._engine = logs, logs.engine
        self._users = Vocabulary(self._engine, [_texts(log.rows, "user")])
        rows = logs.numbered(self._users.number(log.rows, "user"), query="query", url="url")
        self.rows = self._engine.stage(rows)

    @property
    def users(self) -> int:
        """Number of users."""
        return self._users.size

    @cached_property
    def steps(self) -> Steps:
        """Successive queries of users."""
        return self._logs.steps(self.rows.select("user", "time", "query"))

    def click_counts(self) -> WeightedPairs:
        """Number of clicks on each url for each query."""
        clicks = self.rows.filter(self.rows.url.notnull())
        counted = clicks.group_by(["query", "url"]).agg(count=clicks.count())
        return self._logs.pairs(counted, "query", "url")

    def search_counts(self) -> NDArray[np.float64]:
        """Number of searches of each query: one query of one user at one time is one search."""
        searches = self.rows.select("user", "time", "query").distinct()
        fetched = self._engine.fetch(searches.group_by("query").agg(count=searches.count()))
        counts = np.zeros(self._logs.queries)
        counts[fetched["query"].to_numpy()] = fetched["count"].to_numpy()
        return counts

    def clicks(self) -> NumberedClicks:
        """Every search with clicks, its urls once each, at the best rank; in order of user, time and query."""
        rows = self.rows.filter(self.rows.url.notnull())
        once = rows.group_by(["user", "time", "query", "url"]).agg(rank=rows["rank"].min())
        fetched = self._engine.fetch(once.order_by(["user", "time", "query", "url"]))
        user, query, url = (fetched[name].to_numpy() for name in ("user", "query", "url"))
        time = fetched["time"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        rank = fetched["rank"].fill_null(0).to_numpy().astype(np.int32)
        return NumberedClicks(_runs(user, time, query), user, query, url, rank)

    def distinct_queries(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Users and their distinct queries, in order of user and query."""
        fetched = self._engine.fetch(self.rows.select("user", "query").distinct().order_by(["user", "query"]))
        return fetched["user"].to_numpy(), fetched["query"].to_numpy()


def _texts(rows: ir.Table, column: str) -> ir.Table:
    return rows.select(text=rows[column]).distinct()


def _runs(*columns: NDArray[np.integer]) -> NDArray[np.int64]:
    """The number, from 0, of the run of equal values that each row belongs to."""
    if not columns[0].size:
        return np.empty(0, np.int64)
    changes = np.zeros(columns[0].size, np.bool_)
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.cumsum(changes).astype(np.int64)
