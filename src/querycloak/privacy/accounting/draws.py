"""Draws of a release, as a charge records them for later composition (composition.md, claims 2 to 4)."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.calibration.deltas import FORMULA_ROUNDING, own_chance
from querycloak.privacy.calibration.gaussian import SLACK
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import checked_bound, number_above_zero, one_of, share, whole
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise


class Draw(ABC):
    """A mechanism that ran, with its noise, as a frozen value; it depends on no log."""

    @abstractmethod
    def losses(self) -> Losses:
        """Its privacy loss for one user, added or removed."""

    @abstractmethod
    def to_json(self) -> dict[str, Any]:
        """The draw as a charge holds it."""


@dataclass(frozen=True)
class Histogram(Draw):
    """A thresholded histogram: each user counts once per key, for at most `per_user` keys.

    published_noise: that of the second draw; None if the draw that decides is published.
    tie_probability: that of a key whose noisy count equals the threshold.
    """

    noise: Noise
    threshold: int
    per_user: int
    published_noise: Noise | None = None
    tie_probability: float = 0.0

    def losses(self) -> Losses:
        """The loss of its counts as if all keys were shared; as exceptions, keys as if all were the user's own.

        These are claims 2 and 3.
        """
        p = own_chance(self.noise, self.threshold, self.tie_probability)[1]
        if p >= 1:
            return Losses({}, Fraction(1))
        own = self.per_user * math.log1p(-p) * -(1 + FORMULA_ROUNDING)
        shared = Losses({self.noise: self.per_user}, own=Fraction(own))
        return shared if self.published_noise is None else shared + Losses({self.published_noise: self.per_user})

    def to_json(self) -> dict[str, Any]:
        """The draw as a charge holds it."""
        published_noise = {} if self.published_noise is None else {"fresh": _noise_json(self.published_noise)}
        bounds = {"threshold": self.threshold, "per_user": self.per_user}
        # Versions that know no tie probability must not take this for a histogram without one.
        if self.tie_probability:
            noise = _noise_json(self.noise)
            return {
                "kind": "histogram-with-coin",
                "noise": noise,
                **bounds,
                "coin": self.tie_probability,
                **published_noise,
            }
        return {"kind": "histogram", "noise": _noise_json(self.noise), **bounds, **published_noise}


@dataclass(frozen=True)
class PublicCounts(Draw):
    """Noisy counts of public keys, zeros included; each user once per key, at most `per_user` keys."""

    noise: Noise
    per_user: int

    def losses(self) -> Losses:
        """The loss of its counts, its only output."""
        return Losses({self.noise: self.per_user})

    def to_json(self) -> dict[str, Any]:
        """The draw as a charge holds it."""
        return {"kind": "public-counts", "noise": _noise_json(self.noise), "per_user": self.per_user}


@dataclass(frozen=True)
class GaussianRounds(Draw):
    """Rounds of Gaussian noise, each of which may depend on the earlier ones (selection.md, claim 4).

    squared_loss: mu^2 of all rounds together. own_keys: a bound, for every outcome of earlier rounds, on the
    probability that a key comes out that one user alone holds. averaged: own_keys is x/(1 + x) instead, where x bounds
    the mean over outcomes (claim 6).
    """

    squared_loss: float
    own_keys: float
    averaged: bool = False

    def losses(self) -> Losses:
        """One normal loss, and exceptions (composition.md, claim 4)."""
        if self.own_keys >= 1:
            return Losses({}, Fraction(1))
        own = -math.log1p(-self.own_keys) * (1 + FORMULA_ROUNDING)
        return Losses({}, Fraction(SLACK), own=Fraction(own), normal=Fraction(self.squared_loss))

    def to_json(self) -> dict[str, Any]:
        """The draw as a charge holds it."""
        averaged = {"averaged": True} if self.averaged else {}
        return {"kind": "gaussian-rounds", "squared_loss": self.squared_loss, "own_keys": self.own_keys, **averaged}


@dataclass(frozen=True)
class Anything(Draw):
    """Anything that is (epsilon, delta)-DP; delta is 0 for pure DP."""

    epsilon: float
    delta: float = 0.0

    def losses(self) -> Losses:
        """The loss of randomised response that reveals everything with probability delta."""
        return Losses.of_guarantee(self.epsilon, self.delta)

    def to_json(self) -> dict[str, Any]:
        """The draw as a charge holds it."""
        return {"kind": "any", "epsilon": self.epsilon, "delta": self.delta}


@dataclass(frozen=True)
class OneOf(Draw):
    """One of several plans, chosen by an earlier draw; a plan is a sequence of draws.

    epsilon, delta: a guarantee that every plan has.
    """

    plans: tuple[tuple[Draw, ...], ...]
    epsilon: float
    delta: float

    def losses(self) -> Losses:
        """The loss of any mechanism with the common guarantee: no single pair of laws dominates several plans."""
        return Losses.of_guarantee(self.epsilon, self.delta)

    def to_json(self) -> dict[str, Any]:
        """The draw as a charge holds it."""
        plans = [[draw.to_json() for draw in plan] for plan in self.plans]
        return {"kind": "one-of", "plans": plans, "epsilon": self.epsilon, "delta": self.delta}


def losses_of(guarantee: Guarantee, recorded: object) -> Losses:
    """Privacy loss of a charge: by its recorded draws if all are known, else by its guarantee; none for a rule."""
    if guarantee.kind == "syntactic":
        return Losses()
    draws = recorded_draws(recorded) or [Anything(*guarantee.numbers)]
    return sum((draw.losses() for draw in draws), start=Losses())


def recorded_draws(recorded: object) -> Sequence[Draw]:
    """The draws of a charge; empty if this version does not know the kind of one of them."""
    if not isinstance(recorded, Iterable) or isinstance(recorded, str):
        return []
    try:
        return [_draw(fields) for fields in recorded]
    except (KeyError, TypeError, ValueError, ParameterError):
        return []


def _draw(fields: Mapping[str, Any]) -> Draw:
    one_of("kind", fields["kind"], _KINDS, "use the version that recorded it")
    return _KINDS[fields["kind"]](fields)


def _histogram(fields: Mapping[str, Any]) -> Draw:
    threshold = whole("threshold", fields["threshold"], "as it was recorded", least=0)
    published_noise = _noise(fields["fresh"]) if "fresh" in fields else None
    tie_probability = share("coin", fields["coin"], "as it was recorded") if "coin" in fields else 0.0
    return Histogram(
        _noise(fields["noise"]), threshold, checked_bound(fields["per_user"]), published_noise, tie_probability
    )


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Draw]] = {
    "histogram": _histogram,
    "histogram-with-coin": _histogram,
    "public-counts": lambda fields: PublicCounts(_noise(fields["noise"]), checked_bound(fields["per_user"])),
    "gaussian-rounds": lambda fields: GaussianRounds(
        _not_negative(fields["squared_loss"]), _not_negative(fields["own_keys"]), fields.get("averaged", False) is True
    ),
    "one-of": lambda fields: OneOf(
        tuple(tuple(map(_draw, plan)) for plan in fields["plans"]),
        _not_negative(fields["epsilon"]),
        _not_negative(fields["delta"]),
    ),
    "any": lambda fields: Anything(_not_negative(fields["epsilon"]), _not_negative(fields["delta"])),
}


def _not_negative(number: float) -> float:
    return float(number) if number == 0 else number_above_zero("a figure", number, "as it was recorded")


def _noise(fields: Mapping[str, Any]) -> Noise:
    one_of("law", fields["law"], (Laplace.law, Gaussian.law), "use the version that recorded it")
    return Laplace(fields["scale"]) if fields["law"] == Laplace.law else Gaussian(fields["sigma"])


def _noise_json(noise: Noise) -> dict[str, Any]:
    return {"law": noise.law, "scale" if isinstance(noise, Laplace) else "sigma": noise.size}
