import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.methods.semantic.method import Semantic
from querycloak.privacy.calibration.histogram_plan import price
from querycloak.privacy.explanation import belief_after, caught_at_most, cautions_of, explain, group_delta
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.exact import stated
from querycloak.privacy.sampling.noise import Laplace


def guarantee(epsilon: float, delta: float = 1e-7, unit: str = "user", kind: str = "approximate-dp") -> Guarantee:
    neighbours = "add-remove-user" if unit == "user" else "replace-query"
    return Guarantee(kind=kind, unit=unit, neighbours=neighbours, epsilon=epsilon, delta=delta, because="a proof")


def test_beliefs_by_hand() -> None:
    assert belief_after(0.5, math.log(3)) == pytest.approx(0.75)
    assert belief_after(0.01, 8) == pytest.approx(0.01 * math.exp(8) / (0.01 * math.exp(8) + 0.99))


@given(st.floats(0.001, 0.999), st.floats(0.01, 10), st.floats(0, 1), st.floats(0, 1))
def test_no_pair_of_likelihoods_within_epsilon_lifts_a_belief_further(
    before: float, epsilon: float, likelihood: float, ratio: float
) -> None:
    inside = max(likelihood, 1e-9)
    outside = inside * math.exp(-epsilon * ratio)
    after = before * inside / (before * inside + (1 - before) * outside)
    assert after <= belief_after(before, epsilon) + 1e-12


@given(st.floats(0.01, 5), st.floats(1e-9, 0.3))
def test_the_leaky_answer_is_the_worst_test(epsilon: float, delta: float) -> None:
    """With probability delta the truth, else a coin within epsilon: its best test meets the stated bound."""
    heads = math.exp(epsilon) / (1 + math.exp(epsilon))
    member = np.array([delta, (1 - delta) * heads, (1 - delta) * (1 - heads), 0])
    other = np.array([0, (1 - delta) * (1 - heads), (1 - delta) * heads, delta])
    for size in range(5):
        false_alarms, caught = other[:size].sum(), member[:size].sum()
        assert caught <= caught_at_most(false_alarms, epsilon, delta) + 1e-12
    assert member[:2].sum() == pytest.approx(caught_at_most(other[:2].sum(), epsilon, delta))


def test_moderate_epsilon_reads_well() -> None:
    text = explain(guarantee(1.0))
    assert "50 %" in text
    assert "73.2 %" in text  # 1/(1+1/e) = 73.11, rounded up
    assert "2.7 %" in text  # 2.67 rounded up
    assert "1 in 10,000,000" in text
    assert "weak promise" not in text


def test_large_epsilon_is_called_what_it_is() -> None:
    text = explain(guarantee(8, 2.25e-7))
    assert "99.97 %" in text
    assert "96.8 %" in text
    assert "weak promise" in text
    assert "almost 100 %" in explain(guarantee(40))
    assert "a factor of at most 10^18, up" in explain(guarantee(40))  # e^40 = 2.35e17
    assert "a factor of at most 4.482, up" in explain(guarantee(1.5))  # e^1.5 = 4.4817


def test_large_delta_is_called_what_it_is() -> None:
    assert "is no protection: the exception will happen to some people" in explain(guarantee(1, 0.5))
    assert "50 %)" in explain(guarantee(1, 0.5))


def test_pure_has_no_exception() -> None:
    assert "no exception" in explain(guarantee(1, 0.0, kind="pure-dp"))


def test_each_kind_and_unit_says_what_it_is_about() -> None:
    assert "a certain search was for one thing" in explain(guarantee(1, unit="query"))
    one_step = explain(guarantee(1, 0.1, kind="sampling-only"))
    assert one_step.startswith("Nothing limits what this release tells about one person.")
    assert "one step of the method only: the random choice of rows" in one_step
    assert "%" not in one_step  # no number that looks like a bound
    nothing = Guarantee(kind="syntactic", unit="user", neighbours=None, because="not private")
    assert explain(nothing).startswith("Nothing limits what this release tells about one person.")
    syntactic = Guarantee(kind="syntactic", unit="user", neighbours=None, k=5, because="a count of users")
    assert "at least 5 users share it" in explain(syntactic)
    assert "sets no limit" in explain(syntactic)


@pytest.mark.parametrize("kind", ["pure-dp", "syntactic"])
def test_the_texts_of_the_guarantee_are_not_repeated(kind: str) -> None:
    numbers = {"epsilon": 1.0} if kind == "pure-dp" else {"k": 5}
    neighbours = "add-remove-user" if kind == "pure-dp" else None
    fields: dict[str, Any] = {"kind": kind, "unit": "user", "neighbours": neighbours, **numbers}
    text = explain(Guarantee(**fields, unprotected=("the day of a search",), because="a lemma"))
    assert "the day of a search" not in text
    assert "a lemma" not in text


def test_the_limit_of_any_test_is_said_plainly() -> None:
    """1 % e^4 = 54.6 % at epsilon 4."""
    assert (
        "Suppose that somebody uses a test to find out who is in the log. If the test wrongly names 1 % of the people "
        "who are not, it rightly names at most 54.6 % of those who are."
    ) in explain(guarantee(4))


def test_what_is_compared_where_queries_are_replaced() -> None:
    one = Guarantee(kind="pure-dp", unit="user", neighbours="replace-query", epsilon=1, because="a proof")
    text = explain(one)
    assert "who is known to be in the log, searched for these things or for quite others" in text
    assert "to find out who searched for one thing" in text
    assert "does not cover whether that person is in the log" in text
    assert "is in the log at all" not in text
    raw = Guarantee(kind="sampling-only", unit="query", neighbours="replace-query", epsilon=1, because="a proof")
    assert "released as it was typed" in explain(raw)
    assert "the random choice of the concept that replaces another" in explain(raw)


@given(st.integers(1, 12), st.floats(0.01, 30), st.floats(1e-15, 0.5))
def test_the_delta_of_a_group_is_rounded_up_and_ends_at_1(size: int, epsilon: float, delta: float) -> None:
    exact = stated(delta) * sum(stated(math.exp(step * epsilon)) for step in range(size))
    shown = group_delta(size, epsilon, delta)
    assert min(1.0, float(exact) * (1 - 1e-9)) <= shown <= min(1.0, float(exact) * (1 + 1.1e-3))
    assert group_delta(size, epsilon, 0.0) == 0


@given(st.floats(0.1, 10), st.integers(1, 40), st.integers(1, 45))
def test_no_group_brings_its_own_key_out_more_often_than_its_delta(epsilon: float, threshold: int, size: int) -> None:
    """Without the group its key cannot come out: whatever epsilon is, its chance to do so is within delta."""
    plan = price(Laplace(1 / epsilon), threshold, 1)
    assert plan.noise.tail(threshold + 1 - size).down() <= group_delta(size, plan.epsilon, plan.delta)


def test_three_accounts_of_one_person_have_more_than_three_times_epsilon() -> None:
    """A bound of one key, noise of scale 1/8, threshold 2: what three accounts share comes out nearly always."""
    plan = price(Laplace(1 / 8), 2, 1)
    assert plan.epsilon == 8
    assert plan.delta < 2.25e-7
    assert plan.noise.tail(0).down() == pytest.approx(0.99966, abs=1e-5)
    text = " ".join(explain(guarantee(8, 2.25e-7)).split())
    assert "one person replaced by another: epsilon 16, delta 0.000671 (1 in 1,490)." in text
    assert "For three accounts: nothing is promised (delta reaches 1)." in text
    assert "For three accounts: epsilon 3, delta 1.111e-06 (1 in 900,000)." in explain(guarantee(1))


def test_a_group_without_delta_has_epsilon_alone() -> None:
    text = explain(guarantee(0.1, 0.0, kind="pure-dp"))
    assert "replaced by another: epsilon 0.2. For three accounts: epsilon 0.3." in text
    searches = explain(guarantee(1, 0.0, unit="query", kind="pure-dp"))
    assert "For a person with ten searches: epsilon 10." in searches
    assert "accounts" not in searches
    replaced = Guarantee(kind="pure-dp", unit="user", neighbours="replace-query", epsilon=1, because="a proof")
    assert "For two accounts of one person: epsilon 2. For three accounts: epsilon 3." in explain(replaced)


def test_a_group_beyond_what_numbers_hold() -> None:
    assert group_delta(3, 1e9, 5e-324) == 1.0
    assert "nothing is promised" in explain(guarantee(500, 1e-12))


@pytest.mark.parametrize(
    ("delta", "users"),
    [(0.001, "one user in 1,000;"), (0.01, "one user in 100;"), (0.1, "one user in 10;"), (0.5, "50 % of all users;")],
)
def test_the_warning_about_delta_names_the_share_of_users(delta: float, users: str) -> None:
    (caution,) = cautions_of(guarantee(1, delta))
    assert f"the release may tell everything about {users}" in caution


def test_a_large_epsilon_does_not_need_an_attacker_who_knows_everything() -> None:
    text = explain(guarantee(8, 1e-6))
    assert "nearly everything else" not in text
    assert "at epsilon 8 it may be enough to know two of them" in text
    replaced = explain(Semantic(epsilon=8, max_queries=2).proven())
    assert "two of them" not in replaced
    assert "needs to know nobody else" in replaced
