"""Counts of cells: of keys that came out, by public attributes and ranks; and without keys (proof: cells.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError
from querycloak.logs.choices import PERIODS
from querycloak.logs.reading.schema import microseconds_of
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.attributes import DAY, OTHER, Axis, Grouping, PublicCells
from querycloak.methods.keys.cell_plan import LAST_RANK, CellPlan
from querycloak.methods.keys.contribution_bounding import first_keys, first_records, once_per_key
from querycloak.methods.keys.thresholded import by_count
from querycloak.methods.method import Counted, Drawn
from querycloak.privacy.calibration.histogram import release
from querycloak.privacy.calibration.public_counts import public_cut
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.tables import Table

RANKS = ("1", "2", "3", "4-5", "6-10", "11+")
_LAST_OF_BIN = (1, 2, 3, 5, 10)
_OUTCOMES = 2  # of a view: not clicked, clicked
_RANKS_IN_PLACE = 1024  # `earliest` is time and rank in one number


def check_attributes(log: SearchLog, grouping: Grouping) -> None:
    """Refuse a log that was read without the attributes."""
    lacking = [name for name in grouping.attributes if name not in log.attributes]
    if lacking:
        raise ParameterError.of(
            "{by} has {names}, and the log was read without: name them with {attributes}", names=", ".join(lacking)
        )


def with_values(rows: ir.Table, names: Sequence[str]) -> ir.Table:
    """The rows, with `other` for attributes that are missing."""
    return rows.mutate(**{name: rows[name].fill_null(OTHER) for name in names}) if names else rows


def with_cell(engine: Engine, rows: ir.Table, cells: PublicCells) -> ir.Table:
    """The rows, each with the number of its public cell."""
    cell: ir.Value = ibis.literal(0, "int64")
    for axis, stride in zip(cells.axes, cells.strides(), strict=True):
        if axis.name in PERIODS:
            number = _period_number(rows, axis)
        else:
            rows = _with_code(engine, rows, axis)
            number = rows[f"_{axis.name}_code"].fill_null(len(axis.values) - 1)
        rows = rows.mutate(**{f"_{axis.name}_part": number.cast("int64") * stride})
    for axis in cells.axes:
        cell = cell + rows[f"_{axis.name}_part"]
    return rows.mutate(cell=cell.cast("int64"))


def _period_number(rows: ir.Table, axis: Axis) -> ir.Value:
    days = microseconds_of(rows.time) // DAY
    if axis.name == "day":
        return days - axis.first
    if axis.name == "week":
        return (days + 3) // 7 - axis.first
    return rows.time.year() * 12 + rows.time.month() - 1 - axis.first


def _with_code(engine: Engine, rows: ir.Table, axis: Axis) -> ir.Table:
    """The number of each row's value, null outside the domain; letters may be small or large.

    No attribute has a name that begins with an underscore, such as those of the columns that this adds.
    """
    codes: dict[str, int] = {}
    for spelled in (str.lower, str.upper, str):
        codes |= {spelled(value): code for code, value in enumerate(axis.values[:-1])}
    table = pa.table(
        {f"_{axis.name}_value": list(codes), f"_{axis.name}_code": pa.array(list(codes.values()), pa.int64())}
    )
    known = engine.upload(table)
    return rows.left_join(known, rows[axis.name] == known[f"_{axis.name}_value"])


@dataclass(frozen=True)
class KeyCells:
    """Cells of keys: public attributes and, if views are counted, the bin of a rank and its outcome."""

    public: PublicCells
    key: tuple[str, ...]
    by: tuple[str, ...]
    viewed: bool

    @property
    def width(self) -> int:
        """The number of cells of a key."""
        return self.public.size * (len(RANKS) * _OUTCOMES if self.viewed else 1)

    def named(self, keys: pa.Table, key: IntArray, cell: IntArray) -> pa.Table:
        """Keys and attributes of rows, in the order of the columns; `cell` is the public one."""
        columns = {name: keys[name].take(pa.array(key)) for name in self.key}
        for axis, values in zip(self.public.axes, _values_of(self.public, cell), strict=True):
            columns[axis.name] = values
        base = [name for name in self.key if name not in self.by]
        return pa.table({name: columns[name] for name in (*base, *self.by)})

    def counted(self, keys: pa.Table, counts: CellCounts, noise: Noise, randomness: Randomness) -> pa.Table:
        """The cells whose noisy count exceeds the public cut."""
        total = keys.num_rows * self.width
        printed, noisy = _above(counts, total, noise, public_cut(noise, total), randomness)
        table = self.named(keys, printed // self.width, printed % self.width)
        return by_count(table.append_column("count", pa.array(noisy)), table.column_names)

    def viewers(self, keys: pa.Table, counts: CellCounts, noise: Noise, randomness: Randomness) -> pa.Table:
        """The bins of which clickers, or viewers who did not click, exceed the public cut; both numbers of them."""
        total, bins = keys.num_rows * self.width, len(RANKS)
        cut = public_cut(noise, total)
        printed, noisy = _above(counts, total, noise, cut, randomness)
        rows = np.unique(printed // _OUTCOMES)
        numbers, known = np.zeros((rows.size, _OUTCOMES), np.int64), np.zeros((rows.size, _OUTCOMES), np.bool_)
        at = (np.searchsorted(rows, printed // _OUTCOMES), printed % _OUTCOMES)
        numbers[at], known[at] = noisy, True
        missing = np.nonzero(~known)
        true = counts.of(rows[missing[0]] * _OUTCOMES + missing[1])
        numbers[missing] = at_most(true, cut, noise, randomness)
        table = self.named(keys, rows // (self.public.size * bins), rows // bins % self.public.size)
        table = table.append_column("ranks", pa.array(RANKS).take(pa.array(rows % bins)))
        names = table.column_names
        table = table.append_column("viewers", pa.array(np.maximum(numbers, 0).sum(axis=1)))
        table = table.append_column("clickers", pa.array(numbers[:, 1], mask=numbers[:, 1] < 0))
        return table.sort_by([("viewers", "descending"), *((name, "ascending") for name in names)])


@dataclass(frozen=True)
class CellCounts:
    """Numbers (key x width + cell) of the cells that users hold, in order, and their counts."""

    ids: IntArray
    counts: IntArray

    def of(self, wanted: IntArray) -> IntArray:
        """Counts of these cells, 0 where nobody holds one."""
        if not self.ids.size:
            return np.zeros(wanted.size, np.int64)
        at = np.minimum(np.searchsorted(self.ids, wanted), self.ids.size - 1)
        return np.where(self.ids[at] == wanted, self.counts[at], 0)

    def between(self, first: int, end: int) -> CellCounts:
        """The counts of keys from `first` up to, not including, `end`; `first` becomes 0."""
        low, high = np.searchsorted(self.ids, [first, end])
        return CellCounts(self.ids[low:high] - first, self.counts[low:high])


@dataclass(frozen=True)
class CellsOfKeys:
    """Keys that wait to be selected, and the cells of each user, in the engine."""

    base: Counted
    table: str
    of_keys: KeyCells
    engine: Engine
    users: ir.Table
    plan: CellPlan
    views: ir.Table | None = None
    """First views of each user; None if results shown are not counted."""

    def draw(self, randomness: Randomness) -> Drawn:
        """Select keys, then draw every cell of those that came out."""
        drawn = self.base.draw(randomness)
        selected, key = drawn.tables[self.table], list(self.of_keys.key)
        if not isinstance(selected, pa.Table):
            raise TypeError("selected keys come as a table in memory")
        keys = selected.select(key).sort_by([(name, "ascending") for name in key])
        counts = bounded_cells(self.engine, self.users, keys, key, self.of_keys.width, self.plan.per_user)
        if self.views is None:
            tables = {self.table: self.of_keys.counted(keys, counts, self.plan.noise, randomness)}
        else:
            tables = {
                self.table: self.of_keys.viewers(keys, counts, self.plan.noise, randomness),
                "positions": _positions(self.engine, self.views, self.plan, randomness),
            }
        return with_cells(drawn, self.plan, tables)


def with_cells(drawn: Drawn, plan: CellPlan, tables: Mapping[str, Table]) -> Drawn:
    """A draw that selected keys, with the tables of their cells: the noise of cells is a draw of its own."""
    draws = None if drawn.draws is None else [*drawn.draws, plan.draw()]
    return replace(drawn, tables=tables, counts="cells", reach={}, draws=draws)


def bounded_cells(
    engine: Engine, users: ir.Table, keys: pa.Table, key: Sequence[str], width: int, most: int
) -> CellCounts:
    """Counts of each user's first cells of these keys.

    users: user, key, `cell` (the public one), `within` (its place among all cells of a key) and `earliest`.
    """
    numbered = keys.append_column("k", pa.array(np.arange(keys.num_rows)))
    mine = users.inner_join(engine.upload(numbered), list(key)).select("user", "k", "cell", "within", "earliest")
    return first_cells(engine, mine, width, most)


def first_cells(engine: Engine, mine: ir.Table, width: int, most: int) -> CellCounts:
    """Counts of each user's first cells: user, `k` (the number of a key), `cell`, `within` and `earliest`."""
    first = first_keys(mine, ["k", "cell"], most)
    first = first.mutate(id=first.k * width + first.within)
    counts = engine.fetch(first.group_by("id").agg(n=first.count())).sort_by("id")
    return CellCounts(counts["id"].to_numpy().astype(np.int64), counts["n"].to_numpy().astype(np.int64))


def at_most(true: IntArray, cut: int, noise: Noise, randomness: Randomness) -> IntArray:
    """Noisy counts under the condition that they do not exceed the cut."""
    numbers = np.full(true.size, cut + 1, np.int64)
    waiting = np.arange(true.size)
    while waiting.size:
        numbers[waiting] = true[waiting] + randomness.noise(noise, waiting.size)
        waiting = waiting[numbers[waiting] > cut]
    return numbers


def _above(counts: CellCounts, total: int, noise: Noise, cut: int, randomness: Randomness) -> tuple[IntArray, IntArray]:
    """Numbers and noisy counts of the cells that exceed the cut; cells that nobody holds are drawn sparsely."""
    ids = counts.ids
    if not total:
        return ids, counts.counts
    drawn = release(counts.counts, noise, cut, randomness, zeros=total - ids.size)
    empty = drawn.key >= ids.size
    place = drawn.key[empty] - ids.size
    # The place-th number that is not among the ids.
    others = place + np.searchsorted(ids - np.arange(ids.size), place, side="right")
    numbers = np.concatenate([ids[drawn.key[~empty]], others])
    noisy = np.concatenate([drawn.count[~empty], drawn.count[empty]])
    order = np.argsort(numbers, kind="stable")
    return numbers[order], noisy[order]


def _values_of(cells: PublicCells, cell: IntArray) -> list[pa.Array]:
    return [
        pa.array(axis.values).take(pa.array(cell // stride % len(axis.values)))
        for axis, stride in zip(cells.axes, cells.strides(), strict=True)
    ]


def users_cells(engine: Engine, rows: ir.Table, key: Sequence[str], cells: PublicCells, *, viewed: bool) -> ir.Table:
    """Each user's keys and cells once, with `within`: the cell, or with `viewed` the cell, the bin and the outcome."""
    placed = with_cell(engine, rows, cells)
    if not viewed:
        once = once_per_key(placed, [*key, "cell"])
        return once.mutate(within=once.cell)
    earliest = microseconds_of(placed.time) * _RANKS_IN_PLACE + placed["rank"].clip(lower=0, upper=_RANKS_IN_PLACE - 1)
    seen = placed.select("user", *key, "cell", "clicked", earliest=earliest)
    once = seen.group_by(["user", *key, "cell"]).agg(
        earliest=seen.earliest.min(), clicked=seen.clicked.cast("int64").max()
    )
    rank = once.earliest % _RANKS_IN_PLACE
    place: ir.Value = ibis.literal(0, "int64")
    for last in _LAST_OF_BIN:
        place = place + (rank > last).cast("int64")
    within = (once.cell * len(RANKS) + place) * _OUTCOMES + once.clicked
    return once.mutate(within=within.cast("int64")).drop("clicked")


def ranked_views(log: SearchLog) -> ir.Table:
    """The results shown at a known rank; a log that cannot say what was shown is refused."""
    if not log.holds_views:
        raise InputError.of(
            "this log does not say which results were shown: name a column with {columns}, clicked=... or shown=..."
        )
    views = log.views
    return views.filter(views["rank"].notnull() & (views["rank"] >= 1))


def first_views(views: ir.Table, most: int) -> ir.Table:
    """Each user's first views at the ranks of `positions`."""
    shown = views.filter(views["rank"] <= LAST_RANK)
    # Views before each moment of a user leave few views to put in order.
    moments = shown.group_by(["user", "time"]).agg(number=shown.count().cast("int64"))
    so_far = ibis.window(group_by=moments.user, order_by=moments.time, preceding=None, following=0)
    moments = moments.mutate(before=moments.number.sum().over(so_far).cast("int64") - moments.number)
    early = moments.filter(moments.before < most).select("user", "time")
    return first_records(shown.semi_join(early, ["user", "time"]), most)


def _positions(engine: Engine, views: ir.Table, plan: CellPlan, randomness: Randomness) -> pa.Table:
    """Views and clicks by rank, with noise."""
    counted = engine.fetch(views.group_by(["rank", "clicked"]).agg(n=views.count()))
    true = np.zeros((LAST_RANK, _OUTCOMES), np.int64)
    ranks, outcomes = counted["rank"].to_numpy() - 1, pc.cast(counted["clicked"], pa.int64()).to_numpy()
    true[ranks, outcomes] = counted["n"].to_numpy()
    if plan.event_noise is None:
        raise TypeError("a plan of positions has noise for events")
    noisy = true + randomness.noise(plan.event_noise, true.size).reshape(true.shape)
    clicks = noisy[:, 1]
    views_of_rank = np.maximum(noisy, 0).sum(axis=1)
    return pa.table(
        {
            "rank": pa.array(np.arange(1, LAST_RANK + 1), pa.int32()),
            "views": pa.array(views_of_rank, mask=(noisy < 0).all(axis=1)),
            "clicks": pa.array(clicks, mask=clicks < 0),
        }
    )


@dataclass(frozen=True)
class CellsAlone:
    """Searches and users by public cell, without keys."""

    searches: NDArray[np.int64]
    users: NDArray[np.int64]
    cells: PublicCells
    plan: CellPlan

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw two numbers for every cell."""
        if self.plan.event_noise is None:
            raise TypeError("a plan of cells alone has noise for searches")
        columns = dict(
            zip(
                (axis.name for axis in self.cells.axes), _values_of(self.cells, np.arange(self.cells.size)), strict=True
            )
        )
        for name, true, noise in (
            ("searches", self.searches, self.plan.event_noise),
            ("users", self.users, self.plan.noise),
        ):
            noisy = true + randomness.noise(noise, true.size)
            columns[name] = pa.array(noisy, mask=noisy < 0)
        return Drawn({"cells": pa.table(columns)}, counts="cells")


def count_cells(log: SearchLog, grouping: Grouping, plan: CellPlan) -> CellsAlone:
    """Count each user's first searches, and the user's first cells, by cell."""
    check_attributes(log, grouping)
    cells = grouping.cells(log.source.choices)
    searches = log.engine.stage(with_cell(log.engine, log.searches, cells).select("user", "time", "query", "cell"))
    first = first_records(searches, plan.events)
    counts = log.engine.fetch(first.group_by("cell").agg(n=first.count()))
    users = first_keys(once_per_key(searches, ["cell"]), ["cell"], plan.per_user)
    people = log.engine.fetch(users.group_by("cell").agg(n=users.count()))
    return CellsAlone(_dense(counts, cells.size), _dense(people, cells.size), cells, plan)


def _dense(counts: pa.Table, size: int) -> NDArray[np.int64]:
    dense = np.zeros(size, np.int64)
    dense[counts["cell"].to_numpy()] = pc.cast(counts["n"], pa.int64()).to_numpy()
    return dense
