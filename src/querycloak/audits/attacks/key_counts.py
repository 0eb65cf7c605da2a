"""Published counts beside the true ones, with the contribution of each person after the method's bounds.

The attacker of differential privacy knows everybody else's rows and the method: all but the noise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.audits.audit_data import AuditData, Numbers, rows_of_users
from querycloak.evaluation.released_cells import OUTCOMES, CellsOfCard, cells_table, places_of
from querycloak.evaluation.target import Target
from querycloak.language.word_model import BEGIN, END
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.sequences import (
    first_sessions,
    once_per_sequence,
    pairs_of_steps,
    session_queries,
    session_steps,
    subsequences,
)
from querycloak.methods.keys.cell_counts import with_values
from querycloak.methods.keys.contribution_bounding import first_keys, first_records, once_per_key
from querycloak.methods.phrases.counted_levels import without_marks
from querycloak.methods.phrases.levels import KEY as PHRASE
from querycloak.methods.phrases.levels import contributions, level_of, number_of_levels, uses_of_words
from querycloak.releases.tables import whole_table

Floats = NDArray[np.float64]
KEYS = {"queries": ("query",), "clicks": ("query", "url"), "sessions": ("queries",)}
_GAP_MINUTES, _LONGEST_SESSION, _LONGEST_PHRASE = 30.0, 3, 3
_BETWEEN = "\x1f"


@dataclass(frozen=True)
class Contributions:
    """Pairs (person i of a sample, key k): person i adds 1 to the count of key k."""

    person: Numbers
    key: Numbers


@dataclass(frozen=True, eq=False)
class TestedKeys:
    """Published counts, true counts, and the contributions of the attacked people to them."""

    published: Floats
    true: Floats
    members: Contributions
    controls: Contributions


@dataclass(frozen=True)
class CountBounds:
    """Contribution bounds of a user: the first keys of all, then the first of those released; None for no bound."""

    of_all: int | None = None
    of_released: int | None = None


def key_counts(release: Target, knowledge: AuditData) -> Iterator[TestedKeys]:
    """Counts of each table; rows under names count once per name and query."""
    for kind in KEYS:
        cells = _cells(release, knowledge, kind)
        if cells is not None:
            counts, keys = cells
            yield CountedTable(release, kind, keys).tested(knowledge, counts)
        elif kind in release.tables and "count" in release.columns[kind]:
            yield CountedTable(release, kind).tested(knowledge, _table(release, kind))
    if "phrases" in release.tables and "count" in release.columns["phrases"]:
        cells = _cells(release, knowledge, "phrases")
        if cells is not None and cells[1].most is not None:
            yield CountedTable(release, "phrases", cells[1]).tested(knowledge, cells[0])
        else:
            yield from _of_levels(release, knowledge, () if cells is None else cells[1].card.grouping.private)
    if "log" in release.tables and not {*KEYS, "phrases"} & set(release.tables):
        if "count" in release.columns["log"]:
            rows = pa.Table.from_batches(release.batches("log", ["query", "url", "count"]))
            summed = rows.filter(pc.is_valid(rows["url"])).group_by(["query", "url"]).aggregate([("count", "sum")])
            counts = summed.rename_columns(["query", "url", "count"])
            yield CountedTable(release, "clicks").tested(knowledge, counts)
        else:
            yield _of_names(release, knowledge)


def _of_levels(release: Target, knowledge: AuditData, private: Sequence[str]) -> Iterator[TestedKeys]:
    """Published phrases, level by level: a user's contributions to a level are bounded by themselves (phrases.md).

    private: attributes that are columns of each key; without them, phrases are summed over what they have.
    """
    longest = int(release.parameters.get("longest", _LONGEST_PHRASE))
    tables = release.cells if private else release.tables
    table = without_marks(whole_table("phrases", tables["phrases"]).drop_columns(["words"]))
    if not table.num_rows:
        return
    table = table.set_column(table.column_names.index("count"), "count", table["count"].fill_null(1))
    tokens = pc.add(pc.count_substring(table["phrase"], " "), 1).to_numpy()
    marks = sum(pc.count_substring(table["phrase"], mark).to_numpy() for mark in (BEGIN, END))
    levels = np.array([level_of(n, m, longest) for n, m in zip(tokens - marks, marks, strict=True)], np.int64)
    for level in range(1, number_of_levels(longest) + 1):
        keys, below = (table.filter(pa.array(levels == each)).combine_chunks() for each in (level, level - 1))
        known = Level(level, longest, below if level > 1 else None, tuple(private))
        yield CountedTable(release, f"level-{level}", known).tested(knowledge, keys)


class Level(NamedTuple):
    """A level of phrases, and what came out below it; None for the first."""

    number: int
    longest: int
    below: pa.Table | None
    private: tuple[str, ...]
    """Attributes that are columns of each key."""

    @property
    def key(self) -> list[str]:
        """Columns of a key."""
        return [*PHRASE, *self.private]

    def contributions(self, log: SearchLog, rows: ir.Table) -> ir.Table:
        """user, key and earliest of the level's candidates in these rows."""
        engine = log.engine
        asked = with_values(rows.select("user", "time", "query", *self.private), self.private)
        searches = engine.stage(once_per_key(asked, ("query", *self.private)))
        uses = uses_of_words(engine, searches, self.private)
        below = None if self.below is None else engine.upload(self.below.select(self.key))
        return contributions(engine, uses, self.number, self.longest, below, self.private)


class CellKeys(NamedTuple):
    """Keys by attributes and ranks (cells.md): what the attacker knows of everybody includes the attributes."""

    kind: str
    card: CellsOfCard
    keys: pa.Table
    most: int | None
    """Cells of a user that count; None without public attributes and views: then keys are bounded, as elsewhere."""
    viewed: bool

    def contributions(self, log: SearchLog, rows: ir.Table) -> ir.Table:
        """user, key, within and earliest of the cells that the users of these rows add to."""
        key = self.card.key(self.kind)
        own = self.card.rows(log, self.kind, viewed=self.viewed).semi_join(rows.select("user").distinct(), "user")
        cells = self.card.cells(log, own, self.kind, viewed=self.viewed, released=self.keys)
        if self.kind == "phrases":  # short ones first; `within` of other kinds has ranks, too
            blanks = (cells.phrase.length() - cells.phrase.replace(" ", "").length()).cast("int64")
            cells = cells.mutate(within=cells.cell, blanks=blanks)
            key = ["blanks", *key]
        if self.most is not None:  # of keys that came out, as far as a row tells of them
            came_out = cells.semi_join(log.engine.upload(self.keys), self.card.key(self.kind))
            cells = first_keys(came_out, [*key, "cell"], self.most)
        return cells.select("user", *self.card.key(self.kind), "earliest", within=cells.within)


def _cells(release: Target, knowledge: AuditData, kind: str) -> tuple[pa.Table, CellKeys] | None:
    """A table by attributes or ranks with the numbers of its cells; None if it is none, or a log lacks attributes."""
    table = cells_table(release.cells, kind, release.parameters)
    if table is None:
        return None
    card, viewed = CellsOfCard.of(release.parameters, release.log), "ranks" in table.column_names
    if any(card.unsupported_reason(log, viewed=viewed) for log in (knowledge.train, knowledge.control)):
        return None
    key, most = card.key(kind), release.parameters.get("cells_per_user")
    keys = table.select(key).group_by(key).aggregate([])
    places = places_of(table, card.grouping.cells(card.period), viewed=viewed)
    if not viewed:
        counted = table.select(key).append_column("within", places).append_column("count", table["count"].fill_null(1))
    else:
        # `viewers` is the sum of two numbers with noise of their own: those who clicked, and those who did not.
        clicked = table["clickers"].fill_null(0)
        numbers = [pc.subtract(table["viewers"], clicked), clicked]
        outcomes = [
            table.select(key)
            .append_column("within", pc.add(pc.multiply(places, OUTCOMES), outcome))
            .append_column("count", number)
            for outcome, number in enumerate(numbers)
        ]
        counted = pa.concat_tables(outcomes)
    return counted, CellKeys(kind, card, keys, most if isinstance(most, int) else None, viewed)


def _of_names(release: Target, knowledge: AuditData) -> TestedKeys:
    """Names per query, of the queries that the people attacked asked."""
    published = np.diff(knowledge.holders_in(release).starts)
    # What is left out has no count; taken for a count of 0, it would look like noise in all others.
    out = np.flatnonzero(published > 0)
    place = np.full(len(published), -1)
    place[out] = np.arange(len(out))
    sides = []
    for people in (knowledge.members, knowledge.controls):
        released = place[people.query] >= 0
        sides.append(Contributions(people.person[released], place[people.query[released]]))
    return TestedKeys(published[out].astype(np.float64), knowledge.text_users[out].astype(np.float64), *sides)


def _table(release: Target, kind: str) -> pa.Table:
    columns = [*KEYS[kind], "count"]
    return pa.Table.from_batches(
        release.batches(kind, columns), pa.schema([release.tables[kind].schema.field(name) for name in columns])
    )


@dataclass(frozen=True)
class CountedTable:
    """A table of a release, as an attacker counts it; keys: None for whole keys that users contribute once each."""

    release: Target
    kind: str
    keys: Level | CellKeys | None = None

    @property
    def key(self) -> list[str]:
        """Columns of a key."""
        if isinstance(self.keys, CellKeys):
            return [*self.keys.card.key(self.kind), "within"]
        return list(KEYS[self.kind]) if self.keys is None else self.keys.key

    def tested(self, knowledge: AuditData, table: pa.Table) -> TestedKeys:
        """Published and true counts of the keys of this table."""
        if self.kind == "sessions":
            table = table.set_column(0, "queries", _joined(table["queries"].combine_chunks()))
        published = table["count"].to_numpy().astype(np.float64)
        keys = table.select(self.key).append_column("k", pa.array(np.arange(table.num_rows)))
        candidates = [(bounds, self._true(knowledge.train, keys, bounds)) for bounds in self._bounds()]
        # Which bound the counts obey shows in how well they fit.
        bounds, true = min(candidates, key=lambda each: float(np.var(published - each[1])) if len(published) else 0.0)
        members = self._sampled(knowledge.train, keys, bounds, knowledge.member_sample)
        controls = self._sampled(knowledge.control, keys, bounds, knowledge.control_sample)
        return TestedKeys(published, true, members, controls)

    def _true(self, log: SearchLog, keys: pa.Table, bounds: CountBounds) -> Floats:
        added = self._added(log, log.rows, keys, bounds)
        counted = log.engine.fetch(added.group_by("k").agg(n=added.count()))
        true = np.zeros(keys.num_rows)
        true[counted["k"].to_numpy()] = counted["n"].to_numpy()
        return true

    def _sampled(self, log: SearchLog, keys: pa.Table, bounds: CountBounds, users: pa.Array) -> Contributions:
        # Bounds are each person's own: nobody else's rows are needed.
        added = log.engine.fetch(self._added(log, rows_of_users(log, users), keys, bounds))
        person = pc.index_in(added["user"], users).to_numpy().astype(np.int64)
        return Contributions(person, added["k"].to_numpy().astype(np.int64))

    def _added(self, log: SearchLog, rows: ir.Table, keys: pa.Table, bounds: CountBounds) -> ir.Table:
        """user and k: every 1 that these rows add to a published count."""
        if self.keys is None and self.release.variant == "paper" and self.kind == "clicks" and bounds.of_all:
            contributed = first_records(rows.filter(rows.url.notnull()), bounds.of_all)
        else:
            contributed = self._contributed(log, rows)
            contributed = contributed if bounds.of_all is None else first_keys(contributed, self.key, bounds.of_all)
        released = contributed.inner_join(log.engine.upload(keys), self.key)
        if bounds.of_released is not None:
            released = first_keys(released, self.key, bounds.of_released)
        return released.select("user", "k")

    def _contributed(self, log: SearchLog, rows: ir.Table) -> ir.Table:
        """user, key and earliest of all that these rows may add, before any bound."""
        if self.keys is not None:
            return self.keys.contributions(log, rows)
        if self.kind == "sessions":
            return _sequences(self.release, rows)
        asked = rows.filter(rows.url.notnull()) if self.kind == "clicks" else rows.select("user", "time", "query")
        return once_per_key(asked, KEYS[self.kind])

    def _bounds(self) -> list[CountBounds]:
        """No bound, and the bounds that the card names: a card may be anybody's."""
        if isinstance(self.keys, CellKeys) and self.keys.most is not None:
            return [CountBounds()]  # cells are bounded where they are counted
        own = self.release.parameters.get(self.kind)
        parameters = {**self.release.parameters, **(own if isinstance(own, Mapping) else {})}
        names = {"queries": ("queries_per_user", "per_user"), "sessions": ("sequences_per_user",)}.get(
            self.kind, ("clicks_per_user", "per_user")
        )
        of_all = next((parameters[name] for name in names if isinstance(parameters.get(name), int)), None)
        of_released = parameters.get("counted_per_user")
        if self.kind == "sessions" and parameters.get("sequences") == "released":
            of_released = parameters.get("pairs_per_user")
        of_released = of_released if isinstance(of_released, int) else None
        named = [] if of_all is None and of_released is None else [CountBounds(of_all, of_released)]
        return [CountBounds(), *named]


def _sequences(release: Target, rows: ir.Table) -> ir.Table:
    parameters = release.parameters
    if parameters.get("sequences") == "released":  # of released queries only: these are joined with pairs later
        steps = session_steps(rows, float(parameters.get("gap_minutes", _GAP_MINUTES)))
        pairs = pairs_of_steps(steps, steps.select("query").distinct(), _LONGEST_SESSION, repeats=True)
        return pairs.select("user", "earliest", queries=ibis.literal("2") + pairs.query + _BETWEEN + pairs.next_query)
    most = int(parameters.get("queries_per_session", _LONGEST_SESSION))
    sessions = session_queries(rows, float(parameters.get("gap_minutes", _GAP_MINUTES)), most)
    counted = parameters.get("sessions_per_user")
    bounded = sessions if not isinstance(counted, int) else first_sessions(sessions, counted)
    return once_per_sequence(subsequences(bounded, most, escape=False, repeats=parameters.get("repeats") != "drop"))


def _joined(lists: pa.Array) -> pa.Array:
    """Lists as `logs.sequences` writes them: one text each, its length first."""
    lengths = pc.binary_join_element_wise(pc.cast(pc.list_value_length(lists), pa.string()), "", "")
    return pc.binary_join_element_wise(lengths, pc.binary_join(lists, _BETWEEN), "")
