"""A privacy filter for Gaussian noise: each release may be chosen after looking at earlier ones (proof: filter.md).

It admits a release while the sum of squared losses (mu^2) and the sum of additive deltas keep the limit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any

from querycloak.privacy.accounting.draws import (
    Anything,
    Draw,
    GaussianRounds,
    Histogram,
    OneOf,
    PublicCounts,
    recorded_draws,
)
from querycloak.privacy.calibration.bisection import bisected
from querycloak.privacy.calibration.deltas import own_chance
from querycloak.privacy.calibration.gaussian import SLACK, gaussian_delta, largest_loss
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import refuse
from querycloak.privacy.sampling.noise import Gaussian, Noise

ADDITIVE_SHARE = 0.25
"""Share of a limit's delta for own keys and exceptions, if the owner gives none."""
COUNTS_SMOOTHING = 1.5
"""Variance that integer noise of few counts gives up to be a function of continuous noise (claim 1)."""
SLACK_OF_A_COUNT = 2e-12
"""More than 5 r with r = 2y/(1-y), y = exp(-2 pi^2 1.5): what one changed count adds to exceptions (claim 1)."""
FALSE_ALARMS = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5)
"""Shares of false alarms at which cards state the trade-off curve."""
_MOST_OWN = 100.0
"""Beyond this own keys add more than any delta; larger numbers exceed floats."""
_UP = 1 + 2.0**-40
"""More than the rounding errors of a few sums and products of floats."""


@dataclass(frozen=True)
class GaussianCost:
    """Cost of a release under a Gaussian limit; 0 each for a release that costs nothing.

    squared: mu^2. own: sum of -ln(1-p) over keys of one user alone. exceptions: probability of an arbitrary output.
    """

    squared: float = 0.0
    own: float = 0.0
    exceptions: float = 0.0

    def __add__(self, other: GaussianCost) -> GaussianCost:
        """Return the cost of both, rounded up."""
        return GaussianCost(
            (self.squared + other.squared) * _UP,
            (self.own + other.own) * _UP,
            (self.exceptions + other.exceptions) * _UP,
        )

    @property
    def additive(self) -> float:
        """Delta of own keys and exceptions, rounded up."""
        return (math.expm1(min(self.own, _MOST_OWN)) + self.exceptions) * _UP

    def largest(self, other: GaussianCost) -> GaussianCost:
        """Return the reserve for either of two plans: the larger of each part."""
        return GaussianCost(
            max(self.squared, other.squared), max(self.own, other.own), max(self.exceptions, other.exceptions)
        )

    def detected_at_most(self, false_alarms: float) -> float:
        """Return the largest share of people that a test for their presence detects (claim 3), rounded up."""
        normal = NormalDist()
        shifted = normal.cdf(normal.inv_cdf(false_alarms) + math.sqrt(self.squared))
        return min(1.0, shifted + self.additive + 1e-12)

    def trade_off(self) -> list[list[float]]:
        """Return the curve of claim 3 at a few shares of false alarms, as cards hold it; empty beyond any limit."""
        if not math.isfinite(self.squared + self.own):
            return []
        return [[alpha, math.ceil(self.detected_at_most(alpha) * 1e6) / 1e6] for alpha in FALSE_ALARMS]

    def to_json(self) -> dict[str, float]:
        """Return the three parts, as ledgers hold them."""
        return {"squared_loss": self.squared, "own_keys": self.own, "exceptions": self.exceptions}

    def to_card(self) -> dict[str, float]:
        """Return the cost as cards hold it: also what it adds to delta; empty if it is beyond any limit."""
        return {**self.to_json(), "additive_delta": self.additive} if math.isfinite(self.squared + self.own) else {}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> GaussianCost:
        """Return the cost that `to_json` wrote."""
        numbers = [float(fields[name]) for name in ("squared_loss", "own_keys", "exceptions")]
        if not all(math.isfinite(number) and number >= 0 for number in numbers):
            refuse("cost", "numbers of at least 0", None, "as it was recorded")
        return cls(*numbers)


@dataclass(frozen=True)
class GaussianLimit:
    """A limit (epsilon, delta) of which a fixed share of delta is for own keys and exceptions (filter.md, claim 2)."""

    epsilon: float
    delta: float
    additive_share: float = ADDITIVE_SHARE

    def __post_init__(self) -> None:
        if not 0 < self.additive_share < 1:
            refuse("additive_share", "above 0 and below 1", self.additive_share, "such as 0.25")

    @cached_property
    def squared(self) -> float:
        """M: the largest mu^2 of all releases together."""
        return largest_loss(self.epsilon, self.delta * (1 - self.additive_share))

    @property
    def additive(self) -> float:
        """Largest delta of own keys and exceptions of all releases together."""
        return self.delta * self.additive_share

    def admits(self, total: GaussianCost) -> bool:
        """Say if all releases together, the next included, keep the limit."""
        return total.squared <= self.squared and total.additive <= self.additive

    def more(self, spent: GaussianCost, each: GaussianCost, most: int = 100_000) -> int:
        """Return the number of further releases of one cost that the limit admits, at most `most`."""
        total, number = spent, 0
        while number < most and self.admits(total := total + each):
            number += 1
        return number

    def epsilon_of(self, total: GaussianCost) -> float:
        """Return the least epsilon at which all releases together keep the limit's delta; infinity if none does."""
        rest = self.delta - total.additive
        if rest <= SLACK:
            return math.inf
        if gaussian_delta(total.squared, 0.0) <= rest:
            return 0.0
        low, high = 0.0, 1.0
        while gaussian_delta(total.squared, high) > rest:
            low, high = high, 2 * high
        return bisected(lambda epsilon: gaussian_delta(total.squared, epsilon) <= rest, low, high, precision=1e-7)[1]


def cost_of(guarantee: Guarantee, recorded: object) -> GaussianCost:
    """Return what a charge costs: by its draws if each has a cost, else by its guarantee (claim 1); 0 for a rule."""
    if guarantee.kind == "syntactic":
        return GaussianCost()
    draws: Sequence[Draw] = recorded_draws(recorded) or [Anything(*guarantee.numbers)]
    costs = [cost for draw in draws if (cost := _cost(draw)) is not None]
    if len(costs) < len(draws):
        costs = [_cost_of_anything(Anything(*guarantee.numbers))]
    return sum(costs, start=GaussianCost())


def _cost(draw: Draw) -> GaussianCost | None:
    """Return the cost of one draw; None if its noise is too small to be a function of continuous noise."""
    if isinstance(draw, GaussianRounds):
        own = -math.log1p(-draw.own_keys) * _UP if draw.own_keys < 1 else math.inf
        return GaussianCost(draw.squared_loss, own, SLACK)
    if isinstance(draw, Histogram):
        p = own_chance(draw.noise, draw.threshold, draw.tie_probability)[1]
        own = -draw.per_user * math.log1p(-p) * _UP if p < 1 else math.inf
        noises = [draw.noise] if draw.published_noise is None else [draw.noise, draw.published_noise]
        parts = [_cost_of_counts(noise, draw.per_user) for noise in noises]
        if any(part is None for part in parts):
            return None
        return sum((part for part in parts if part is not None), start=GaussianCost(own=own))
    if isinstance(draw, PublicCounts):
        return _cost_of_counts(draw.noise, draw.per_user)
    if isinstance(draw, OneOf):
        return _cost_of_dearest(draw)
    return _cost_of_anything(draw) if isinstance(draw, Anything) else None


def _cost_of_dearest(draw: OneOf) -> GaussianCost:
    """Return the reserve: of each part the largest among the plans (claim 2)."""
    reserve = GaussianCost()
    for plan in draw.plans:
        costs = [_cost(each) for each in plan]
        known = [cost for cost in costs if cost is not None]
        if len(known) < len(costs):
            known = [_cost_of_anything(Anything(draw.epsilon, draw.delta))]
        reserve = reserve.largest(sum(known, start=GaussianCost()))
    return reserve


def _cost_of_counts(noise: Noise, changed: int) -> GaussianCost | None:
    if not isinstance(noise, Gaussian):
        return GaussianCost(squared_loss_of_pure(changed / noise.scale * _UP))
    if noise.sigma**2 <= COUNTS_SMOOTHING + 1e-6:
        return None
    return GaussianCost(squared_loss_of_counts(noise, changed), exceptions=changed * SLACK_OF_A_COUNT + SLACK)


def squared_loss_of_counts(noise: Gaussian, changed: int) -> float:
    """Return mu^2 of counts with this noise, `changed` of which one user moves by 1 each, rounded up (claim 1)."""
    return changed / (noise.sigma**2 * (1 - 2.0**-44) - COUNTS_SMOOTHING) * _UP


def _cost_of_anything(draw: Anything) -> GaussianCost:
    return GaussianCost(squared_loss_of_pure(draw.epsilon), exceptions=draw.delta)


def squared_loss_of_pure(epsilon: float) -> float:
    """Return mu^2 of anything epsilon-DP, mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)), rounded up (claim 1)."""
    if epsilon <= 0:
        return 0.0
    # Pr[normal > x] = 1/(1 + e^epsilon), found from both sides; beyond 600 the tail is below what floats hold.
    if epsilon > 600:
        return 2 * epsilon * 4 * _UP
    corner = 1 / (1 + math.exp(epsilon))
    _, high = bisected(lambda x: 0.5 * math.erfc(x / math.sqrt(2)) <= corner, 0.0, 40.0, precision=1e-13)
    return (2 * high) ** 2 * (1 + 1e-11)
