"""Cells of a release beside the true users of each: keys by attributes, and by ranks where views are counted (private).

Noise falls hardest on small groups, so errors are also told apart by the values of each attribute and by the number of
users who have a value. True users of a key are all of them, or those within a method's bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.evaluation.task import Numbers
from querycloak.logs import sequences
from querycloak.logs.choices import PERIODS, Choices, microseconds
from querycloak.logs.reading.schema import MINUTE, microseconds_of, pause_before
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.attributes import Grouping, PublicCells, grouping_of
from querycloak.methods.keys.cell_counts import RANKS, ranked_views, users_cells, with_values
from querycloak.methods.keys.contribution_bounding import first_keys, once_per_key
from querycloak.methods.keys.public_lists import BUILT_IN
from querycloak.methods.keys.public_priors import with_prior
from querycloak.methods.phrases.counted_levels import without_marks
from querycloak.methods.phrases.levels import KEY as PHRASE
from querycloak.methods.phrases.phrase_cells import cells_in_rows
from querycloak.releases.tables import Table, whole_table
from querycloak.text.english import public_phrases

MOST_VALUES = 20
"""Largest number of values of an attribute; beyond it only the sizes of its groups are compared."""
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
    """A released table by attributes or ranks, with counts, phrases as tokens; None if it is neither."""
    table = tables.get(kind)
    if table is None or kind not in ("queries", "clicks", "phrases"):
        return None
    names = table.schema.names
    if not parameters.get("by") and "ranks" not in names:
        return None
    if not {"count", "viewers"} & set(names):
        return None
    return without_marks(whole_table(kind, table)) if kind == "phrases" else whole_table(kind, table)


@dataclass(frozen=True)
class CellsOfCard:
    """Attributes, domains and period of a release, by its card."""

    grouping: Grouping
    period: Choices
    longest: int = 3
    """Largest number of words of a phrase."""

    @classmethod
    def of(cls, parameters: Mapping[str, Any], read: Mapping[str, Any]) -> CellsOfCard:
        """From the parameters, and from what the card says of the log."""
        since, until = (
            None if read.get(name) is None else datetime.fromisoformat(read[name]) for name in ("since", "until")
        )
        grouping = grouping_of(parameters.get("by"), parameters.get("domain_of"))
        return cls(grouping, Choices(since, until), int(parameters.get("longest") or cls.longest))

    def key(self, kind: str) -> list[str]:
        """Columns of a key, private attributes among them."""
        return [*({"phrases": PHRASE} | KEYS)[kind], *self.grouping.private]

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

    def cells(
        self, log: SearchLog, rows: ir.Table, kind: str, *, viewed: bool, released: pa.Table | None = None
    ) -> ir.Table:
        """Keys and cells of the users of these rows, once each; released: of phrases these alone."""
        public = self.grouping.cells(self.period)
        if kind != "phrases":
            return users_cells(log.engine, rows, self.key(kind), public, viewed=viewed)
        among = None if released is None else log.engine.upload(released)
        return cells_in_rows(log.engine, rows, self.grouping.private, public, self.longest, among)


def counted_cells(log: SearchLog, kind: str, table: pa.Table, card: CellsOfCard) -> CountedCells:
    """The released cells of a table beside the log's own."""
    viewed, grouping = "ranks" in table.column_names, card.grouping
    public = grouping.cells(card.period)
    key = card.key(kind)
    users, truth = _true_cells(log, kind, card, viewed=viewed)
    number = "viewers" if viewed else "count"
    released = table.select([*key, number]).append_column("place", places_of(table, public, viewed=viewed))
    released = released.append_column("row", pa.array(np.arange(table.num_rows)))
    uploaded = log.engine.upload(released.drop_columns([number]))
    joined = log.engine.fetch(uploaded.left_join(truth, [*key, "place"]).select("row", "n")).sort_by("row")
    sizes = log.engine.fetch(truth.group_by("n").agg(cells=truth.count())).sort_by("n")
    groups = [
        group
        for name in grouping.by
        for group in _groups(log, users, truth, table, name, grouping, public, viewed=viewed)
    ]
    return CountedCells(
        whole_numbers(table[number]),
        whole_numbers(joined["n"]),
        whole_numbers(sizes["n"]),
        whole_numbers(sizes["cells"]),
        tuple(groups),
    )


def _true_cells(log: SearchLog, kind: str, card: CellsOfCard, *, viewed: bool) -> tuple[ir.Table, ir.Table]:
    """Each user's keys and cells, once; and the users of each. Releases that differ in their budgets share them."""
    key, public = card.key(kind), card.grouping.cells(card.period)
    name = ("true cells", kind, tuple(key), public, viewed, card.period, card.longest)
    if (name, "users") not in log.kept:
        users = card.cells(log, card.rows(log, kind, viewed=viewed), kind, viewed=viewed)
        users = users.mutate(place=users.within // OUTCOMES) if viewed else users.mutate(place=users.cell)
        users = log.engine.stage(users.select("user", *key, "cell", "place"))
        log.kept[name, "users"] = users
        log.kept[name, "cells"] = log.engine.stage(users.group_by([*key, "place"]).agg(n=users.count()))
    return log.kept[name, "users"], log.kept[name, "cells"]


def places_of(table: pa.Table, public: PublicCells, *, viewed: bool) -> pa.Array:
    """The number of each row's public cell and, with views, of its bin of ranks."""
    place = np.zeros(table.num_rows, np.int64)
    for axis, stride in zip(public.axes, public.strides(), strict=True):
        place += whole_numbers(pc.index_in(table[axis.name], pa.array(axis.values))) * stride
    if viewed:
        place = place * len(RANKS) + whole_numbers(pc.index_in(table["ranks"], pa.array(RANKS)))
    return pa.array(place)


def _groups(
    log: SearchLog,
    cells: ir.Table,
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
        users, volume = cells.select("user", value=cells[name]), truth.select("n", value=truth[name])
    else:
        place = [axis.name for axis in public.axes].index(name)
        size, stride = len(public.axes[place].values), public.strides()[place]
        users = cells.select("user", value=cells.cell // stride % size)
        volume = truth.select("n", value=truth.place // (len(RANKS) if viewed else 1) // stride % size)
    people = log.engine.fetch(users.group_by("value").agg(users=users.user.nunique())).sort_by("value")
    volumes = log.engine.fetch(volume.group_by("value").agg(n=volume.n.sum())).sort_by("value")
    values = people["value"].combine_chunks()
    if name not in grouping.private:
        values = pa.array(public.axes[place].values).take(values)
    number, volume_of = whole_numbers(people["users"]), whole_numbers(volumes["n"])
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


def whole_numbers(column: pa.ChunkedArray | pa.Array) -> Numbers:
    """A column as an array; null is 0."""
    return np.asarray(pc.fill_null(column.cast(pa.int64()), 0).to_numpy(), np.int64)


KEYS = {
    "queries": ("query",), "clicks": ("query", "url"), "transitions": ("query", "next_query"), "sessions": ("queries",),
}  # fmt: skip
"""The columns of a key; a sequence of queries is one text, as `logs.sequences` writes it."""
GAP_MINUTES = 30.0


def true_users(log: SearchLog, kind: str, parameters: Mapping[str, Any]) -> ir.Table:
    """The key's columns and `n`, its users, without any bound; of sequences those of two different queries."""
    contributions = _contributions(log, kind, parameters)
    return contributions.group_by(list(KEYS[kind])).agg(n=contributions.count())


def depends_on(kind: str, parameters: Mapping[str, Any]) -> tuple[object, ...]:
    """Parameters of a method that decide the true users of its keys."""
    gap = float(parameters.get("gap_minutes") or GAP_MINUTES)
    decides = {"sessions": (gap,), "transitions": (gap, _within_pool(parameters))}
    return (kind, *decides.get(kind, ()))


def unknown(kind: str, parameters: Mapping[str, Any]) -> str | None:
    """Reason that the true users of a kind of key are unknown; None if they are known."""
    if kind != "transitions" or _within_pool(parameters) or parameters.get("off_pool") or "pool" not in parameters:
        return None
    return "between two queries of a transition lies no other of the pool, and the owner's pool is not in the folder"


def _within_pool(parameters: Mapping[str, Any]) -> bool:
    return parameters.get("pool") == BUILT_IN and not parameters.get("off_pool")


def _contributions(log: SearchLog, kind: str, parameters: Mapping[str, Any]) -> ir.Table:
    """user and key, once each."""
    gap = float(parameters.get("gap_minutes") or GAP_MINUTES)
    if kind == "queries":
        return log.rows.select("user", "query").distinct()
    if kind == "clicks":
        return log.clicks.select("user", "query", "url").distinct()
    if kind == "sessions":
        return sequences.later_queries(log.sessions(gap), escape=not log.source.choices.normalise)
    return _transitions(log, gap, parameters)


def _transitions(log: SearchLog, gap_minutes: float, parameters: Mapping[str, Any]) -> ir.Table:
    """Two queries of a pool that one user asked with no other query of the pool between (query_pool.md)."""
    rows = log.rows
    if _within_pool(parameters):
        rows = rows.semi_join(log.engine.upload(public_phrases().select(["phrase"]).rename_columns(["query"])), "query")
    order = ibis.window(group_by=rows.user, order_by=[rows.time, rows.query])
    pause = pause_before(rows, [rows.time, rows.query])
    steps = rows.select("user", query=rows.query.lag().over(order), next_query=rows.query, pause=pause)
    near = steps.filter((steps.query != steps.next_query) & (steps.pause <= gap_minutes * MINUTE))
    return near.select("user", "query", "next_query").distinct()


class KeysOfMethod:
    """The keys of each user that a method counts, as far as its card determines them (`unsupported_reason`)."""

    def __init__(self, method: tuple[str, str], parameters: Mapping[str, Any]) -> None:
        self._method, self._parameters = method, parameters

    def unsupported_reason(self, kind: str) -> str | None:
        """Reason that the card does not determine which keys of users count; None if it does."""
        name, variant = self._method
        if variant == "paper":
            return "the paper's variant counts records, so a user may count several times"
        if "cells_per_user" in self._parameters:
            return "cells of users are bounded, not keys"
        if kind == "sessions" and self._parameters.get("sequences") == "released":
            return "of a user's pairs the first of released queries count, which the card alone does not tell"
        known = ("queries", "clicks", "sessions", "optimal", "k-anonymity", "affinity", "original")
        apart = bool(self._parameters.get("off_pool")) and "outside" in self._parameters
        of_pool = name == "query-pool" and kind == "queries" and not apart
        if name in known or (of_pool and self._parameters.get("pool") == BUILT_IN):
            return None
        return f"what {name} lets in of a user's {kind} does not follow from its card alone"

    def unbounded(self) -> bool:
        """True if all of a user's keys count."""
        return self._method[0] in ("k-anonymity", "affinity", "original")

    def same_as(self, kind: str) -> tuple[object, ...]:
        """Cache key: methods with equal keys let in the same keys of users."""
        decisive = (
            "per_user", "sequences_per_user", "queries_per_user", "queries_per_session", "gap_minutes", "priors",
            "repeats", "pool", "off_pool",
        )  # fmt: skip
        return (kind, *(self._parameters.get(name) for name in decisive))

    def counted(self, log: SearchLog, kind: str, contributions: ir.Table, released: pa.Table) -> ir.Table:
        """The key's columns and `n`, the users counted for it; `released` are the keys that came out."""
        key, most = list(KEYS[kind]), self._of(kind, "counted_per_user")
        contributions = contributions.semi_join(log.engine.upload(released.select(key)), key)
        if most is not None:
            contributions = first_keys(contributions, key, int(most))
        return contributions.group_by(key).agg(n=contributions.count())

    def _of(self, kind: str, name: str) -> Any:
        """A parameter: the table's own, or that of all tables."""
        own = self._parameters.get(kind)
        return own[name] if isinstance(own, Mapping) and name in own else self._parameters.get(name)

    def contributions(self, log: SearchLog, kind: str) -> ir.Table:
        """user, key and earliest time of the contributions within the bound."""
        key, bound = KEYS[kind], "sequences_per_user" if kind == "sessions" else "per_user"
        if kind == "queries" and "queries_per_user" in self._parameters:
            bound = "queries_per_user"
        if kind == "sessions":
            most = int(self._parameters["queries_per_session"])
            sessions = sequences.session_queries(log.rows, float(self._parameters["gap_minutes"]), most)
            # Cards of earlier versions do not name repeats, and sequences with them counted.
            repeats = self._parameters.get("repeats") != "drop"
            escape = not log.source.choices.normalise
            texts = sequences.subsequences(sessions, most, escape=escape, repeats=repeats)
            keys = sequences.once_per_sequence(texts)
        else:
            rows = log.clicks if kind == "clicks" else self._asked(log)
            keys = once_per_key(rows, key)
        if self._parameters.get("priors"):
            keys = with_prior(log.engine, keys, key[0])
        return first_keys(keys, key, int(self._parameters[bound]))

    def _asked(self, log: SearchLog) -> ir.Table:
        """Queries as the method takes them; of a pool, its own queries."""
        asked = log.rows.select("user", "time", "query")
        if self._method[0] != "query-pool" or self._parameters.get("off_pool"):
            return asked
        pool = public_phrases().select(["phrase"]).rename_columns(["query"])
        return asked.semi_join(log.engine.upload(pool), "query")
