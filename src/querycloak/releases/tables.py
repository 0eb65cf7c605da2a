"""The tables that a release may hold: their columns, and how any Arrow data is brought into exactly that form."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.errors import EngineError, ParameterError

ROWS_IN_A_GROUP = 1 << 18


@dataclass(frozen=True)
class Kind:
    """A kind of table: what its rows are, its columns in order, and those that a method may leave out."""

    meaning: str
    good_for: str
    columns: Mapping[str, tuple[pa.DataType, str]]
    optional: frozenset[str] = frozenset()


_USERS = (pa.int64(), "how many users, as the method counts and noises them")
_USERS_OR_CLICKS = (
    pa.int64(),
    "how many users, or clicks where the method was told to count those, with its noise",
)
_TIMES = (pa.int64(), "how often, as the method counts and noises it")
_QUERY = (pa.string(), "what was asked")
KINDS: Mapping[str, Kind] = {
    "queries": Kind(
        "queries that people asked",
        "finding what people look for, query completion, test collections",
        {"query": _QUERY, "count": _USERS},
        frozenset({"count"}),
    ),
    "clicks": Kind(
        "queries with a result that was clicked for them",
        "ranking from clicks, query similarity through shared results",
        {"query": _QUERY, "url": (pa.string(), "what was clicked"), "count": _USERS_OR_CLICKS},
        frozenset({"count"}),
    ),
    "transitions": Kind(
        "pairs of queries, one asked right after the other",
        "query suggestion, random walks over queries",
        {"query": _QUERY, "next_query": (pa.string(), "what was asked next"), "count": _USERS},
    ),
    "sessions": Kind(
        "queries that were asked one after another in one session",
        "query suggestion, studies of how people reformulate",
        {"queries": (pa.list_(pa.string()), "what was asked, in order"), "count": _USERS},
        frozenset({"count"}),
    ),
    "log": Kind(
        "rows in the form of a search log, under user names that were made for this release",
        "",  # LOG_ROWS say
        {
            "user": (pa.string(), "a made-up name; it says nothing about who asked"),
            "query": _QUERY,
            "url": (pa.string(), "what was clicked, or nothing"),
            "count": _TIMES,
            "time": (pa.timestamp("us"), "when, as the method releases it"),
        },
        frozenset({"url", "count", "time"}),
    ),
}


@dataclass(frozen=True)
class LogRows:
    """What stands in the rows of a log: what a query is there, what it is good for, and how it differs from the log."""

    query: str
    good_for: str
    changed: str


_TOO_FEW = "what too few people asked is missing, and what is here was changed as described below"
LOG_ROWS: Mapping[str, LogRows] = {
    "asked": LogRows("what was asked", "studies of how single users search, as far as the guarantee allows", _TOO_FEW),
    "alike": LogRows(
        "what was asked, by one person alone perhaps",
        "studies of how people refine queries, and of rare queries",
        "queries are missing unless enough people asked them or others much like them, and names were replaced",
    ),
    "generalised": LogRows(
        "the label of a concept that takes in what was asked",
        "counting what kinds of things people look for; as a baseline",
        "every search became the most specific concept that enough people share, and those without one are missing",
    ),
    "replaced": LogRows(
        "what was drawn in place of what was asked",
        "topics and kinds of things that people look for, taken over many rows; trying out software",
        "every query was replaced by a concept that was drawn at random, more often one of a similar meaning. A row "
        "may be what somebody asked, or anything else: read how often topics and kinds of things occur, never a single "
        "row",
    ),
    "rebuilt": LogRows(
        "what was asked, with other concepts in place of its own; the words around them are as they were typed",
        "comparing with the published method",
        "within each query, concepts were replaced by others, drawn at random among those of a similar meaning. All "
        "other words are somebody's own",
    ),
    "noised": LogRows(
        "the label of a concept, as often as noise decided",
        "a baseline; topics that people look for, taken over many users",
        "noise was added to how often each user asked for each concept. A row may be what somebody asked, or noise "
        "alone",
    ),
    "drawn": LogRows(
        "what was asked",
        "comparing with the published method",
        "a few rows of real users were drawn from it, under other names",
    ),
    "made-up": LogRows(
        "what a made-up user asked; real people asked it too, enough of them",
        "totals, which pairs go together, how many pairs users have; trying out software",
        "its users were made up from noisy totals. What too few people share is missing, and no user is a real person",
    ),
}
_NULLABLE = frozenset({"url", "time"})  # and of the log only


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
    """Batches that a function can begin again, with the same rows: `Stream(schema, lambda: engine.stream(staged))`."""

    schema: pa.Schema
    begin: Callable[[], Iterable[pa.RecordBatch]]

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.begin())


Table: TypeAlias = pa.Table | Batches


def schema_of(kind: str, columns: Iterable[str]) -> pa.Schema:
    """The one schema of a kind of table with these columns."""
    if kind not in KINDS:
        raise ParameterError(f"tables must be named after their kind ({', '.join(KINDS)}), got {kind!r}")
    declared, given = KINDS[kind], list(columns)
    expected = [name for name in declared.columns if name in given or name not in declared.optional]
    if given != expected:
        optional = f" ({', '.join(sorted(declared.optional))} may be left out)" if declared.optional else ""
        raise ParameterError(
            f"table {kind} must have the columns {', '.join(declared.columns)} in this order{optional}, "
            f"got {', '.join(given) or 'none'}; select them in the method"
        )
    return pa.schema([pa.field(n, declared.columns[n][0], kind == "log" and n in _NULLABLE) for n in given])


def described(kind: str, rows: str) -> Kind:
    """A kind of table, in the words that fit what stands in its rows."""
    found = KINDS[kind]
    if kind != "log":
        return found
    said = LOG_ROWS[rows]
    query = (found.columns["query"][0], said.query)
    return replace(found, good_for=said.good_for, columns={**found.columns, "query": query})


def batches_of(table: Table) -> Iterator[pa.RecordBatch]:
    """The batches of a table in memory or of a stream."""
    return iter(table.to_batches()) if isinstance(table, pa.Table) else iter(table)


def conformed(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch in exactly the declared types: dictionaries decoded, so that no value without a row stays in them."""
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


def regrouped(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.Table]:
    """The same rows in groups of one size: the sizes of batches may tell how many rows the last look dropped."""
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
