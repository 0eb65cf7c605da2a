"""The chances of bench/selection/renyi.md: its claims in 60-digit arithmetic, and by enumeration of small cases."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from itertools import product

import numpy as np
import pytest
from bench.selection.accounting import purse
from bench.selection.renyi import GRID, RenyiPurse, largest_after, largest_chances, renyi_epsilon, weight_at
from hypothesis import example, given, settings
from hypothesis import strategies as st


def divergence(q: Decimal, p: Decimal, order: Decimal) -> Decimal:
    """Rényi's, typed from its definition."""
    return (q**order * p ** (1 - order) + (1 - q) ** order * (1 - p) ** (1 - order)).ln() / (order - 1)


def close(larger: float, smaller: float, *limits: float) -> bool:
    """Claim 1, by 60 digits; limits: epsilon, delta and the order."""
    with localcontext(prec=60):
        epsilon, delta, order = map(Decimal, limits)
        q, p = (Decimal(larger) - delta) / (1 - delta), Decimal(smaller) / (1 - delta)
        if q <= p:
            return True
        if p <= 0 or q >= 1:
            return False
        return max(divergence(q, p, order), divergence(p, q, order)) <= epsilon * (1 + Decimal("1e-9"))


@settings(max_examples=60, deadline=None)
@example(0.9821254495010241, 4.26771890253384, 1.575373820081967e-05, 1.2198372194329614)  # 1 - largest is 2.5e-11
@example(0.99, 5.0, 1e-9, 1.2)
@given(st.floats(1e-9, 0.99), st.floats(0.01, 5.0), st.floats(1e-9, 1e-3), st.floats(1.2, 50.0))
def test_the_largest_chance_beside_another_is_close_and_no_larger_one_is(
    chance: float, epsilon: float, delta: float, order: float
) -> None:
    largest = largest_after(chance, epsilon, delta, order)
    assert largest == 1 or close(largest, chance, epsilon, delta, order)
    assert largest == 1 or not close(largest + (1 - largest) * 1e-4 + largest * 1e-4, chance, epsilon, delta, order)


def test_chances_grow_and_each_is_the_largest_that_the_earlier_ones_allow() -> None:
    epsilon, delta, order, grid = 1.5, 1e-4, 6.0, 4
    chances = largest_chances(epsilon, delta, order, grid)
    assert chances[0] == 0
    assert chances[-1] == 1
    assert np.all(np.diff(chances) >= 0)

    def allowed(weight: int, chance: float) -> bool:
        parts = {step: (step / grid) ** 2 for step in range(1, min(grid, weight) + 1)}
        return all(close(chance, chances[weight - step], epsilon * part, delta * part, order) for step, part in parts.items())  # noqa: E501  # fmt: skip

    for weight in range(1, chances.size - 1):
        assert allowed(weight, chances[weight])
        assert not allowed(weight, chances[weight] + min(chances[weight], 1 - chances[weight]) * 1e-3)


def test_what_comes_out_is_as_private_as_claimed_whatever_one_user_moves() -> None:
    # All moves of length 1 at most on three keys, from every weight; every set that can come out.
    epsilon, delta, order, grid = 1.0, 1e-2, 5.0, 2
    chances = largest_chances(renyi_epsilon(epsilon, delta / 2, order), delta / 2, order, grid)
    beyond = np.concatenate([chances, np.ones(grid)])
    weights = np.indices((chances.size,) * 3).reshape(3, -1)
    worst = 0.0
    for move in product(range(-grid, grid + 1), repeat=3):
        moved = weights + np.array(move)[:, None]
        inside = (moved >= 0).all(axis=0)
        if sum(each * each for each in move) > grid**2 or not inside.any():
            continue
        laws = [_law(beyond[at[:, inside]]) for at in (weights, moved)]
        worst = max(worst, float(np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0).sum(axis=0).max()))
    assert delta / 2 <= worst <= delta


def _law(chances: np.ndarray) -> np.ndarray:
    """The chance of each of the eight sets."""
    sides = np.stack([chances, 1 - chances])
    return np.stack([sides[a, 0] * sides[b, 1] * sides[c, 2] for a, b, c in product((0, 1), repeat=3)])


def test_the_conversion_is_that_of_canonne_kamath_and_steinke() -> None:
    epsilon, order, delta = 1.0, 20.0, 1e-6
    left = renyi_epsilon(epsilon, delta, order)
    stated = math.exp((order - 1) * (left - epsilon)) * (1 - 1 / order) ** order / (order - 1)
    assert stated == pytest.approx(delta, rel=1e-9)


def test_less_weight_is_needed_than_with_gaussian_noise() -> None:
    budget = 8.0, 2.25e-7
    assert RenyiPurse(*budget).threshold(256) == pytest.approx(4.35, abs=0.01)
    assert purse(*budget).threshold(256) == pytest.approx(4.62, abs=0.01)
    early, late = RenyiPurse(*budget).rounds(0.3)
    assert early.own + late.delta == pytest.approx(budget[1])
    assert late.squared == early.squared == pytest.approx(0.3 * purse(*budget).squared)
    assert weight_at(np.array([0.0, 0.25, 0.75, 1.0]), 0.5) == 1.5
    assert RenyiPurse(*budget).passes(np.array([0.0, 100.0]), GRID, np.random.default_rng(1)).tolist() == [False, True]
