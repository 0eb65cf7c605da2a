"""A plan for a series: Laplace noise of every release fixed beforehand, charged whole at once (ledger.md, series).

The number of releases and their noise do not depend on any output, so that privacy-loss distributions compose them
(accounting/composition.md, claim 1): less noise than sums need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from querycloak.errors import BudgetRefused, ParameterError
from querycloak.privacy.accounting.draws import Histogram, PublicCounts, recorded_draws
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.bisection import bisected, smallest_integer
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.ledger.accounts import SERIES, Account, Charge
from querycloak.privacy.ledger.ledger import RUN, Ledger
from querycloak.privacy.parameters import checked_bound, natural
from querycloak.privacy.sampling.exact import four_digits_up
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import random_name
from querycloak.sentence import Action

MOST_RELEASES = 1000
_HALF = 0.5
"""Part of delta for noise; the rest is for keys of one user alone."""


@dataclass(frozen=True)
class SeriesPlan:
    """The one draw that every release of a series makes."""

    releases: int
    draw: Histogram

    @property
    def options(self) -> dict[str, Any]:
        """The options of a method that make this draw."""
        return {
            "noise": self.draw.noise.size,
            "threshold": self.draw.threshold,
            "selection": "laplace",
            "max_keys_per_user": self.draw.per_user,
            "accounting": SERIES,
        }

    def parameters(self) -> dict[str, Any]:
        """The parameters that the charge records."""
        return {"releases": self.releases, "mechanisms": [self.draw.to_json()] * self.releases}

    @classmethod
    def of(cls, charge: Charge) -> SeriesPlan:
        """The plan that a charge has paid for."""
        draws = recorded_draws(charge.parameters["mechanisms"])
        if charge.method != SERIES or not draws or not isinstance(draws[0], Histogram):
            raise ParameterError(f"charge {charge.id} is not for a series that this querycloak knows")
        return cls(len(draws), draws[0])


def solved_series(releases: int, epsilon: float, delta: float, per_user: int = 1) -> tuple[SeriesPlan, Guarantee]:
    """Return the smallest noise and threshold with which this number of releases together keep (epsilon, delta)."""
    natural("releases", releases, "say how many releases the series has", most=MOST_RELEASES)
    budget, per_user = Budget(epsilon, delta), checked_bound(per_user)

    def delta_of(each: float) -> float:
        losses = PublicCounts(Laplace(1 / each), per_user).losses() * releases
        return losses.delta_at(budget.epsilon)

    def exceeds(each: float) -> bool:
        return delta_of(each) > budget.delta * _HALF

    # Sums fit, or hardly less: the grid of losses rounds upwards.
    low, high = budget.epsilon / (releases * per_user), 2 * budget.epsilon
    while exceeds(low):
        low *= 0.999
    while not exceeds(high):
        high *= 2
    each, _ = bisected(exceeds, low, high, precision=1e-4)
    noise = Laplace(four_digits_up(1 / each))

    def fits(threshold: int) -> bool:
        losses = Histogram(noise, threshold, per_user).losses() * releases
        return losses.delta_at(budget.epsilon) <= budget.delta

    threshold = smallest_integer(fits, above=0, first=max(2, math.ceil(20 * noise.scale)))
    plan = SeriesPlan(releases, Histogram(noise, threshold, per_user))
    because = (
        f"{releases:,} releases, each a histogram with {noise.words}, threshold {threshold} and {per_user} key"
        f"{'s' * (per_user > 1)} per user, fixed beforehand and composed by privacy-loss distributions "
        "(privacy/accounting/composition.md)"
    )
    return plan, user_guarantee(budget.epsilon, budget.delta, because)


def plan_series(
    ledger: Ledger, population: str, releases: int, epsilon: float, delta: float, per_user: int = 1
) -> tuple[SeriesPlan, Charge]:
    """Charge a series whole; refused while an earlier plan of the population has releases left."""
    plan, guarantee = solved_series(releases, epsilon, delta, per_user)
    parameters = {**plan.parameters(), RUN: random_name()}
    return plan, ledger.charge(population, guarantee, method=SERIES, parameters=parameters, check=_check_used_up)


def _check_used_up(account: Account) -> None:
    left = [charge for charge in account.charges if charge.method == SERIES and charge.releases_left]
    if left:
        raise ParameterError(
            f"population {account.population!r} has a plan with {left[0].releases_left} releases left; use them first: "
            "a second plan would be charged beside it"
        )


def begun_series(account: Account, ledger: Ledger) -> Charge:
    """The charge of a population's plan that has releases left."""
    planned = [charge for charge in account.charges if charge.method == SERIES]
    for charge in planned:
        if charge.releases_left:
            return charge
    name = account.population
    words = ("querycloak", "ledger", "plan", name, "--releases", "N", "--epsilon", "E", "--delta", "D")
    make = Action(f"plan_series(ledger, {name!r}, N, E, D)", (*words, "--ledger", str(ledger.path)))
    state = "has no releases left in its plan" if planned else "has no plan"
    raise BudgetRefused.of(
        "population {name!r} {state}; make one, which is charged whole: {make}", name=name, state=state, make=make
    )


def check_follows(charge: Charge, parameters: Mapping[str, Any]) -> None:
    """Refuse a release that would draw anything else than its plan says."""
    plan = SeriesPlan.of(charge)
    if list(parameters.get("mechanisms", ())) != [plan.draw.to_json()]:
        raise ParameterError.of(
            "a release of a series draws what its plan says ({plan}), and nothing else; leave all options of "
            "budget, noise, bounds and selection out, and take queries or clicks",
            plan=f"{plan.draw.noise.words}, threshold {plan.draw.threshold}",
        )
