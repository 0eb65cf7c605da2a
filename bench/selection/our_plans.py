"""The plans by which our selections release, solved for by the product itself."""

from __future__ import annotations

import numpy as np

from bench.selection.accounting import purse
from bench.selection.holdings import Holdings
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.chance.randomness import Randomness
from querycloak.privacy.composing.draws import GaussianRounds
from querycloak.privacy.prices.bound_choice import choose_plan
from querycloak.privacy.prices.table_plan import TablePlan
from querycloak.privacy.prices.weighted import ROUNDS, WEIGHTED, WeightedPlan, plan_weighted


def method_of(table: str, budget: tuple[float, float], **given: object) -> Clicks | Sessions:
    """The method that releases this table; words of a text collection are bounded as clicks are."""
    epsilon, delta = budget
    if table == "sessions":
        return Sessions(epsilon=epsilon, delta=delta, no_clicks=True, **given)  # type: ignore[arg-type]
    return Clicks(epsilon=epsilon, delta=delta, **given)  # type: ignore[arg-type]


def our_plan(
    name: str, table: str, held: Holdings, budget: tuple[float, float], draw: np.random.Generator, *, counts: bool
) -> tuple[TablePlan, Holdings]:
    """The plan of a selection, and what of the holdings it bounds: sessions under Laplace noise are of two queries."""
    if name == "auto":
        return _chosen(table, held, budget, draw), held
    method = method_of(table, budget, selection=name)
    plan = method.plans[table if table == "sessions" else "clicks"]
    if not counts and isinstance(plan, WeightedPlan):
        plan = _without_counts(plan, budget)
    if isinstance(method, Sessions) and method.bounds.queries == 2 and held.parts is not None:
        return plan, held.kept((held.parts[:, 2] < 0)[held.key])
    return plan, held


def _chosen(table: str, held: Holdings, budget: tuple[float, float], draw: np.random.Generator) -> TablePlan:
    """What `--per-user auto` chooses, its price taken off first."""
    name = table if table == "sessions" else "clicks"
    chooser = method_of(table, budget, per_user="auto").planned
    candidates = [{name: each.plans[name]} for each in chooser.candidates()]  # type: ignore[union-attr]
    most = max(each[name].per_user for each in candidates)
    sizes = np.bincount(np.minimum(held.of_users(), most))
    by_keys = {number: int(users) for number, users in enumerate(sizes) if number and users}
    randomness = Randomness(seed=int(draw.integers(1 << 31)))
    at = choose_plan(candidates, {name: by_keys}, chooser.budget[0], randomness)  # type: ignore[union-attr]
    return candidates[at][name]


def _without_counts(plan: WeightedPlan, budget: tuple[float, float]) -> WeightedPlan:
    """The same rounds with the counts' part of the budget as well."""
    epsilon, delta = budget
    shares = ROUNDS if plan.scouts else WEIGHTED
    all_of_it = purse(epsilon, delta)
    spend = GaussianRounds(all_of_it.squared / (1 - shares.counting), all_of_it.own)
    return plan_weighted(spend, plan.per_user, plan.counted_per_user, shares, epsilon, delta)
