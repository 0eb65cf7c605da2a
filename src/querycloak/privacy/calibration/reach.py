"""How far a count may be off and how many users a key needs, from noise and thresholds alone (proof: reach.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.hockey_stick import tail_bounds
from querycloak.privacy.parameters import natural, refuse, whole
from querycloak.privacy.sampling.noise import Laplace, Noise

__all__ = [
    "LIKELY",
    "Range",
    "ReleaseProbability",
    "Stage",
    "StageOfParts",
    "at_least",
    "margin",
    "rows_of_nobody",
    "rows_of_one_user",
    "within",
]

LIKELY = Fraction(95, 100)
"""The probability that margins and `users95` speak of."""
MOST_USERS = 1 << 40
_ROUNDING = 2.0**-50
"""More than the rounding errors of a product of a few floats."""
_TABLE_ROUNDING, _BEYOND = 2.0**-33, 1e-30
"""Of tails kept in a table: sums of at most 2^18 positive floats, cut at 12 sigma."""


@dataclass(frozen=True)
class Range:
    """A number of users or counts: from the best case to the worst, which are the same where nothing decides it."""

    low: int
    high: int

    def to_json(self) -> int | list[int]:
        """As a number where it is one, else as the list of its two ends."""
        return self.low if self.low == self.high else [self.low, self.high]

    @classmethod
    def from_json(cls, value: object) -> Range:
        """The range that `to_json` wrote."""
        low, high = value if isinstance(value, list) and len(value) == 2 else (value, value)
        least = whole("range", low, "as it was written", least=0)
        return cls(least, whole("range", high, "as it was written", least=least))

    @classmethod
    def over(cls, ranges: Iterable[Range]) -> Range:
        """From the least of several to the most."""
        listed = list(ranges)
        return cls(min(each.low for each in listed), max(each.high for each in listed))

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


class Stage(NamedTuple):
    """One draw that a key must pass: its total with this noise must exceed the threshold.

    coin: the chance of a key whose total with noise is the threshold itself (histogram.md, claim 7).
    """

    noise: Noise
    threshold: int
    coin: float = 0.0

    def passes(self, total: int) -> float:
        """The chance of a key of this total, rounded down."""
        above = at_least(self.noise, self.threshold + 1 - total)[0]
        if not self.coin:
            return above
        mixed = (1 - self.coin) * above + self.coin * at_least(self.noise, self.threshold - total)[0]
        return mixed * (1 - _ROUNDING)


class StageOfParts(NamedTuple):
    """A draw for each of a key's parts, all of which must pass, for users at the bound (claim 2).

    parts: how many there are. of_key, of_part: what such a user adds to a key, and to each of its parts.
    """

    stage: Stage
    parts: int
    of_key: int
    of_part: int

    def passes(self, total: int) -> float:
        """The chance of a key of this total, if nobody else has its parts, rounded down."""
        each = total * self.of_part // self.of_key
        return self.stage.passes(each) ** self.parts * (1 - _ROUNDING)


class Passage(Protocol):
    """Anything that a key of some total passes with a known chance."""

    def passes(self, total: int) -> float:
        """The chance of a key of this total, rounded down."""
        ...


@dataclass(frozen=True)
class ReleaseProbability:
    """How a key comes out: its users' weights, added up, must pass every stage; a count is published then.

    most, least: what one user adds to a key's total, in the best case and in the worst.
    fresh: the noise of the published count; None where the last stage's draw is published itself.
    """

    stages: tuple[Passage, ...]
    most: int = 1
    least: int = 1
    fresh: Noise | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise ParameterError("stages must hold at least one draw; a rule without noise needs no route")
        natural("least", self.least, "say what one user adds at least")
        whole("most", self.most, "say what one user adds at most", least=self.least)

    def users(self, probability: Fraction) -> Range:
        """How many users a key needs to come out with this probability (claim 2).

        In the best case others have its parts, too, so that these pass whoever has the key.
        """
        keys = tuple(stage for stage in self.stages if not isinstance(stage, StageOfParts))
        best = replace(self, stages=keys)
        return Range(best._users(self.most, probability), self._users(self.least, probability))

    def _users(self, weight: int, probability: Fraction) -> int:
        if not 0 < probability < 1:
            refuse("probability", "above 0 and below 1", probability, "such as 1/2")
        return _first(lambda users: Fraction(self.comes_out(users * weight)) >= probability)

    def comes_out(self, total: int) -> float:
        """The chance that a key of this total passes every stage, rounded down."""
        chance = 1.0
        for stage in self.stages:
            chance *= stage.passes(total)
        return chance * (1 - _ROUNDING)

    @property
    def margin(self) -> int:
        """How far noise may change a published count, up or down, with probability 95 % (claim 1)."""
        return margin(self._last.noise if self.fresh is None else self.fresh)

    @property
    def _last(self) -> Stage:
        last = self.stages[-1]
        if not isinstance(last, Stage):
            refuse("counts", "noisy where it is asked how far off they are", "none", "there is no count to be off")
        return last

    def hits(self, users: int, error: int) -> float:
        """The chance, rounded down, that a key of this many users comes out and its count is off by `error` at most.

        Of the numbers that users may add it takes the least (claim 3).
        """
        total = users * self.least
        if self.fresh is not None:
            return self.comes_out(total) * within(self.fresh, error) * (1 - _ROUNDING)
        last = self._last
        earlier = (
            ReleaseProbability(self.stages[:-1], self.most, self.least).comes_out(total)
            if len(self.stages) > 1
            else 1.0
        )
        lowest = max(-error, last.threshold + 1 - total)
        between = at_least(last.noise, lowest)[0] - at_least(last.noise, error + 1)[1]
        at_threshold = last.threshold - total
        if last.coin and -error <= at_threshold <= error:
            exactly = at_least(last.noise, at_threshold)[0] - at_least(last.noise, at_threshold + 1)[1]
            between += max(0.0, last.coin * exactly)
        return max(0.0, earlier * between * (1 - _ROUNDING) - _ROUNDING)


def at_least(noise: Noise, m: int) -> tuple[float, float]:
    """Bounds of Pr[Z >= m] for any m, as floats; searches ask for many of one noise, so Gaussian tails are kept."""
    if m < 0:
        low, high = at_least(noise, 1 - m)
        return max(0.0, (1 - high) * (1 - _ROUNDING)), min(1.0, (1 - low) * (1 + _ROUNDING))
    if isinstance(noise, Laplace):
        return tail_bounds(noise, m)
    tails = _gaussian_tails(noise.sigma)
    tail = float(tails[m]) if m < tails.size else 0.0
    return tail * (1 - _TABLE_ROUNDING), min(1.0, tail * (1 + _TABLE_ROUNDING) + _BEYOND)


@lru_cache(maxsize=16)
def _gaussian_tails(sigma: float) -> NDArray[np.float64]:
    """Pr[Z >= m] for m = 0, 1, ... up to 12 sigma; what lies beyond is below `_BEYOND`."""
    weights = np.exp(-0.5 * (np.arange(math.ceil(12 * sigma) + 2) / sigma) ** 2)
    from_here = np.cumsum(weights[::-1])[::-1]
    tails: NDArray[np.float64] = from_here / (2 * from_here[0] - 1)
    return tails


def within(noise: Noise, error: int) -> float:
    """Pr[|Z| <= error], rounded down."""
    return max(0.0, (1 - 2 * at_least(noise, error + 1)[1]) * (1 - _ROUNDING))


def margin(noise: Noise, probability: Fraction = LIKELY) -> int:
    """The least m for which Pr[|Z| <= m] is at least this probability (claim 1)."""
    most = (1 - probability) / 2
    return _first(lambda m: Fraction(at_least(noise, m + 1)[1]) <= most, least=0)


def rows_of_nobody(noise: Noise, threshold: int, keys: int) -> float:
    """How many of this many public keys are expected to come out although nobody asked for them: at most (claim 4)."""
    return keys * at_least(noise, threshold + 1)[1] * (1 + _ROUNDING)


def rows_of_one_user(noise: Noise, threshold: int, per_user: int, coin: float = 0.0) -> float:
    """How many rows that one user alone has are expected to come out for each user: at most (claim 5)."""
    chance = at_least(noise, threshold)[1]
    if coin:
        chance = (1 - coin) * chance + coin * at_least(noise, threshold - 1)[1]
    return per_user * chance * (1 + 4 * _ROUNDING)


def _first(holds: Callable[[int], bool], least: int = 1) -> int:
    """The smallest number from `least` on for which it holds, for a rule that stays true once it is."""

    def guarded(number: int) -> bool:
        if number > MOST_USERS:
            raise ParameterError("no number of users brings a key out with this noise; lower the threshold")
        return holds(number)

    return smallest_integer(guarded, above=least - 1, first=max(1, least))
