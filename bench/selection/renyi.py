"""A decision without noise on counts: the largest chances that approximate Rényi privacy allows (renyi.md).

Harrison and Manurangsi, *Optimal partition selection with Rényi differential privacy*, 2026 (arXiv:2603.09167). We
could read its abstract alone, so renyi.md derives the chances from the definition. They take the place of the Gaussian
decision where no count is published: an algorithm is given a `RenyiPurse` instead of a `Purse`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numba
import numpy as np
from numpy.typing import NDArray

from bench.selection.accounting import Purse, purse
from bench.selection.holdings import Floats

GRID = 16
"""Weights are multiples of 1/GRID; between them chances are interpolated, good enough for a bench."""
ORDERS = np.geomspace(1.5, 60, 25)
SHARES = (0.35, 0.5, 0.65)
"""Parts of delta for keys of one user alone that are tried; the rest is for the conversion from Rényi privacy."""
HEAVIEST = 200


@dataclass(frozen=True)
class RenyiPurse:
    """A budget, of which Gaussian rounds with this mu^2 are paid first."""

    epsilon: float
    delta: float
    squared: float = 0.0

    @cached_property
    def chances(self) -> Floats:
        """The chance of a key to come out, by its weight in units of 1/GRID."""
        return best_chances(self.epsilon, self.delta, self.squared)

    def threshold(self, _: int) -> float:
        """The weight whose chance is one half; it does not depend on the number of a user's keys."""
        return weight_at(self.chances, 0.5) / GRID

    @cached_property
    def sigma(self) -> float:
        """A third of the weight between the chances that Gaussian noise has 1.5 standard deviations either side."""
        return (weight_at(self.chances, 0.93319) - weight_at(self.chances, 0.06681)) / (3 * GRID)

    def rounds(self, first: float) -> tuple[Purse, RenyiPurse]:
        """A Gaussian round with this share of the Gaussian budget, and what is left for the decision."""
        early = purse(self.epsilon, self.delta).part(first)
        return early, RenyiPurse(self.epsilon, self.delta - early.own, self.squared + early.squared)

    def passes(self, weights: Floats, _: int, draw: np.random.Generator) -> NDArray[np.bool_]:
        """Of every key whether it comes out."""
        chance = np.interp(weights * GRID, np.arange(self.chances.size), self.chances)
        return np.asarray(draw.random(weights.size) < chance)


@lru_cache(maxsize=64)
def best_chances(epsilon: float, delta: float, squared: float) -> Floats:
    """The chances, of those for any order and share of delta, that need the least weight for one half."""
    tried = [
        largest_chances(left, delta * share, order, GRID)
        for share in SHARES
        for order in ORDERS
        if (left := renyi_epsilon(epsilon, delta * (1 - share), order) - order * squared / 2) > 0
    ]
    return min(tried, key=lambda chances: weight_at(chances, 0.5))


def weight_at(chances: Floats, chance: float) -> float:
    """The weight with this chance, in units of 1/GRID."""
    after = int(np.searchsorted(chances, chance))
    low, high = chances[after - 1], chances[after]
    return float(after - (high - chance) / (high - low))


def renyi_epsilon(epsilon: float, delta: float, order: float) -> float:
    """The largest Rényi divergence of this order that is (epsilon, delta)-DP (Canonne, Kamath and Steinke, 2020)."""
    return epsilon + (math.log(delta * (order - 1)) - order * math.log1p(-1 / order)) / (order - 1)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def largest_chances(epsilon: float, delta: float, order: float, grid: int) -> Floats:
    """The largest chance of each whole weight, in units of 1/grid (renyi.md, claim 2), up to the first that is 1."""
    chances = np.ones(HEAVIEST * grid)
    chances[0] = 0.0
    for weight in range(1, chances.size):
        least = 1.0
        for step in range(min(grid, weight), 0, -1):
            part = (step / grid) ** 2
            if not _within(least, chances[weight - step], epsilon * part, delta * part, order):
                least = largest_after(chances[weight - step], epsilon * part, delta * part, order)
        chances[weight] = least
        if least > 1 - 1e-9:
            return chances[: weight + 1]
    return chances


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def largest_after(chance: float, epsilon: float, delta: float, order: float) -> float:
    """The largest chance that delta-approximate Rényi privacy allows beside this one."""
    low, high = chance, 1.0
    if _within(high, chance, epsilon, delta, order):
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if _within(middle, chance, epsilon, delta, order):
            low = middle
        else:
            high = middle
    return low


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _within(larger: float, smaller: float, epsilon: float, delta: float, order: float) -> bool:
    """Whether these two chances are delta-approximately Rényi-close, in both directions (renyi.md, claim 1)."""
    q, p = (larger - delta) / (1 - delta), smaller / (1 - delta)
    if q <= p or smaller + delta >= 1:
        return True
    if p <= 0 or larger >= 1:
        return False
    # From 1 - larger, which floats hold exactly near 1: 1 - q would keep few of its digits.
    not_q, not_p = (1 - larger) / (1 - delta), (1 - smaller - delta) / (1 - delta)
    most = (order - 1) * epsilon
    return bool(_power(q, not_q, p, not_p, order) <= most and _power(p, not_p, q, not_q, order) <= most)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _power(q: float, not_q: float, p: float, not_p: float, order: float) -> float:
    """(order - 1) times the Rényi divergence of a coin of chances q and not_q from one of p and not_p."""
    yes = order * math.log(q) + (1 - order) * math.log(p)
    no = order * math.log(not_q) + (1 - order) * math.log(not_p)
    return max(yes, no) + math.log1p(math.exp(-abs(yes - no)))
