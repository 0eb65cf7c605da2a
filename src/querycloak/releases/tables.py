"""The kinds of tables of a release: their columns, and the conversion of any Arrow data to exactly these."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.errors import EngineError, ParameterError
from querycloak.logs.choices import PERIODS, could_be_attribute
from querycloak.releases.row_kinds import RowKind

ROWS_IN_A_GROUP = 1 << 18
LARGEST_ROW = 1 << 20
"""In bytes; rows of releases are much smaller."""


@dataclass(frozen=True)
class TableKind:
    """A kind of table: the meaning and use of its rows, its columns in order, and those that a method may leave out."""

    meaning: str
    good_for: str
    columns: Mapping[str, tuple[pa.DataType, str]]
    optional: frozenset[str] = frozenset()
    by_attributes: bool = False
    """True if columns of attributes may stand before the numbers."""

    def as_written(self, columns: Iterable[str]) -> TableKind:
        """The kind as a table with these columns has it: with attributes, with viewers, or with ranks and records."""
        given = list(columns)
        if "session" in given and "user" in self.columns:
            names = [name for name in given if name not in _RECORDS]
            meaning = "results that were shown or clicked, under session ids that were made for this release"
            columns_of = {**_RECORDS, **dict.fromkeys(names, _ATTRIBUTE)}
            return replace(self, meaning=meaning, columns=columns_of, optional=frozenset())
        if "user" in self.columns and "rank" in given:
            return replace(self, columns={**_OF_LOGS, "query": self.columns["query"], **_RANKED}, optional=frozenset())
        if not self.by_attributes:
            return self
        names = [name for name in given if name not in self.columns and is_attribute(name)]
        of_key = {name: each for name, each in self.columns.items() if name in _OF_KEYS}
        numbers = {name: each for name, each in self.columns.items() if name not in of_key}
        if "url" in of_key and "ranks" in given:
            return replace(
                self, columns={**of_key, **dict.fromkeys(names, _ATTRIBUTE), **_VIEWED}, optional=frozenset()
            )
        return replace(self, columns={**of_key, **dict.fromkeys(names, _ATTRIBUTE), **numbers}) if names else self


_OF_LOGS = {
    "user": (pa.string(), "a made-up name, of nobody in the log"),
    "time": (pa.timestamp("us"), "when, as the method releases it"),
}
_RANKED = {
    "rank": (pa.int32(), "position of the clicked result; null without a click"),
    "url": (pa.string(), "what was clicked, or nothing"),
}
_OF_KEYS = ("query", "url", "phrase", "words", "begins", "ends")
_ATTRIBUTE = (pa.string(), "an attribute of the searches, such as country or week")
_VIEWED = {
    "ranks": (pa.string(), "at which ranks the result was shown: 1, 2, 3, 4-5, 6-10 or 11+"),
    "viewers": (pa.int64(), "how many users were shown the result there, as the method counts and noises them"),
    "clickers": (pa.int64(), "how many of them clicked it, with noise; null if noise took it below 0"),
}

_RECORDS = {
    "session": (pa.string(), "a made-up id; rows of one session stand in the order in which they were asked"),
    "day": (pa.string(), "the day, or the first day of a longer time"),
    "query": (pa.string(), "what was asked"),
    "rank": (pa.int32(), "the place of the result in its list, from 1, or nothing"),
    "url": (pa.string(), "the result that was shown, or nothing"),
    "clicked": (pa.bool_(), "true if the result was clicked"),
}

_USERS = (pa.int64(), "how many users, as the method counts and noises them")
_USERS_OR_CLICKS = (
    pa.int64(),
    "how many users, or clicks where the method was told to count those, with its noise",
)
_TIMES = (pa.int64(), "how often, as the method counts and noises it")
_QUERY = (pa.string(), "what was asked")
KINDS: Mapping[str, TableKind] = {
    "queries": TableKind(
        "queries that people asked",
        "finding what people look for, query completion, test collections",
        {"query": _QUERY, "count": _USERS},
        frozenset({"count"}),
        by_attributes=True,
    ),
    "clicks": TableKind(
        "queries with a result that was clicked for them",
        "ranking from clicks, query similarity through shared results",
        {"query": _QUERY, "url": (pa.string(), "what was clicked"), "count": _USERS_OR_CLICKS},
        frozenset({"count"}),
        by_attributes=True,
    ),
    "positions": TableKind(
        "ranks of results",
        "how much attention each rank gets, click models",
        {
            "rank": (pa.int32(), "the place of a result in its list, from 1"),
            "views": (pa.int64(), "how many results were shown there, with noise; null if noise took it below 0"),
            "clicks": (pa.int64(), "how many of them were clicked, with noise; null if noise took it below 0"),
        },
    ),
    "cells": TableKind(
        "searches and users by attributes",
        "time series and shares, such as searches by country and week",
        {
            "searches": (pa.int64(), "how many searches, as the method bounds and noises them; null if below 0"),
            "users": (pa.int64(), "how many users, as the method bounds and noises them; null if below 0"),
        },
        by_attributes=True,
    ),
    "transitions": TableKind(
        "pairs of queries, one asked right after the other",
        "query suggestion, random walks over queries",
        {"query": _QUERY, "next_query": (pa.string(), "what was asked next"), "count": _USERS},
    ),
    "sessions": TableKind(
        "queries that were asked in this order in one session, perhaps with others between",
        "query suggestion, studies of how people reformulate",
        {"queries": (pa.list_(pa.string()), "what was asked, in order"), "count": _USERS},
        frozenset({"count"}),
    ),
    "phrases": TableKind(
        "words and word sequences of what people asked",
        "a model of what people ask: completion word by word, probabilities of queries; vocabulary",
        {
            "phrase": (pa.string(), "words with single blanks"),
            "words": (pa.int64(), "number of words"),
            "begins": (pa.bool_(), "true: counts queries that begin with the phrase; false: counts it anywhere"),
            "ends": (pa.bool_(), "true: counts queries that end with the phrase; false: counts it anywhere"),
            "count": _USERS,
        },
        frozenset({"count"}),
        by_attributes=True,
    ),
    "reformulations": TableKind(
        "ways in which people changed a query into their next one of a session",
        "query suggestion where no pair of queries is shared, studies of how people reformulate",
        {
            "kind": (pa.string(), "added, dropped or replaced words; same: the same words again; new: no word kept"),
            "word": (pa.string(), "the word added, dropped or put in another's place; empty: the kind as a whole"),
            "count": _USERS,
        },
    ),
    "totals": TableKind(
        "concepts or queries with how often they were asked, computed back from the rows of log",
        "how often topics were asked; each number has its error beside it",
        {
            "query": (pa.string(), "the text that stands in rows of log"),
            "rows": (pa.int64(), "number of rows of log with this text"),
            "total": (pa.float64(), "estimated number of searches that asked it, right on average; may be below 0"),
            "standard_error": (pa.float64(), "standard error of total, from the probabilities of the draw"),
            "share": (pa.float64(), "estimated share of all searches: totals brought to shares of at least 0"),
        },
    ),
    "channel": TableKind(
        "probabilities of the draw that made the rows of log",
        "estimates from log that take the draw into account",
        {
            "asked": (pa.string(), "the concept of a search"),
            "query": (pa.string(), "the text that may come out for it"),
            "probability": (pa.float64(), "the probability that it does; public, it follows from the parameters"),
        },
    ),
    "log": TableKind(
        "rows in the form of a search log, under user names that were made for this release",
        "",  # the kind of rows says
        {
            "user": _OF_LOGS["user"],
            "query": _QUERY,
            "url": _RANKED["url"],
            "count": _TIMES,
            "time": _OF_LOGS["time"],
        },
        frozenset({"url", "count", "time"}),
    ),
}


OF_DRAWS = frozenset({"totals", "channel"})
"""Tables about the draws that made the rows of a log: their texts are candidates, not what people asked."""
_NULLABLE = frozenset({"url", "time", "rank"})  # and of the log only
_BELOW_ZERO = frozenset({"clickers", "views", "clicks", "searches", "users"})
"""Numbers that are null where noise took them below 0."""


def is_attribute(name: str) -> bool:
    """True if a column of this name can be an attribute."""
    return name in PERIODS or could_be_attribute(name)


class Batches(Protocol):
    """A table of any size: iterating yields its record batches from the beginning, each time anew."""

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        ...

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, from the first."""
        ...


@dataclass(frozen=True)
class Stream:
    """Batches of a function that returns the same rows each time: `Stream(schema, lambda: engine.stream(staged))`."""

    schema: pa.Schema
    begin: Callable[[], Iterable[pa.RecordBatch]]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.begin())


Table: TypeAlias = pa.Table | Batches


def schema_of(kind: str, columns: Iterable[str], *, missing_counts: bool = False) -> pa.Schema:
    """The schema of a kind of table with these columns; counts may be null only with `missing_counts`."""
    if kind not in KINDS:
        raise ParameterError(f"tables must be named after their kind ({', '.join(KINDS)}), got {kind!r}")
    given = list(columns)
    declared = KINDS[kind].as_written(given)
    expected = [name for name in declared.columns if name in given or name not in declared.optional]
    if given != expected:
        optional = f" ({', '.join(sorted(declared.optional))} may be left out)" if declared.optional else ""
        raise ParameterError(
            f"table {kind} must have the columns {', '.join(declared.columns)} in this order{optional}, "
            f"got {', '.join(given) or 'none'}; select them in the method"
        )
    nullable = _NULLABLE if kind == "log" else {*_BELOW_ZERO, "count"} if missing_counts else _BELOW_ZERO
    return pa.schema([pa.field(name, declared.columns[name][0], name in nullable) for name in given])


def schema_for(kind: str, table: Table) -> pa.Schema:
    """The schema of a table; it reads no row of a stream."""
    columns = table.schema.names
    if isinstance(table, pa.Table):
        missing = "count" in columns and table["count"].null_count > 0
    else:
        missing = getattr(table, "missing_counts", False)
    return schema_of(kind, columns, missing_counts=missing)


def described(kind: str, rows: str, columns: Iterable[str] = ()) -> TableKind:
    """A kind of table, described for the rows that it holds (`RowKind`) and its columns."""
    declared = KINDS[kind].as_written(columns)
    if kind != "log":
        return declared
    row_kind = RowKind(rows)
    columns_of_kind = {**declared.columns, "query": (declared.columns["query"][0], row_kind.query)}
    if "user" in columns_of_kind and row_kind.is_personal:
        columns_of_kind["user"] = (columns_of_kind["user"][0], "a made-up name; all rows under it are one person's")
    return replace(declared, good_for=row_kind.good_for, columns=columns_of_kind)


def batches_of(table: Table) -> Iterator[pa.RecordBatch]:
    """The batches of a table in memory or of a stream."""
    return iter(table.to_batches()) if isinstance(table, pa.Table) else iter(table)


def whole_table(kind: str, table: Table) -> pa.Table:
    """A table of this kind in memory, in its one schema."""
    schema = schema_for(kind, table)
    return pa.Table.from_batches((conformed(batch, schema) for batch in batches_of(table)), schema)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in exactly the declared types; decoded dictionaries keep no value without a row."""
    fits = batch.schema.names == schema.names
    columns = []
    for index, field in enumerate(schema if fits else ()):
        column = _cast(batch.column(index), field.type)
        fits = fits and column is not None and (field.nullable or _nulls(column) == 0)
        columns.append(column)
    if not fits:
        raise EngineError("a method handed over rows that do not fit its table; this is a bug in querycloak")
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _nulls(column: pa.Array) -> int:
    inside = column.flatten().null_count if pa.types.is_list(column.type) else 0
    return int(column.null_count) + int(inside)


def _cast(column: pa.Array, wanted: pa.DataType) -> pa.Array | None:
    if column.type == wanted:
        return column
    try:
        return pc.cast(column, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None  # Arrow's message quotes the value


def summed_phrases(table: Table) -> Table:
    """A table of phrases summed over its attributes; a missing count is 1. Without attributes it is unchanged."""
    names = table.schema.names
    key = [name for name in names if name in _OF_KEYS]
    if set(names) <= {*key, "count"}:
        return table
    whole = whole_table("phrases", table)
    order = [(name, "ascending") for name in key]
    if "count" not in names:
        return whole.select(key).group_by(key).aggregate([]).sort_by(order)
    counted = whole.select(key).append_column("count", whole["count"].fill_null(1))
    summed = counted.group_by(key).aggregate([("count", "sum")]).rename_columns([*key, "count"])
    return summed.sort_by([("count", "descending"), *order])


def regrouped(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in groups of one size: sizes of batches may reveal the number of rows the output filter dropped."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        while rows >= ROWS_IN_A_GROUP:
            together = pa.Table.from_batches(waiting, schema)
            yield together.slice(0, ROWS_IN_A_GROUP)
            waiting = together.slice(ROWS_IN_A_GROUP).to_batches()
            rows -= ROWS_IN_A_GROUP
    if rows:
        yield pa.Table.from_batches(waiting, schema)
