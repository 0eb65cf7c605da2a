"""Choosing among plans: the law that is drawn, its privacy by the exact probabilities, the gains (bound_choice.md)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.keys.selection_plan import BOUNDS, CHOICES, SplitBudget
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.calibration.bound_choice import choose_plan, largest_score, qualities
from querycloak.privacy.calibration.histogram_plan import HistogramPlan, price
from querycloak.privacy.calibration.selection import plan_tables
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.sampling.exact import rounded_down, stated
from querycloak.privacy.sampling.noise import Gaussian, Laplace
from querycloak.privacy.sampling.randomness import Randomness
from tests.unit.privacy.privacy_oracles import surprising

ONE_DRAW: list[TablePlan] = [price(Laplace(0.125), 2, 1), price(Laplace(0.5), 9, 4), price(Gaussian(3.9), 23, 32)]
WEIGHTED, ROUNDS = (
    plan_tables(8, 1e-6, {"keys": 64}, selection=name).plans["keys"] for name in ("weighted", "multi-round")
)
PLANS = [*ONE_DRAW, WEIGHTED, ROUNDS]
DIGITS = Context(prec=60, Emin=MIN_EMIN, Emax=MAX_EMAX)
"""Chances of e^-millions are not 0 here."""


class Exponents(Randomness):
    """Keeps what it was asked for, so that a test can see exact probabilities."""

    def proportional_to_exp_minus(self, exponents: Sequence[Fraction]) -> int:
        self.asked = list(exponents)
        return 0


def chances(users: dict[int, int], epsilon: float) -> list[Decimal]:
    seen = Exponents(seed=0)
    choose_plan([{"keys": plan} for plan in PLANS], {"keys": users}, epsilon, seen)
    with localcontext(DIGITS):
        weights = [(-Decimal(x.numerator) / Decimal(x.denominator)).exp() for x in seen.asked]
        return [weight / sum(weights) for weight in weights]


@given(
    st.dictionaries(st.integers(1, 300), st.integers(0, 10**6), max_size=6),
    st.integers(1, 300),
    st.sampled_from([0.02, 0.16, 1.0]),
)
@example({8: 302_720, 9: 1_000_000, 10: 1_000_000}, 1, 1.0)
@settings(max_examples=60, deadline=None)
def test_one_more_user_changes_no_chance_by_more_than_epsilon(users: dict[int, int], keys: int, epsilon: float) -> None:
    """The claim, with the exact probabilities, whatever log and whichever user."""
    more = Counter(users) + Counter({keys: 1})
    with localcontext(DIGITS):
        for with_user, without in zip(chances(dict(more), epsilon), chances(users, epsilon), strict=True):
            assert abs((with_user / without).ln()) <= Decimal(epsilon) + Decimal("1e-40")


def test_the_claim_is_tight_enough_to_notice_a_missing_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the reach of the smallest plan only, the test above would fail: it has power."""
    for kind in (HistogramPlan, WeightedPlan):
        monkeypatch.setattr(kind, "gain", lambda plan, keys: Fraction(3 * min(keys, plan.per_user)))
    true = chances({32: 5}, 1.0)
    honest = [abs((a / b).ln()) for a, b in zip(chances({32: 6}, 1.0), true, strict=True)]
    assert max(honest) <= 1
    assert max(honest) > Decimal("0.4")


def test_the_law_that_is_drawn() -> None:
    randomness = Randomness(seed=7)
    exponents = [Fraction(1), Fraction(0), Fraction(0), Fraction(5, 2), Fraction(10**6)]
    n = 3_000
    drawn = Counter(randomness.proportional_to_exp_minus(exponents) for _ in range(n))
    weights = [math.exp(-float(x)) for x in exponents]
    for i, weight in enumerate(weights):
        assert not surprising(drawn[i], n, weight / sum(weights)), i
    assert drawn[4] == 0
    assert surprising(drawn[0], n, weights[0] / sum(weights) * 0.6)  # it has power
    assert Randomness().proportional_to_exp_minus([Fraction(0)]) == 0


@pytest.mark.parametrize("exponents", [[], [Fraction(1)], [Fraction(-1), Fraction(0)]])
def test_exponents_begin_at_zero(exponents: list[Fraction]) -> None:
    with pytest.raises(ParameterError, match="exponents must be at least one, the smallest of them 0"):
        Randomness(seed=1).proportional_to_exp_minus(exponents)


def gained(plan: TablePlan, users: dict[int, int]) -> Fraction:
    return sum((number * plan.gain(keys) for keys, number in users.items()), Fraction(0))


def test_gains_by_hand() -> None:
    """What a user adds, over what a key needs: 3 keys and 100 keys, of which 1, 4, 32 or 64 count."""
    users = {3: 10, 100: 1}
    assert [gained(plan, users) for plan in ONE_DRAW] == [Fraction(11, 3), Fraction(34, 10), Fraction(62, 24)]
    # floor(256/sqrt(3)) = 147 and floor(256/sqrt(64)) = 32; floor(256 sqrt(4/8)) = 181 and floor(256 sqrt(4/64)) = 64.
    assert gained(WEIGHTED, users) == Fraction(10 * 3 * 147 + 64 * 32, WEIGHTED.threshold)
    assert gained(ROUNDS, users) == Fraction(10 * 3 * 181 + 64 * 64, ROUNDS.threshold)


def qualities_of(plans: list[TablePlan], users: dict[int, int]) -> list[Fraction]:
    return qualities([{"keys": plan} for plan in plans], {"keys": users})


def test_scores_by_hand() -> None:
    """Gains above the least one; of a user of 100 keys squeezed to 1/3, the most that one key gains."""
    assert qualities_of(ONE_DRAW, {1: 2}) == [
        2 * Fraction(1, 3) - 2 * Fraction(1, 24),
        2 * Fraction(1, 10) - 2 * Fraction(1, 24),
        0,
    ]
    # Gains of 100 keys: 1/3, 4/10 and 32/24. The last is 1 above the first, so all differences are divided by 3.
    assert qualities_of(ONE_DRAW, {100: 3}) == [0, Fraction(1, 15), 1]
    assert qualities_of(PLANS, {}) == [0] * 5
    both = qualities(
        [{"clicks": ONE_DRAW[0], "sessions": ONE_DRAW[2]}, {"clicks": ONE_DRAW[2], "sessions": ONE_DRAW[0]}],
        {"clicks": {1: 1}, "sessions": {100: 6}},
    )
    assert both == [Fraction(1, 3) - Fraction(1, 24) + 2, 0]


@given(st.integers(1, 300))
def test_nobody_adds_more_than_a_user_of_one_key_may(keys: int) -> None:
    plans = [{"keys": plan} for plan in PLANS]
    scores = qualities(plans, {"keys": {keys: 1}})
    assert min(scores) == 0
    assert max(scores) <= largest_score(plans) == max(plan.gain(1) for plan in PLANS)
    # Nobody's order of preference is changed.
    gains = [plan.gain(keys) for plan in PLANS]
    assert sorted(range(5), key=lambda i: (scores[i], i)) == sorted(range(5), key=lambda i: (gains[i], i))


@given(st.floats(1e-3, 50), st.floats(1e-4, 0.9))
def test_the_parts_of_epsilon_never_exceed_it(epsilon: float, part: float) -> None:
    choosing, left = SplitBudget.of(epsilon, part)
    assert stated(choosing) + stated(left) <= stated(epsilon)
    assert choosing == pytest.approx(part * epsilon, rel=1e-6)


@given(st.fractions(min_value=Fraction(1, 10**9), max_value=10**6))
def test_rounded_down(exact: Fraction) -> None:
    assert stated(rounded_down(exact)) <= exact
    assert rounded_down(exact) == pytest.approx(float(exact), rel=1e-10)


def test_the_guarantee_is_known_before_the_data_and_every_plan_fits_it() -> None:
    method = Clicks(epsilon=3, delta=1e-6)
    proven = method.proven()
    assert (proven.epsilon, proven.delta) == (3.0, 1e-6)
    assert method.plan.budget is not None
    choosing, left = method.plan.budget
    assert (choosing, left) == (0.03, 2.97)
    plans = [plans["clicks"] for plans in method.plan.alternatives]
    assert [(plan.per_user, plan.selection) for plan in plans] == list(CHOICES)
    assert all(plan.epsilon <= left and plan.delta <= 1e-6 for plan in plans)
    assert method.parameters() == {
        "selection": "auto",
        "per_user": "auto",
        "auto_choices": ["laplace 1", "rounds 16", "rounds 256"],
        "auto_share": 0.01,
        "priors": None,
        "counts": None,
    }
    given_law = Clicks(epsilon=3, delta=1e-6, max_keys_per_user="auto", selection="gaussian").plan
    assert [plans["clicks"].per_user for plans in given_law.alternatives] == list(BOUNDS)
    dearer = Clicks(epsilon=3, delta=1e-6, max_keys_per_user="auto", auto_share=0.1)
    assert dearer.plan.budget == (0.3, 2.7)
    assert dearer.proven().epsilon == 3.0
    assert [each.to_json()["epsilon"] for each in method.draws()] == [0.03, 2.97]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 1, "threshold": 9, "max_keys_per_user": "auto"}, "max_keys_per_user='auto' needs the budget"),
        (
            {"epsilon": 1, "delta": 1e-6, "max_keys_per_user": "auto", "variant": "paper"},
            "the paper variant has no way",
        ),
        (
            {"epsilon": 1, "delta": 1e-6, "max_keys_per_user": "most"},
            "max_keys_per_user must be a whole number or auto, got 'most'",
        ),
        (
            {"epsilon": 1, "delta": 1e-6, "max_keys_per_user": 4, "auto_share": 0.1},
            "auto_share goes with max_keys_per_user='auto'",
        ),
        (
            {"epsilon": 1, "delta": 1e-6, "max_keys_per_user": "auto", "auto_share": 1},
            "auto_share must be a number above 0",
        ),
        ({"epsilon": 0, "delta": 1e-6, "max_keys_per_user": "auto"}, "epsilon must be a finite number above 0"),
        ({"epsilon": 1, "delta": 0, "max_keys_per_user": "auto"}, "delta must be a number above 0 and below 1"),
        ({"epsilon": 1e-6, "delta": 1e-6, "max_keys_per_user": "auto"}, "budget must allow noise"),
    ],
)
def test_what_does_not_go_with_auto(options: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Clicks(**options)  # type: ignore[arg-type]


def test_what_is_given_is_not_chosen() -> None:
    """Explicit noise, a bound, a selection, two draws and the paper's variant stay as given, at no charge."""
    budget: dict[str, Any] = {"epsilon": 1, "delta": 1e-6}
    options: list[dict[str, Any]] = [
        {"max_keys_per_user": 4},
        {"selection": "multi-round"},
        {"two_draws": True},
        {"variant": "paper"},
    ]
    for each in options:
        assert not Clicks(**budget, **each).plan.candidates, each
    assert not Clicks(noise=1, threshold=9).plan.candidates
    assert Clicks(**budget, selection="multi-round").plans["clicks"].per_user == 256
    small = Clicks(epsilon=0.1, delta=1e-8).plan.candidates
    assert [str(each.choice) for each in small] == ["laplace 1", "gaussian 8", "gaussian 32", "weighted 256"]


def test_sessions_choose_their_own_bounds() -> None:
    plan = Sessions(epsilon=8, delta=1e-6, no_clicks=True).plan
    candidates = [each.method.parameters() for each in plan.candidates]
    assert [(each["sessions_per_user"], each["queries_per_session"]) for each in candidates] == [
        (1, 2),
        (4, 3),
        (62, 3),
    ]
    assert [each["sequences_per_user"] for each in candidates] == [1, 16, 248]
    options: list[dict[str, Any]] = [{"sessions_per_user": 4}, {"queries_per_session": 3}, {"selection": "laplace"}]
    for each in [*options, {"max_keys_per_user": 4}]:
        assert not Sessions(epsilon=8, delta=1e-6, **each).plan.candidates, each


def test_there_is_no_plan_before_the_choice() -> None:
    with pytest.raises(ParameterError, match="max_keys_per_user='auto' is chosen when the log is released"):
        _ = Clicks(epsilon=1, delta=1e-6, max_keys_per_user="auto").plans
    with pytest.raises(ParameterError, match="at least one plan"):
        choose_plan([], {"keys": {1: 1}}, 0.1, Randomness(seed=1))
