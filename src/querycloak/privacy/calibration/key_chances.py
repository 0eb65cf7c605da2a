"""Keys without counts: the largest chance that each number of users is allowed (proof: histogram.md, claim 8)."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.draws import Anything
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.accuracy import ReleaseProbability
from querycloak.privacy.calibration.deltas import any_passes
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.threshold import laplace_noise
from querycloak.privacy.parameters import checked_bound
from querycloak.privacy.sampling.exact import Chance, exp_minus, float_up, rounded_down, rounded_up, stated
from querycloak.privacy.sampling.noise import Noise

BITS = 128
ONE = 1 << BITS
MOST_STEPS = 1 << 16


@dataclass(frozen=True)
class KeyChances:
    """Probability that a key of n users comes out if each user has one key: the largest under (epsilon, delta)-DP."""

    epsilon: Fraction
    delta: Fraction

    def of(self, users: int) -> Chance:
        """The chance of a key of this many users."""
        return Chance.exactly(Fraction(self.units(users), ONE))

    def units(self, users: int) -> int:
        """The chance of a key of this many users, in units of 2^-128."""
        table = _table(self.epsilon, self.delta)
        return table[min(users, len(table) - 1)]

    def first(self, chance: Fraction) -> int:
        """The least number of users with at least this chance."""
        return bisect_left(_table(self.epsilon, self.delta), math.ceil(chance * ONE))

    # What a stage of a route says (accuracy.md).
    def passes(self, total: int) -> float:
        """The chance of a key of this many users, rounded down."""
        units = self.units(max(total, 0))
        return 1.0 if units == ONE else math.nextafter(units / ONE, 0.0)


@lru_cache(maxsize=64)
def _table(epsilon: Fraction, delta: Fraction) -> tuple[int, ...]:
    """p_0, p_1, ... in units of 2^-128 up to the first that is 1, at most 2^16 of them, each rounded down."""
    shrinks = exp_minus(epsilon, BITS)[1]
    exception = math.floor(delta * ONE)
    chances = [0]
    while chances[-1] < ONE and len(chances) < MOST_STEPS:
        before = chances[-1]
        adding = (before << BITS) // shrinks + exception
        left = max(0, ONE - before - exception)
        removing = ONE - (-(-shrinks * left >> BITS))
        chances.append(max(before, min(adding, removing, ONE)))
    return tuple(chances)


@dataclass(frozen=True)
class KeysOnlyPlan(TablePlan):
    """A key comes out with a probability that follows from its number of users, without a count."""

    chances: KeyChances
    per_user: int
    epsilon: float
    delta: float
    noise: Noise = field(init=False, repr=False)
    """Laplace noise at the epsilon of one key: the draw of a key loses no more than a count with this noise."""
    threshold: int = field(init=False, repr=False)
    """One less than the first number of users with a chance of one half."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", laplace_noise(1, self.chances.epsilon))
        object.__setattr__(self, "threshold", self.enough_users - 1)

    @property
    def selection(self) -> str:
        """The name of the law that reaches the optimum."""
        return "truncated-geometric"

    @property
    def counts(self) -> str:
        """Kind of counts: none."""
        return "none"

    @property
    def enough_users(self) -> int:
        """The first number of users with a chance of one half."""
        return self.chances.first(Fraction(1, 2))

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on the card."""
        return {"selection": self.selection, "threshold": self.threshold, "per_user": self.per_user}

    def draw(self) -> Anything:
        """Return the guarantee of one user's keys together: a charge records no more of this draw."""
        if self.per_user == 1:
            return Anything(rounded_up(self.chances.epsilon), rounded_up(self.chances.delta))
        delta = any_passes(float_up(self.chances.delta), self.per_user)
        return Anything(min(self.epsilon, rounded_up(self.chances.epsilon * self.per_user)), min(self.delta, delta))

    def gain(self, keys: int) -> Fraction:
        """Return 1 for each key that counts, over the count that a key needs: where chances cross one half."""
        after = self.enough_users
        low, high = self.chances.units(after - 1), self.chances.units(after)
        crossing = after - Fraction(high - ONE // 2, high - low)
        return min(keys, self.per_user) / crossing

    def route(self) -> ReleaseProbability:
        """Return one stage; every user adds 1."""
        return ReleaseProbability((self.chances,))

    @property
    def rows_of_one_user(self) -> float:
        """The bound on keys, times the chance of a key of one user."""
        return self.per_user * self.chances.of(1).up() * (1 + 2.0**-50)

    def _because(self) -> str:
        one = self.per_user == 1
        keys = "1 key" if one else f"{self.per_user} keys"
        budget = "this epsilon and delta allow" if one else f"one of {self.per_user} parts of epsilon and delta allows"
        return (
            f"each user counts once per key, for at most {keys}; a key comes out, without a count, with the largest "
            f"chance that {budget} for its number of users (privacy/calibration/histogram.md, claim 8)"
        )


def plan_keys_only(epsilon: float, delta: float, per_user: int) -> KeysOnlyPlan:
    """Return the plan for a budget: a part of it for each key of a user."""
    budget, bound = Budget(epsilon, delta), checked_bound(per_user)
    each = stated(budget.delta) if bound == 1 else _part(stated(budget.delta), bound)
    laplace_noise(bound, stated(budget.epsilon))  # a budget that is too small is refused as with noise
    chances = KeyChances(stated(budget.epsilon) / bound, each)
    if chances.first(Fraction(1, 2)) >= MOST_STEPS:
        raise ParameterError.of(
            "the budget must let a key of {most:,} users out more likely than not, it does not; raise {epsilon} or "
            "{delta}, or let fewer keys of each user count",
            most=MOST_STEPS,
        )
    return KeysOnlyPlan(chances, bound, budget.epsilon, budget.delta)


def _part(delta: Fraction, keys: int) -> Fraction:
    """Return the largest d of 12 digits, about, with (1 - d)^keys >= 1 - delta."""
    part = stated(rounded_down(Fraction(-math.expm1(math.log1p(-float(delta)) / keys))))
    while (1 - part) ** keys < 1 - delta:
        part *= Fraction(999_999_999, 1_000_000_000)
    return part
