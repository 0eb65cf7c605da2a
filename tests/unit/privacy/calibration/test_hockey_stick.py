"""Hockey-stick divergences and tails: never below the exact value (histogram.md, claims 2 and 3)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from querycloak.privacy.calibration.hockey_stick import _by_poisson_summation, _by_zcdp, hockey_stick, tail_bounds
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from tests.unit.privacy.privacy_oracles import exact_hockey_stick


@pytest.mark.parametrize("noise", [Laplace(0.3), Laplace(1), Gaussian(0.7), Gaussian(1.4), Gaussian(2), Gaussian(3.9)])
@pytest.mark.parametrize("s", [1, 2, 3])
@pytest.mark.parametrize("e", [-1.0, 0.0, 0.5, 3.0])
def test_hockey_stick_is_never_below_the_exact_value_and_hardly_above(noise: Noise, s: int, e: float) -> None:
    exact = exact_hockey_stick(noise, s, e)
    bound = Decimal(hockey_stick(noise, s, e))
    assert exact <= bound <= exact * (1 + Decimal("1e-9")) + Decimal("1e-140")


@pytest.mark.parametrize("s", [1, 7, 60, 300])
@pytest.mark.parametrize("e", [0.2, 2.0, 9.0])
def test_the_three_ways_to_the_gaussian_bound_agree(s: int, e: float) -> None:
    sigma = 1.9
    convolved, summed = hockey_stick(Gaussian(sigma), s, e), min(1.0, _by_poisson_summation(sigma, s, e))
    assert convolved <= summed * (1 + 1e-10)
    assert convolved == pytest.approx(summed, rel=1e-9)
    assert _by_zcdp(sigma, s, e) >= summed


@pytest.mark.parametrize("sigma", [0.5, 0.8, 1.2])
@pytest.mark.parametrize("s", [2, 3, 5])
@pytest.mark.parametrize("e", [-2.0, 0.0, 1.0, 4.0])
def test_poisson_summation_is_an_upper_bound_even_for_the_smallest_noise(sigma: float, s: int, e: float) -> None:
    assert Decimal(_by_poisson_summation(sigma, s, e)) >= exact_hockey_stick(Gaussian(sigma), s, e)


def test_very_wide_noise_is_priced_by_zcdp() -> None:
    sigma, s = 16_000.0, 100
    wide = hockey_stick(Gaussian(sigma), s, 0.01)
    assert wide == pytest.approx(_by_zcdp(sigma, s, 0.01))
    assert wide >= _by_poisson_summation(sigma, s, 0.01)
    assert hockey_stick(Gaussian(sigma), s, 1e-9) == 1.0


@given(st.one_of(st.floats(0.2, 1.2).map(Laplace), st.floats(0.2, 40).map(Gaussian)), st.integers(0, 60))
@example(Gaussian(0.5), 19)  # where floats lose digits
def test_tail_bounds_enclose_the_exact_tail(noise: Noise, m: int) -> None:
    low, high = tail_bounds(noise, m)
    assert low <= noise.tail(m).down()
    assert high >= noise.tail(m).up()
    assert high <= noise.tail(m).up() * (1 + 1e-10) + 1e-140
