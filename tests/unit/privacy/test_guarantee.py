import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.privacy.guarantee import Guarantee, compose, user_guarantee


def approximate(epsilon: Any = 1.0, delta: Any = 1e-7, **changes: Any) -> Guarantee:
    fields: dict[str, Any] = {
        "kind": "approximate-dp",
        "unit": "user",
        "neighbours": "add-remove-user",
        "because": "a proof",
    }
    return Guarantee(**(fields | {"epsilon": epsilon, "delta": delta} | changes))


def pure(epsilon: Any = 1.0, **changes: Any) -> Guarantee:
    return approximate(epsilon, **({"kind": "pure-dp", "delta": None} | changes))


def syntactic(**changes: Any) -> Guarantee:
    absent = {"epsilon": None, "delta": None, "neighbours": None}
    return approximate(**(absent | {"kind": "syntactic", "k": 5} | changes))


epsilons = st.floats(min_value=1e-3, max_value=50)
deltas = st.floats(min_value=1e-12, max_value=1e-3)


def test_json_has_the_keys_of_the_design_and_nulls_for_absent_numbers() -> None:
    assert syntactic().to_json() == {
        "kind": "syntactic",
        "unit": "user",
        "neighbours": None,
        "epsilon": None,
        "delta": None,
        "k": 5,
        "unprotected": [],
        "because": "a proof",
    }


def test_pure_has_delta_zero() -> None:
    assert pure().to_json()["delta"] == 0.0
    assert pure(delta=0).delta == 0.0


@given(epsilons, deltas, st.lists(st.text(), max_size=3))
def test_json_round_trip(epsilon: float, delta: float, unprotected: list[str]) -> None:
    guarantee = approximate(epsilon, delta, unprotected=tuple(unprotected))
    assert Guarantee.from_json(json.loads(json.dumps(guarantee.to_json()))) == guarantee


@pytest.mark.parametrize("epsilon", [0, -1, math.nan, math.inf, -math.inf, True, "1", None, 10**400])
def test_bad_epsilon(epsilon: object) -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be .*a finite number above 0.*; give a number"):
        approximate(epsilon)


@pytest.mark.parametrize("delta", [0, 1, -1e-9, 1.5, math.nan, math.inf, True, "1e-7", None])
def test_bad_delta(delta: object) -> None:
    with pytest.raises(ParameterError, match=r"delta must be .*a number above 0 and below 1.*; give a number"):
        approximate(1.0, delta)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "dp"}, r"kind must be one of pure-dp, approximate-dp, .*, got 'dp'; choose"),
        ({"unit": "session"}, r"unit must be one of user, query, got 'session'"),
        ({"neighbours": None}, r"neighbours must be given, one of add-remove-user, replace-query"),
        ({"because": " "}, r"because must be a text, got ' '; say"),
        ({"unprotected": "all"}, r"unprotected must be a list of texts, got 'all'"),
        ({"unprotected": 5}, r"unprotected must be a list of texts, got 5"),
        ({"unprotected": (5,)}, r"unprotected must be a list of texts, got \(5,\)"),
        ({"k": 3}, r"k must be absent where kind is approximate-dp, got 3"),
    ],
)
def test_other_rules(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        approximate(**changes)


def test_syntactic_bounds_no_belief() -> None:
    with pytest.raises(ParameterError, match=r"epsilon must be absent where kind is syntactic, got 1"):
        syntactic(epsilon=1)
    with pytest.raises(ParameterError, match=r"k must be at least 1, got 0"):
        syntactic(k=0)
    with pytest.raises(ParameterError, match=r"k must be a whole number, got True"):
        syntactic(k=True)


def test_pure_has_no_delta() -> None:
    with pytest.raises(ParameterError, match=r"delta must be 0 where kind is pure-dp, got 1e-07; say approximate-dp"):
        pure(delta=1e-7)


def test_sampling_only_may_be_zero_epsilon() -> None:
    assert approximate(0, 0.5, kind="sampling-only").epsilon == 0.0


def test_from_json_refuses_other_keys() -> None:
    fields = approximate().to_json()
    with pytest.raises(ParameterError, match="guarantee must be an object with the keys kind, unit"):
        Guarantee.from_json(fields | {"extra": 1})
    with pytest.raises(ParameterError, match="unprotected must be a list of texts"):
        Guarantee.from_json(fields | {"unprotected": "x"})


@given(epsilons, deltas, st.integers(min_value=1, max_value=40))
def test_n_composed_is_n_times(epsilon: float, delta: float, n: int) -> None:
    total = compose([approximate(epsilon, delta)] * n)
    for got, one in ((total.epsilon, epsilon), (total.delta, delta)):
        assert got is not None
        exact = n * Decimal(repr(one))
        assert exact <= Decimal(repr(got)) <= exact * (1 + Decimal("1e-15"))


def test_decimals_add_up_as_people_expect() -> None:
    assert compose([pure(0.1)] * 10).epsilon == 1.0
    assert (pure(0.1) + pure(0.2)).epsilon == 0.3


@given(st.lists(epsilons, min_size=2, max_size=6))
def test_composition_ignores_order_and_never_under_reports(listed: list[float]) -> None:
    parts = [pure(epsilon) for epsilon in listed]
    total, reverse = compose(parts), compose(parts[::-1])
    assert total.epsilon == reverse.epsilon
    assert total.epsilon is not None
    assert Decimal(repr(total.epsilon)) >= sum(Decimal(repr(epsilon)) for epsilon in listed)


def test_the_weakest_kind_stays_and_what_is_unprotected_adds_up() -> None:
    total = pure(unprotected=("a",)) + approximate(unprotected=("b", "a"))
    assert (total.kind, total.delta, total.unprotected) == ("approximate-dp", 1e-7, ("a", "b"))
    assert (total + approximate(1.0, 0.1, kind="sampling-only")).kind == "sampling-only"
    assert (pure() + pure()).kind == "pure-dp"


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (pure(unit="query"), "unit must be user in all parts, got 'query'; bring"),
        (
            pure(neighbours="replace-query"),
            "neighbours must be add-remove-user in all parts, got 'replace-query'",
        ),
        (
            syntactic(),
            "kind must be pure-dp, approximate-dp or sampling-only to be added up, got 'syntactic'",
        ),
    ],
)
def test_what_cannot_be_added(other: Guarantee, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        pure() + other


def test_sums_that_mean_nothing() -> None:
    with pytest.raises(ParameterError, match=r"delta must be below 1 for all 2 parts together, got 1\.2"):
        approximate(1, 0.6) + approximate(1, 0.6)
    with pytest.raises(ParameterError, match="parts must be at least one guarantee"):
        compose([])


def test_what_a_user_is_promised_is_pure_only_where_there_is_no_delta() -> None:
    assert user_guarantee(1.0, None, "a proof") == pure(because="a proof")
    tiny = user_guarantee(1.0, 5e-324, "a proof", ("the day",))
    assert (tiny.kind, tiny.unit, tiny.neighbours, tiny.unprotected) == (
        "approximate-dp", "user", "add-remove-user", ("the day",)
    )  # fmt: skip
    with pytest.raises(ParameterError, match="delta must be a number above 0 and below 1"):
        user_guarantee(1.0, 0.0, "a delta that was lost on the way")


def test_numbers_are_those_of_a_guarantee_that_has_them() -> None:
    assert approximate(2, 1e-6).numbers == (2.0, 1e-6)
    assert pure(0.1).numbers == (0.1, 0.0)
    assert approximate(0, None, kind="sampling-only").numbers == (0.0, 0.0)
    with pytest.raises(ParameterError, match="a syntactic guarantee has no epsilon and no delta"):
        _ = syntactic().numbers


def test_a_cost_is_exact_and_nothing_for_what_bounds_nothing() -> None:
    assert approximate(0.1, 1e-7).cost == (Fraction(1, 10), Fraction(1, 10**7))
    assert pure(0.1).cost == (Fraction(1, 10), Fraction(0))
    assert syntactic().cost == (Fraction(0), Fraction(0))
