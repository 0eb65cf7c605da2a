"""The plans by which our selections release, solved for by the product itself."""

from __future__ import annotations

import numpy as np

from bench.selection.holdings import Holdings
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.keys.selection_plan import Choice, SelectionPlan
from querycloak.methods.queries.method import Queries
from querycloak.methods.sessions.joint_plans import BOUNDS
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.calibration.bound_choice import choose_plan
from querycloak.privacy.calibration.selection import PER_USER
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.sampling.randomness import Randomness


def our_plan(
    name: str, table: str, held: Holdings, budget: tuple[float, float], draw: np.random.Generator, *, counts: bool
) -> tuple[TablePlan, Holdings]:
    """The plan of a selection, and what of the holdings it bounds: sessions under Laplace noise are of two queries."""
    method = _method(name, table, budget, counts=counts)
    if method.plan.candidates:
        method = _chosen(method.plan, table, held, draw)
    return _bounded(method, table, held)


def fixed_plan(choice: Choice, table: str, held: Holdings, budget: tuple[float, float]) -> tuple[TablePlan, Holdings]:
    """The plan of a selection at a bound that nobody pays for."""
    given = {"epsilon": budget[0], "delta": budget[1], "selection": choice.selection}
    if table == "sessions":
        return _bounded(Sessions(no_clicks=True, **given).at_choice(choice), table, held)  # type: ignore[arg-type]
    of_table = Queries if _released(table) == "queries" else Clicks
    return _bounded(of_table(max_keys_per_user=choice.bound, **given), table, held)  # type: ignore[arg-type]


def _bounded(method: Clicks | Queries | Sessions, table: str, held: Holdings) -> tuple[TablePlan, Holdings]:
    plan = method.plans[_released(table)]
    if isinstance(method, Sessions) and method.bounds.queries == 2 and held.parts is not None:
        return plan, held.kept((held.parts[:, 2] < 0)[held.key])
    return plan, held


def _released(table: str) -> str:
    """Words of a text collection are released as queries are."""
    return "queries" if table == "words" else table


def _method(name: str, table: str, budget: tuple[float, float], *, counts: bool) -> Clicks | Queries | Sessions:
    """The method with the bounds that the selection has by default; `auto` chooses both."""
    given = {"epsilon": budget[0], "delta": budget[1], **({} if counts else {"counts": "none"})}
    if table == "sessions":
        bounds = {} if name == "auto" else dict(zip(_SESSION_BOUNDS, BOUNDS[name], strict=True)) | {"selection": name}
        return Sessions(no_clicks=True, **given, **bounds)  # type: ignore[arg-type]
    bounds = {} if name == "auto" else {"max_keys_per_user": PER_USER[name], "selection": name}
    return (Queries if _released(table) == "queries" else Clicks)(**given, **bounds)  # type: ignore[arg-type]


_SESSION_BOUNDS = ("sessions_per_user", "queries_per_session")


def _chosen(plan: SelectionPlan, table: str, held: Holdings, draw: np.random.Generator) -> Clicks | Queries | Sessions:
    """What `auto` chooses, its price taken off first."""
    name = _released(table)
    candidates = [each.method for each in plan.candidates]
    plans = [{name: each.plans[name]} for each in candidates]
    most = max(each[name].per_user for each in plans)
    sizes = np.bincount(np.minimum(held.of_users(), most))
    by_keys = {number: int(users) for number, users in enumerate(sizes) if number and users}
    randomness = Randomness(seed=int(draw.integers(1 << 31)))
    chosen = candidates[choose_plan(plans, {name: by_keys}, plan.budget.choosing if plan.budget else 0.0, randomness)]
    if not isinstance(chosen, Clicks | Queries | Sessions):
        raise TypeError(f"no selection is known for a {type(chosen).__name__}")
    return chosen
