"""What a release draws, as a charge records it for whoever adds up later (composition.md, claims 2 to 4)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from querycloak.errors import ParameterError
from querycloak.privacy.chance.noise import Gaussian, Laplace, Noise
from querycloak.privacy.composing.privacy_loss import Losses
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import number_above_zero, refuse, whole
from querycloak.privacy.prices.deltas import ROUNDING
from querycloak.privacy.prices.gaussian import SLACK
from querycloak.privacy.prices.hockey_stick import tail_bounds
from querycloak.privacy.prices.one_draw import Plan, checked_bound
from querycloak.privacy.prices.weighted import WeightedPlan

__all__ = ["Anything", "GaussianRounds", "Histogram", "Mechanism", "PublicCounts", "losses_of", "mechanism_of"]


@dataclass(frozen=True)
class Histogram:
    """A thresholded histogram: each user once per key, at most `per_user` keys; `fresh` is a second draw."""

    noise: Noise
    threshold: int
    per_user: int
    fresh: Noise | None = None

    def losses(self) -> Losses:
        """Its counts, all shared, and as exceptions its keys, all the user's own (claims 2 and 3)."""
        p = tail_bounds(self.noise, self.threshold)[1]
        if p >= 1:
            return Losses({}, Fraction(1))
        own = self.per_user * math.log1p(-p) * -(1 + ROUNDING)
        shared = Losses({self.noise: self.per_user}, own=Fraction(own))
        return shared if self.fresh is None else shared + Losses({self.fresh: self.per_user})

    def to_json(self) -> dict[str, Any]:
        """As a charge holds it."""
        fresh = {} if self.fresh is None else {"fresh": _noise_json(self.fresh)}
        bounds = {"threshold": self.threshold, "per_user": self.per_user}
        return {"kind": "histogram", "noise": _noise_json(self.noise), **bounds, **fresh}


@dataclass(frozen=True)
class PublicCounts:
    """Noisy counts of public keys, zeros included; each user once per key, at most `per_user` keys."""

    noise: Noise
    per_user: int

    def losses(self) -> Losses:
        """Its counts; nothing else can come out."""
        return Losses({self.noise: self.per_user})

    def to_json(self) -> dict[str, Any]:
        """As a charge holds it."""
        return {"kind": "public-counts", "noise": _noise_json(self.noise), "per_user": self.per_user}


@dataclass(frozen=True)
class GaussianRounds:
    """Rounds of Gaussian noise with mu^2 in all, and the chance that any key of one user alone comes out."""

    squared_loss: float
    own_keys: float

    def losses(self) -> Losses:
        """One normal loss, and exceptions (claim 4)."""
        if self.own_keys >= 1:
            return Losses({}, Fraction(1))
        own = -math.log1p(-self.own_keys) * (1 + ROUNDING)
        return Losses({}, Fraction(SLACK), own=Fraction(own), normal=Fraction(self.squared_loss))

    def to_json(self) -> dict[str, Any]:
        """As a charge holds it."""
        return {"kind": "gaussian-rounds", "squared_loss": self.squared_loss, "own_keys": self.own_keys}


@dataclass(frozen=True)
class Anything:
    """Whatever is (epsilon, delta)-DP; delta 0 for what is pure."""

    epsilon: float
    delta: float = 0.0

    def losses(self) -> Losses:
        """As of randomised response that reveals all with probability delta."""
        return Losses.of_guarantee(self.epsilon, self.delta)

    def to_json(self) -> dict[str, Any]:
        """As a charge holds it."""
        return {"kind": "any", "epsilon": self.epsilon, "delta": self.delta}


Mechanism = Histogram | PublicCounts | GaussianRounds | Anything


def mechanism_of(plan: Plan | WeightedPlan) -> Mechanism:
    """What a plan draws."""
    if isinstance(plan, WeightedPlan):
        cost = plan.cost()
        return GaussianRounds(cost.squared_loss, cost.own_keys)
    return Histogram(plan.noise, plan.threshold, plan.per_user, plan.fresh)


def losses_of(guarantee: Guarantee, recorded: object) -> Losses:
    """What a charge loses: by its mechanisms if they are recorded in full, else by its guarantee alone."""
    if guarantee.kind == "syntactic":
        return Losses()
    mechanisms = _read(recorded)
    if not mechanisms:
        mechanisms = [Anything(guarantee.epsilon or 0.0, guarantee.delta or 0.0)]
    return sum((mechanism.losses() for mechanism in mechanisms), start=Losses())


def _read(recorded: object) -> Sequence[Mechanism]:
    """The mechanisms of a charge; none if any is of a kind that this version does not know."""
    if not isinstance(recorded, Iterable) or isinstance(recorded, str):
        return []
    try:
        return [_mechanism(fields) for fields in recorded]
    except (KeyError, TypeError, ValueError, ParameterError):
        return []


def _mechanism(fields: Mapping[str, Any]) -> Mechanism:
    kind = fields["kind"]
    if kind == "any":
        return Anything(_not_negative(fields["epsilon"]), _not_negative(fields["delta"]))
    if kind == "gaussian-rounds":
        return GaussianRounds(_not_negative(fields["squared_loss"]), _not_negative(fields["own_keys"]))
    noise, per_user = _noise(fields["noise"]), checked_bound(fields["per_user"])
    if kind == "public-counts":
        return PublicCounts(noise, per_user)
    if kind != "histogram":
        refuse("kind", "histogram, public-counts, gaussian-rounds or any", kind, "use the version that recorded it")
    threshold = whole("threshold", fields["threshold"], "as it was recorded", least=0)
    return Histogram(noise, threshold, per_user, _noise(fields["fresh"]) if "fresh" in fields else None)


def _not_negative(number: float) -> float:
    return float(number) if number == 0 else number_above_zero("a figure", number, "as it was recorded")


def _noise(fields: Mapping[str, Any]) -> Noise:
    return Laplace(fields["scale"]) if fields["law"] == "laplace" else Gaussian(fields["sigma"])


def _noise_json(noise: Noise) -> dict[str, Any]:
    if isinstance(noise, Laplace):
        return {"law": "laplace", "scale": noise.scale}
    return {"law": "gaussian", "sigma": noise.sigma}
