"""The exponential mechanism over plans, by how many keys users hold (proof: bound_choice.md)."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from querycloak.privacy.chance.exact import stated
from querycloak.privacy.chance.randomness import IntArray, Randomness
from querycloak.privacy.parameters import refuse
from querycloak.privacy.prices.table_plan import TablePlan

__all__ = ["choose_plan", "choose_plans", "largest_gain", "qualities"]


Plans = Mapping[str, TablePlan]
"""A plan for each table of a release."""
Held = Mapping[str, Mapping[int, int]]
"""For each table and each number of its keys, how many users hold that number (private)."""


def choose_plan(candidates: Sequence[Plans], held: Held, epsilon: float, randomness: Randomness) -> int:
    """Draw which of the candidates to use; the draw costs epsilon."""
    return randomness.proportional_to_exp_minus(_exponents(candidates, held, epsilon))


def choose_plans(
    candidates: Sequence[Plans], held: Held, epsilon: float, randomness: Randomness, runs: int
) -> IntArray:
    """The same choice in each of several independent runs."""
    return randomness.many_proportional_to_exp_minus(_exponents(candidates, held, epsilon), runs)


def largest_gain(candidates: Sequence[Plans]) -> Fraction:
    """R, the most that one user can add to the quality of any candidate."""
    return max(sum((plan.largest_gain for plan in plans.values()), Fraction(0)) for plans in candidates)


def _exponents(candidates: Sequence[Plans], held: Held, epsilon: float) -> list[Fraction]:
    if not candidates:
        refuse("candidates", "at least one plan", "none", "name the plans to choose from")
    quality = qualities(candidates, held)
    best, reach = max(quality), largest_gain(candidates)
    return [stated(epsilon) * (best - each) / reach for each in quality]


def qualities(candidates: Sequence[Plans], held: Held) -> list[Fraction]:
    """The quality score of each candidate: what all users add, over what a key needs, in all its tables (private)."""
    return [sum((_quality(plan, held[table]) for table, plan in plans.items()), Fraction(0)) for plans in candidates]


def _quality(plan: TablePlan, users_by_keys: Mapping[int, int]) -> Fraction:
    return sum((users * plan.gain(keys) for keys, users in users_by_keys.items()), Fraction(0))
