import math
import subprocess
import sys
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.privacy.chance.exact import stated
from querycloak.privacy.chance.noise import Gaussian, Laplace
from querycloak.privacy.prices.calibration import calibrate
from querycloak.privacy.prices.deltas import histogram_delta, laplace_delta
from querycloak.privacy.prices.histogram_plan import price, public_keys_guarantee
from querycloak.privacy.prices.paper_variant import paper_claimed, paper_guarantees

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
    if isinstance(plan.fresh, Laplace):
        spent += per_user / Fraction(plan.fresh.scale)
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
    assert plan.fresh == (plan.noise if two_draws else None)


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


def test_the_deciding_share_splits_epsilon() -> None:
    plan = calibrate(8, 1e-6, 2, law="laplace", two_draws=True, deciding_share=0.75)
    assert (plan.noise, plan.fresh, plan.epsilon) == (Laplace(math.nextafter(1 / 3, 1)), Laplace(1.0), 8.0)


def test_where_gaussian_noise_would_drown_all_laplace_is_left() -> None:
    assert isinstance(calibrate(0.0001, 1e-6, 1).noise, Laplace)
    with pytest.raises(ParameterError, match="the budget must allow noise of at most 16,384, it needs Gaussian"):
        calibrate(0.0001, 1e-6, 1, law="gaussian")
    with pytest.raises(ParameterError, match=r"it needs Laplace noise of scale 1e\+06; raise epsilon or delta"):
        calibrate(1e-6, 1e-6, 1)


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
    assert price(Laplace(1), 5, 3, fresh=Laplace(2)).epsilon == 4.5
    twice = price(Laplace(1), 5, 2, fresh=Laplace(1), epsilon=1)
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
    assert " exceeds 2, and this noisy count is published " in calibrate(8, 2.25e-7, 1).guarantee().because


def test_public_keys() -> None:
    pure = public_keys_guarantee(Laplace(0.5), 3)
    assert (pure.kind, pure.epsilon, pure.delta) == ("pure-dp", 6.0, 0.0)
    approximate = public_keys_guarantee(Gaussian(3.9), 32, epsilon=8)
    assert approximate.kind == "approximate-dp"
    assert approximate.delta == pytest.approx(1.84e-7, rel=5e-3)  # histogram.md, claim 3: here the noise decides delta
    with pytest.raises(ParameterError, match="epsilon must be given, a number where noise is Gaussian"):
        public_keys_guarantee(Gaussian(3.9), 32)


def test_the_papers_guarantees() -> None:
    claimed, proven = paper_guarantees(Laplace(1), 20, 4)
    assert claimed.epsilon == proven.epsilon == 8.0
    # alpha's second term is the larger one for a low threshold and wide noise: claimed more than proven
    claimed, proven = paper_guarantees(Laplace(20), 40, 1)
    assert proven.epsilon == 0.1
    assert claimed.epsilon is not None
    assert claimed.epsilon == pytest.approx(max(0.05, math.log(1 / (1 - math.exp(-39 / 20) / 2))) + 0.05)
    assert claimed.epsilon > proven.epsilon


@pytest.mark.parametrize(
    ("threshold", "sensitivity", "message"),
    [
        (
            4,
            8,
            r"threshold must be high enough for delta to stay below 1 \(it is 218\), got 4; raise threshold or lower",
        ),
        (0, 1, "threshold must be at least 1, got 0"),
        (20, 0, "per_user must be at least 1, got 0"),
    ],
)
def test_bad_paper_knobs(threshold: int, sensitivity: int, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        paper_guarantees(Laplace(1), threshold, sensitivity)


@given(st.floats(0.01, 100), st.integers(1, 30), st.integers(1, 30))
def test_what_the_paper_can_claim_is_within_our_proof(scale: float, threshold: int, sensitivity: int) -> None:
    """Claim 5 needs sensitivity <= threshold; a claimed delta below 1 implies it."""
    _, delta = paper_claimed(scale, threshold, sensitivity)
    assert delta >= 1 or sensitivity <= threshold


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
        ({"per_user": 0}, "per_user must be at least 1, got 0; say how many keys"),
        ({"per_user": 1.0}, "per_user must be a whole number, got 1.0"),
        ({"per_user": 10**7}, "per_user must be at most 1,000,000, got 10000000"),
        ({"law": "cauchy"}, "law must be one of laplace, gaussian, got 'cauchy'; or leave it out"),
        ({"deciding_share": 1}, "deciding_share must be a number above 0 and below 1, got 1"),
    ],
)
def test_other_bad_budgets(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        calibrate(**({"epsilon": 1, "delta": 1e-7, "per_user": 1} | arguments))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"threshold": -1}, "threshold must be at least 0, got -1; give the count K"),
        ({"threshold": math.nan}, "threshold must be a whole number, got nan"),
        ({"fresh": Gaussian(1)}, "fresh must be noise of the same law as the first, got Gaussian"),
        ({"noise": Gaussian(2), "fresh": Gaussian(1)}, "fresh must be the same noise as the first, Gaussian"),
        ({"fresh": Laplace(2), "epsilon": 1}, "epsilon must be at least 3.0 for two different scales, got 1"),
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


def test_an_answer_needs_no_heavy_import() -> None:
    code = (
        "import sys; from querycloak.privacy.prices.calibration import calibrate;"
        "from querycloak.privacy.explanation import explain;"
        "explain(calibrate(8, 2.25e-7, 32).guarantee());"
        "print([m for m in ('opendp', 'numba', 'pyarrow', 'ibis', 'numpy.random') if m in sys.modules])"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
