"""Many runs at once of thresholded counts, and of tables whose keys are public once others came out."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.guarantees.runs import RUN, numbered, renumbered, runs_alike
from querycloak.methods.keys.public_keys import PublicKeys
from querycloak.methods.keys.thresholded import KeyCounts
from querycloak.methods.sessions.public_tables import (
    PAIRS,
    REFORMULATIONS,
    PublicTables,
    released_queries,
    with_kinds,
)
from querycloak.privacy.calibration.histogram import noisy_counts, release, release_groups
from querycloak.privacy.calibration.public_counts import PublicPlan, lowest_cut, quiet_cut
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import Randomness

_NOTHING = "\x1fnothing"
"""Marks runs in which pairs get nothing: in no query."""


def thresholded_of_runs(
    counts: KeyCounts,
    noise: Noise,
    threshold: int,
    randomness: Randomness,
    runs: int,
    published_noise: Noise | None = None,
    tie_probability: float = 0.0,
) -> pa.Table:
    """The keys whose noisy count exceeds the threshold, in each run."""
    table = sorted_counts(counts)
    passed = release(
        table["n"].to_numpy(),
        noise,
        threshold,
        randomness,
        runs=runs,
        published_noise=published_noise,
        tie_probability=tie_probability,
    )
    keys = table.select(counts.key).take(pa.array(passed.key))
    return numbered(keys.append_column("count", pa.array(passed.count)), passed.run)


def sorted_counts(counts: KeyCounts) -> pa.Table:
    """All keys with their counts, in order of key (private)."""
    return counts.engine.fetch(counts.table).sort_by([(name, "ascending") for name in counts.key])


def above_of_public(
    counts: KeyCounts, public: PublicKeys, noise: Noise, threshold: int, randomness: Randomness, runs: int
) -> pa.Table:
    """The public keys whose noisy count exceeds the threshold, in each run; counts may hold no others."""
    occurring = thresholded_of_runs(counts, noise, threshold, randomness, runs)
    taken = np.sort(public.codes(counts.engine.fetch(counts.table.select(*counts.key))))
    free = public.size - taken.size
    if free == 0:
        return occurring
    passed = release_groups([0], [free], noise, threshold, randomness, runs=runs)
    # The keys at these ranks among those that do not occur: a uniform choice, as ranks are one.
    codes = passed.rank + np.searchsorted(taken - np.arange(taken.size), passed.rank, side="right")
    chosen = public.at(codes).append_column("count", pa.array(passed.count))
    return pa.concat_tables([occurring, numbered(chosen, passed.run)])


def public_tables_of_runs(
    later: PublicTables, tables: Mapping[str, pa.Table], randomness: Randomness, runs: int
) -> dict[str, pa.Table]:
    """Pairs of released queries, and reformulations: for all runs at once with the same queries and plans."""
    marked, bounds = [], {}
    for kind, table in tables.items():
        ordered = table.take(pa.array(np.argsort(table[RUN].to_numpy(), kind="stable")))
        bounds[kind] = ordered, np.searchsorted(ordered[RUN].to_numpy(), np.arange(runs + 1))
    for run in range(runs):
        own = {kind: table.slice(at[run], at[run + 1] - at[run]) for kind, (table, at) in bounds.items()}
        queries = released_queries(own)
        nothing = [_NOTHING] if later.plans.given(queries)[1] else []
        names = [*queries["query"].to_pylist(), *nothing]
        marked.append(numbered(pa.table({"query": pa.array(names, pa.string())}), run))
    parts: dict[str, list[pa.Table]] = {}
    for same, mine in runs_alike(pa.concat_tables(marked), ("query",), runs):
        for kind, table in _public_tables_given(later, same["query"], randomness, mine.size).items():
            parts.setdefault(kind, []).append(renumbered(table, mine))
    return {kind: pa.concat_tables(made) for kind, made in parts.items()}


def _public_tables_given(
    later: PublicTables, queries: pa.ChunkedArray, randomness: Randomness, runs: int
) -> dict[str, pa.Table]:
    names = queries.filter(pc.not_equal(queries, _NOTHING)).combine_chunks()
    nothing = len(names) < len(queries)
    tables: dict[str, pa.Table] = {}
    if PAIRS in later.plans.tables and not nothing:
        plan = later.plans.tables[PAIRS]
        tables[PAIRS] = _above_cut(*later.pairs(names, plan), plan, randomness, runs)
    elif PAIRS in later.plans.tables:
        tables[PAIRS] = _no_rows("query", "next_query")
    plan_of_words = later.plans.alone if nothing else later.plans.tables.get(REFORMULATIONS)
    if plan_of_words is not None:
        totals, counts, public = later.cells_of(names, plan_of_words)
        noisy = noisy_counts(totals, plan_of_words.noise, randomness, runs=runs)
        words = _above_cut(counts, public, plan_of_words, randomness, runs)
        tables[REFORMULATIONS] = pa.concat_tables(
            numbered(with_kinds(noisy[run], words.filter(pc.equal(words[RUN], run)).drop_columns([RUN])), run)
            for run in range(runs)
        )
    return tables


def _above_cut(counts: KeyCounts, public: PublicKeys, plan: PublicPlan, randomness: Randomness, runs: int) -> pa.Table:
    """The rows above the cut that each run has chosen."""
    if public.size == 0:
        return _no_rows(*public.columns)
    drawn = above_of_public(counts, public, plan.noise, lowest_cut(plan.noise, public.size), randomness, runs)
    run, noisy = drawn[RUN].to_numpy(), drawn["count"].to_numpy()
    cuts = np.array([quiet_cut(noisy[run == each], plan.noise, public.size) for each in range(runs)])
    return drawn.filter(pa.array(noisy > cuts[run]))


def _no_rows(*key: str) -> pa.Table:
    numbers = pa.array([], pa.int64())
    return pa.table({RUN: numbers, **{name: pa.array([], pa.string()) for name in key}, "count": numbers})
