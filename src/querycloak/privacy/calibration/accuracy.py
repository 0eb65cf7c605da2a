"""Margin of a count and number of users that a key needs, from noise and thresholds alone (proof: accuracy.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.deltas import tail_bounds
from querycloak.privacy.parameters import natural, refuse, whole
from querycloak.privacy.sampling.noise import Laplace, Noise

LIKELY = Fraction(95, 100)
"""The probability of margins and `users95`."""
MOST_USERS = 1 << 40
_ROUNDING = 2.0**-50
"""More than the rounding errors of a product of a few floats."""
_TABLE_ROUNDING, _BEYOND = 2.0**-33, 1e-30
"""Rounding and cut of tails kept in a table: sums of at most 2^18 positive floats, cut at 12 sigma."""


@dataclass(frozen=True)
class Range:
    """A number of users or counts, from the best case to the worst; equal ends if it is certain."""

    low: int
    high: int

    def to_json(self) -> int | list[int]:
        """A number if both ends are equal, else the list of both."""
        return self.low if self.low == self.high else [self.low, self.high]

    @classmethod
    def from_json(cls, value: object) -> Range:
        """The range that `to_json` wrote."""
        low, high = value if isinstance(value, list) and len(value) == 2 else (value, value)
        least = whole("range", low, "as it was written", least=0)
        return cls(least, whole("range", high, "as it was written", least=least))

    @classmethod
    def over(cls, ranges: Iterable[Range]) -> Range:
        """The range from the least of several ranges to the most."""
        listed = list(ranges)
        return cls(min(each.low for each in listed), max(each.high for each in listed))

    def __str__(self) -> str:
        return f"{self.low:,}" if self.low == self.high else f"{self.low:,} to {self.high:,}"


class Stage(NamedTuple):
    """One draw that a key must pass: its total with this noise must exceed the threshold.

    tie_probability: that of a key whose noisy total equals the threshold (histogram.md, claim 7).
    """

    noise: Noise
    threshold: int
    tie_probability: float = 0.0

    def passes(self, total: int) -> float:
        """The chance of a key of this total, rounded down."""
        above = at_least(self.noise, self.threshold + 1 - total)[0]
        if not self.tie_probability:
            return above
        mixed = (1 - self.tie_probability) * above + self.tie_probability * at_least(
            self.noise, self.threshold - total
        )[0]
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
    """Release of a key: the sum of its users' weights must pass every stage; then a count is published.

    most, least: what one user adds to a key's total, in the best case and in the worst.
    published_noise: the noise of the published count; None where the last stage's draw is published itself.
    """

    stages: tuple[Passage, ...]
    most: int = 1
    least: int = 1
    published_noise: Noise | None = None

    def __post_init__(self) -> None:
        if not self.stages:
            raise ParameterError("stages must hold at least one draw; a rule without noise needs no route")
        natural("least", self.least, "say what one user adds at least")
        whole("most", self.most, "say what one user adds at most", least=self.least)

    def users(self, probability: Fraction) -> Range:
        """Number of users that a key needs to come out with this probability (claim 2).

        In the best case other users have its parts, too, so these pass whatever the number of the key's users.
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
        """Margin of a published count by noise, up or down, with probability 95 % (claim 1)."""
        return margin(self._last.noise if self.published_noise is None else self.published_noise)

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
        if self.published_noise is not None:
            return self.comes_out(total) * within(self.published_noise, error) * (1 - _ROUNDING)
        last = self._last
        earlier = (
            ReleaseProbability(self.stages[:-1], self.most, self.least).comes_out(total)
            if len(self.stages) > 1
            else 1.0
        )
        lowest = max(-error, last.threshold + 1 - total)
        between = at_least(last.noise, lowest)[0] - at_least(last.noise, error + 1)[1]
        at_threshold = last.threshold - total
        if last.tie_probability and -error <= at_threshold <= error:
            exactly = at_least(last.noise, at_threshold)[0] - at_least(last.noise, at_threshold + 1)[1]
            between += max(0.0, last.tie_probability * exactly)
        return max(0.0, earlier * between * (1 - _ROUNDING) - _ROUNDING)


def at_least(noise: Noise, m: int) -> tuple[float, float]:
    """Bounds of Pr[Z >= m] for any m, as floats; tails of Gaussian noise are cached, as searches ask for many."""
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


def spurious_rows(noise: Noise, threshold: int, keys: int) -> float:
    """Largest expected number of spurious rows: of these public keys of count zero that come out (claim 4)."""
    return keys * at_least(noise, threshold + 1)[1] * (1 + _ROUNDING)


def rows_of_one_user(noise: Noise, threshold: int, per_user: int, tie_probability: float = 0.0) -> float:
    """Largest expected number, for each user, of released rows that this user alone has (claim 5)."""
    chance = at_least(noise, threshold)[1]
    if tie_probability:
        chance = (1 - tie_probability) * chance + tie_probability * at_least(noise, threshold - 1)[1]
    return per_user * chance * (1 + 4 * _ROUNDING)


def _first(holds: Callable[[int], bool], least: int = 1) -> int:
    """The smallest number from `least` on that fits `holds`, a rule that stays true once it is true."""

    def guarded(number: int) -> bool:
        if number > MOST_USERS:
            raise ParameterError("no number of users brings a key out with this noise; lower the threshold")
        return holds(number)

    return smallest_integer(guarded, above=least - 1, first=max(1, least))


NO_COUNT = "there is no count"
FIELDS = ("counts", "margin95", "users50", "users95", "spurious", "notes")


_RANGES = ("margin95", "users50", "users95")


@dataclass(frozen=True)
class TableAccuracy:
    """Meaning of `count` in a table, its margin by noise, and the number of users that bring a row out.

    A number that the method does not have is None. `spurious` is the largest expected number of spurious rows: rows
    that no user has.
    """

    counts: str
    margin95: Range | None = None
    users50: Range | None = None
    users95: Range | None = None
    spurious: float | None = None
    notes: tuple[str, ...] = ()

    @classmethod
    def of_route(
        cls, route: ReleaseProbability, counts: str, *, spurious: float = 0.0, notes: Iterable[str] = ()
    ) -> TableAccuracy:
        """The accuracy of keys that come out by one route."""
        margin = Range(route.margin, route.margin)
        users = route.users(Fraction(1, 2)), route.users(LIKELY)
        return cls(counts, margin, *users, spurious, tuple(notes))

    @classmethod
    def of_rule(cls, counts: str, users: Range, *, notes: Iterable[str] = ()) -> TableAccuracy:
        """The accuracy of keys that come out for certain from this many users on, with exact counts."""
        return cls(counts, Range(0, 0), users, users, 0.0, tuple(notes))

    @classmethod
    def over(cls, candidates: Iterable[TableAccuracy], counts: str, *, notes: Iterable[str] = ()) -> TableAccuracy:
        """The accuracy that spans several, one of which a draw will choose."""
        listed = list(candidates)
        margin, users50, users95 = (_over(getattr(each, name) for each in listed) for name in _RANGES)
        spurious = [each.spurious for each in listed if each.spurious is not None]
        return cls(counts, margin, users50, users95, max(spurious, default=None), tuple(notes))

    def with_notes(self, *notes: str) -> TableAccuracy:
        """The accuracy with more notes."""
        return replace(self, notes=(*self.notes, *notes))

    def lines(self) -> list[str]:
        """Lines for readers: the unit of counts, the margin, the users that a row needs, spurious rows, notes."""
        lines = [self.counts if self.counts.startswith(NO_COUNT) else f"count: {self.counts}"]
        if self.margin95 is not None:
            margin = (
                f"{self.margin95} up or down"
                if self.margin95.high
                else "0: noise changes at most 5 % of counts, if any"
            )
            lines.append(f"95 % margin of a count: {margin}")
        if self.users50 is not None and self.users95 is not None:
            likely = f"{self.users50} with probability 50 %, {self.users95} with 95 %"
            lines.append(f"users who bring a row out: {likely if self.users50 != self.users95 else self.users50}")
        if self.spurious is not None:
            rows = f"at most {self.spurious:.2g} expected" if self.spurious else "none"
            lines.append(f"spurious rows (rows that no user has): {rows}")
        return [*lines, *self.notes]

    def to_json(self) -> dict[str, Any]:
        """The values that `describe --json` prints and a card holds."""
        ranges = {name: getattr(self, name) and getattr(self, name).to_json() for name in _RANGES}
        return {"counts": self.counts, **ranges, "spurious": self.spurious, "notes": list(self.notes)}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> TableAccuracy:
        """Inverse of `to_json`."""
        if set(fields) != set(FIELDS) or not isinstance(fields["notes"], list):
            refuse("reach", f"an object with the keys {', '.join(FIELDS)}", sorted(fields), "write it with to_json")
        margin, users50, users95 = (None if fields[name] is None else Range.from_json(fields[name]) for name in _RANGES)
        spurious = None if fields["spurious"] is None else float(fields["spurious"])
        notes = tuple(map(str, fields["notes"]))
        return cls(str(fields["counts"]), margin, users50, users95, spurious, notes)


def _over(ranges: Iterable[Range | None]) -> Range | None:
    listed = [each for each in ranges if each is not None]
    return Range.over(listed) if listed else None
