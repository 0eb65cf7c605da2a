"""A log for engines: its files in parts and batches, and lazy tables of searches, clicks, views and sessions.

Nothing is read until a table is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.engines.engine import OnBytes
from querycloak.logs.choices import Choices
from querycloak.logs.formats import Reader
from querycloak.logs.formats.ubi import joined_rows, joined_views
from querycloak.logs.reading.blocks import Part, parts_of
from querycloak.logs.reading.checks import KEPT
from querycloak.logs.reading.files import LogFile
from querycloak.logs.reading.schema import (
    CLICKED,
    COLUMNS,
    MARKED_SEARCHES,
    MINUTE,
    ORIGIN,
    REQUIRED,
    SHOWN,
    VIEWS,
    pause_before,
    with_records,
)
from querycloak.privacy.parameters import number_above_zero

_NO_RANK = ibis.null("int32")


@dataclass(frozen=True)
class LogSource:
    """Rows of a log, read anew each time.

    With `origin`, also the place of each row and the content of rejected ones; without `clicks`, neither rank nor url;
    with `views`, also the results shown that were not clicked. Each row is kept or rejected as with none of these.
    """

    files: list[LogFile]
    reader: Reader
    choices: Choices
    origin: bool = False
    clicks: bool = True
    views: bool = False

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        base = self.reader.schema if self.clicks else MARKED_SEARCHES
        schema = with_records(base, self.choices.attributes, self.reader.views if self.views else None)
        return pa.schema([*schema, *ORIGIN]) if self.origin else schema

    @property
    def size(self) -> int:
        """Stored bytes in all."""
        return sum(file.size for file in self.files)

    def parts(self, size: int | None) -> list[Part]:
        """Whole files, or pieces of about `size` bytes."""
        return parts_of(self.files, size, divisible=self.reader.divisible)

    def blocks(self, part: Part) -> Iterator[Any]:
        """The raw blocks of a part."""
        return self.reader.blocks(self.files[part.file], part, numbered=self.origin)

    def parse(self, block: Any) -> pa.RecordBatch:
        """The rows of a block."""
        return self.reader.parse(block, self.choices, origin=self.origin, clicks=self.clicks, views=self.views)


def _kept(marked: ir.Table) -> ir.Table:
    return marked.filter(marked.code == KEPT)


class LogTables:
    """Tables of one source on one engine; each is read when it is first used."""

    def __init__(self, source: LogSource, log_format: str, engine: Engine, on_bytes: OnBytes | None = None) -> None:
        self.source, self.format, self.engine = source, log_format, engine
        self._on_bytes = on_bytes
        self.clicks_counted = False
        """True once clicks or views were used: then an empty log is one without clicks."""
        self.kept: dict[object, ir.Table] = {}
        """Table in the engine that several readers of the log share."""

    @cached_property
    def marked_rows(self) -> ir.Table:
        """All rows with their codes; rejected rows hold nothing else."""
        return self._marked(self.source)

    def _marked(self, source: LogSource) -> ir.Table:
        table = self.engine.table(source, self._on_bytes)
        if self.format == "ubi":
            # Its rows come out of joins over all documents, so each document is read once and staged.
            documents = self.engine.stage(table)
            self.engine.code_counts(documents)  # a source that could not be read says so here, before any join
            return self.engine.stage(joined_rows(documents, source.choices))
        return table

    @property
    def attributes(self) -> tuple[str, ...]:
        """Columns of rows, searches and views beside ours: those that the owner named."""
        return self.source.choices.attributes

    @property
    def holds_views(self) -> bool:
        """True if the log can hold shown results: by format and columns alone."""
        return self.source.reader.views is not None

    def shows_views(self) -> bool:
        """True if the log has a result that was shown and not clicked, or declares a column for them (private)."""
        reader = self.source.reader
        if reader.views is None or reader.repeats_searches:
            return reader.repeats_searches
        unclicked = self.records.filter(self.records.url.notnull() & ~self.records.clicked).limit(1)
        return bool(self.engine.fetch(unclicked.select("clicked")).num_rows)

    @cached_property
    def rows(self) -> ir.Table:
        """The rows kept: user, time, query, rank, url, and the attributes."""
        if self.source.reader.repeats_searches:
            return _rows_of(self.records, self.attributes)
        return _kept(self.marked_rows).select(*COLUMNS, *self.attributes)

    @cached_property
    def records(self) -> ir.Table:
        """A row for each result shown, or for a search without one: the columns of rows, `clicked` and the attributes.

        Without views, the rows: every result was clicked.
        """
        columns = [*COLUMNS, "clicked", *self.attributes]
        if not self.holds_views:
            return self.rows.mutate(clicked=self.rows.url.notnull()).select(*columns)
        if self.source.reader.views == CLICKED:
            return self.engine.stage(_kept(self._marked_views).select(*columns))
        marked = self.engine.stage(self._marked_views)
        if self.format == "ubi":
            self.engine.code_counts(marked)
            searches, events = joined_views(marked, self.source.choices)
        else:
            kept = _kept(marked)
            searches = kept.select(*REQUIRED, *self.attributes, SHOWN.name)
            events = kept.filter(kept.url.notnull()).select(*COLUMNS, *self.attributes, clicked=True)
        return self.engine.stage(_records_of(searches, events, self.attributes))

    @property
    def views(self) -> ir.Table:
        """user, time, query, url, rank, clicked, and the attributes: a row for each result that was shown."""
        self.clicks_counted = True
        return self.records.filter(self.records.url.notnull()).select(*VIEWS, *self.attributes)

    @cached_property
    def _marked_views(self) -> ir.Table:
        return self.engine.table(replace(self.source, views=True), self._on_bytes)

    @cached_property
    def asked(self) -> ir.Table:
        """user, time, query and attributes of the rows kept, for methods that ignore clicks; skips URL parsing.

        A search may stand there once, or once for each of its results.
        """
        names = (*REQUIRED, *self.attributes)
        if "rows" in self.__dict__ or self.format == "ubi":  # at hand already, or to be joined with clicks
            return self.rows.select(*names)
        kept = _kept(self._marked_searches)
        if self.source.reader.repeats_searches:  # adjacent rows of one search are written once
            kept = kept.filter(kept.user.notnull())
        return kept.select(*names)

    @cached_property
    def _marked_searches(self) -> ir.Table:
        return self.engine.table(replace(self.source, clicks=False), self._on_bytes)

    def stage(self) -> None:
        """Keep the rows in the engine, so that they can be read several times."""
        self.__dict__["rows"] = self.engine.stage(self.rows)

    @property
    def clicks(self) -> ir.Table:
        """The rows with a click."""
        self.clicks_counted = True
        return self.rows.filter(self.rows.url.notnull())

    @property
    def searches(self) -> ir.Table:
        """user, time, query, the attributes, and its number (from 1) in the user's history.

        One query at one time is one search, however many clicks it has.
        """
        distinct = self.rows.select(*REQUIRED).distinct()
        if self.attributes:
            each = self.rows.group_by(list(REQUIRED))
            distinct = each.agg(**{name: self.rows[name].min() for name in self.attributes})
        order = ibis.window(group_by=distinct.user, order_by=[distinct.time, distinct.query])
        return distinct.mutate(number=ibis.row_number().over(order) + 1)

    def sessions(self, gap_minutes: float = 30) -> ir.Table:
        """The searches, with the number (from 1) of the session each belongs to.

        A session ends where its user pauses for longer than the gap.
        """
        number_above_zero("gap_minutes", gap_minutes, "give the pause that ends a session, such as 30")
        searches = self.searches
        pause = pause_before(searches, [searches.number])
        begins = searches.mutate(begins=(pause > gap_minutes * MINUTE).fill_null(True).cast("int64"))
        so_far = ibis.window(group_by=begins.user, order_by=begins.number, preceding=None, following=0)
        return begins.mutate(session=begins.begins.sum().over(so_far)).drop("begins")


def _records_of(searches: ir.Table, events: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """Records of searches with lists of results (`shown`) and of events that tell a result and whether it was clicked.

    A result counts once for a search: at its place in the list, else at its least rank, and as clicked if any event
    clicked it. A result that was clicked and is on no list was shown as well.
    """
    names = [*REQUIRED, *attributes]
    lists = searches.select(*names, url=searches.shown).unnest("url", offset="place")
    listed = lists.select(*names, "url", listed=(lists.place + 1).cast("int32"), rank=_NO_RANK, clicked=False)
    results = listed.union(events.select(*names, "url", "rank", "clicked", listed=_NO_RANK).select(*listed.columns))
    each = results.group_by([*REQUIRED, "url"]).agg(
        rank=ibis.coalesce(results.listed.min(), results["rank"].min()),
        clicked=results.clicked.max(),
        **{name: results[name].min() for name in attributes},
    )
    alone = _alone(searches.select(*names), each, attributes)
    order = [*COLUMNS, "clicked", *attributes]
    return each.select(*order).union(alone.select(*order))


def _rows_of(records: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """The rows of a log that has a row for each result shown: its clicks, and the searches without one, once."""
    clicks = records.filter(records.clicked & records.url.notnull()).select(*COLUMNS, *attributes)
    return clicks.union(_alone(records, clicks, attributes).select(*COLUMNS, *attributes))


def _alone(searches: ir.Table, results: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """Searches without any of the results, once each."""
    once = searches.group_by(list(REQUIRED)).agg(**{name: searches[name].min() for name in attributes})
    alone = once.distinct().anti_join(results, list(REQUIRED))
    return alone.mutate(rank=ibis.null("int32"), url=ibis.null("string"), clicked=ibis.literal(False))
