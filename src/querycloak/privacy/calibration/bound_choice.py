"""The exponential mechanism over plans, by how many keys users hold (proof: bound_choice.md)."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.parameters import refuse
from querycloak.privacy.sampling.exact import stated
from querycloak.privacy.sampling.randomness import IntArray, Randomness

Plans = Mapping[str, TablePlan]
"""A plan for each table of a release."""
UsersByKeys = Mapping[str, Mapping[int, int]]
"""For each table, the number of users by their number of keys (private)."""


def choose_plan(candidates: Sequence[Plans], key_counts: UsersByKeys, epsilon: float, randomness: Randomness) -> int:
    """Draw which of the candidates to use; the draw costs epsilon."""
    return randomness.proportional_to_exp_minus(_exponents(candidates, key_counts, epsilon))


def choose_plans(
    candidates: Sequence[Plans], key_counts: UsersByKeys, epsilon: float, randomness: Randomness, runs: int
) -> IntArray:
    """Draw the choice in each of several independent runs."""
    return randomness.many_proportional_to_exp_minus(_exponents(candidates, key_counts, epsilon), runs)


def largest_score(candidates: Sequence[Plans]) -> Fraction:
    """R, the most that one user can add to the quality of any candidate."""
    return sum((_most([plans[table] for plans in candidates]) for table in candidates[0]), Fraction(0))


def _most(plans: Sequence[TablePlan]) -> Fraction:
    """The most that one user can add in one table: the largest gain of a user with a single key."""
    return max(plan.gain(1) for plan in plans)


def _exponents(candidates: Sequence[Plans], key_counts: UsersByKeys, epsilon: float) -> list[Fraction]:
    if not candidates:
        refuse("candidates", "at least one plan", "none", "name the plans to choose from")
    quality = qualities(candidates, key_counts)
    best, sensitivity = max(quality), largest_score(candidates)
    return [stated(epsilon) * (best - each) / sensitivity for each in quality]


def qualities(candidates: Sequence[Plans], key_counts: UsersByKeys) -> list[Fraction]:
    """The quality of each candidate: the sum of its users' scores over its tables (private)."""
    quality = [Fraction(0)] * len(candidates)
    for table, users_by_keys in key_counts.items():
        plans = [plans[table] for plans in candidates]
        for keys, users in users_by_keys.items():
            for place, score in enumerate(_scores(plans, keys)):
                quality[place] += users * score
    return quality


def _scores(plans: Sequence[TablePlan], keys: int) -> list[Fraction]:
    """Score of each plan by a user with this number of keys: gains above the least one, scaled to at most `_most`."""
    gains = [plan.gain(keys) for plan in plans]
    least, most = min(gains), _most(plans)
    spread = max(gains) - least
    squeezed = min(Fraction(1), most / spread) if spread else Fraction(1)
    return [(gain - least) * squeezed for gain in gains]
