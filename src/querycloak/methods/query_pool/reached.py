"""Accuracy of a query pool's counts before any data; of pairs, by the number of released queries (accuracy.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from querycloak.methods.counted_users import alone, counted, cut_off
from querycloak.methods.query_pool.method import quiet_threshold
from querycloak.privacy.calibration.accuracy import (
    ReleaseProbability,
    Stage,
    TableAccuracy,
    rows_of_nobody,
    rows_of_one_user,
)

if TYPE_CHECKING:
    from querycloak.methods.query_pool.method import QueryPool

_LATER = "The threshold of a row depends on how many queries come out; the range of users covers all cases."


def of_pool(method: QueryPool) -> dict[str, TableAccuracy]:
    """Queries, clicks by threshold, and pairs of public keys for as few and as many released queries as can be."""
    pool = method.lists["pool"].size
    reached = {"queries": _drawn(method, "queries", keys=pool, public=not method.off_pool)}
    if method.click_kind == "threshold":
        reached["clicks"] = _drawn(method, "clicks", keys=0, public=False)
    few, many = of_pairs(method, 2), of_pairs(method, pool)
    for table in few:
        notes = [_LATER, *few[table].notes]
        reached[table] = TableAccuracy.over((few[table], many[table]), few[table].counts, notes=notes)
    return reached


def of_pairs(method: QueryPool, queries: int) -> dict[str, TableAccuracy]:
    """Transitions, and clicks on public urls, if this many queries came out."""
    keys = {"transitions": queries * (queries - 1)} if "transitions" in method.bounds else {}
    if "urls" in method.lists:
        keys["clicks"] = queries * method.lists["urls"].size
    return {table: _of_pairs(method, table, max(1, number)) for table, number in keys.items()}


def _of_pairs(method: QueryPool, table: str, keys: int) -> TableAccuracy:
    noise, bound = method.noises[table], method.bounds[table]
    threshold = quiet_threshold(noise, keys)
    return TableAccuracy.of_route(
        ReleaseProbability((Stage(noise, threshold),)),
        counted(table, bound, noise.words),
        spurious=rows_of_nobody(noise, threshold, keys),
        notes=[cut_off(table, bound)],
    )


def _drawn(method: QueryPool, table: str, *, keys: int, public: bool) -> TableAccuracy:
    noise, threshold, bound = method.noises[table], method.thresholds[table], method.bounds[table]
    notes = [cut_off(table, bound)]
    if not public:
        notes.append(alone(rows_of_one_user(noise, threshold, bound)))
    return TableAccuracy.of_route(
        ReleaseProbability((Stage(noise, threshold),)),
        counted(table, bound, noise.words),
        spurious=rows_of_nobody(noise, threshold, keys),
        notes=notes,
    )
