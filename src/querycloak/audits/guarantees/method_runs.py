"""Many runs at once of querycloak's methods. Importing this module registers them with `draw_runs`.

Counts are those of a release; noise is drawn by the same samplers for all runs together. Tests hold that many runs have
the law of single draws.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.guarantees.phrase_levels import phrases_of_runs
from querycloak.audits.guarantees.public_runs import (
    above_of_public,
    public_tables_of_runs,
    sorted_counts,
    thresholded_of_runs,
)
from querycloak.audits.guarantees.runs import (
    RUN,
    DrawnRuns,
    StandIns,
    draw_runs,
    in_memory,
    numbered,
    of_all_runs,
    runs_alike,
    tables_of_runs_alike,
)
from querycloak.audits.guarantees.weighted_runs import UserKeys, weighted_runs
from querycloak.methods.keys.key_tables import KeyTables, UnboundedTables
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.partition_selection import ClicksOfKeys, KeysWithoutCounts, ThresholdedKeys
from querycloak.methods.keys.public_keys import PublicKeys
from querycloak.methods.keys.thresholded import KeyCounts, by_chance
from querycloak.methods.keys.weighted_selection import WeightedSelection
from querycloak.methods.optimal.holdings import KEY
from querycloak.methods.optimal.noisy_tables import (
    LINK,
    BoundedPairs,
    NoisyTables,
    held_pairs,
    linked_pairs,
    pairs_in_all,
    pairs_per_user,
)
from querycloak.methods.phrases.counted_levels import CountedLevels
from querycloak.methods.phrases.method import QUERIES, TABLE, Phrases
from querycloak.methods.query_pool.count import QUERY, Pooling, SelectingPooling
from querycloak.methods.semantic.searches import Histories, Searches
from querycloak.methods.sessions.public_tables import PublicTables
from querycloak.papers.hong2012 import SolvedPairs, sample_runs
from querycloak.papers.zhang2016_count import PaperPooling
from querycloak.privacy.calibration.bound_choice import UsersByKeys, choose_plans
from querycloak.privacy.calibration.histogram import noisy_counts, release
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import IntArray, Randomness

_COPY = ":"
Chosen = TypeVar("Chosen", bound=KeysMethod)


@draw_runs.register
def _(counted: KeyTables, randomness: Randomness, runs: int) -> DrawnRuns:
    return DrawnRuns(runs, _tables_of_runs(counted, randomness, runs))


def _tables_of_runs(counted: KeyTables, randomness: Randomness, runs: int) -> dict[str, pa.Table]:
    tables = {table: keys_of_runs(each, randomness, runs) for table, each in counted.counted.items()}
    if not isinstance(counted.later, PublicTables):
        return tables
    return {**tables, **public_tables_of_runs(counted.later, tables, randomness, runs)}


@draw_runs.register
def _(counted: UnboundedTables, randomness: Randomness, runs: int) -> DrawnRuns:
    """Choose for every run, then count at each bound that was chosen and draw for all of its runs."""
    methods, choosing = list(counted.candidates.values()), counted.budget.choosing
    return _of_chosen_plans(
        methods, counted.users_by_keys, choosing, randomness, runs,
        lambda method, number: _tables_of_runs(counted.counted_at(method), randomness, number),
    )  # fmt: skip


@draw_runs.register
def _(counted: CountedLevels, randomness: Randomness, runs: int) -> DrawnRuns:
    """Choose for every run if the plan is open, then draw levels for all runs of a plan."""
    methods = list(counted.methods.values())
    if counted.budget is None:
        return DrawnRuns(runs, tables_of_levels(counted, methods[0], randomness, runs))
    return _of_chosen_plans(
        methods, counted.users_by_keys, counted.budget.choosing, randomness, runs,
        lambda method, number: tables_of_levels(counted, method, randomness, number),
    )  # fmt: skip


def _of_chosen_plans(
    methods: Sequence[Chosen], users_by_keys: UsersByKeys, choosing: float, randomness: Randomness, runs: int,
    tables: Callable[[Chosen, int], Mapping[str, pa.Table]],
) -> DrawnRuns:  # fmt: skip
    """Choose a method's plans for every run, then draw at once for all runs of the same choice."""
    at = choose_plans([each.plans for each in methods], users_by_keys, choosing, randomness, runs)
    places = {number: np.flatnonzero(at == number) for number in np.unique(at).tolist()}
    drawn = of_all_runs((tables(methods[number], mine.size), mine) for number, mine in places.items())
    return DrawnRuns(runs, drawn, [each.parameters() for each in methods], at)


def tables_of_levels(counted: CountedLevels, method: Phrases, randomness: Randomness, runs: int) -> dict[str, pa.Table]:
    """Phrases of each run, and whole queries if these come out."""
    tables = {TABLE: phrases_of_runs(counted, method, randomness, runs)}
    if counted.queries is not None:
        tables[QUERIES] = keys_of_runs(counted.counted_queries(method), randomness, runs)
    return tables


@singledispatch
def keys_of_runs(counted: object, randomness: Randomness, runs: int) -> pa.Table:
    """The keys of one table that come out of each run, with their counts if these are published."""
    _ = randomness, runs
    raise TypeError(f"{type(counted).__name__} has no way of drawing many runs; this is a bug in querycloak")


@keys_of_runs.register
def _(counted: ThresholdedKeys, randomness: Randomness, runs: int) -> pa.Table:
    plan, keys = counted.plan, sorted_counts(counted.keys)
    return thresholded_of_runs(
        keys, plan.noise, plan.threshold, randomness, runs, plan.published_noise, plan.tie_probability
    )


@keys_of_runs.register
def _(counted: ClicksOfKeys, randomness: Randomness, runs: int) -> pa.Table:
    """Users decide, then the clicks of the keys that came out are counted anew, run by run."""
    plan, engine, key = counted.plan, counted.keys.engine, counted.keys.key
    users = sorted_counts(counted.keys)
    passed = release(
        users["n"].to_numpy(), plan.noise, plan.threshold, randomness, runs=runs, tie_probability=plan.tie_probability
    )
    chosen = np.zeros((runs, users.num_rows), np.bool_)
    chosen[passed.run, passed.key] = True
    clicks = UserKeys.of(engine, counted.clicks, key)
    true = clicks.counts(chosen, 0, counted.times)[chosen]
    noisy = true + randomness.noise(plan.published_noise or plan.noise, true.size)
    run, place = np.nonzero(chosen)
    return numbered(clicks.names.take(pa.array(place)).append_column("count", pa.array(noisy, mask=noisy < 1)), run)


@keys_of_runs.register
def _(counted: KeysWithoutCounts, randomness: Randomness, runs: int) -> pa.Table:
    table = sorted_counts(counted.keys)
    users = table["n"].to_numpy()
    order = np.argsort(users, kind="stable")
    values, sizes = np.unique(users, return_counts=True)
    passed = by_chance(values, sizes * runs, counted.plan.chances, randomness)
    size = sizes[passed.group]
    place = order[(np.cumsum(sizes) - sizes)[passed.group] + passed.rank % size]
    return numbered(table.select(counted.keys.key).take(pa.array(place)), passed.rank // size)


@keys_of_runs.register
def _(counted: WeightedSelection, randomness: Randomness, runs: int) -> pa.Table:
    return weighted_runs(counted, randomness, runs)


class _ManyRuns:
    """Draws every table of a pool for several runs at once; mixed in before the class of what was counted."""

    def __init__(self, counted: object, runs: int) -> None:
        vars(self).update(vars(counted))
        self.runs = runs

    def release_public(
        self, counts: KeyCounts, public: PublicKeys, noise: Noise, threshold: int, randomness: Randomness
    ) -> pa.Table:
        return above_of_public(sorted_counts(counts), public, noise, threshold, randomness, self.runs)

    def release_keys(
        self, counts: KeyCounts, noise: Noise, threshold: int, randomness: Randomness, tie: float = 0.0
    ) -> pa.Table:
        return thresholded_of_runs(sorted_counts(counts), noise, threshold, randomness, self.runs, None, tie)


class _PoolRuns(_ManyRuns, Pooling):
    pass


class _PaperPoolRuns(_ManyRuns, PaperPooling):
    def with_noise(self, counts: pa.Table, noise: Noise, randomness: Randomness) -> pa.Table:
        again = counts.take(pa.array(np.tile(np.arange(counts.num_rows), self.runs)))
        return numbered(super().with_noise(again, noise, randomness), np.repeat(np.arange(self.runs), counts.num_rows))


@draw_runs.register
def _(counted: Pooling, randomness: Randomness, runs: int) -> DrawnRuns:
    """Queries in all runs; the other tables for all runs at once of which the same queries came out."""
    queries = _PoolRuns(counted, runs).released_queries(randomness)
    # Of spurious queries, later tables know no more than their number.
    asked = counted.engine.fetch(counted.rows.select("query").distinct())["query"]
    alike = StandIns.of(queries.select([RUN, "query"]), asked)
    others = tables_of_runs_alike(
        alike.table, QUERY, runs, lambda same, number: _PoolRuns(counted, number).tables_given(same, randomness)
    )
    return DrawnRuns(runs, {"queries": queries, **{kind: alike.undone(table) for kind, table in others.items()}})


class _SelectingRuns(_ManyRuns, SelectingPooling):
    def __init__(self, counted: SelectingPooling, runs: int, left_out: str | None = None) -> None:
        super().__init__(counted, runs)
        self.left_out = left_out

    def released_queries(self, randomness: Randomness) -> pa.Table:
        noise, threshold = self.method.noises["queries"], self.method.thresholds["queries"]
        queries = self.release_public(self.counts, PublicKeys({"query": self.pool}), noise, threshold, randomness)
        if not self.method.off_pool:
            return queries
        others = weighted_runs(self.selected(self.outside, QUERY, self.plan.selected["queries"]), randomness, self.runs)
        return pa.concat_tables([queries, others.select(queries.column_names)])

    def tables_given(self, queries: pa.Table, randomness: Randomness) -> dict[str, pa.Table]:
        return Pooling.tables_given(self, queries, randomness)

    def released_selection(self, selection: WeightedSelection, randomness: Randomness) -> pa.Table:
        return weighted_runs(selection, randomness, self.runs)

    def no_pairs(self, public: PublicKeys) -> pa.Table:
        return numbered(super().no_pairs(public), 0)


@draw_runs.register
def _(counted: SelectingPooling, randomness: Randomness, runs: int) -> DrawnRuns:
    """Queries in all runs; the other tables at once for runs with the same queries, with transitions or not."""
    queries = _SelectingRuns(counted, runs).released_queries(randomness)
    asked = counted.engine.fetch(counted.rows.select("query").distinct())["query"]
    reasons = _reasons(counted, queries, runs)
    run = queries[RUN].to_numpy()
    groups = []
    for reason in sorted(set(reasons), key=str):
        mine = np.array([number for number, each in enumerate(reasons) if each == reason])
        own = queries.filter(pa.array(np.isin(run, mine))).select([RUN, "query"])
        own = own.set_column(0, RUN, pa.array(np.searchsorted(mine, own[RUN].to_numpy())))
        alike = StandIns.of(own, asked)
        others = tables_of_runs_alike(
            alike.table, QUERY, mine.size, partial(_given, counted, reason=reason, randomness=randomness)
        )
        groups.append(({kind: alike.undone(table) for kind, table in others.items()}, mine))
    tables = of_all_runs(groups)
    stated = [{"transitions_left_out": reason} for reason in reasons] if "transitions" in counted.plan.public else [{}]
    return DrawnRuns(
        runs, {"queries": queries, **tables}, stated, np.arange(runs) if len(stated) > 1 else np.empty(0, int)
    )


def _given(
    counted: SelectingPooling, same: pa.Table, number: int, *, reason: str | None, randomness: Randomness
) -> dict[str, pa.Table]:
    return _SelectingRuns(counted, number, reason).tables_given(same, randomness)


def _reasons(counted: SelectingPooling, queries: pa.Table, runs: int) -> list[str | None]:
    """Reason by run that transitions get no budget; None if they get their part."""
    if "transitions" not in counted.plan.public:
        return [None] * runs
    ordered = queries.sort_by(RUN)
    bounds = np.searchsorted(ordered[RUN].to_numpy(), np.arange(runs + 1))
    return [counted.plan.no_transitions(ordered.slice(low, high - low)) for low, high in pairwise(bounds.tolist())]


@draw_runs.register
def _(counted: PaperPooling, randomness: Randomness, runs: int) -> DrawnRuns:
    """Queries in all runs; the other tables for all runs at once of which the same queries came out."""
    queries = _PaperPoolRuns(counted, runs).released_queries(randomness)
    asked = counted.engine.fetch(counted.clean.select("query").distinct())["query"]
    known = queries.filter(pc.is_in(queries["query"], value_set=asked.combine_chunks())).sort_by("query")
    others = tables_of_runs_alike(
        known, QUERY, runs, lambda same, number: _PaperPoolRuns(counted, number).tables_given(same, randomness)
    )
    return DrawnRuns(runs, {"queries": queries, **others})


@draw_runs.register
def _(counted: BoundedPairs, randomness: Randomness, runs: int) -> DrawnRuns:
    """Noisy tables of all runs, then made-up users for each."""
    tables = _noisy_tables(counted, randomness, runs)
    made = [numbered(counted.method.made_up(each, randomness), run) for run, each in enumerate(tables)]
    stated = [each.stated_total(table.num_rows) for each, table in zip(tables, made, strict=True)]
    return DrawnRuns(runs, {"log": pa.concat_tables(made)}, stated, np.arange(runs))


def _noisy_tables(counted: BoundedPairs, randomness: Randomness, runs: int) -> list[NoisyTables]:
    """The tables of each run; those in which the same pairs come out in one order are drawn at once."""
    pairs = WeightedSelection.of(counted.engine, counted.contributions, KEY, counted.plan.pairs, kept=True)
    order = [(RUN, "ascending"), ("shown", "descending"), *((name, "ascending") for name in KEY)]
    table = weighted_runs(pairs, randomness, runs)
    table = table.append_column("shown", table["count"].fill_null(1))  # as `by_noisy_count` has it
    drawn = table.sort_by(order).drop_columns(["shown"]).combine_chunks()
    bounds = np.searchsorted(drawn[RUN].to_numpy(), np.arange(runs + 1))
    released = drawn.drop_columns([RUN])
    made: dict[int, NoisyTables] = {}
    for _, alike in runs_alike(drawn, KEY, runs):
        tables = [released.slice(bounds[run], bounds[run + 1] - bounds[run]) for run in alike.tolist()]
        made.update(zip(alike.tolist(), _with_links_and_sizes(counted, tables, randomness), strict=True))
    if counted.plan.total_noise is None:
        return [made[run] for run in range(runs)]
    total = [pairs_in_all(counted.engine, counted.contributions)]
    totals = noisy_counts(total, counted.plan.total_noise, randomness, runs=runs)[:, 0].tolist()
    return [replace(made[run], total=totals[run]) for run in range(runs)]


def _with_links_and_sizes(counted: BoundedPairs, pairs: list[pa.Table], randomness: Randomness) -> list[NoisyTables]:
    """The tables of runs that differ in the counts of their pairs, and in nothing else."""
    plan, engine = counted.plan, counted.engine
    nothing = np.zeros(0, dtype=np.int64)
    if pairs[0].num_rows == 0:
        none = np.zeros(plan.counted_per_user, dtype=np.int64)
        return [NoisyTables(each, nothing, nothing, nothing, none) for each in pairs]
    users = held_pairs(engine, counted.contributions, pairs[0], plan.counted_per_user)
    sizes = noisy_counts(pairs_per_user(engine, users, plan), plan.size_noise, randomness, runs=len(pairs))
    links = [(nothing, nothing, nothing)] * len(pairs)
    if plan.link_noise is not None and plan.link_threshold is not None:
        counts = sorted_counts(KeyCounts.of(engine, linked_pairs(engine, users, plan.linked_per_user), LINK))
        released = thresholded_of_runs(counts, plan.link_noise, plan.link_threshold, randomness, len(pairs))
        links = _links_by_run(released.sort_by([(RUN, "ascending"), ("count", "descending")]), len(pairs))
    return [NoisyTables(each, *links[run], sizes[run]) for run, each in enumerate(pairs)]


def _links_by_run(links: pa.Table, runs: int) -> list[tuple[IntArray, IntArray, IntArray]]:
    first, second = (links[name].cast(pa.int64()).to_numpy() for name in LINK)
    count, bounds = links["count"].to_numpy(), np.searchsorted(links[RUN].to_numpy(), np.arange(runs + 1))
    slices = [slice(*bounds[run : run + 2]) for run in range(runs)]
    return [(first[some], second[some], count[some]) for some in slices]


@draw_runs.register
def _(counted: SolvedPairs, randomness: Randomness, runs: int) -> DrawnRuns:
    """Users drawn for the counts of all runs at once; their names say nothing, so they keep their numbers."""
    run, pair, user, count = sample_runs(counted.holdings, counted.solution.counts, randomness, runs)
    keys: pa.Table = counted.holdings.keys
    table = keys.take(pa.array(pair)).append_column("count", pa.array(count))
    table = table.add_column(0, "user", pa.array(user).cast(pa.string()))
    return DrawnRuns(runs, {"log": numbered(table, run)})


@draw_runs.register
def _(counted: Histories, randomness: Randomness, runs: int) -> DrawnRuns:
    """A run is one more copy of every user: draws for users are independent (semantic.md)."""
    searches = counted.pulled(randomness.secret(), counted.replacement.concepts_of)
    table = in_memory(counted.replacement.table(_copied(searches, runs), randomness))
    names = pc.split_pattern(table["user"].combine_chunks(), _COPY)
    run = pc.list_element(names, 0).cast(pa.int64()).to_numpy(zero_copy_only=False)
    return DrawnRuns(runs, {"log": numbered(table.set_column(0, "user", pc.list_element(names, 1)), run)})


def _copied(searches: Searches, runs: int) -> Searches:
    """This number of copies of every user, named after the copy and the user."""
    number, texts = len(searches.users), searches.queries
    copies = pa.array(np.repeat(np.arange(runs), number)).cast(pa.string())
    users = searches.users.take(pa.array(np.tile(np.arange(number), runs)))
    return Searches(
        pc.binary_join_element_wise(copies, users, _COPY),
        np.concatenate([np.zeros(1, np.int64), np.cumsum(np.tile(searches.lengths, runs))]),
        np.tile(searches.allowed, runs),
        np.tile(searches.concepts, runs),
        np.tile(searches.times, runs),
        None if texts is None else pa.chunked_array(texts.chunks * runs, texts.type),
    )
