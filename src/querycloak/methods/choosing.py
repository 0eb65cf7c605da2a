"""A release whose bound is chosen on the log itself, and paid for (proof: privacy/bound_choice.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import ibis.expr.types as ir

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.bounds import BOUNDS, BoundChooser
from querycloak.methods.method import Method
from querycloak.methods.releasing import make_release
from querycloak.methods.selecting import count, counts_of
from querycloak.privacy.bound_choice import choose_plan
from querycloak.privacy.ledger import Ledger
from querycloak.privacy.randomness import Randomness
from querycloak.privacy.selection import plan_parameters
from querycloak.releases.release import Release
from querycloak.releases.tables import Table


class Choosing(Method, Protocol):
    """A method that can leave its bound to the log."""

    @property
    def chooser(self) -> BoundChooser:
        """The public side of the choice."""
        ...

    def contributions(self, log: SearchLog) -> ir.Table:
        """What each user may add, once per key and without a bound."""
        ...


def release_at_chosen_bound(
    method: Choosing,
    log: SearchLog,
    table: str,
    key: Sequence[str],
    ledger: Ledger | None,
    population: str | None,
    randomness: Randomness,
) -> Release:
    """Count how many keys users hold, charge, choose, then count and release at that bound."""
    choosing, _ = method.chooser.budget
    plans = method.chooser.plans()
    keys = log.engine.stage(method.contributions(log))  # read twice: to choose, and to release
    held = users_by_keys(log.engine, keys, max(BOUNDS))
    log.checked()
    chosen = plans[0]

    def draw() -> Mapping[str, Table]:
        nonlocal chosen
        chosen = plans[choose_plan(plans, held, choosing, randomness)]
        return {table: count(log.engine, keys, key, chosen).release(randomness).table}

    release = make_release(
        method,
        log,
        draw,
        counts="one-draw",
        ledger=ledger,
        population=population,
        seeded=not randomness.private,
    )
    said = {**release.parameters, **plan_parameters(chosen)}
    return replace(release, parameters=said, counts=counts_of(chosen))


def users_by_keys(engine: Engine, keys: ir.Table, most: int) -> dict[int, int]:
    """How many users hold 1, 2, ... keys; those of more than `most` count as of so many (private)."""
    per_user = keys.group_by("user").agg(keys=keys.count())
    clipped = per_user.mutate(keys=per_user["keys"].clip(upper=most))
    counted = engine.fetch(clipped.group_by("keys").agg(users=clipped.count()))
    return dict(zip(counted["keys"].to_pylist(), counted["users"].to_pylist(), strict=True))
