"""The three noisy tables of the default variant: pairs, associations among them, pairs per user (optimal.md).

After this module nothing reads the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from querycloak.methods.noiseless import Noiseless, Past, Step
from querycloak.methods.optimal.holdings import KEY
from querycloak.methods.optimal.plan import SyntheticPlan
from querycloak.methods.runs import RUN, DrawnRuns, RepeatedDraw, numbered, runs_alike
from querycloak.privacy.calibration.histogram import noisy_counts
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.releases.row_kinds import RowKind

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.method import Optimal
    from querycloak.privacy.sampling.randomness import Randomness


@dataclass(frozen=True)
class BoundedPairs(RepeatedDraw, Noiseless):
    """What each user adds, in the engine."""

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

    def draw_runs(self, randomness: Randomness, runs: int) -> DrawnRuns:
        """Noisy tables of all runs, then made-up users for each."""
        tables = draw_tables_of_runs(self.engine, self.contributions, self.plan, randomness, runs)
        made = [numbered(self.method.made_up(each, randomness), run) for run, each in enumerate(tables)]
        return DrawnRuns(runs, {"log": pa.concat_tables(made)})

    def steps(self, past: Past) -> Sequence[Step]:
        """Counts of pairs; of pairs per user and of associations among those that are supposed to have come out."""
        return steps_of(self.engine, self.contributions, self.plan, past)


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
    return _with_links_and_sizes(engine, contributions, [pairs], budget, randomness)[0]


def draw_tables_of_runs(
    engine: Engine, contributions: ir.Table, budget: SyntheticPlan, randomness: Randomness, runs: int
) -> list[NoisyTables]:
    """The tables of several independent runs; those in which the same pairs come out in one order are drawn at once."""
    weighing = WeightedSelection.of(engine, contributions, KEY, budget.pairs, kept=True)
    drawn = weighing.release(randomness, runs).table.combine_chunks()
    bounds = np.searchsorted(drawn[RUN].to_numpy(), np.arange(runs + 1))
    released = drawn.drop_columns([RUN])
    made: dict[int, NoisyTables] = {}
    for _, alike in runs_alike(drawn, KEY, runs):
        pairs = [released.slice(bounds[run], bounds[run + 1] - bounds[run]) for run in alike.tolist()]
        tables = _with_links_and_sizes(engine, contributions, pairs, budget, randomness)
        made.update(zip(alike.tolist(), tables, strict=True))
    return [made[run] for run in range(runs)]


def _with_links_and_sizes(
    engine: Engine, contributions: ir.Table, pairs: list[pa.Table], budget: SyntheticPlan, randomness: Randomness
) -> list[NoisyTables]:
    """The tables of runs that differ in the counts of their pairs, and in nothing else."""
    nothing = np.zeros(0, dtype=np.int64)
    if pairs[0].num_rows == 0:
        none = np.zeros(budget.counted_per_user, dtype=np.int64)
        return [NoisyTables(each, nothing, nothing, nothing, none) for each in pairs]
    held = held_pairs(engine, contributions, pairs[0], budget.counted_per_user)
    sizes = noisy_counts(pairs_per_user(engine, held, budget), budget.size_noise, randomness, runs=len(pairs))
    links = [(nothing, nothing, nothing)] * len(pairs)
    if budget.link_noise is not None and budget.link_threshold is not None:
        counts = KeyCounts.of(engine, linked_pairs(engine, held, budget.linked_per_user), LINK)
        found = release_keys(counts, budget.link_noise, budget.link_threshold, randomness, runs=len(pairs)).table
        links = _links_by_run(found, len(pairs))
    return [NoisyTables(each, *links[run], sizes[run]) for run, each in enumerate(pairs)]


def _links_by_run(found: pa.Table, runs: int) -> list[tuple[IntArray, IntArray, IntArray]]:
    first, second = (found[name].cast(pa.int64()).to_numpy() for name in LINK)
    count, bounds = found["count"].to_numpy(), np.searchsorted(found[RUN].to_numpy(), np.arange(runs + 1))
    slices = [slice(*bounds[run : run + 2]) for run in range(runs)]
    return [(first[some], second[some], count[some]) for some in slices]


def held_pairs(engine: Engine, contributions: ir.Table, pairs: pa.Table, most: int) -> ir.Table:
    """User and place of the released pairs that a user is counted for: the first ones, as where they are counted."""
    places = pa.array(np.arange(pairs.num_rows))
    released = engine.upload(pairs.select(KEY).append_column("pair", places))
    return engine.stage(first_keys(contributions.inner_join(released, list(KEY)), KEY, most).select("user", "pair"))


def pairs_per_user(engine: Engine, held: ir.Table, budget: SyntheticPlan) -> IntArray:
    """How many users hold 1, 2, ... of the released pairs (private)."""
    each = held.group_by("user").agg(size=held.count())
    counted = engine.fetch(each.group_by("size").agg(users=each.count()))
    true = np.zeros(budget.counted_per_user, dtype=np.int64)
    true[counted["size"].to_numpy() - 1] = counted["users"].to_numpy()
    return true


def linked_pairs(engine: Engine, held: ir.Table, most: int) -> ir.Table:
    """Every two of the pairs that a user holds, of those that come first in the released table."""
    window = ibis.window(group_by=held.user, order_by=held.pair)
    numbered = held.mutate(place=ibis.row_number().over(window))
    linked = engine.stage(numbered.filter(numbered.place < most).select("user", "pair"))
    other = linked.view()
    both = linked.join(other, [linked.user == other.user, linked.pair < other.pair])
    return both.select(first=linked.pair.cast("string"), second=other.pair.cast("string"))


def steps_of(engine: Engine, contributions: ir.Table, budget: SyntheticPlan, past: Past) -> list[Step]:
    """What the three tables add noise to, given which pairs are supposed to have come out (private)."""
    weighed = WeightedSelection.of(engine, contributions, KEY, budget.pairs, kept=True).steps(past)
    steps = [replace(step, name=f"pairs: {step.name}") for step in weighed]
    released = engine.fetch(contributions.select(*KEY).distinct()).sort_by([(name, "ascending") for name in KEY])
    names = ["\t".join(key.values()) for key in released.to_pylist()]
    kept = [past.came_out(name) for name in names]
    held = held_pairs(engine, contributions, released.filter(pa.array(kept, pa.bool_())), budget.counted_per_user)
    names = [name for name, stays in zip(names, kept, strict=True) if stays]
    sizes = pairs_per_user(engine, held, budget).tolist()
    steps.append(Step("pairs per user", {f"{size}": n for size, n in enumerate(sizes, 1)}, 1, 1, 1, budget.size_noise))
    if budget.link_noise is not None:
        links = KeyCounts.of(engine, linked_pairs(engine, held, budget.linked_per_user), LINK).numbers()
        told = {" with ".join(names[int(place)] for place in link.split("\t")): n for link, n in links.items()}
        most = budget.links_per_user
        steps.append(Step("associations", told, most, most, 1, budget.link_noise, budget.link_threshold))
    return steps
