"""Measures of which queries come out, against their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.evaluation.tasks.loss import (
    NCP,
    f_beta,
    f_beta_over,
    ncp_of_generalisation,
    ncp_of_suppression,
    released_over,
    share_released,
)

DEGREES = st.lists(st.integers(0, 12), min_size=1, max_size=40)
KS = [1, 2, 3, 5, 10, 20]


@settings(max_examples=100, deadline=None)
@given(DEGREES, st.data())
def test_curves_are_what_counting_gives(degrees: list[int], data: st.DataObject) -> None:
    found = np.array(degrees, np.int32)
    sensitive = np.array(data.draw(st.lists(st.booleans(), min_size=len(degrees), max_size=len(degrees))))
    words = np.array(data.draw(st.lists(st.integers(1, 9), min_size=len(degrees), max_size=len(degrees))))
    for place, k in enumerate(KS):
        out = found >= k
        assert released_over(found, KS)[place] == out.sum()
        assert share_released(found, KS)[place] == pytest.approx(out.mean())
        assert ncp_of_suppression(found, words, KS)[place] == pytest.approx(words[~out].sum() / words.sum())
        harmless = (out & ~sensitive).sum()
        for beta in (1.0, 0.1):
            precision, recall = harmless / max(1, out.sum()), harmless / max(1, (~sensitive).sum())
            both = (1 + beta**2) * precision * recall / (beta**2 * precision + recall) if harmless else 0
            assert f_beta_over(found, sensitive, KS, beta)[place] == pytest.approx(both)


def test_ncp_of_two_concepts_that_cover_half_each() -> None:
    """Carpineto and Romano, section 4.4.2: single words, two concepts of half the leaves each, give 0.5."""
    leaves_under = np.array([8, 4, 4, 1, 1, 1, 1, 1, 1, 1, 1], np.int32)
    own = np.arange(3, 11, dtype=np.int32)
    ones = np.ones(8, np.int64)
    becomes = np.array([1, 1, 1, 1, 2, 2, 2, 2], np.int32)
    assert ncp_of_generalisation(own, becomes, ones, ones, leaves_under) == 0.5
    assert ncp_of_generalisation(own, own, ones, ones, leaves_under) == 0
    assert ncp_of_generalisation(own, np.zeros(8, np.int32), ones, ones, leaves_under) == 1
    assert ncp_of_generalisation(own, np.full(8, -1, np.int32), ones, ones, leaves_under) == 1
    # Of queries of two words one word is kept as it is, the other is left out.
    assert ncp_of_generalisation(own, own, ones, 2 * ones, leaves_under) == 0.5


def test_measures_say_what_they_are() -> None:
    assert str(f_beta(0.1)) == "f_beta(beta=0.1)"
    assert (NCP.better, f_beta(1).better) == ("lower", "higher")
    with pytest.raises(ParameterError, match="beta must be a finite number above 0, got 0"):
        f_beta(0)
