"""Noise laws and numbers of rare events: exact to any number of digits (histogram.md, query_pool.md)."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from itertools import islice
from math import comb, exp, factorial, sqrt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from querycloak.errors import EngineError, ParameterError
from querycloak.privacy.sampling.exact import Chance, exp_minus, float_up, four_digits_up, rounded_up, shown_up, stated
from querycloak.privacy.sampling.noise import MOST_EXPECTED, Gaussian, Laplace, Noise, RareEvents, share_out
from querycloak.privacy.sampling.randomness import MANY, Randomness
from tests.unit.privacy.privacy_oracles import law

scales = st.floats(min_value=0.05, max_value=20)
noises = st.one_of(scales.map(Laplace), scales.map(Gaussian))


@given(st.fractions(min_value=0, max_value=300, max_denominator=10**6), st.integers(8, 400))
def test_exp_minus_encloses(x: Fraction, bits: int) -> None:
    low, high = exp_minus(x, bits)
    with localcontext() as context:
        context.prec = 400
        exact = (-Decimal(x.numerator) / Decimal(x.denominator)).exp() * Decimal(2) ** bits
        assert low <= exact <= high
    assert high - low <= 2


@given(st.fractions(min_value=0, max_value=1), st.integers(1, 100))
def test_digits_of_a_rational(p: Fraction, bits: int) -> None:
    assert Chance.exactly(p).floor(bits) == (p.numerator << bits) // p.denominator


def test_digits_that_never_settle_are_our_bug() -> None:
    with pytest.raises(EngineError, match="did not settle"):
        Chance(lambda bits: ((1 << bits - 1) - 1, (1 << bits - 1) + 1)).floor(8)


@given(st.fractions(min_value=0, max_value=10**6))
def test_rounding_up_never_rounds_down(exact: Fraction) -> None:
    assert Fraction(float_up(exact)) >= exact
    assert stated(rounded_up(exact)) >= exact
    assert rounded_up(exact) <= math.nextafter(float_up(exact), math.inf)


@given(st.fractions(min_value=Fraction(1, 10**30), max_value=10**30) | st.floats(1e-30, 1e30))
def test_four_digits_never_round_down_and_no_smaller_four_do(number: Fraction | float) -> None:
    shown = four_digits_up(number)
    exact = number if isinstance(number, Fraction) else stated(number)
    assert float(f"{shown:.4g}") == shown
    below = Decimal(repr(shown)).next_minus(Context(prec=4))
    assert Fraction(below) < exact <= stated(shown)
    assert four_digits_up(shown) == shown


def test_four_digits_of_what_lies_just_above_four_digits() -> None:
    assert four_digits_up(3.48400000000005) == 3.485
    assert four_digits_up(3.484) == 3.484
    assert four_digits_up(0.1) == 0.1
    assert four_digits_up(9999.5) == 10000.0
    assert [shown_up(number) for number in (0.0, 8.0, 9.9438e-06, 9999.5, 16 / 3)] == [
        "0",
        "8",
        "9.944e-06",
        "1e+04",
        "5.334",
    ]
    assert four_digits_up(stated(3.0) * Fraction(1001, 1000)) == 3.003  # 3 * 1.001 is 3.0029999999999997


@given(noises, st.integers(-30, 30))
def test_pmf_and_tail_are_the_law(noise: Noise, m: int) -> None:
    reach, chances = law(noise)
    if abs(m) < reach:
        assert noise.pmf(m).up() == pytest.approx(chances[m + reach], rel=1e-9, abs=1e-15)
        assert noise.tail(m).up() == pytest.approx(chances[m + reach :].sum(), rel=1e-9, abs=1e-13)
    assert noise.tail(m).down() <= noise.tail(m).up()


@given(noises, st.integers(-20, 20))
def test_tails_and_pmf_fit_exactly(noise: Noise, m: int) -> None:
    bits = 200
    step = noise.tail(m).floor(bits) - noise.tail(m + 1).floor(bits)
    assert abs(step - noise.pmf(m).floor(bits)) <= 2
    assert abs(noise.tail(m).floor(bits) + noise.tail(1 - m).floor(bits) - (1 << bits)) <= 2


@given(noises, st.integers(0, 8), st.integers(1, 12))
def test_survival_is_a_ratio_of_tails(noise: Noise, start: int, steps: int) -> None:
    bits = 600  # enough for the far tails of small noise to keep their digits
    survival = list(noise.survival(start, bits))
    if steps < len(survival) and noise.tail(start).floor(bits) > 1 << 300:
        low, high = survival[steps - 1]
        exact = Fraction(noise.tail(start + steps).floor(bits), noise.tail(start).floor(bits)) * (1 << bits)
        assert low - (1 << 320) <= exact <= high + (1 << 320)


def test_laplace_closed_form() -> None:
    q = math.exp(-1)
    assert Laplace(1).tail(5).up() == pytest.approx(q**5 / (1 + q), rel=1e-15)
    assert Laplace(1).pmf(0).up() == pytest.approx((1 - q) / (1 + q), rel=1e-15)


def test_tiny_chances_stay_above_zero() -> None:
    assert Laplace(0.001).tail(5).up() > 0
    assert Gaussian(1).tail(100).up() > 0
    assert Gaussian(1).tail(100).down() == 0


@pytest.mark.parametrize("value", [0, -1, math.nan, math.inf, True, "1", None])
def test_bad_noise(value: object) -> None:
    with pytest.raises(ParameterError, match=r"noise scale must be .*a finite number above 0.*; give the scale"):
        Laplace(value)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=r"noise sigma must be .*a finite number above 0.*; give the sigma"):
        Gaussian(value)  # type: ignore[arg-type]


def test_noise_that_drowns_everything() -> None:
    with pytest.raises(ParameterError, match=r"noise scale must be at most 16,384, got 1000000.0"):
        Laplace(1e6)


def exact_survival(n: int, p: Fraction, j: int) -> Fraction:
    return sum((comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(j, n + 1)), Fraction(0))


@given(st.integers(1, 40), st.fractions(Fraction(1, 10**6), Fraction(1, 2)), st.sampled_from([8, 64, 200]))
@example(2, Fraction(1, 16), 8)
def test_bounds_hold_the_binomial_tail(n: int, p: Fraction, bits: int) -> None:
    bounds = islice(RareEvents(n, Chance.exactly(p)).survival(0, bits), n + 2)
    for j, (low, high) in enumerate(bounds, 1):
        assert low <= exact_survival(n, p, j) * 2**bits < high
        assert high - low <= 2


@given(st.integers(1, 10**15), st.fractions(Fraction(1, 10**12), Fraction(1, 2)))
def test_parts_make_up_the_whole_and_few_are_expected_in_each(n: int, p: Fraction) -> None:
    parts = share_out(n, Chance.exactly(p))
    assert sum(size * number for size, number in parts) == n
    assert all(size == 1 or size * p <= MOST_EXPECTED for size, _ in parts)


@pytest.mark.parametrize("n", [10**9, 10**12])
def test_the_number_of_rare_events_has_its_law(n: int) -> None:
    """With n this large the binomial is Poisson's law but for a part in 10^7: each frequency within six deviations."""
    chance = Chance.exactly(Fraction(3, n))
    randomness, runs = Randomness(seed=n), 5_000
    seen = Counter(randomness.binomial(n, chance) for _ in range(runs))
    for k in range(12):
        expected = exp(-3) * 3**k / factorial(k)
        assert abs(seen[k] / runs - expected) <= 6 * sqrt(expected / runs) + 1 / runs


def test_many_parts_have_mean_and_variance_of_the_whole() -> None:
    chance = Laplace(2.0).tail(30)
    n = 10**12
    mean = n * chance.up()
    assert mean > 100_000
    randomness = Randomness(seed=4)
    draws = [randomness.binomial(n, chance) for _ in range(60)]
    assert abs(sum(draws) / 60 - mean) < 6 * sqrt(mean / 60)
    spread = sum((draw - mean) ** 2 for draw in draws) / 60
    assert 0.25 * mean < spread < 2.5 * mean


def test_few_or_likely_events_are_decided_bit_by_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(Randomness, "_rare")
    assert Randomness(seed=1).binomial(MANY, Laplace(1.0).tail(40)) == 0
    assert 0 < Randomness(seed=1).binomial(MANY + 1, Chance.exactly(Fraction(1, 3))) < MANY


def test_events_are_counted_from_none() -> None:
    with pytest.raises(ValueError, match="from none"):
        next(RareEvents(3, Chance.exactly(Fraction(1, 3))).survival(1, 64))
