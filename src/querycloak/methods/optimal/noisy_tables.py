"""The three noisy tables of the default variant: pairs, associations among them, pairs per user (optimal.md).

After this module nothing reads the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

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
from querycloak.methods.method import Drawn
from querycloak.methods.optimal.holdings import KEY
from querycloak.methods.optimal.plan import SyntheticPlan
from querycloak.privacy.calibration.histogram import noisy_counts
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.row_kinds import RowKind

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.method import Optimal
    from querycloak.privacy.sampling.randomness import Randomness


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
        return Drawn({"log": self.method.made_up(tables, randomness)}, counts="synthetic", rows=RowKind.MADE_UP)


LINK = ("first", "second")


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """Released noisy tables; a link names two pairs by their places in `pairs`, the smaller first.

    sizes: numbers of users who hold 1, 2, ... released pairs, with noise and so possibly below zero.
    """

    pairs: pa.Table
    first: IntArray
    second: IntArray
    link_count: IntArray
    sizes: IntArray

    @property
    def count(self) -> IntArray:
        """The noisy count of each pair."""
        counts: IntArray = self.pairs["count"].fill_null(1).to_numpy().astype(np.int64)
        return counts


def bounded(log: SearchLog, per_user: int) -> ir.Table:
    """Each user's first pairs, once each, kept in the engine."""
    return log.engine.stage(once_per_key(clicks_of(log), KEY, per_user))


def draw_tables(engine: Engine, contributions: ir.Table, budget: SyntheticPlan, randomness: Randomness) -> NoisyTables:
    """Pairs first; the other two tables look only at pairs that came out."""
    pairs = (
        WeightedSelection.of(engine, contributions, KEY, budget.pairs, kept=True)
        .release(randomness)
        .table.combine_chunks()
    )
    return _with_links_and_sizes(engine, contributions, pairs, budget, randomness)


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
    """Every two of the pairs that a user holds, of those that come first in the released table."""
    window = ibis.window(group_by=contributions.user, order_by=contributions.pair)
    numbered = contributions.mutate(place=ibis.row_number().over(window))
    linked = engine.stage(numbered.filter(numbered.place < most).select("user", "pair"))
    other = linked.view()
    both = linked.join(other, [linked.user == other.user, linked.pair < other.pair])
    return both.select(first=linked.pair.cast("string"), second=other.pair.cast("string"))
