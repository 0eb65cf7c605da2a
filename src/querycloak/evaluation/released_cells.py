"""Cells of a release beside the true users of each: keys by attributes, and by ranks where views are counted (private).

Noise falls hardest on small groups, so errors are also told apart by the values of each attribute and by the number of
users who have a value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.evaluation.task import Numbers
from querycloak.logs.choices import PERIODS, Choices, microseconds
from querycloak.logs.reading.schema import microseconds_of
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.attributes import Grouping, PublicCells, grouping_of
from querycloak.methods.keys.cell_counts import RANKS, ranked_views, users_cells, with_cell, with_values
from querycloak.releases.tables import Table, whole_table

MOST_VALUES = 20
"""Attributes with more values are told apart by the size of their groups alone."""
OUTCOMES = 2


@dataclass(frozen=True)
class Group:
    """Values of an attribute, by name or by how many users have them."""

    name: str
    rows: np.ndarray[tuple[int], np.dtype[np.bool_]]
    """True for rows of the release with such a value."""
    volume: int
    """Pairs of user and cell that the log has there."""


@dataclass(frozen=True)
class CountedCells:
    """Published numbers of cells and their true users; the numbers of cells of the log by their users; groups."""

    published: Numbers
    true: Numbers
    users: Numbers
    cells: Numbers
    groups: tuple[Group, ...]


def cells_table(tables: Mapping[str, Table], kind: str, parameters: Mapping[str, Any]) -> pa.Table | None:
    """A released table by attributes or ranks, with counts; None if it is neither."""
    table = tables.get(kind)
    if table is None or kind not in ("queries", "clicks"):
        return None
    names = table.schema.names
    if not parameters.get("by") and "ranks" not in names:
        return None
    return whole_table(kind, table) if {"count", "viewers"} & set(names) else None


@dataclass(frozen=True)
class CellsOfCard:
    """Attributes, domains and period of a release, by its card."""

    grouping: Grouping
    period: Choices

    @classmethod
    def of(cls, parameters: Mapping[str, Any], read: Mapping[str, Any]) -> CellsOfCard:
        """From the parameters, and from what the card says of the log."""
        since, until = (
            None if read.get(name) is None else datetime.fromisoformat(read[name]) for name in ("since", "until")
        )
        return cls(grouping_of(parameters.get("by"), parameters.get("domain_of")), Choices(since, until))

    def key(self, kind: str) -> list[str]:
        """Columns of a key, private attributes among them."""
        return ["query", *(["url"] if kind == "clicks" else []), *self.grouping.private]

    def unsupported_reason(self, log: SearchLog, *, viewed: bool) -> str | None:
        """Reason that the true users of cells are unknown; None if they are known."""
        lacking = [name for name in self.grouping.attributes if name not in log.attributes]
        if lacking:
            return f"TRAIN was read without {', '.join(lacking)}, which its cells have: name the attributes"
        if self._by_period and (self.period.since is None or self.period.until is None):
            return "its card does not say from when to when its log was"
        return "TRAIN does not say which results were shown" if viewed and not log.holds_views else None

    @property
    def _by_period(self) -> bool:
        return bool(set(self.grouping.by) & set(PERIODS))

    def rows(self, log: SearchLog, kind: str, *, viewed: bool) -> ir.Table:
        """The rows that cells are counted of, within the period."""
        rows = ranked_views(log) if viewed else log.clicks if kind == "clicks" else log.rows
        if self._by_period and self.period.since is not None and self.period.until is not None:
            time = microseconds_of(rows.time)
            rows = rows.filter((time >= microseconds(self.period.since)) & (time < microseconds(self.period.until)))
        return with_values(rows, self.grouping.private)


def counted_cells(log: SearchLog, kind: str, table: pa.Table, card: CellsOfCard) -> CountedCells:
    """The released cells of a table beside the log's own."""
    viewed, grouping = "ranks" in table.column_names, card.grouping
    public = grouping.cells(card.period)
    key = card.key(kind)
    rows = card.rows(log, kind, viewed=viewed)
    users = users_cells(log.engine, rows, key, public, viewed=viewed)
    users = users.mutate(place=users.within // OUTCOMES) if viewed else users.mutate(place=users.cell)
    truth = log.engine.stage(users.group_by([*key, "place"]).agg(n=users.count()))
    number = "viewers" if viewed else "count"
    released = table.select([*key, number]).append_column("place", places_of(table, public, viewed=viewed))
    released = released.append_column("row", pa.array(np.arange(table.num_rows)))
    uploaded = log.engine.upload(released.drop_columns([number]))
    joined = log.engine.fetch(uploaded.left_join(truth, [*key, "place"]).select("row", "n")).sort_by("row")
    sizes = log.engine.fetch(truth.group_by("n").agg(cells=truth.count())).sort_by("n")
    groups = [
        group
        for name in grouping.by
        for group in _groups(log, rows, truth, table, name, grouping, public, viewed=viewed)
    ]
    return CountedCells(
        _whole(table[number]), _whole(joined["n"]), _whole(sizes["n"]), _whole(sizes["cells"]), tuple(groups)
    )


def places_of(table: pa.Table, public: PublicCells, *, viewed: bool) -> pa.Array:
    """The number of each row's public cell and, with views, of its bin of ranks."""
    place = np.zeros(table.num_rows, np.int64)
    for axis, stride in zip(public.axes, public.strides(), strict=True):
        place += _whole(pc.index_in(table[axis.name], pa.array(axis.values))) * stride
    if viewed:
        place = place * len(RANKS) + _whole(pc.index_in(table["ranks"], pa.array(RANKS)))
    return pa.array(place)


def _groups(
    log: SearchLog,
    rows: ir.Table,
    truth: ir.Table,
    table: pa.Table,
    name: str,
    grouping: Grouping,
    public: PublicCells,
    *,
    viewed: bool,
) -> Iterator[Group]:
    """The values of an attribute: each where there are few, then by the decade of their users."""
    if name in grouping.private:
        users, volume = rows.select("user", value=rows[name]), truth.select("n", value=truth[name])
    else:
        place = [axis.name for axis in public.axes].index(name)
        size, stride = len(public.axes[place].values), public.strides()[place]
        placed = with_cell(log.engine, rows, public)
        users = placed.select("user", value=placed.cell // stride % size)
        volume = truth.select("n", value=truth.place // (len(RANKS) if viewed else 1) // stride % size)
    people = log.engine.fetch(users.group_by("value").agg(users=users.user.nunique())).sort_by("value")
    volumes = log.engine.fetch(volume.group_by("value").agg(n=volume.n.sum())).sort_by("value")
    values = people["value"].combine_chunks()
    if name not in grouping.private:
        values = pa.array(public.axes[place].values).take(values)
    number, volume_of = _whole(people["users"]), _whole(volumes["n"])
    value = pc.fill_null(pc.index_in(table[name], values), -1).to_numpy().astype(np.int64)
    if len(values) <= MOST_VALUES:
        for at, text in enumerate(values.to_pylist()):
            yield Group(f"{name}={text}", value == at, int(volume_of[at]))
    sizes = np.append(number, 0)[value]
    for low in (10**power for power in range(len(str(number.max(initial=0))))):
        within = (number >= low) & (number < 10 * low)
        if within.any():
            rows_of_size = (value >= 0) & (sizes >= low) & (sizes < 10 * low)
            yield Group(f"{name} of {low}-{10 * low - 1} users", rows_of_size, int(volume_of[within].sum()))


def _whole(column: pa.ChunkedArray | pa.Array) -> Numbers:
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), np.int64)
