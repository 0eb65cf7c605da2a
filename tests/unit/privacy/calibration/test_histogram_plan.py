"""From noise and threshold to a guarantee: prices of knobs, and plans as guarantees."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.deltas import histogram_delta, laplace_delta
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.calibration.threshold import calibrate
from querycloak.privacy.sampling.noise import Gaussian, Laplace


@settings(max_examples=25)
@given(st.floats(0.3, 6), st.integers(2, 40), st.integers(1, 16))
def test_price_of_gaussian_knobs_is_the_smallest_epsilon_for_its_delta(
    sigma: float, threshold: int, per_user: int
) -> None:
    noise = Gaussian(sigma)
    plan = price(noise, threshold, per_user)
    assert plan.delta == histogram_delta(noise, threshold, per_user, plan.epsilon)
    if plan.delta > 1e-100 and plan.epsilon > 1e-6:
        less = histogram_delta(noise, threshold, per_user, plan.epsilon * 0.998)
        assert less > plan.delta
    assert price(noise, threshold, per_user, epsilon=plan.epsilon) == plan


def test_price_of_laplace_knobs() -> None:
    plan = price(Laplace(1), 5, 1)
    assert (plan.epsilon, plan.delta) == (1.0, laplace_delta(Laplace(1), 5, 1))
    assert price(Laplace(1), 5, 1, epsilon=2).epsilon == 2.0
    assert price(Laplace(1), 5, 2, epsilon=1).delta == histogram_delta(Laplace(1), 5, 2, 1.0)
    assert price(Laplace(1), 5, 3, published_noise=Laplace(2)).epsilon == 4.5
    twice = price(Laplace(1), 5, 2, published_noise=Laplace(1), epsilon=1)
    assert twice.delta == histogram_delta(Laplace(1), 5, 2, 1.0, draws=2)


def test_a_plan_becomes_a_guarantee() -> None:
    guarantee = calibrate(8, 2.25e-7, 4, two_draws=True).guarantee(("the day",))
    assert (guarantee.kind, guarantee.unit, guarantee.neighbours) == (
        "approximate-dp",
        "user",
        "add-remove-user",
    )
    assert guarantee.unprotected == ("the day",)
    assert "with fresh discrete Gaussian noise" in guarantee.because
    one_key = calibrate(8, 2.25e-7, 1).guarantee().because
    assert " exceeds 2 (or, with probability 0.0003355, equals it), and this noisy count is published " in one_key


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": -1}, "threshold must be at least 0, got -1; give the count K"),
        ({"threshold": math.nan}, "threshold must be a whole number, got nan"),
        ({"published_noise": Gaussian(1)}, "published_noise must be noise of the same law as the first, got Gaussian"),
        (
            {"noise": Gaussian(2), "published_noise": Gaussian(1)},
            "published_noise must be the same noise as the first, Gaussian",
        ),
        ({"published_noise": Laplace(2), "epsilon": 1}, "epsilon must be at least 3.0 for two different scales, got 1"),
        ({"epsilon": -1}, "epsilon must be a finite number above 0, got -1"),
        (
            {"threshold": 0, "per_user": 2000},
            "threshold must be high enough for delta to stay below 1",
        ),
        (
            {"threshold": 0, "per_user": 2000, "noise": Gaussian(3)},
            r"threshold must be high enough for delta to stay below 1 \(it is 1\), got 0; raise threshold or lower",
        ),
    ],
)
def test_bad_knobs(arguments: dict[str, Any], message: str) -> None:
    knobs: dict[str, Any] = {"noise": Laplace(1), "threshold": 5, "per_user": 2}
    with pytest.raises(ParameterError, match=message):
        price(**(knobs | arguments))
