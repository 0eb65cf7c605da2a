"""The noisy tables of the default variant: pairs, associations among them, pairs per user, the total (optimal.md).

After this module nothing reads the log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.clicked import clicks_of
from querycloak.methods.keys.contribution_bounding import first_keys, once_per_key
from querycloak.methods.keys.thresholded import KeyCounts, release_keys
from querycloak.methods.keys.weighted_selection import WeightedSelection
from querycloak.methods.method import DRAWN_TOTAL, Drawn
from querycloak.methods.optimal.holdings import KEY
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.optimal.plan import SyntheticPlan
from querycloak.privacy.calibration.histogram import noisy_counts
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.row_kinds import RowKind


@dataclass(frozen=True)
class BoundedPairs:
    """Contributions of each user, in the engine."""

    method: Optimal
    plan: SyntheticPlan
    engine: Engine
    contributions: ir.Table

    @classmethod
    def of(cls, method: Optimal, plan: SyntheticPlan, log: SearchLog) -> BoundedPairs:
        """Bound every user of the log."""
        return cls(method, plan, log.engine, bounded(log, plan.per_user))

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw the noisy tables; the log is not read after that."""
        tables = draw_tables(self.engine, self.contributions, self.plan, randomness)
        table = self.method.made_up(tables, randomness)
        return Drawn({"log": table}, "synthetic", RowKind.MADE_UP, tables.stated_total(table.num_rows))


LINK = ("first", "second")


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Released noisy tables; a link names two pairs by their places in `pairs`, the smaller first.

    sizes: numbers of users who hold 1, 2, ... released pairs, with noise and so possibly below zero.
    total: number of pairs that users hold, released or not, with noise; None if it was not asked for.
    """

    pairs: pa.Table
    first: IntArray
    second: IntArray
    link_count: IntArray
    sizes: IntArray
    total: int | None = None

    @property
    def count(self) -> IntArray:
        """The noisy count of each pair."""
        counts: IntArray = self.pairs["count"].fill_null(1).to_numpy().astype(np.int64)
        return counts

    @property
    def whole(self) -> int:
        """Denominator of supports: the total, or the sum of released counts if it is larger or there is no total."""
        released = int(np.maximum(self.count, 0).sum())
        return released if self.total is None else max(released, self.total)

    def stated_total(self, rows: int) -> dict[str, int]:
        """The total on the card, scaled by the rows of the release over the released counts; empty without a total."""
        if self.total is None:
            return {}
        released = int(np.maximum(self.count, 0).sum())
        return {DRAWN_TOTAL: -(-self.whole * rows // released) if released and rows else self.whole}


def bounded(log: SearchLog, per_user: int) -> ir.Table:
    """Each user's first distinct pairs, staged in the engine."""
    return log.engine.stage(once_per_key(clicks_of(log), KEY, per_user))


def draw_tables(engine: Engine, contributions: ir.Table, budget: SyntheticPlan, randomness: Randomness) -> NoisyTables:
    """Draw pairs first; then associations and sizes of released pairs, and the total of all pairs."""
    pairs = (
        WeightedSelection.of(engine, contributions, KEY, budget.pairs, kept=True)
        .release(randomness)
        .table.combine_chunks()
    )
    tables = _with_links_and_sizes(engine, contributions, pairs, budget, randomness)
    if budget.total_noise is None:
        return tables
    total = noisy_counts([pairs_in_all(engine, contributions)], budget.total_noise, randomness)
    return replace(tables, total=int(total[0, 0]))


def _with_links_and_sizes(
    engine: Engine, contributions: ir.Table, pairs: pa.Table, budget: SyntheticPlan, randomness: Randomness
) -> NoisyTables:
    """The tables that look at the pairs that came out."""
    first = second = link_count = np.zeros(0, dtype=np.int64)
    if pairs.num_rows == 0:
        return NoisyTables(pairs, first, second, link_count, np.zeros(budget.counted_per_user, dtype=np.int64))
    users = held_pairs(engine, contributions, pairs, budget.counted_per_user)
    sizes = noisy_counts(pairs_per_user(engine, users, budget), budget.size_noise, randomness)[0]
    if budget.link_noise is not None and budget.link_threshold is not None:
        counts = KeyCounts.of(engine, linked_pairs(engine, users, budget.linked_per_user), LINK)
        links = release_keys(counts, budget.link_noise, budget.link_threshold, randomness).table
        first, second = (links[name].cast(pa.int64()).to_numpy() for name in LINK)
        link_count = links["count"].to_numpy()
    return NoisyTables(pairs, first, second, link_count, sizes)


def pairs_in_all(engine: Engine, contributions: ir.Table) -> int:
    """Number of pairs that users hold, each user's bounded ones once each (private)."""
    return int(engine.fetch(contributions.aggregate(total=contributions.count()))["total"][0].as_py())


def held_pairs(engine: Engine, contributions: ir.Table, pairs: pa.Table, most: int) -> ir.Table:
    """User and place of the released pairs that a user is counted for: the first ones, as where they are counted."""
    places = pa.array(np.arange(pairs.num_rows))
    released = engine.upload(pairs.select(KEY).append_column("pair", places))
    return engine.stage(first_keys(contributions.inner_join(released, list(KEY)), KEY, most).select("user", "pair"))


def pairs_per_user(engine: Engine, contributions: ir.Table, budget: SyntheticPlan) -> IntArray:
    """Number of users who hold 1, 2, ... of the released pairs (private)."""
    each = contributions.group_by("user").agg(size=contributions.count())
    counted = engine.fetch(each.group_by("size").agg(users=each.count()))
    true = np.zeros(budget.counted_per_user, dtype=np.int64)
    true[counted["size"].to_numpy() - 1] = counted["users"].to_numpy()
    return true


def linked_pairs(engine: Engine, contributions: ir.Table, most: int) -> ir.Table:
    """Each user's associations: two of the user's pairs, among the first of the released table."""
    window = ibis.window(group_by=contributions.user, order_by=contributions.pair)
    numbered = contributions.mutate(place=ibis.row_number().over(window))
    linked = engine.stage(numbered.filter(numbered.place < most).select("user", "pair"))
    other = linked.view()
    both = linked.join(other, [linked.user == other.user, linked.pair < other.pair])
    return both.select(first=linked.pair.cast("string"), second=other.pair.cast("string"))
