"""Tables whose keys follow from released queries: pairs of queries, and reformulations (sessions.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.engines import Engine
from querycloak.logs.reformulations import ALL_WORDS, KINDS, OF_WORDS, reformulations
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.sequences import pairs_of_steps, session_steps
from querycloak.methods.keys.contribution_bounding import first_keys
from querycloak.methods.keys.public_keys import PublicKeys, release_public
from querycloak.methods.keys.thresholded import KeyCounts, by_key, by_noisy_count
from querycloak.methods.method import Drawn
from querycloak.methods.sessions.public_plans import PublicPlans, reach_of_pairs, reach_of_reformulations
from querycloak.privacy.calibration.public_counts import PublicPlan, lowest_cut, quiet_cut
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.tables import Table

PAIR, CELL = ("query", "next_query"), ("kind", "word")
PAIRS, REFORMULATIONS = "sessions", "reformulations"
QUERIES_OF_SESSION = 32
"""Number of different released queries of a session that count: pairs grow with its square."""


@dataclass(frozen=True)
class PublicTables:
    """Steps of sessions in the engine, to be counted once queries are released."""

    engine: Engine
    steps: ir.Table
    cells: ir.Table | None
    """Users' reformulations; None if that table is not asked for."""
    plans: PublicPlans
    repeats: bool
    counted: bool
    """Whether pairs are published with counts."""

    @classmethod
    def of(
        cls, log: SearchLog, gap_minutes: float, plans: PublicPlans, *, repeats: bool, counted: bool
    ) -> PublicTables:
        """Read the steps of sessions, once for all plans."""
        steps, cells = _kept(log, gap_minutes, cells=REFORMULATIONS in plans.tables)
        return cls(log.engine, steps, cells, plans, repeats, counted)

    def draw(self, released: Mapping[str, Table], randomness: Randomness) -> Drawn:
        """Draw the tables; released: the tables that were drawn before, within the same budget."""
        queries = released_queries(released)
        plans, reason = self.plans.given(queries)
        names = queries["query"].combine_chunks()
        tables: dict[str, Table] = {}
        parameters: dict[str, Any] = {}
        reach = {}
        if PAIRS in self.plans.tables:
            drawn = self._drawn_pairs(names, plans.get(PAIRS), randomness)
            tables[PAIRS] = self.as_lists(drawn.table)
            parameters |= {"pairs_cut": drawn.cut, "pairs_left_out": reason}
            reach[PAIRS] = (
                self.plans.nothing_drawn(reason, counted=self.counted)
                if reason is not None
                else reach_of_pairs(plans[PAIRS], drawn.cut or 0, drawn.keys, counted=self.counted)
            )
        if REFORMULATIONS in plans:
            drawn = self._drawn_cells(names, plans[REFORMULATIONS], randomness)
            tables[REFORMULATIONS] = drawn.table
            parameters["words_cut"] = drawn.cut
            reach[REFORMULATIONS] = reach_of_reformulations(plans[REFORMULATIONS], drawn.cut, drawn.keys)
        return Drawn(tables, "public-keys", parameters=parameters, reach=reach)

    def pairs(self, names: pa.Array, plan: PublicPlan) -> tuple[KeyCounts, PublicKeys]:
        """Counts of pairs of these queries, and all pairs."""
        among = self.engine.upload(pa.table({"query": names}))
        pairs = pairs_of_steps(self.steps, among, QUERIES_OF_SESSION, repeats=self.repeats)
        bounded = first_keys(pairs, PAIR, plan.per_user)
        return KeyCounts.of(self.engine, bounded, PAIR), self.pairs_of(names)

    def pairs_of(self, names: pa.Array) -> PublicKeys:
        """All pairs of these queries."""
        return PublicKeys({"query": names, "next_query": names}, different=not self.repeats)

    def cells_of(self, names: pa.Array, plan: PublicPlan) -> tuple[IntArray, KeyCounts, PublicKeys]:
        """Counts of whole kinds, counts of the words of these queries by kind, and all words by kind."""
        if self.cells is None:
            raise TypeError("reformulations were not read; this is a bug in querycloak")
        words = pa.concat_arrays([words_of(names), pa.array([ALL_WORDS], pa.string())])
        listed = self.engine.upload(pa.table({"word": words}))
        bounded = self.engine.stage(first_keys(self.cells.semi_join(listed, "word"), CELL, plan.per_user))
        whole = bounded.filter(bounded.word == ALL_WORDS)
        totals = self.engine.fetch(whole.group_by("kind").agg(n=whole.count()))
        numbers = dict(zip(totals["kind"].to_pylist(), totals["n"].to_pylist(), strict=True))
        counts = KeyCounts.of(self.engine, bounded.filter(bounded.word != ALL_WORDS), CELL)
        return np.array([numbers.get(kind, 0) for kind in KINDS]), counts, self.words_by_kind(names)

    def words_by_kind(self, names: pa.Array) -> PublicKeys:
        """All words of these queries, by each kind that names a word."""
        return PublicKeys({"kind": pa.array(OF_WORDS, pa.string()), "word": words_of(names)})

    def _drawn_pairs(self, names: pa.Array, plan: PublicPlan | None, randomness: Randomness) -> AboveCut:
        if plan is None:
            return AboveCut(self.pairs_of(names).none, None, 0)
        counts, public = self.pairs(names, plan)
        return above_cut(counts, public, plan, randomness)

    def _drawn_cells(self, names: pa.Array, plan: PublicPlan, randomness: Randomness) -> AboveCut:
        totals, counts, public = self.cells_of(names, plan)
        noisy = totals + randomness.noise(plan.noise, totals.size)
        words = above_cut(counts, public, plan, randomness)
        return AboveCut(with_kinds(noisy, words.table), words.cut, words.keys)

    def as_lists(self, pairs: pa.Table) -> pa.Table:
        """Pairs as lists of two queries, with their counts if these are published."""
        pairs = pairs if self.counted else by_key(pairs, PAIR)
        both = pa.concat_arrays([pairs[name].combine_chunks() for name in PAIR])
        order = np.arange(2 * pairs.num_rows).reshape(2, -1).T.ravel()
        offsets = pa.array(np.arange(pairs.num_rows + 1) * 2, pa.int32())
        lists = pa.ListArray.from_arrays(offsets, both.take(pa.array(order)))
        return pa.table({"queries": lists, **({"count": pairs["count"]} if self.counted else {})})


@dataclass(frozen=True)
class AboveCut:
    """Rows above a cut; cut: None if nothing was drawn. keys: the number of public keys."""

    table: pa.Table
    cut: int | None
    keys: int


def above_cut(counts: KeyCounts, public: PublicKeys, plan: PublicPlan, randomness: Randomness) -> AboveCut:
    """Draw a noisy count for every public key, zeros included, and keep the rows above the quiet cut."""
    if public.size == 0:
        return AboveCut(public.none, None, 0)
    drawn = release_public(counts, public, plan.noise, lowest_cut(plan.noise, public.size), randomness)
    cut = quiet_cut(drawn["count"].to_numpy(), plan.noise, public.size)
    return AboveCut(drawn.filter(pc.greater(drawn["count"], cut)), cut, public.size)


def with_kinds(noisy: IntArray, words: pa.Table) -> pa.Table:
    """A row for each whole kind, and the rows of words; a count below 1 is null."""
    kinds = pa.table({"kind": pa.array(KINDS, pa.string()), "word": pa.array([ALL_WORDS] * len(KINDS), pa.string())})
    counts = np.concatenate([noisy, words["count"].to_numpy()])
    return by_noisy_count(pa.concat_tables([kinds, words.select(CELL)]), counts, CELL)


def released_queries(tables: Mapping[str, Table], by: Sequence[str] = ()) -> pa.Table:
    """query and count of all released queries, in order of text; counts of a query's clicks are added up.

    by: first columns of the tables, such as a run, that keep queries apart.
    """
    key = [*by, "query"]
    numbers = {name: pa.array([], pa.int64()) for name in by}
    parts = [pa.table({**numbers, "query": pa.array([], pa.string()), "count": pa.array([], pa.int64())})]
    for table in tables.values():
        whole = table if isinstance(table, pa.Table) else pa.Table.from_batches(list(table), table.schema)
        counts = whole["count"].fill_null(1) if "count" in whole.column_names else pa.nulls(whole.num_rows, pa.int64())
        each = pa.table({**{name: whole[name] for name in key}, "count": counts})
        parts.append(each.group_by(key).aggregate([("count", "sum")]).rename_columns([*key, "count"]))
    together = pa.concat_tables(parts).group_by(key).aggregate([("count", "max")])
    return together.rename_columns([*key, "count"]).sort_by([(name, "ascending") for name in key])


def words_of(queries: pa.Array) -> pa.Array:
    """The distinct words of these queries, in order of text."""
    words = pc.list_flatten(pc.split_pattern(queries, " ")).unique()
    words = words.filter(pc.not_equal(words, ""))
    return words.take(pc.sort_indices(words))


def _kept(log: SearchLog, gap_minutes: float, *, cells: bool) -> tuple[ir.Table, ir.Table | None]:
    steps_name, cells_name = ("session steps", gap_minutes), ("reformulations", gap_minutes)
    if steps_name not in log.kept:
        log.kept[steps_name] = log.engine.stage(session_steps(log.asked, gap_minutes))
    if cells and cells_name not in log.kept:
        log.kept[cells_name] = log.engine.stage(reformulations(log.kept[steps_name]))
    return log.kept[steps_name], log.kept[cells_name] if cells else None
