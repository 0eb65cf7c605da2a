"""What plans say of themselves, so that nobody has to ask of which kind they are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from querycloak.privacy.accounting.draws import GaussianRounds, Histogram
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.calibration.selection import SELECTIONS, plan_tables
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.sampling.noise import Gaussian, Laplace
from querycloak.releases.release import COUNTS

PLANS: dict[str, TablePlan] = {
    name: plan_tables(8, 1e-6, {"keys": 12}, selection=name).plans["keys"] for name in SELECTIONS
}
FRESH = price(Laplace(1), 20, 4, published_noise=Laplace(2))


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_knows_its_selection_and_its_guarantee(name: str) -> None:
    plan = PLANS[name]
    assert plan.selection == name
    assert plan.parameters()["selection"] == {"multi-round": "rounds"}.get(name, name)  # as cards have it
    assert plan.parameters()["per_user"] == plan.per_user == 12
    assert plan.guarantee(("x",)).numbers == (plan.epsilon, plan.delta)
    assert plan.guarantee(("x",)).unprotected == ("x",)


def test_counts_are_told_in_the_words_of_the_card() -> None:
    assert [plan.counts for plan in PLANS.values()] == ["one-draw", "one-draw", "weighed", "weighed"]
    assert FRESH.counts == "fresh-draw"
    assert {plan.counts for plan in (*PLANS.values(), FRESH)} <= set(COUNTS)


@pytest.mark.parametrize("name", PLANS)
def test_the_draw_bounds_what_the_plan_guarantees(name: str) -> None:
    """The record that composition uses is of this very plan: alone it has at most about twice the plan's delta.

    At an epsilon a little larger, for the grid moves the largest loss of Laplace noise up by a hair.
    """
    plan = PLANS[name]
    assert plan.delta / 2 < plan.draw().losses().delta_at(1.001 * plan.epsilon) <= 2.01 * plan.delta


def test_draws_by_hand() -> None:
    assert FRESH.draw() == Histogram(Laplace(1), 20, 4, Laplace(2))
    assert price(Gaussian(3.9), 23, 32).draw() == Histogram(Gaussian(3.9), 23, 32)
    assert isinstance(PLANS["multi-round"].draw(), GaussianRounds)


def test_parameters_of_two_draws() -> None:
    assert FRESH.parameters() == {
        "selection": "laplace",
        "noise": 1.0,
        "threshold": 20,
        "coin": None,
        "per_user": 4,
        "two_draws": True,
        "fresh_noise": 2.0,
    }
    assert replace(FRESH, published_noise=None).parameters()["fresh_noise"] is None


@pytest.mark.parametrize("name", PLANS)
def test_gains_end_at_the_bound(name: str) -> None:
    plan = PLANS[name]
    gains = [plan.gain(keys) for keys in range(1, 100)]
    assert gains == sorted(gains)
    assert len(set(gains[plan.per_user - 1 :])) == 1  # more keys than count add nothing
