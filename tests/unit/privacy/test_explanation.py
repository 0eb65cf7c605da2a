import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.privacy.explanation import belief_after, caught_at_most, explain
from querycloak.privacy.guarantee import Guarantee


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
    assert "Why this holds: a proof." in text


def test_large_epsilon_is_called_what_it_is() -> None:
    text = explain(guarantee(8, 2.25e-7))
    assert "99.97 %" in text
    assert "96.8 %" in text
    assert "weak promise" in text
    assert "almost 100 %" in explain(guarantee(40))
    assert "10^17 and more" in explain(guarantee(40))


def test_large_delta_is_called_what_it_is() -> None:
    assert "protects no one whom it befalls" in explain(guarantee(1, 0.5))
    assert "50 %)" in explain(guarantee(1, 0.5))


def test_pure_has_no_exception() -> None:
    assert "no exception" in explain(guarantee(1, 0.0, kind="pure-dp"))


def test_each_kind_and_unit_says_what_it_is_about() -> None:
    assert "a certain search was for one thing" in explain(guarantee(1, unit="query"))
    assert "cover the last step only" in explain(guarantee(1, 0.1, kind="sampling-only"))
    syntactic = Guarantee(kind="syntactic", unit="user", neighbours=None, k=5, because="a count of users")
    assert "at least 5 users share it" in explain(syntactic)
    assert "sets no limit" in explain(syntactic)


def test_unprotected_quantities_are_listed() -> None:
    open_part = Guarantee(
        kind="pure-dp",
        unit="user",
        neighbours="add-remove-user",
        epsilon=1,
        unprotected=("the day",),
        because="x",
    )
    assert "Not covered by any noise: the day." in explain(open_part)


def test_what_is_compared_where_queries_are_replaced() -> None:
    one = Guarantee(kind="pure-dp", unit="user", neighbours="replace-query", epsilon=1, because="a proof")
    text = explain(one)
    assert "who is known to be in the log, searched for these things or for quite others" in text
    assert "people who searched for the one thing" in text
    assert "not whether that person is in the log" in text
    assert "is in the log at all" not in text
    raw = Guarantee(kind="sampling-only", unit="query", neighbours="replace-query", epsilon=1, because="a proof")
    assert "released as it was typed" in explain(raw)
    assert "searches for the one thing" in explain(raw)
