"""Accuracy of a query pool's counts before any data; of pairs, by the number of released queries (accuracy.md)."""

from __future__ import annotations

from querycloak.methods.counted_users import alone, counted, cut_off
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.query_pool.outside_plan import OutsidePlan
from querycloak.privacy.calibration.accuracy import (
    ReleaseProbability,
    Stage,
    TableAccuracy,
    rows_of_one_user,
    spurious_rows,
)
from querycloak.privacy.calibration.weighted import WeightedPlan

_LATER = "The threshold of a row depends on how many queries come out; the range of users covers all cases."


def of_pool(method: QueryPool) -> dict[str, TableAccuracy]:
    """Queries, clicks by threshold, and pairs of public keys for as few and as many released queries as can be."""
    pool = method.lists["pool"].size
    reached = {"queries": _drawn(method, "queries", keys=pool)}
    if method.outside is not None:
        reached = _with_selections(method.outside, reached)
    else:
        for table, tie in method.ties().items():
            others = _drawn(method, table, keys=0, tie=tie)
            both = (reached[table], others) if table in reached else (others,)
            reached[table] = TableAccuracy.over(both, others.counts, notes=others.notes) if both[1:] else others
    few, many = of_pairs(method, 2), of_pairs(method, pool)
    for table in few:
        notes = [_LATER, *few[table].notes]
        reached[table] = TableAccuracy.over((few[table], many[table]), few[table].counts, notes=notes)
    return reached


def _with_selections(plan: OutsidePlan, reached: dict[str, TableAccuracy]) -> dict[str, TableAccuracy]:
    """The queries of the pool, and keys that are selected: a range over both."""
    if "queries" in plan.selected:
        both = (reached["queries"], _selected(plan.selected["queries"], "queries"))
        note = "Queries of the pool are counted apart from others, and come out above a threshold of their own."
        words = f"{both[0].counts} (pool); {both[1].counts} (others)"
        reached["queries"] = TableAccuracy.over(both, words, notes=[note, *both[0].notes, *both[1].notes])
    if "clicks" in plan.selected:
        plans = [plan.selected["clicks"], *([plan.clicks_alone] if plan.clicks_alone is not None else [])]
        ways = [_selected(each, "clicks") for each in plans]
        reached["clicks"] = TableAccuracy.over(ways, ways[0].counts, notes=ways[0].notes)
    return reached


def _selected(plan: WeightedPlan, table: str) -> TableAccuracy:
    noise = (plan.counting or plan.noise).words
    return TableAccuracy.of_route(
        plan.route(),
        counted(table, plan.counted_per_user, noise),
        notes=[cut_off(table, plan.per_user), alone(plan.rows_of_one_user)],
    )


def of_pairs(method: QueryPool, queries: int) -> dict[str, TableAccuracy]:
    """Transitions, and clicks on public urls, if this many queries came out."""
    # With selections no transition is drawn for fewer than two queries, and none has a lower threshold.
    fewest = 0 if method.outside is None else 2
    keys = {"transitions": max(fewest, queries * (queries - 1))} if "transitions" in method.bounds else {}
    if "urls" in method.lists:
        keys["clicks"] = queries * method.lists["urls"].size
    return {table: _of_pairs(method, table, max(1, number)) for table, number in keys.items()}


def _of_pairs(method: QueryPool, table: str, keys: int) -> TableAccuracy:
    noise, bound = method.noises[table], method.bounds[table]
    threshold = method.pairs_threshold(table, keys)
    return TableAccuracy.of_route(
        ReleaseProbability((Stage(noise, threshold),)),
        counted(table, bound, noise.words),
        spurious=spurious_rows(noise, threshold, keys),
        notes=[cut_off(table, bound)],
    )


def _drawn(method: QueryPool, table: str, *, keys: int, tie: float | None = None) -> TableAccuracy:
    """Keys of the pool, or others, with their tie probability."""
    noise, threshold, bound = method.noises[table], method.thresholds[table], method.bounds[table]
    notes = [cut_off(table, bound)]
    if tie is not None:
        notes.append(alone(rows_of_one_user(noise, threshold, bound, tie)))
    return TableAccuracy.of_route(
        ReleaseProbability((Stage(noise, threshold, tie or 0.0),)),
        counted(table, bound, noise.words),
        spurious=spurious_rows(noise, threshold, keys),
        notes=notes,
    )
