"""A release whose bound is chosen on the log itself, and paid for (proof: privacy/prices/bound_choice.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.methods.keys.auto_bound import BoundChooser, Planned
from querycloak.methods.keys.partition_selection import count, counts_of
from querycloak.methods.releasing import Run
from querycloak.privacy.prices.bound_choice import choose_plan
from querycloak.releases.release import Release
from querycloak.releases.tables import Table


def release_at_chosen_bound(
    run: Run,
    chooser: BoundChooser,
    contributions: Mapping[str, ir.Table],
    key: Mapping[str, Sequence[str]],
    *,
    published: Callable[[str, pa.Table], Table] = lambda _, table: table,
) -> Release:
    """Count how many keys users hold, charge, choose, then count and release at that bound.

    contributions: of each table what users may add, once per key and without a bound. published: a table's last touch.
    """
    log, drawing = run.log, run.drawing
    choosing, _ = chooser.budget
    candidates = chooser.candidates()
    # Read twice: to choose, and to release.
    kept = {table: log.engine.stage(rows) for table, rows in contributions.items()}
    held = {table: users_by_keys(log.engine, rows, _most(table, candidates)) for table, rows in kept.items()}
    log.checked()
    chosen = candidates[0]

    def draw() -> Mapping[str, Table]:
        nonlocal chosen
        chosen = candidates[choose_plan([each.plans for each in candidates], held, choosing, drawing)]
        counted = {table: count(log.engine, kept[table], key[table], plan) for table, plan in chosen.plans.items()}
        return {table: published(table, each.release(drawing).table) for table, each in counted.items()}

    release = run.finish(draw, counts="one-draw")
    said = {**release.parameters, **chosen.parameters()}
    return replace(release, parameters=said, counts=counts_of(next(iter(chosen.plans.values()))))


def _most(table: str, candidates: Sequence[Planned]) -> int:
    return max(each.plans[table].per_user for each in candidates)


def users_by_keys(engine: Engine, keys: ir.Table, most: int) -> dict[int, int]:
    """How many users hold 1, 2, ... keys; those of more than `most` count as of so many (private)."""
    per_user = keys.group_by("user").agg(keys=keys.count())
    clipped = per_user.mutate(keys=per_user["keys"].clip(upper=most))
    counted = engine.fetch(clipped.group_by("keys").agg(users=clipped.count()))
    return dict(zip(counted["keys"].to_pylist(), counted["users"].to_pylist(), strict=True))
