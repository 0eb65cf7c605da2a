"""Many runs at once of thresholded counts, and of tables with keys that follow from other released keys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.audits.guarantees.runs import RUN, numbered, tables_of_runs_alike
from querycloak.logs.reformulations import ALL_WORDS, KINDS
from querycloak.methods.keys.public_keys import PublicKeys
from querycloak.methods.keys.thresholded import KeyCounts
from querycloak.methods.sessions.public_plans import FEWEST_QUERIES, PublicPlans
from querycloak.methods.sessions.public_tables import (
    CELL,
    PAIR,
    PAIRS,
    QUERIES_OF_SESSION,
    REFORMULATIONS,
    PublicTables,
    released_queries,
    words_of,
)
from querycloak.privacy.calibration.histogram import noisy_counts, release, release_groups
from querycloak.privacy.calibration.public_counts import PublicPlan, lowest_cut, quiet_cuts
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import IntArray, Randomness

_NOTHING = "\x1fnothing"
"""Marks runs in which pairs get nothing: in no query."""


def thresholded_of_runs(
    table: pa.Table,
    noise: Noise,
    threshold: int,
    randomness: Randomness,
    runs: int,
    published_noise: Noise | None = None,
    tie_probability: float = 0.0,
) -> pa.Table:
    """The keys with a noisy count above the threshold, in each run; table: keys with their counts `n`, sorted."""
    passed = release(
        table["n"].to_numpy(),
        noise,
        threshold,
        randomness,
        runs=runs,
        published_noise=published_noise,
        tie_probability=tie_probability,
    )
    keys = table.drop_columns(["n"]).take(pa.array(passed.key))
    return numbered(keys.append_column("count", pa.array(passed.count)), passed.run)


def sorted_counts(counts: KeyCounts) -> pa.Table:
    """All keys with their counts, in order of key (private)."""
    table = counts.engine.fetch(counts.table).select([*counts.key, "n"])
    return table.sort_by([(name, "ascending") for name in counts.key])


def above_of_public(
    counts: pa.Table, public: PublicKeys, noise: Noise, threshold: int, randomness: Randomness, runs: int
) -> pa.Table:
    """The public keys with a noisy count above the threshold, in each run; counts: `n` by key, in order of key."""
    occurring = thresholded_of_runs(counts, noise, threshold, randomness, runs)
    taken = np.sort(public.codes(counts.drop_columns(["n"])))
    free = public.size - taken.size
    if free == 0:
        return occurring
    passed = release_groups([0], [free], noise, threshold, randomness, runs=runs)
    # The keys at these ranks among those that do not occur: a uniform choice, as ranks are one.
    codes = passed.rank + np.searchsorted(taken - np.arange(taken.size), passed.rank, side="right")
    chosen = public.at(codes).append_column("count", pa.array(passed.count))
    return pa.concat_tables([occurring, numbered(chosen, passed.run)])


@dataclass(frozen=True, eq=False)
class UserSteps:
    """Steps of sessions in memory, counted as `PublicTables` counts them: an engine would plan anew for every set.

    Texts are numbers, in order of text. Moves are sorted by session, query and place; cells as they count.
    """

    later: PublicTables
    texts: pa.Array
    session: IntArray
    query: IntArray
    number: IntArray
    user_of: IntArray
    """The user of each session."""
    cells_by_user: pa.Table | None

    @classmethod
    def of(cls, later: PublicTables) -> UserSteps:
        """Fetch them, once for all sets of queries."""
        steps = later.engine.fetch(later.steps)
        again = pc.fill_null(pc.equal(steps["before"], steps["query"]), False)
        steps = steps.filter(pc.invert(again)).combine_chunks()
        texts = steps["query"].unique().sort()
        query = pc.index_in(steps["query"], value_set=texts).to_numpy().astype(np.int64)
        user = steps["user"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        both = np.stack([user, steps["session"].to_numpy()], axis=1)
        sessions, session = np.unique(both, axis=0, return_inverse=True)
        session, number = session.reshape(-1), steps["number"].to_numpy().astype(np.int64)
        order = np.lexsort((number, query, session))
        cells = None
        if later.cells is not None:
            cells = later.engine.fetch(later.cells)
            cells = cells.sort_by([(name, "ascending") for name in ("user", "earliest", *CELL)]).combine_chunks()
        return cls(later, texts, session[order], query[order], number[order], sessions[:, 0], cells)

    def pairs(self, names: pa.Array, plan: PublicPlan) -> pa.Table:
        """Counts `n` of pairs of these queries, in order of key."""
        mine = pc.is_in(self.texts, value_set=names).to_numpy(zero_copy_only=False)[self.query]
        session, query, number = self.session[mine], self.query[mine], self.number[mine]
        new = (np.diff(session, prepend=-1) != 0) | (np.diff(query, prepend=-1) != 0)
        starts = np.flatnonzero(new)
        ends = np.append(starts[1:], query.size)[: starts.size] - 1
        session, query, first, last = session[starts], query[starts], number[starts], number[ends]
        order = np.lexsort((first, session))
        order = order[rank_within(session[order]) < QUERIES_OF_SESSION]
        session, query, first, last = session[order], query[order], first[order], last[order]
        begins = np.searchsorted(session, session, side="left")
        sizes = np.searchsorted(session, session, side="right") - begins
        one = np.repeat(np.arange(session.size), sizes)
        other = np.repeat(begins, sizes) + rank_within(one)
        kept = (first[one] < last[other]) & (self.later.repeats | (query[one] != query[other]))
        one, other = one[kept], other[kept]
        user, place = self.user_of[session[one]], first[one]
        order = np.lexsort((query[other], query[one], place, user))
        user, key = user[order], (query[one] * len(self.texts) + query[other])[order]
        earliest = np.sort(np.unique(np.stack([user, key], axis=1), axis=0, return_index=True)[1])
        user, key = user[earliest], key[earliest]
        keys, counts = np.unique(key[rank_within(user) < plan.per_user], return_counts=True)
        both = [self.texts.take(pa.array(each)) for each in (keys // len(self.texts), keys % len(self.texts))]
        return pa.table([*both, pa.array(counts)], names=[*PAIR, "n"])

    def cells(self, names: pa.Array, plan: PublicPlan) -> tuple[IntArray, pa.Table]:
        """Counts of kinds as a whole, and counts `n` of the words of these queries by kind, in order of key."""
        if self.cells_by_user is None:
            raise TypeError("reformulations were not read; this is a bug in querycloak")
        listed = pa.concat_arrays([words_of(names), pa.array([ALL_WORDS], pa.string())])
        table = self.cells_by_user.filter(pc.is_in(self.cells_by_user["word"], value_set=listed))
        user = table["user"].combine_chunks().dictionary_encode().indices.to_numpy()
        table = table.filter(pa.array(rank_within(user) < plan.per_user))
        counts = table.group_by(list(CELL)).aggregate([([], "count_all")]).rename_columns([*CELL, "n"])
        counts = counts.sort_by([(name, "ascending") for name in CELL])
        whole = pc.equal(counts["word"], ALL_WORDS)
        of_kind = dict(zip(*(counts.filter(whole)[name].to_pylist() for name in ("kind", "n")), strict=True))
        return np.array([of_kind.get(kind, 0) for kind in KINDS]), counts.filter(pc.invert(whole))


def rank_within(groups: IntArray) -> IntArray:
    """The place of each element among those of its group, from 0; groups stand together."""
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    ranks: IntArray = np.arange(groups.size) - np.repeat(starts, np.diff(np.append(starts, groups.size)))
    return ranks


def public_tables_of_runs(
    later: PublicTables, tables: Mapping[str, pa.Table], randomness: Randomness, runs: int
) -> dict[str, pa.Table]:
    """Pairs of released queries, and reformulations: for all runs at once with the same queries and plans."""
    queries = released_queries(tables, by=(RUN,))
    nothing = np.flatnonzero(_without_pairs(later.plans, queries, runs))
    marks = pa.table({RUN: pa.array(nothing), "query": pa.array([_NOTHING] * nothing.size, pa.string())})
    marked = pa.concat_tables([queries.select([RUN, "query"]), marks])
    users = UserSteps.of(later)
    return tables_of_runs_alike(
        marked, ("query",), runs, lambda same, number: _public_tables_given(users, same["query"], randomness, number)
    )


def _without_pairs(plans: PublicPlans, queries: pa.Table, runs: int) -> NDArray[np.bool_]:
    """Runs in which pairs get nothing, as `PublicPlans.given` has it."""
    if PAIRS not in plans.tables:
        return np.zeros(runs, np.bool_)
    numbers, kinds = np.unique(np.bincount(queries[RUN].to_numpy(), minlength=runs), return_inverse=True)
    least = np.array([plans.least_second_count(number) for number in numbers.tolist()])[kinds]
    counted = queries.filter(pc.is_valid(queries["count"]))
    counted = counted.sort_by([(RUN, "ascending"), ("count", "descending")])
    run, counts = counted[RUN].to_numpy(), counted["count"].to_numpy()
    bounds = np.searchsorted(run, np.arange(runs + 1))
    second = np.full(runs, np.inf)  # as if queries came out without counts
    two = np.flatnonzero(np.diff(bounds) > 1)
    second[two] = counts[bounds[two] + 1]
    without: NDArray[np.bool_] = (numbers[kinds] < FEWEST_QUERIES) | (second < least)
    return without


def _public_tables_given(
    users: UserSteps, queries: pa.ChunkedArray, randomness: Randomness, runs: int
) -> dict[str, pa.Table]:
    names = queries.filter(pc.not_equal(queries, _NOTHING)).combine_chunks()
    nothing, later = len(names) < len(queries), users.later
    tables: dict[str, pa.Table] = {}
    if PAIRS in later.plans.tables and not nothing:
        plan = later.plans.tables[PAIRS]
        tables[PAIRS] = _above_cut(users.pairs(names, plan), later.pairs_of(names), plan, randomness, runs)
    elif PAIRS in later.plans.tables:
        tables[PAIRS] = _no_rows("query", "next_query")
    plan_of_words = later.plans.alone if nothing else later.plans.tables.get(REFORMULATIONS)
    if plan_of_words is not None:
        totals, counts = users.cells(names, plan_of_words)
        noisy = noisy_counts(totals, plan_of_words.noise, randomness, runs=runs)
        words = _above_cut(counts, later.words_by_kind(names), plan_of_words, randomness, runs)
        tables[REFORMULATIONS] = pa.concat_tables([_kinds_of_runs(noisy), words])
    return tables


def _kinds_of_runs(noisy: IntArray) -> pa.Table:
    """A row for each kind as a whole, in each run, as `with_kinds` has it."""
    runs, counts = len(noisy), noisy.ravel()
    kinds = pa.table({"kind": pa.array(list(KINDS) * runs), "word": pa.array([ALL_WORDS] * counts.size)})
    count = pa.array(counts, mask=counts < 1)
    return numbered(kinds.append_column("count", count), np.repeat(np.arange(runs), len(KINDS)))


def _above_cut(counts: pa.Table, public: PublicKeys, plan: PublicPlan, randomness: Randomness, runs: int) -> pa.Table:
    """The rows above the cut that each run has chosen."""
    if public.size == 0:
        return _no_rows(*public.columns)
    drawn = above_of_public(counts, public, plan.noise, lowest_cut(plan.noise, public.size), randomness, runs)
    run, noisy = drawn[RUN].to_numpy(), drawn["count"].to_numpy()
    cuts = quiet_cuts(noisy, run, runs, plan.noise, public.size)
    return drawn.filter(pa.array(noisy > cuts[run]))


def _no_rows(*key: str) -> pa.Table:
    numbers = pa.array([], pa.int64())
    return pa.table({RUN: numbers, **{name: pa.array([], pa.string()) for name in key}, "count": numbers})
