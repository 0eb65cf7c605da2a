"""One budget for the tables of a release, and the plan by which each table's keys are chosen and counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from querycloak.errors import ParameterError
from querycloak.privacy.accounting import Plan
from querycloak.privacy.calibration import calibrate
from querycloak.privacy.exact import stated
from querycloak.privacy.guarantee import Guarantee

__all__ = ["SELECTIONS", "TablePlan", "TablePlans", "plan_tables"]

SELECTIONS = ("laplace", "gaussian", "weighted", "rounds")
TablePlan = Plan


@dataclass(frozen=True)
class TablePlans:
    """A plan for each table, and what they guarantee together."""

    plans: Mapping[str, TablePlan]
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "plans", MappingProxyType(dict(self.plans)))

    def guarantee(self, unprotected: tuple[str, ...] = ()) -> Guarantee:
        """Return the proven guarantee of all tables together."""
        reasons = [f"{name}: {plan.guarantee().because}" for name, plan in self.plans.items()]
        return Guarantee(
            kind="approximate-dp",
            unit="user",
            neighbours="add-remove-user",
            epsilon=self.epsilon,
            delta=self.delta,
            unprotected=unprotected,
            because="; ".join(reasons) if len(reasons) > 1 else reasons[0].partition(": ")[2],
        )


def plan_tables(
    epsilon: float,
    delta: float,
    per_user: Mapping[str, int],
    *,
    selection: str | None = None,
    split: Mapping[str, int] | None = None,
    two_draws: bool = False,
) -> TablePlans:
    """Return a plan for each table named in `per_user` (how many keys a user may add to) within one budget.

    split: how many parts of the budget each table gets; equal parts if not given.
    """
    parts = {name: Fraction((split or {}).get(name, 1)) for name in per_user}
    if split is not None and set(split) != set(per_user):
        raise ParameterError(f"split must give a part to each of {', '.join(per_user)}, got {', '.join(split)}")
    whole = sum(parts.values())
    plans = {
        name: calibrate(
            _down(stated(epsilon) * parts[name] / whole),
            _down(stated(delta) * parts[name] / whole),
            bound,
            law=selection,
            two_draws=two_draws,
        )
        for name, bound in per_user.items()
    }
    return TablePlans(plans, epsilon, delta)


def _down(exact: Fraction) -> float:
    """Return a float of 12 digits that does not print as more than `exact`."""
    number = float(f"{float(exact):.12g}")
    while stated(number) > exact:
        number = float(f"{number * (1 - 1e-11):.12g}")
    return number
