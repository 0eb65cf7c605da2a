"""Values printed by Carpineto and Romano (2015)."""

from __future__ import annotations

import numpy as np
import pytest

from querycloak.methods.affinity.cosine import Index, neighbours_of
from querycloak.methods.affinity.ngram_concepts import (
    GRID,
    least_users,
    on_grid,
    pair_weights,
    triple_weights,
    word_weights,
)
from tests.unit.methods.affinity.oracles import rows

# Section 3.2: the concepts of "nokia 2651 cell phone case" and their weights; "cell phone case" lacks nokia.
WEIGHTS = {"cell": 14.32, "phone": 15.33, "case": 13.24, "cell phone": 10.8, "phone case": 6.95, "nokia": 11.35}


def test_the_paper_s_example_has_its_cosine() -> None:
    """Printed as 0.92; it is 0.92645 with the weights as printed."""
    weights = on_grid(np.array(list(WEIGHTS.values())))
    squares = weights.astype(object) ** 2
    refinement, query = squares.sum(), squares[:-1].sum()
    assert (query / refinement) ** 0.5 == pytest.approx(0.92645, abs=5e-6)
    for theta, near in ((926_000, 1), (927_000, 0)):
        index = Index.of(rows([range(6), range(5)]), weights, theta)
        assert neighbours_of(0, index.arrays, np.empty(2, np.int32)) == near


def test_aol_s_concepts_need_65_users() -> None:
    """Section 3.1: one ten-thousandth of 657,426 users."""
    assert least_users(0.0001, 657_426) == 65
    assert least_users(65, 657_426) == 65
    assert least_users(0.0001, 100) == 2
    assert least_users(0.29, 100) == 29  # as it prints, not as it is stored


def test_weights_of_the_formulas() -> None:
    """Equations 1 to 3, by hand: 4,166 searches for visa; a pair and a triple of words that always stand together."""
    assert word_weights(np.array([4166]))[0] == pytest.approx(12.0248, abs=1e-4)
    tenth, hundredth = np.array([0.1]), np.array([0.01])
    assert pair_weights(tenth, tenth, tenth)[0] == pytest.approx(np.log2(11))
    assert pair_weights(hundredth, tenth, tenth)[0] == pytest.approx(1)  # independent
    assert triple_weights(tenth, [tenth] * 3, tenth, tenth)[0] == pytest.approx(np.log2(0.1 / 0.021 + 1))
    assert on_grid(np.array([1.0, 0.0001, 14.32])).tolist() == [GRID, 1, 14664]
