"""Composing tightly: every bound above an enumeration or an exact oracle, and close to it (composition.md)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.methods.clicks.method import Clicks
from querycloak.privacy.accounting.composition import composed
from querycloak.privacy.accounting.draws import (
    Draw,
)
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.ledger.accounts import Account, Charge
from querycloak.privacy.sampling.exact import stated
from querycloak.privacy.sampling.noise import Gaussian
from tests.unit.privacy.examples import draws


def releases(plan: Any, n: int) -> Account:
    promised = plan.guarantee()
    recorded = {"mechanisms": [plan.draw().to_json()]}
    charges = tuple(Charge(i, "shop", "now", "clicks", promised, recorded) for i in range(n))
    return Account("shop", 100.0, 1e-3, charges)


def test_a_year_of_months() -> None:
    """Twelve Gaussian releases cost about the root of twelve; twelve of Laplace noise still their sum."""
    gaussian = releases(
        Clicks(epsilon=1, delta=1e-6, max_keys_per_user=32, selection="gaussian").plans["clicks"], 12
    ).composed()
    assert (gaussian.epsilon_sum, gaussian.delta) == (12.0, 2 * gaussian.delta_sum)
    assert gaussian.below_the_sum
    assert gaussian.epsilon == 3.441
    laplace = releases(Clicks(epsilon=0.5, delta=1e-8, max_keys_per_user=1).plans["clicks"], 12).composed()
    assert not laplace.below_the_sum
    daily = releases(Clicks(epsilon=0.1, delta=1e-9, max_keys_per_user=1).plans["clicks"], 365).composed()
    assert (daily.epsilon_sum, daily.epsilon) == (36.5, 10.70)


def test_n_charges_equal_one_of_n_releases() -> None:
    plan = price(Gaussian(12), 63, 8, epsilon=1.0)
    once = composed(plan.draw().losses() * 7, 7 * stated(plan.epsilon), 7 * stated(plan.delta))
    assert releases(plan, 7).composed() == once


def test_the_delta_can_be_named() -> None:
    account = releases(price(Gaussian(12), 63, 8, epsilon=1.0), 20)
    at = [account.composed(delta) for delta in (1e-4, 1e-3)]
    assert at[0].epsilon is not None
    assert at[1].epsilon is not None
    assert at[0].epsilon > at[1].epsilon
    assert account.composed(1e-12).epsilon is None
    assert not account.composed(1e-12).below_the_sum
    said = account.composed(1e-4).to_json()
    assert said["sum"]["epsilon"] == 20.0
    assert said["privacy_loss_distribution"]["below_the_sum"]
    assert "fixed beforehand" in said["privacy_loss_distribution"]["condition"]
    for bad in (0, 1, -1, float("nan"), True):
        with pytest.raises(ParameterError, match="at_delta must be a number above 0 and below 1"):
            account.composed(bad)


@given(st.lists(draws(), min_size=1, max_size=3), st.sampled_from([1e-7, 1e-5, 1e-3]))
@settings(max_examples=40, deadline=None)
def test_the_epsilon_that_is_shown_is_within_its_delta(listed: list[Draw], at_delta: float) -> None:
    losses = sum((each.losses() for each in listed), start=Losses())
    shown = composed(losses, Fraction(1), Fraction(0), at_delta).epsilon
    exact = losses.epsilon_at(at_delta)
    assert (shown is None) == (exact is None)
    if shown is not None and exact is not None:
        assert losses.delta_at(shown) <= at_delta
        assert shown == float(f"{shown:.4g}")
        assert shown <= exact * 1.001 + 1e-12


def test_sums_are_not_touched_by_it() -> None:
    """The limit is about sums: an account that has spent its epsilon refuses, however small the tighter figure."""
    account = releases(Clicks(epsilon=1, delta=1e-6, max_keys_per_user=32, selection="gaussian").plans["clicks"], 12)
    assert account.spent[0] == Fraction(12)
