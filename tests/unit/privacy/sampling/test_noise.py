import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.errors import EngineError, ParameterError
from querycloak.privacy.sampling.exact import Chance, exp_minus, float_up, four_digits_up, rounded_up, shown_up, stated
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
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
