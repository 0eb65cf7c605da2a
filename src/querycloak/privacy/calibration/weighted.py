"""Plans of weighted partition selection, in one round or several, with their guarantees (selection.md).

A scout is a preselection round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage, StageOfParts
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.gaussian import noise_for, squared_loss
from querycloak.privacy.calibration.own_keys import FLOAT_SLACK, Floor, added_by, mean_own_keys, own_keys
from querycloak.privacy.calibration.poisoning import GRID
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.parameters import checked_bound
from querycloak.privacy.sampling.exact import four_digits_up
from querycloak.privacy.sampling.noise import LARGEST_NOISE, Gaussian
from querycloak.privacy.sampling.randomness import IntArray

__all__ = [
    "FORMER_SELECTIONS",
    "GRID",
    "PARTS",
    "ROUNDS",
    "ROUNDS_OF_PARTS",
    "WEIGHTED",
    "PreselectionRound",
    "Shares",
    "WeightedPlan",
    "interest_of",
    "plan_weighted",
    "recorded_selection",
]

FORMER_SELECTIONS: Mapping[str, str] = MappingProxyType({"rounds": "multi-round"})
"""The current name of each renamed selection; cards, ledgers and `--json` keep the former one."""
FULL_INTEREST = 1024
"""Interest of a key that is not known to be heavy; users divide their weight in proportion to interest."""
LEAST_INTEREST = 64
"""Least interest of the heaviest key: smaller weights would be rounded down to 0."""
ENOUGH = Fraction(7, 10)
"""Share of the threshold at which a key needs no more weight: above it, users give it less the heavier it is."""


@dataclass(frozen=True)
class PreselectionRound:
    """A round whose noisy weights are never published: keys at or below `floor` are dropped.

    parts: a name of `PARTS`, whose weights decide instead of those of keys; a dropped part drops its keys. None: keys.
    """

    noise: Gaussian
    floor: int
    parts: str | None = None


@dataclass(frozen=True)
class Shares:
    """Division of mu^2 among the preselection rounds, the counts of keys, and the decision, which takes the rest."""

    scouts: tuple[tuple[float, float], ...]
    """Share of each scout of keys, and its floor in standard deviations of its noise."""
    counting: float
    of_parts: tuple[float, float] | None = None
    """Share and floor of the first scout, which weighs parts of keys; None where keys have no parts."""

    @property
    def deciding(self) -> float:
        """Share of the decision."""
        scouting = [*self.scouts, *([self.of_parts] if self.of_parts else [])]
        return 1 - self.counting - sum(share for share, _ in scouting)


WEIGHTED = Shares((), 0.2)
ROUNDS = Shares(((0.2, 1.0), (0.2, 1.75)), 0.2)
ROUNDS_OF_PARTS = Shares(((0.15, 1.0), (0.15, 1.75)), 0.2, of_parts=(0.1, 1.25))
"""Shares for keys with parts: more users share a part than a key."""
PARTS: Mapping[str, int] = MappingProxyType({"query": 1, "queries": 2})
"""Parts for a preselection round, with their least number in a key: a pair has one query, a sequence two or more."""


@dataclass(frozen=True)
class WeightedPlan(TablePlan):
    """Users divide weight among keys, noisy weights decide which keys come out, and these are counted anew."""

    scouts: tuple[PreselectionRound, ...]
    noise: Gaussian
    threshold: int
    per_user: int
    counting: Gaussian | None
    """The noise of published counts; None where keys are published without counts."""
    counted_per_user: int
    epsilon: float
    delta: float
    priors: bool = False
    """True if users prefer keys by public knowledge; their first weights are then not all equal."""
    times: Times | None = None
    """Bound on clicks of one user if clicks are counted; None if users are."""

    @property
    def selection(self) -> str:
        """Kind of selection: multi-round if preselection rounds go before the decision, else weighted."""
        return "multi-round" if self.scouts else "weighted"

    @property
    def counts(self) -> str:
        """Kind of counts: weighed anew for the released keys, or none."""
        return "none" if self.counting is None else "weighed"

    @property
    def equal_weights(self) -> bool:
        """True if a user's keys all have the same weight."""
        return not self.scouts and not self.priors

    def draw(self) -> GaussianRounds:
        """Return what this table adds to a release, rounded up (claims 2 and 3)."""
        weighed = [scout.noise for scout in self.scouts] + [self.noise]
        squared = sum(squared_loss(noise, GRID**2) for noise in weighed)
        if self.counting is not None:
            squared += squared_loss(self.counting, self.times.squared if self.times else self.counted_per_user)
        own = _own(self.scouts, self.noise, self.threshold, self.per_user, equal=self.equal_weights)
        return GaussianRounds(squared * (1 + FLOAT_SLACK), own, averaged=bool(_floors(self.scouts)))

    def gain(self, keys: int) -> Fraction:
        """Return the weight that a user with this number of keys gives to all of them, over the threshold."""
        counted = min(keys, self.per_user)
        squared = Fraction(4, max(8, counted)) if self.scouts else Fraction(1, max(1, counted))
        return Fraction(counted * math.isqrt(int(GRID * GRID * squared)), self.threshold)

    def route(self) -> ReleaseProbability:
        """Return scouts and decision; a user adds a whole weight, or at the bound one of `per_user` equal weights."""
        least = math.isqrt(GRID * GRID // self.per_user)
        scouts = (_stage(scout, self.per_user) for scout in self.scouts)
        return ReleaseProbability(
            (*scouts, Stage(self.noise, self.threshold)), most=GRID, least=least, published_noise=self.counting
        )

    @property
    def rows_of_one_user(self) -> float:
        """With rounds of keys the mean of claim 6 in selection.md; else the sum of claim 3 (an upper bound)."""
        if floors := _floors(self.scouts):
            return mean_own_keys([*floors, Floor(self.noise, self.threshold)], self.per_user)
        own = own_keys(self.noise, self.threshold, self.per_user, equal=self.equal_weights)
        return -math.log1p(-own) * (1 + FLOAT_SLACK) if own < 1 else math.inf

    def _because(self) -> str:
        keys = f"{self.per_user} key{'s' * (self.per_user > 1)}"
        return (
            f"each user divides a weight of Euclidean length 1 among at most {keys}; {self._guided()}"
            f"a key comes out if its total weight, with Gaussian noise of sigma {self.noise.sigma / GRID:.4g}, exceeds "
            f"{self.threshold / GRID:.4g}; {self._published()} (privacy/calibration/selection.md)"
        )

    def _published(self) -> str:
        if self.counting is None:
            return "nothing else is published"
        whom = f"each user counts for at most {self.counted_per_user} of these keys"
        if self.times is not None:
            whom = f"each user's clicks count, at most {self.times.per_key} for a key and {self.times.per_user} in all"
        return f"then {whom}, and a count gets Gaussian noise of sigma {self.counting.sigma:.4g}"

    def _guided(self) -> str:
        if not self.scouts:
            return ""
        *first, last = [f"{scout.noise.sigma / GRID:.4g}" for scout in self.scouts]
        sigmas = " and ".join([", ".join(first), last] if first else [last])
        parts = ", the first of them on single queries," if self.scouts[0].parts else ","
        return (
            f"which of them get more is decided by {len(self.scouts)} earlier rounds{parts} with Gaussian noise of "
            f"sigma {sigmas}, whose results are never published; "
        )

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on the card."""
        return {
            "selection": recorded_selection(self.selection),
            "noise": self.noise.sigma / GRID,
            "threshold": self.threshold / GRID,
            "per_user": self.per_user,
            "scout_noise": [scout.noise.sigma / GRID for scout in self.scouts],
            "scout_floor": [scout.floor / GRID for scout in self.scouts],
            "scout_of": [scout.parts or "keys" for scout in self.scouts],
            "own_keys": "rounds" if _floors(self.scouts) else "decision",
            "counting_noise": None if self.counting is None else self.counting.sigma,
            "counted_per_user": None if self.counting is None or self.times is not None else self.counted_per_user,
        }


def recorded_selection(selection: str) -> str:
    """The name of a selection in cards and `--json`, whose values never change."""
    return next((former for former, current in FORMER_SELECTIONS.items() if current == selection), selection)


def interest_of(before: IntArray, noisy: IntArray, plan: WeightedPlan) -> IntArray:
    """Return the interests of keys: equal, but less for keys that are heavy already."""
    enough = int(plan.threshold * ENOUGH)
    interest: IntArray = np.maximum(np.minimum(before, before * enough // np.maximum(noisy, 1)), LEAST_INTEREST)
    return interest


def plan_weighted(
    spend: GaussianRounds,
    per_user: int,
    counted_per_user: int,
    shares: Shares,
    epsilon: float,
    delta: float,
    *,
    priors: bool = False,
    times: Times | None = None,
    parts: str | None = None,
) -> WeightedPlan:
    """Return the plan that spends no more than `spend`; epsilon and delta are what it guarantees alone.

    parts: the parts of keys that the first scout weighs, where `shares` has a share for it; None for keys.
    """
    per_user, counted = checked_bound(per_user), checked_bound(counted_per_user)
    _check_weights(per_user, PARTS[parts] if parts is not None else 1)
    scouts = tuple(_scout(spend.squared_loss * share, floor) for share, floor in shares.scouts)
    if shares.of_parts is not None and parts is not None:
        share, floor = shares.of_parts
        scouts = (_scout(spend.squared_loss * share, floor, parts), *scouts)
    noise = _noise(spend.squared_loss * shares.deciding, GRID**2)
    changed = times.squared if times else counted
    counting = _noise(spend.squared_loss * shares.counting, changed) if shares.counting else None
    equal = not scouts and not priors
    threshold = smallest_integer(
        lambda t: _own(scouts, noise, t, per_user, equal=equal) <= spend.own_keys, above=GRID, first=2 * GRID
    )
    return WeightedPlan(scouts, noise, threshold, per_user, counting, counted, epsilon, delta, priors, times)


def _floors(scouts: tuple[PreselectionRound, ...]) -> tuple[Floor, ...]:
    """The rounds of keys: parts of own keys may be shared, so rounds of parts bound nothing."""
    return tuple(Floor(scout.noise, scout.floor) for scout in scouts if scout.parts is None)


def _own(
    scouts: tuple[PreselectionRound, ...], noise: Gaussian, threshold: int, per_user: int, *, equal: bool
) -> float:
    """Return the contribution of keys that one user alone holds, for `GaussianRounds.own_keys` (claims 3 and 6)."""
    if floors := _floors(scouts):
        return added_by(noise, threshold, per_user, floors)
    return own_keys(noise, threshold, per_user, equal=equal)


def _check_weights(per_user: int, parts: int) -> None:
    """Refuse bounds at which a weight, divided among a user's keys or their parts, rounds down to 0."""
    most = GRID * GRID // parts
    if per_user > most:
        raise ParameterError.of(
            "a user's keys that count must be at most {most:,} with weights, it would be {keys:,}: each would "
            "weigh nothing; lower the bound, or take {selection:laplace} or {selection:gaussian}",
            most=most,
            keys=per_user,
        )


def _scout(squared: float, floor: float, parts: str | None = None) -> PreselectionRound:
    noise = _noise(squared, GRID**2)
    return PreselectionRound(noise, round(floor * noise.sigma), parts)


def _stage(scout: PreselectionRound, per_user: int) -> Stage | StageOfParts:
    """The stage of a scout; a user at the bound divides a weight among at most all parts of the keys."""
    stage = Stage(scout.noise, scout.floor)
    if scout.parts is None:
        return stage
    parts = PARTS[scout.parts]
    of_key, of_part = (math.isqrt(GRID * GRID // number) for number in (per_user, parts * per_user))
    return StageOfParts(stage, parts, of_key, of_part)


def _noise(squared: float, squared_change: float) -> Gaussian:
    sigma = four_digits_up(noise_for(squared, squared_change))
    if sigma > LARGEST_NOISE:
        raise ParameterError.of(
            "the budget must allow weights noise of sigma {most} at most, it needs {needed:.3g}; raise {epsilon} "
            "or {delta}, or take another {selection}",
            most=LARGEST_NOISE // GRID,
            needed=sigma / GRID,
        )
    return Gaussian(sigma)
