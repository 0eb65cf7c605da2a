"""One budget for several tables: plans keep within it, splits, and which selection a formula chooses."""

from __future__ import annotations

import pytest

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.calibration.gaussian import gaussian_delta
from querycloak.privacy.calibration.selection import SELECTIONS, default_selection, parse_split, plan_tables, together
from querycloak.privacy.calibration.weighted import WeightedPlan
from tests.unit.privacy.examples import BUDGETS


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("selection", ["weighted", "multi-round"])
def test_plans_keep_within_their_budget_and_use_it(epsilon: float, delta: float, selection: str) -> None:
    plans = plan_tables(epsilon, delta, {"clicks": 256}, selection=selection)
    plan = plans.plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    assert 0.95 * delta < together(epsilon, plan.draw()) == plans.delta <= delta
    assert plan.selection == selection
    drawn = plan.draw()
    assert isinstance(drawn, GaussianRounds)
    assert gaussian_delta(drawn.squared_loss, epsilon) + drawn.own_keys <= delta


def test_tables_share_one_budget_better_than_two_budgets_add_up() -> None:
    both = plan_tables(16, 1.13e-7, {"clicks": 256, "sessions": 256}, selection="multi-round")
    alone = plan_tables(8, 1.13e-7 / 2, {"clicks": 256}, selection="multi-round")
    assert both.delta <= 1.13e-7
    assert both.plans["clicks"].threshold < 0.85 * alone.plans["clicks"].threshold
    uneven = plan_tables(
        16, 1.13e-7, {"clicks": 256, "sessions": 256}, selection="multi-round", split={"clicks": 1, "sessions": 3}
    )
    assert uneven.delta <= 1.13e-7
    assert uneven.plans["sessions"].threshold < both.plans["sessions"].threshold < uneven.plans["clicks"].threshold
    laplace = plan_tables(
        16, 1.13e-7, {"clicks": 1, "sessions": 4}, selection="laplace", split={"clicks": 1, "sessions": 3}
    )
    assert (laplace.epsilon, laplace.plans["clicks"].epsilon, laplace.plans["sessions"].epsilon) == (16, 4, 12)
    assert laplace.delta <= 1.13e-7


def test_golden_plans() -> None:
    """Our own figures: sigma and threshold in weights, sigma of counts; they change only with the formulas."""
    solved = {
        selection: plan_tables(8, 2.25e-7, {"clicks": 256}, selection=selection).plans["clicks"].parameters()
        for selection in ("weighted", "multi-round")
    }
    assert [round(solved["weighted"][name], 3) for name in ("noise", "threshold", "counting_noise")] == [
        0.782, 5.051, 6.494,
    ]  # fmt: skip
    assert [round(solved["multi-round"][name], 3) for name in ("noise", "threshold", "counting_noise")] == [
        1.107, 6.734, 6.494,
    ]  # fmt: skip


def test_a_budget_too_small_for_weights_is_refused_or_leads_elsewhere() -> None:
    assert default_selection(0.05, 1e-9, None) is None
    assert default_selection(8, 1e-16, None) is None
    with pytest.raises(ParameterError, match="raise epsilon or delta, or take another selection"):
        plan_tables(0.05, 1e-9, {"clicks": 256}, selection="multi-round")
    with pytest.raises(ParameterError, match="delta must be at least 1e-15 for selection='weighted', got 1e-16"):
        plan_tables(8, 1e-16, {"clicks": 256}, selection="weighted")


def test_the_default_follows_a_formula() -> None:
    """At (8, 2.25e-7) few keys per user want one draw, many want rounds; nobody's data is asked."""
    assert [default_selection(8, 2.25e-7, bound) for bound in (1, 2, 4, 16, 32, 256, None)] == [
        None, None, None, "multi-round", "multi-round", "multi-round", "multi-round",
    ]  # fmt: skip
    assert default_selection(8, 2.25e-7, None, two_draws=True) is None


@pytest.mark.parametrize("text", ["clicks", "clicks=0", "clicks=1,clicks=2", "clicks=-1", "clicks=1.5", "=1,", ""])
def test_a_split_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="split must be"):
        parse_split(text)


def test_splits_name_every_table() -> None:
    assert parse_split("clicks=1, sessions=2") == {"clicks": 1, "sessions": 2}
    with pytest.raises(ParameterError, match="a part for each of clicks, sessions"):
        plan_tables(1, 1e-6, {"clicks": 1, "sessions": 4}, split={"clicks": 1})
    with pytest.raises(ParameterError, match=f"selection must be one of {', '.join(SELECTIONS)}, got 'best'"):
        plan_tables(1, 1e-6, {"clicks": 1}, selection="best")
    with pytest.raises(ParameterError, match="counts with fresh noise anyway"):
        plan_tables(1, 1e-6, {"clicks": 1}, selection="multi-round", two_draws=True)
