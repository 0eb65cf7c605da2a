"""Searches by bisection find where a rule begins to hold, with the digits that were asked for."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.privacy.calibration.bisection import (
    FOUR_DIGITS,
    bisected,
    smallest_integer,
    smallest_number,
)


@given(st.integers(0, 10**9), st.integers(1, 1000))
def test_the_smallest_integer(answer: int, first: int) -> None:
    assert smallest_integer(lambda k: k >= answer, first=first) == answer


@given(st.integers(-1, 50), st.integers(0, 10**6))
def test_none_at_or_below_the_lower_end(above: int, answer: int) -> None:
    assert smallest_integer(lambda k: k >= answer, above=above, first=above + 1 or 1) == max(answer, above + 1)


def test_integers_are_asked_for_above_the_lower_end_only() -> None:
    asked: list[int] = []

    def fits(k: int) -> bool:
        asked.append(k)
        return True

    assert smallest_integer(fits, above=256, first=512) == 257
    assert min(asked) == 257


@given(st.floats(1e-9, 1e9), st.sampled_from([FOUR_DIGITS, 1.0001, 1.5]))
def test_the_smallest_number(answer: float, ratio: float) -> None:
    smallest = smallest_number(lambda x: x >= answer, ratio=ratio)
    assert answer <= smallest <= answer * ratio


def test_a_floor_ends_the_search_downwards() -> None:
    assert 1e-10 < smallest_number(lambda _: True, ratio=2.0, floor=1e-9) <= 2e-9


@given(st.floats(1e-6, 1.0, exclude_max=True))
def test_means_close_in(answer: float) -> None:
    low, high = bisected(lambda x: x >= answer, 0.0, 1.0, precision=1e-6)
    assert low < answer <= high
    assert high - low <= 1e-6 * high


def test_where_nothing_fits_but_zero_the_floor_ends_it() -> None:
    low, high = bisected(lambda _: True, 0.0, 1.0, precision=1e-7, floor=1e-12)
    assert low == 0
    assert high == pytest.approx(2.0**-40)
    assert math.isclose(high, 1e-12, rel_tol=0.1)
