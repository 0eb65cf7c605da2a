"""Gaussian mechanisms one after another: selection.md, claims 1 and 2."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.deltas import hockey_stick
from querycloak.privacy.calibration.gaussian import gaussian_delta, largest_loss, noise_for, squared_loss
from querycloak.privacy.calibration.weighted import GRID
from querycloak.privacy.sampling.noise import Gaussian
from tests.unit.privacy.examples import BUDGETS


@pytest.mark.parametrize(("squared", "epsilon"), [(1.9, 8.0), (0.05, 1.0), (4.0, 0.5), (1.0, -0.3), (2.0, 0.0)])
def test_the_formula_of_claim_2(squared: float, epsilon: float) -> None:
    """Against the mean of [1 - e^(epsilon - loss)]_+ over a normal loss, summed in small steps."""
    mu = math.sqrt(squared)
    loss = np.linspace(squared / 2 - 14 * mu, squared / 2 + 14 * mu, 4_000_001)
    density = np.exp(-0.5 * ((loss - squared / 2) / mu) ** 2) / (mu * math.sqrt(2 * math.pi))
    gain = np.maximum(0.0, -np.expm1(epsilon - loss))
    expected = float((density * gain).sum() * (loss[1] - loss[0]))
    assert gaussian_delta(squared, epsilon) == pytest.approx(expected, rel=1e-7)


@given(
    sigma=st.floats(1.8, 60),
    changed=st.integers(1, 40),
    epsilon=st.floats(0.01, 12),
)
@settings(max_examples=150, deadline=None)
def test_integer_noise_costs_no_more_than_claims_1_and_2_say(sigma: float, changed: int, epsilon: float) -> None:
    """The exact law of sums of discrete Gaussians (histogram.md, claim 3) stays below the continuous bound."""
    noise = Gaussian(sigma)
    bound = gaussian_delta(squared_loss(noise, changed), epsilon)
    exact = hockey_stick(noise, changed, epsilon)
    assert exact <= bound * (1 + 1e-7) + 1e-100


def test_little_is_lost_on_the_grid() -> None:
    for epsilon, delta in BUDGETS:
        noise = Gaussian(noise_for(largest_loss(epsilon, delta), GRID**2))
        assert squared_loss(noise, GRID**2) <= largest_loss(epsilon, delta) * (1 + 1e-9)
        # One key that moves by GRID: the exact law needs as much, to a thousandth.
        wider = Gaussian(noise.sigma * 0.999)
        assert gaussian_delta(GRID**2 / wider.sigma**2, epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_largest_loss_is_the_largest(epsilon: float, delta: float) -> None:
    squared = largest_loss(epsilon, delta)
    assert gaussian_delta(squared, epsilon) <= delta < gaussian_delta(squared * (1 + 1e-6), epsilon)


def test_noise_too_small_for_claim_1_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"sigma must be above 1\.73"):
        squared_loss(Gaussian(1.7), 1)
    with pytest.raises(ParameterError, match="delta must be above 1e-17"):
        largest_loss(1.0, 1e-19)
