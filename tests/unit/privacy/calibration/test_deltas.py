"""Deltas of thresholded histograms, against every way in which neighbours can differ (histogram.md, claims 1 to 4)."""

from __future__ import annotations

import math
from decimal import Decimal

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querycloak.privacy.calibration.deltas import (
    _by_poisson_summation,
    _by_zcdp,
    any_passes,
    histogram_delta,
    hockey_stick,
    laplace_delta,
    tail_bounds,
)
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from tests.unit.privacy.privacy_oracles import (
    TRUNCATION,
    divergence,
    exact_hockey_stick,
    one_key,
    one_key_two_draws,
    values_for,
)

small = st.floats(min_value=0.2, max_value=1.2)
noises = st.one_of(small.map(Laplace), small.map(Gaussian))
epsilons = st.floats(min_value=0.01, max_value=6)


def brute_force(noise: Noise, threshold: int, own: int, shared: list[int], epsilon: float) -> float:
    values = values_for(noise, [1, *(count + 1 for count in shared)])
    keys = [(one_key(1, noise, threshold, values), one_key(None, noise, threshold, values))] * own
    keys += [
        (one_key(count + 1, noise, threshold, values), one_key(count, noise, threshold, values)) for count in shared
    ]
    return divergence(keys, epsilon)


@settings(max_examples=60)
@given(noises, st.integers(0, 5), st.integers(1, 2), epsilons, st.data())
def test_no_neighbours_lie_further_apart_than_the_formula_says(
    noise: Noise, threshold: int, per_user: int, epsilon: float, data: st.DataObject
) -> None:
    own = data.draw(st.integers(0, per_user))
    shared = data.draw(st.lists(st.integers(0, 9), max_size=per_user - own))
    if own or shared:
        found = brute_force(noise, threshold, own, shared, epsilon)
        assert found <= histogram_delta(noise, threshold, per_user, epsilon) + TRUNCATION


@settings(max_examples=40)
@given(noises, st.integers(0, 5), st.integers(1, 2), epsilons)
def test_the_formula_is_attained(noise: Noise, threshold: int, per_user: int, epsilon: float) -> None:
    far = threshold + 60
    attained = max(brute_force(noise, threshold, own, [far] * (per_user - own), epsilon) for own in range(per_user + 1))
    assert attained == pytest.approx(histogram_delta(noise, threshold, per_user, epsilon), rel=1e-6, abs=TRUNCATION)


@pytest.mark.parametrize("noise", [Laplace(0.5), Gaussian(0.8)])
@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_three_keys(noise: Noise, epsilon: float) -> None:
    for own in range(4):
        for count in (1, 3, 30):
            found = brute_force(noise, 2, own, [count] * (3 - own), epsilon)
            assert found <= histogram_delta(noise, 2, 3, epsilon) + TRUNCATION


@given(small.map(Laplace), st.integers(0, 12), st.integers(1, 6))
def test_laplace_at_its_own_epsilon_is_the_curve_there(noise: Laplace, threshold: int, per_user: int) -> None:
    """Claim 2, also where 1-p < q, that is where the threshold is low against the noise."""
    epsilon = per_user / noise.scale
    curve = histogram_delta(noise, threshold, per_user, epsilon * (1 + 1e-12))
    assert curve == pytest.approx(laplace_delta(noise, threshold, per_user), rel=1e-8)


@settings(max_examples=30)
@given(small.map(Laplace), small.map(Laplace), st.integers(0, 5), st.integers(1, 2), st.data())
def test_two_laplace_draws_cost_their_sum(
    noise: Laplace, published_noise: Laplace, threshold: int, per_user: int, data: st.DataObject
) -> None:
    own = data.draw(st.integers(0, per_user))
    shared = data.draw(st.lists(st.integers(1, 9), min_size=per_user - own, max_size=per_user - own))
    epsilon = per_user / noise.scale + per_user / published_noise.scale
    found = two_draws(noise, published_noise, threshold, own, shared, epsilon)
    assert found <= laplace_delta(noise, threshold, per_user) + TRUNCATION


@settings(max_examples=30)
@given(noises, st.integers(0, 5), st.integers(1, 2), epsilons, st.data())
def test_two_draws_of_one_noise(
    noise: Noise, threshold: int, per_user: int, epsilon: float, data: st.DataObject
) -> None:
    own = data.draw(st.integers(0, per_user))
    shared = data.draw(st.lists(st.integers(1, 9), min_size=per_user - own, max_size=per_user - own))
    found = two_draws(noise, noise, threshold, own, shared, epsilon)
    assert found <= histogram_delta(noise, threshold, per_user, epsilon, draws=2) + TRUNCATION


def two_draws(
    noise: Noise, published_noise: Noise, threshold: int, own: int, shared: list[int], epsilon: float
) -> float:
    wider = max(noise, published_noise, key=lambda one: values_for(one, [1]).stop)
    values = values_for(wider, [1, *(count + 1 for count in shared)])

    def law_of(count: int | None) -> object:
        return one_key_two_draws(count, noise, published_noise, threshold, values)

    keys = [(law_of(1), law_of(None))] * own + [(law_of(count + 1), law_of(count)) for count in shared]
    return divergence(keys, epsilon)  # type: ignore[arg-type]


@given(noises, st.integers(0, 20), st.integers(1, 8), epsilons)
def test_delta_is_monotone(noise: Noise, threshold: int, per_user: int, epsilon: float) -> None:
    here = histogram_delta(noise, threshold, per_user, epsilon)
    slack = here * (1 + 1e-9)
    assert histogram_delta(noise, threshold + 1, per_user, epsilon) <= slack
    assert histogram_delta(noise, threshold, per_user, epsilon + 0.5) <= slack
    assert histogram_delta(noise, threshold, per_user + 1, epsilon) * (1 + 1e-9) >= here


@given(noises, st.integers(0, 20), st.integers(1, 12), epsilons)
@example(Laplace(2.0327), 4, 6, 0.0718)  # here removing the user, with some own keys, is the worst
def test_skipping_what_cannot_be_the_maximum_changes_nothing(
    noise: Noise, threshold: int, per_user: int, epsilon: float
) -> None:
    p_low, p_high = tail_bounds(noise, threshold)
    loss = -math.log1p(-p_high)
    plain = 0.0
    for own in range(per_user + 1):
        shared = per_user - own
        adding = any_passes(p_high, own) + (1 - p_low) ** own * hockey_stick(noise, shared, epsilon + own * loss)
        plain = max(plain, adding, hockey_stick(noise, shared, epsilon - own * loss))
    assert histogram_delta(noise, threshold, per_user, epsilon) == pytest.approx(min(1.0, plain), rel=1e-8)


def test_an_off_by_one_in_p_is_caught() -> None:
    """A formula for >= instead of > (or the other way) is not within reach of the enumeration."""
    noise, threshold, epsilon = Laplace(1.0), 3, 1.0
    found = brute_force(noise, threshold, 1, [], epsilon)
    assert found == pytest.approx(laplace_delta(noise, threshold, 1), rel=1e-9)
    for wrong in (threshold - 1, threshold + 1):
        assert abs(laplace_delta(noise, wrong, 1) / found - 1) > 0.5


def test_a_key_that_is_sure_to_pass_protects_nobody() -> None:
    assert histogram_delta(Laplace(0.01), 0, 2, 1.0) == 1.0
    assert histogram_delta(Gaussian(0.01), 0, 2, 1.0) == 1.0


def test_chances_at_the_ends() -> None:
    assert any_passes(0.0, 5) == 0.0
    assert any_passes(1.0, 5) == 1.0
    assert any_passes(1.0, 0) == 0.0


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
