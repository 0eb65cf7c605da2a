"""The three noisy tables of the default variant: pairs, associations among them, pairs per user (optimal.md).

After this module nothing reads the log.
"""

from __future__ import annotations

from dataclasses import dataclass

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.clicked import clicks_of
from querycloak.methods.keys.contribution_bounding import once_per_key
from querycloak.methods.keys.thresholded import KeyCounts, release_keys
from querycloak.methods.optimal.paper.holdings import KEY
from querycloak.methods.optimal.synthetic.plan import SyntheticPlan
from querycloak.privacy.chance.randomness import IntArray, Randomness
from querycloak.privacy.prices.histogram import noisy_counts

LINK = ("first", "second")


@dataclass(frozen=True, eq=False)
class NoisyTables:
    """What the mechanism released; a link names two pairs by their places in `pairs`, the smaller first.

    sizes: how many users hold 1, 2, ... released pairs, with noise and so possibly below zero.
    """

    pairs: pa.Table
    first: IntArray
    second: IntArray
    link_count: IntArray
    sizes: IntArray

    @property
    def count(self) -> IntArray:
        """The noisy count of each pair."""
        counts: IntArray = self.pairs["count"].to_numpy().astype(np.int64)
        return counts


def bounded(log: SearchLog, per_user: int) -> ir.Table:
    """Each user's first pairs, once each, kept in the engine."""
    return log.engine.stage(once_per_key(clicks_of(log), KEY, per_user).select("user", *KEY))


def draw_tables(engine: Engine, contributions: ir.Table, budget: SyntheticPlan, randomness: Randomness) -> NoisyTables:
    """Pairs first; the other two tables look only at pairs that came out."""
    counts = KeyCounts.of(engine, contributions.select(*KEY), KEY)
    pairs = release_keys(counts, budget.pair_noise, budget.pair_threshold, randomness).table.combine_chunks()
    nothing = np.zeros(0, dtype=np.int64)
    if pairs.num_rows == 0:
        return NoisyTables(pairs, nothing, nothing, nothing, np.zeros(budget.per_user, dtype=np.int64))
    held = _held(engine, contributions, pairs)
    sizes = _sizes(engine, held, budget, randomness)
    first = second = link_count = nothing
    if budget.link_noise is not None and budget.link_threshold is not None:
        links = KeyCounts.of(engine, _links(engine, held, budget.linked_per_user), LINK)
        found = release_keys(links, budget.link_noise, budget.link_threshold, randomness).table
        first, second = (found[name].cast(pa.int64()).to_numpy() for name in LINK)
        link_count = found["count"].to_numpy()
    return NoisyTables(pairs, first, second, link_count, sizes)


def _held(engine: Engine, contributions: ir.Table, pairs: pa.Table) -> ir.Table:
    """User and place of every released pair that a user kept."""
    places = pa.array(np.arange(pairs.num_rows))
    released = engine.upload(pairs.select(KEY).append_column("pair", places))
    return engine.stage(contributions.inner_join(released, list(KEY)).select("user", "pair"))


def _sizes(engine: Engine, held: ir.Table, budget: SyntheticPlan, randomness: Randomness) -> IntArray:
    each = held.group_by("user").agg(size=held.count())
    counted = engine.fetch(each.group_by("size").agg(users=each.count()))
    true = np.zeros(budget.per_user, dtype=np.int64)
    true[counted["size"].to_numpy() - 1] = counted["users"].to_numpy()
    noisy: IntArray = noisy_counts(true, budget.size_noise, randomness)[0]
    return noisy


def _links(engine: Engine, held: ir.Table, most: int) -> ir.Table:
    """Every two of the pairs that a user holds, of those that come first in the released table."""
    window = ibis.window(group_by=held.user, order_by=held.pair)
    numbered = held.mutate(place=ibis.row_number().over(window))
    linked = engine.stage(numbered.filter(numbered.place < most).select("user", "pair"))
    other = linked.view()
    both = linked.join(other, [linked.user == other.user, linked.pair < other.pair])
    return both.select(first=linked.pair.cast("string"), second=other.pair.cast("string"))
