"""Shares and risks against values worked out by hand, and the laws that they keep."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.audits.attack import INVALID, Finding, Risk, Share, risk

SHARES = st.tuples(st.integers(0, 500), st.integers(1, 500)).map(lambda each: Share.of(min(each), max(each)))


def test_a_share_has_wilsons_interval() -> None:
    # Wilson 1927 for 81 of 263, 95 %: 0.2553 to 0.3662 (Newcombe 1998, table I, method 3).
    share = Share.of(81, 263)
    assert share.value == pytest.approx(81 / 263)
    assert (share.centre - share.error, share.centre + share.error) == pytest.approx((0.2553, 0.3662), abs=1e-4)


def test_a_risk_by_hand() -> None:
    # main .6, control .2: (.6 - .2) / (1 - .2) = .5
    found = risk(Share.of(60, 100), Share.of(20, 100))
    assert found.value == pytest.approx(0.5)
    # Wilson's centres (60 + 1.9207) / 103.8415 = .596300 and .211097, errors .094350 and .077750 (by hand):
    # the derivatives are 1 / .788903 and (.596300 - 1) / .788903^2.
    assert found.low == pytest.approx((0.596300 - 0.211097) / 0.788903 - 0.129666, abs=1e-3)
    assert found.high == pytest.approx((0.596300 - 0.211097) / 0.788903 + 0.129666, abs=1e-3)


def test_below_nothing_is_nothing() -> None:
    assert risk(Share.of(1, 10), Share.of(5, 10)).value == 0
    assert risk(Share.of(10, 10), Share.of(10, 10)) == Risk(0.0, 0.0, 1.0)


@given(main=SHARES, control=SHARES)
def test_a_risk_lies_in_its_interval(main: Share, control: Share) -> None:
    found = risk(main, control)
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert risk(main, Share.exactly(0.0)).value == pytest.approx(main.value)
    assert risk(main, main).value == 0


def test_an_attack_that_is_no_better_than_none_says_so() -> None:
    assert Finding.of("a", Share.of(5, 10), Share.of(1, 10), 0.5).why == INVALID
    assert Finding.of("a", Share.of(6, 10), Share.of(1, 10), 0.5).why is None
    nobody = Finding.of("a", Share.of(0, 0), Share.of(1, 10), 0.5)
    assert (nobody.main, nobody.risk, nobody.why) == (None, None, "no target fits this setting")


def test_the_mean_of_shares_by_hand() -> None:
    """.2 and .4 of 100 people: t(.975, 1) is 12.706, the deviation .1414 and its error .1, so 1.2706 by draws."""
    one, other = Share.of(20, 100), Share.of(40, 100)
    mean = Share.mean([one, other])
    assert mean.value == pytest.approx(0.3)
    assert mean.cases == 200
    assert mean.centre == pytest.approx((one.centre + other.centre) / 2)
    assert mean.error == pytest.approx(math.hypot((one.error + other.error) / 2, 1.2706), abs=1e-4)
    assert Share.mean([one]) == one
    # Draws that agree leave what people do not agree on.
    assert Share.mean([one, one]).error == pytest.approx(one.error)
