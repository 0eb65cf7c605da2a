"""Choosing among plans by how many keys users hold: the exponential mechanism (proof: bound_choice.md)."""

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

from querycloak.errors import ParameterError
from querycloak.privacy.exact import stated
from querycloak.privacy.randomness import Randomness
from querycloak.privacy.selection import TablePlan
from querycloak.privacy.weighted import GRID, WeightedPlan

__all__ = ["choose_plan", "qualities"]


def choose_plan(
    plans: Sequence[TablePlan], users_by_keys: Mapping[int, int], epsilon: float, randomness: Randomness
) -> int:
    """Which plan to use, for the price of epsilon; users_by_keys: how many users hold so many keys (private)."""
    if not plans:
        raise ParameterError("there must be at least one plan to choose from")
    quality = qualities(plans, users_by_keys)
    reach = max(_gain(plan, keys) for plan in plans for keys in range(1, plan.per_user + 1))
    best = max(quality)
    return randomness.proportional_to_exp_minus([stated(epsilon) * (best - each) / reach for each in quality])


def qualities(plans: Sequence[TablePlan], users_by_keys: Mapping[int, int]) -> list[Fraction]:
    """How much each plan promises: what all users add, over what a key needs (private)."""
    return [
        sum((users * _gain(plan, keys) for keys, users in users_by_keys.items()), start=Fraction(0)) for plan in plans
    ]


def _gain(plan: TablePlan, keys: int) -> Fraction:
    """What a user of so many keys adds, over what a key needs to come out."""
    counted = min(keys, plan.per_user)
    if not isinstance(plan, WeightedPlan):
        return Fraction(counted, plan.threshold + 1)
    squared = Fraction(4, max(8, counted)) if plan.scouts else Fraction(1, max(1, counted))
    return Fraction(counted * math.isqrt(int(GRID * GRID * squared)), plan.threshold)
