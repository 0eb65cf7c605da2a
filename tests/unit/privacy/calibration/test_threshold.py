import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.deltas import histogram_delta, laplace_delta
from querycloak.privacy.calibration.threshold import calibrate
from querycloak.privacy.sampling.exact import stated
from querycloak.privacy.sampling.noise import Laplace

epsilons = st.floats(min_value=0.05, max_value=20)


deltas = st.floats(min_value=1e-12, max_value=1e-2)


bounds = st.integers(min_value=1, max_value=64)


@settings(max_examples=60)
@given(epsilons, deltas, bounds, st.booleans())
def test_laplace_meets_the_budget_and_no_smaller_threshold_does(
    epsilon: float, delta: float, per_user: int, two_draws: bool
) -> None:
    plan = calibrate(epsilon, delta, per_user, law="laplace", two_draws=two_draws)
    assert isinstance(plan.noise, Laplace)
    spent = per_user / Fraction(plan.noise.scale)
    if isinstance(plan.published_noise, Laplace):
        spent += per_user / Fraction(plan.published_noise.scale)
    assert spent <= stated(plan.epsilon) <= stated(epsilon)
    assert plan.delta <= delta
    assert plan.threshold == 0 or laplace_delta(plan.noise, plan.threshold - 1, per_user) > delta


@settings(max_examples=25)
@given(epsilons, deltas, bounds, st.booleans())
def test_gaussian_meets_the_budget(epsilon: float, delta: float, per_user: int, two_draws: bool) -> None:
    plan = calibrate(epsilon, delta, per_user, law="gaussian", two_draws=two_draws)
    assert plan.epsilon == epsilon
    draws = 2 if two_draws else 1
    assert histogram_delta(plan.noise, plan.threshold, per_user, epsilon, draws=draws) == plan.delta <= delta
    assert plan.published_noise == (plan.noise if two_draws else None)


@settings(max_examples=15)
@given(epsilons, deltas, bounds)
def test_the_default_is_the_smaller_threshold(epsilon: float, delta: float, per_user: int) -> None:
    plans = [calibrate(epsilon, delta, per_user, law=law) for law in ("laplace", "gaussian")]
    assert calibrate(epsilon, delta, per_user) == min(plans, key=lambda plan: plan.threshold)


def test_a_scale_that_is_no_float_is_rounded_to_the_safe_side() -> None:
    plan = calibrate(3, 1e-6, 1, law="laplace")
    assert isinstance(plan.noise, Laplace)
    assert Fraction(plan.noise.scale) > Fraction(1, 3)
    assert plan.epsilon == 3.0


def test_two_laplace_draws_halve_epsilon() -> None:
    plan = calibrate(8, 1e-6, 2, law="laplace", two_draws=True)
    assert (plan.noise, plan.published_noise, plan.epsilon) == (Laplace(0.5), Laplace(0.5), 8.0)


def test_where_gaussian_noise_would_drown_all_laplace_is_left() -> None:
    assert isinstance(calibrate(0.0001, 1e-6, 1).noise, Laplace)
    with pytest.raises(ParameterError, match="the budget must allow noise of at most 16,384, it needs Gaussian"):
        calibrate(0.0001, 1e-6, 1, law="gaussian")
    with pytest.raises(ParameterError, match=r"it needs Laplace noise of scale 1e\+06; raise epsilon or delta"):
        calibrate(1e-6, 1e-6, 1)


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, True, "8", None])
def test_bad_epsilon(epsilon: Any) -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be .*a finite number above 0.*; give a number"):
        calibrate(epsilon, 1e-7, 1)


@pytest.mark.parametrize("delta", [0, 1, -1, 2, math.nan, math.inf, True, "x", None])
def test_bad_delta(delta: Any) -> None:
    with pytest.raises(ParameterError, match=r"delta must be .*a number above 0 and below 1.*; give a number"):
        calibrate(1, delta, 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"per_user": 0}, "max_keys_per_user must be at least 1, got 0; say how many keys"),
        ({"per_user": 1.0}, "max_keys_per_user must be a whole number, got 1.0"),
        ({"per_user": 10**7}, "max_keys_per_user must be at most 1,000,000, got 10000000"),
        ({"law": "cauchy"}, "law must be one of laplace, gaussian, got 'cauchy'; or leave it out"),
    ],
)
def test_other_bad_budgets(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        calibrate(**({"epsilon": 1, "delta": 1e-7, "per_user": 1} | arguments))


def test_an_answer_needs_no_heavy_import() -> None:
    code = (
        "import sys; from querycloak.privacy.calibration.threshold import calibrate;"
        "from querycloak.privacy.explanation import explain;"
        "explain(calibrate(8, 2.25e-7, 32).guarantee());"
        "print([m for m in ('opendp', 'numba', 'pyarrow', 'ibis', 'numpy.random') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
