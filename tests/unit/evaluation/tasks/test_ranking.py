"""tau-b of many lists at once is scipy's of each."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from querycloak.evaluation.tasks.ranking import TAU_B, UNDEFINED, taus

lists = st.lists(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), max_size=12), max_size=8)


@given(lists)
def test_as_scipy(given: list[list[tuple[int, int]]]) -> None:
    flat = np.array([pair for each in given for pair in each], np.float64).reshape(-1, 2)
    starts = np.concatenate([[0], np.cumsum([len(each) for each in given])]).astype(np.int64)
    found = taus(flat[:, 0].copy(), flat[:, 1].copy(), starts)
    for place, each in enumerate(given):
        first, second = ([pair[side] for pair in each] for side in (0, 1))
        expected = kendalltau(first, second).statistic if len(each) > 1 else np.nan
        assert found[place] == pytest.approx(expected, nan_ok=True)


def test_a_long_list_without_ties() -> None:
    generator = np.random.default_rng(3)
    first, second = generator.permutation(1000).astype(float), generator.permutation(1000).astype(float)
    assert TAU_B(first, second) == pytest.approx(kendalltau(first, second).statistic)


def test_by_hand() -> None:
    # Of three pairs one is tied on the left; the other two agree: 2 / sqrt(2 * 3).
    assert TAU_B([5, 5, 1], [9, 3, 2]) == pytest.approx(2 / 6**0.5)
    assert TAU_B([1, 2], [2, 1]) == -1
    assert np.isnan(TAU_B([0, 0], [2, 1]))
    assert UNDEFINED(np.array([0.5, np.nan, np.nan])) == 2
