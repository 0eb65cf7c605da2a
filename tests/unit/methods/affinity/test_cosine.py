"""The exact cosine join against the plain quadratic one (affinity.md, step 3)."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querycloak.methods.affinity.cosine import MILLION, Index, affine, neighbours_of
from tests.unit.methods.affinity.oracles import neighbours, rows

THETAS = st.sampled_from([1, 300_000, 500_000, 600_000, 707_107, 800_000, 866_025, 900_000, 999_999, MILLION])


@st.composite
def vectors(draw: st.DrawFn) -> tuple[list[list[int]], list[int]]:
    concepts = draw(st.integers(1, 12))
    # Small equal weights make ties; 1024ths of all sizes are what weights are.
    weights = draw(
        st.lists(st.integers(1, 3) | st.integers(1, (1 << 16) - 1), min_size=concepts, max_size=concepts)
        | st.just([1024] * concepts)
    )
    sets = draw(st.lists(st.frozensets(st.integers(0, concepts - 1), min_size=1, max_size=8), max_size=30, unique=True))
    return [sorted(each) for each in sets], weights


def joined(sets: list[list[int]], weights: list[int], theta: int) -> list[set[int]]:
    index = Index.of(rows(sets), np.array(weights, np.int64), theta)
    found = np.empty(max(1, len(sets)), np.int32)
    lists: list[set[int]] = [set() for _ in sets]
    for v in range(len(sets)):
        count = neighbours_of(v, index.arrays, found)
        assert len(set(found[:count].tolist())) == count
        lists[index.order[v]] = {int(w) for w in index.order[found[:count]]}
    return lists


@settings(max_examples=200, deadline=None)
@given(vectors(), THETAS)
@example(([[0], [0, 1]], [3, 4]), 600_000)  # cosine 9 / (3 * 5) = 0.6 exactly
@example(([[0], [0, 1]], [3, 4]), 600_001)
@example(([[0, 1], [0, 2]], [1, 1, 1]), 500_000)
@example(([[0, 1], [0, 2]], [1, 1, 1]), 500_001)
@example(([[0, 1, 2, 3], [0]], [1, 1, 1, 1]), 500_000)
@example(([[0, 1, 2, 3], [0]], [1, 1, 1, 1]), 500_001)
def test_the_join_is_the_quadratic_one(made: tuple[list[list[int]], list[int]], theta: int) -> None:
    sets, weights = made
    assert joined(sets, weights, theta) == neighbours(sets, weights, theta)


@pytest.mark.parametrize("theta", [600_000, 600_001, 599_999])
def test_a_tie_at_theta_is_in(theta: int) -> None:
    assert joined([[0], [0, 1]], [3, 4], theta)[0] == ({1} if theta <= 600_000 else set())


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**43), st.integers(1, 2**43), st.integers(1, 2**43), st.integers(1, MILLION))
def test_128_bits_compare_as_whole_numbers_do(shared: int, norm: int, other: int, theta: int) -> None:
    # Also right at the edge, where floating point cannot tell: the least product that is affine, and one below it.
    edge = -(-isqrt(theta**2 * norm * other) // MILLION)
    for product in (shared, edge - 1, edge, edge + 1):
        if 0 <= product <= 2**43:
            exact = (product * MILLION) ** 2 >= theta**2 * norm * other
            assert affine(product, norm, other, theta) == exact


def test_parts_cut_by_each_vector_itself_would_lose_pairs() -> None:
    """Why both sides cut by one order: here each vector's own lightest part hides what they share."""
    random = np.random.default_rng(3)
    sets = [sorted(set(random.choice(30, random.integers(2, 7), replace=False).tolist())) for _ in range(300)]
    weights = random.integers(1, 20, 30).tolist()
    true = neighbours(sets, weights, 800_000)

    def kept(vector: list[int]) -> set[int]:
        heaviest, rest = set(vector), sum(weights[c] ** 2 for c in vector)
        norm, taken = rest, 0
        for concept in sorted(vector, key=lambda c: weights[c] * (hash(tuple(vector)) % 7 - 3)):
            if taken + weights[concept] ** 2 < 0.64 * norm:
                taken += weights[concept] ** 2
                heaviest.discard(concept)
        return heaviest

    parts = [kept(each) for each in sets]
    lost = sum(not parts[a] & parts[b] for a in range(300) for b in true[a])
    assert lost > 0
    assert joined(sets, weights, 800_000) == true
