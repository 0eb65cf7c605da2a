"""A release under a name, as tasks and attacks see it: the one adapter between `Release` and both."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.methods.evidence import load
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import path_of
from querycloak.releases.folder import card_digest
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import OF_DRAWS, Table, batches_of, summed_phrases, whole_table

_ROWS_AT_ONCE = 1 << 21
NO_NAMES = "its tables hold counts, and no rows under names"
MADE_UP = "its users are made up: none of them is a real person"
NO_OWNERS = "a folder does not tell whose row is whose; `compare` makes the releases itself and knows"


@dataclass(frozen=True, eq=False)
class Target:
    """A release, or a log in a release's form, that is evaluated or attacked.

    `method`, `proven`, `digest` and `folder` are None for a log; `digest` and `folder` also for a release in memory.
    `options`: those that were given; None if its card lists none. `owners` (columns name, user) says whose rows stand
    under a name; None unless the release was made in this process.
    """

    name: str
    tables: Mapping[str, Table] = field(repr=False)
    rows: RowKind = RowKind.ASKED
    counts: str = "exact"
    method: str | None = None
    variant: str = "default"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] | None = None
    claimed: Guarantee | None = None
    proven: Guarantee | None = None
    digest: str | None = None
    folder: Path | None = None
    owners: pa.Table | None = field(default=None, repr=False)
    cells: Mapping[str, Table] = field(default_factory=dict, repr=False)
    """Tables as they were released, by attributes and ranks; `tables` has the sums of keys, and
    records of sessions as rows of a log."""
    log: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """Reading options of its log, from the card; empty for a log."""

    @classmethod
    def of(cls, release: Release, name: str, *, owners: pa.Table | None = None) -> Target:
        """A release in memory."""
        return cls(
            name=name,
            tables={kind: without_cells(kind, table) for kind, table in release.tables.items()},
            cells=release.tables,
            rows=release.rows,
            counts=release.counts,
            method=release.method,
            variant=release.variant,
            parameters=release.parameters,
            options=release.options,
            claimed=release.claimed,
            proven=release.proven,
            owners=owners,
            log=release.log,
        )

    @classmethod
    def in_folder(cls, folder: str | os.PathLike[str], name: str | None = None) -> Target:
        """Load a release folder, compared with its card first; the name is the folder's if None."""
        place = path_of("release", folder, "name the folder of a release")
        loaded = cls.of(load(place), name or place.resolve().name)
        return replace(loaded, digest=card_digest(place), folder=place)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes of searches in its tables: those by which its log was read."""
        read = self.log.get("attributes") or ()
        return tuple(name for name in read if any(name in table.schema.names for table in self.cells.values()))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its tables."""
        return tuple(self.tables)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""
        return {kind: tuple(table.schema.names) for kind, table in self.tables.items()}

    def table(self, kind: str) -> pa.Table:
        """A whole table in memory; keys without a count, or with a null, count one each."""
        table = whole_table(kind, self.tables[kind])
        if kind == "log":
            return table
        if "count" in table.column_names:
            place = table.column_names.index("count")
            return table.set_column(place, "count", table["count"].fill_null(1))
        return table.append_column("count", pa.repeat(pa.scalar(1, pa.int64()), table.num_rows))

    def batches(self, kind: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of a table, a batch at a time; a null among counts is 1."""
        for batch in batches_of(self.tables[kind]):
            some = batch.select(list(columns))
            if "count" in columns and some["count"].null_count:
                some = some.set_column(columns.index("count"), "count", some["count"].fill_null(1))
            yield some

    def texts(self) -> Iterator[pa.ChunkedArray]:
        """All queries in its tables, and phrases that are whole queries, a piece at a time, repeats included."""
        for rows in (
            in_pieces(self.batches("phrases", ["phrase", "begins", "ends"])) if "phrases" in self.tables else ()
        ):
            yield rows.filter(pc.and_(rows["begins"], rows["ends"]))["phrase"]
        for kind, names in self.columns.items():
            if kind in OF_DRAWS:
                continue
            for column in ("query", "next_query", "queries"):
                for rows in in_pieces(self.batches(kind, [column])) if column in names else ():
                    values = rows.column(0)
                    yield pc.list_flatten(values) if pa.types.is_list(values.type) else values

    def without_names(self) -> str | None:
        """Reason why nobody can be singled out by name; None if rows under a name are one person's."""
        if "log" not in self.tables:
            return NO_NAMES
        return None if self.rows.is_personal else MADE_UP


def named_apart(targets: Sequence[Target], *taken: str) -> list[Target]:
    """The targets, with a number after the name of each whose name an earlier one has, or which is taken."""
    used, apart = set(taken), []
    for each in targets:
        name, number = each.name, 2
        while name in used:
            name, number = f"{each.name}-{number}", number + 1
        used.add(name)
        apart.append(replace(each, name=name))
    return apart


def without_cells(kind: str, table: Table) -> Table:
    """A table of keys summed over attributes and ranks; the count of viewed pairs is their clickers."""
    names = table.schema.names
    if kind == "phrases":
        return summed_phrases(table)
    if kind == "log" and "session" in names:
        return rows_of_records(whole_table(kind, table))
    key = [name for name in ("query", "url") if name in names]
    if kind not in ("queries", "clicks") or set(names) <= {*key, "count"}:
        return table
    whole = whole_table(kind, table)
    number = next((name for name in ("count", "clickers") if name in names), None)
    if number is None:
        return whole.select(key).group_by(key).aggregate([]).sort_by([(name, "ascending") for name in key])
    counts = pc.max_element_wise(whole[number].fill_null(0 if number == "clickers" else 1), 0)
    summed = whole.select(key).append_column("count", counts).group_by(key).aggregate([("count", "sum")])
    summed = summed.select([*key, "count_sum"]).rename_columns([*key, "count"])
    summed = summed.filter(pc.greater(summed["count"], 0))
    return summed.sort_by([("count", "descending"), *((name, "ascending") for name in key)])


def rows_of_records(records: pa.Table) -> pa.Table:
    """Records of sessions as rows of a log: a session is a user, results that were not clicked are left out.

    Times are the day and, in seconds, the place of a search in its session.
    """
    session, query = (
        records[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in ("session", "query")
    )
    begins = np.ones(len(session), np.bool_)
    begins[1:] = session[1:] != session[:-1]
    asks = begins.copy()
    asks[1:] |= query[1:] != query[:-1]
    search = np.cumsum(asks) - 1
    clicked = records["clicked"].to_numpy()
    clicks = np.bincount(search, clicked, search.max(initial=-1) + 1)
    kept = clicked | (asks & (clicks[search] == 0))
    first = np.maximum.accumulate(np.where(begins, search, 0))
    days = pc.strptime(records["day"], "%Y-%m-%d", "us").to_numpy()
    times = pa.array(days + (search - first).astype("timedelta64[s]"), pa.timestamp("us"))
    urls = pc.if_else(records["clicked"], records["url"], pa.scalar(None, pa.string()))
    rows = pa.table({"user": records["session"], "query": records["query"], "url": urls, "time": times})
    return rows.filter(pa.array(kept))


def in_pieces(batches: Iterable[pa.RecordBatch], rows: int = _ROWS_AT_ONCE) -> Iterator[pa.Table]:
    """The batches in larger pieces: Arrow hashes what it looks up anew at every call."""
    waiting: list[pa.RecordBatch] = []
    number = 0
    for batch in batches:
        waiting.append(batch)
        number += batch.num_rows
        if number >= rows:
            yield pa.Table.from_batches(waiting)
            waiting, number = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)
