"""Privacy-loss distributions of several mechanisms together, on a grid, never rounded down (composition.md)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType

import numpy as np

from querycloak.privacy.accounting.loss_laws import Law, law_of_losses, normal_law, proxy_variance
from querycloak.privacy.calibration.bisection import bisected
from querycloak.privacy.calibration.hockey_stick import ROUNDING, FloatArray, gain
from querycloak.privacy.sampling.exact import rounded_up, stated
from querycloak.privacy.sampling.noise import LARGEST_NOISE, Laplace, Noise

__all__ = ["Losses"]

POINTS = 1 << 13
"""How many points the grid has: 4,000 would give three digits."""
REACH = 12.0
"""Standard deviations that the grid's points span on each side of the mean."""
NEGLIGIBLE = 1e-40
"""Mass that is cut at each end of a law: above it is added to delta, below it is lifted."""
UP, DOWN = 1 + 2.0**-44, 1 - 2.0**-44


@dataclass(frozen=True)
class Losses:
    """Counts that one user changes by 1, by their noise; and what is added to delta at any epsilon.

    own: the sum of -ln(1-p) over keys that only this user has, each coming out with chance p.
    normal: mu^2 of all parts whose loss is normal with mean mu^2/2 and variance mu^2.
    """

    changed: Mapping[Noise, int] = field(default_factory=dict)
    exceptions: Fraction = Fraction(0)
    own: Fraction = Fraction(0)
    normal: Fraction = Fraction(0)

    def __add__(self, other: "Losses") -> "Losses":
        """What both lose together: claims 1 and 3."""
        noises = [*self.changed, *(noise for noise in other.changed if noise not in self.changed)]
        together = {noise: self.changed.get(noise, 0) + other.changed.get(noise, 0) for noise in noises}
        return Losses(
            MappingProxyType(together),
            self.exceptions + other.exceptions,
            self.own + other.own,
            self.normal + other.normal,
        )

    def __mul__(self, times: int) -> "Losses":
        """What `times` of one kind lose together."""
        changed = {noise: s * times for noise, s in self.changed.items()}
        return Losses(MappingProxyType(changed), self.exceptions * times, self.own * times, self.normal * times)

    @classmethod
    def of_guarantee(cls, epsilon: float, delta: float) -> "Losses":
        """Of anything that is (epsilon, delta)-DP (claim 4)."""
        if not epsilon:
            return cls({}, stated(delta))
        # Rounded down, for a smaller scale loses more.
        scale = min(float(1 / stated(epsilon)), float(LARGEST_NOISE))
        while 1 / Fraction(scale) < stated(epsilon):
            scale = math.nextafter(scale, 0.0)
        return cls(MappingProxyType({Laplace(scale): 1}), stated(delta))

    def delta_at(self, epsilon: float) -> float:
        """An upper bound on delta at this epsilon >= 0 (claim 3)."""
        losses, masses, beyond = self._law
        divergence = float((masses * gain(epsilon, losses)).sum()) * UP + beyond
        own = math.expm1(min(float(self.own), 1.0)) * UP
        return min(1.0, rounded_up(Fraction(divergence) + Fraction(own) + self.exceptions))

    def epsilon_at(self, delta: float) -> float | None:
        """The least epsilon, to about five digits, whose delta is within this one; None if there is none."""
        low, high = 0.0, max(0.0, float(self._law[0][-1]) * UP)
        if self.delta_at(high) > delta:
            return None
        if self.delta_at(low) <= delta:
            return low
        return bisected(lambda epsilon: self.delta_at(epsilon) <= delta, low, high, precision=1e-6)[1]

    @cached_property
    def _law(self) -> Law:
        """The law of the loss of everything together, on a grid (claim 5)."""
        parts = sorted(self.changed.items(), key=repr)  # one order, so that equal parts give equal digits
        normal = float(self.normal) * UP
        width = 2 * REACH * math.sqrt(normal + sum(s * proxy_variance(noise) for noise, s in parts)) / POINTS
        together = _Gridded(0, np.ones(1), 0.0)
        for law in (*(law_of_losses(noise, s) for noise, s in parts), *([normal_law(normal)] if normal else [])):
            together = _convolved(together, _on_grid(law, width))
        places = together.first + np.arange(together.masses.size, dtype=np.float64)
        return places * width, together.masses, together.beyond


@dataclass(frozen=True)
class _Gridded:
    """A law on multiples of a width, from the multiple `first` on."""

    first: int
    masses: FloatArray
    beyond: float


def _on_grid(law: Law, width: float) -> _Gridded:
    """Split every atom between the two points around it, keeping its mass under both laws of the pair."""
    losses, masses, beyond = law
    # Above the true loss by more than all roundings of losses and of points.
    raised = losses + 16 * ROUNDING * (np.abs(losses) + width)
    below = np.floor(raised / width)
    gap = np.clip((below + 1) * width - raised, 0.0, width)
    lower = masses * (np.expm1(gap) / math.expm1(width) * DOWN)
    upper = masses * UP - lower
    first = int(below[0])
    place = (below - first).astype(np.int64)
    size = int(place[-1]) + 2
    summed = np.bincount(place, lower, size) + np.bincount(place + 1, upper, size)
    # Each point is a sum of at most this many positive terms.
    rounding = 1 + ROUNDING * (losses.size + 2)
    return _trimmed(first, (summed * rounding).astype(np.float64), beyond)


def _convolved(one: _Gridded, other: _Gridded) -> _Gridded:
    masses: FloatArray = np.convolve(one.masses, other.masses).astype(np.float64)
    rounding = 1 + ROUNDING * (min(one.masses.size, other.masses.size) + 2)
    beyond = (one.beyond + other.beyond) * UP  # both totals are 1, but for what the bounds add
    return _trimmed(one.first + other.first, masses * rounding, beyond)


def _trimmed(first: int, masses: FloatArray, beyond: float) -> _Gridded:
    """Cut both ends where they hold next to nothing, to the pessimistic side."""
    from_above = np.cumsum(masses[::-1])
    top = min(int(np.searchsorted(from_above, NEGLIGIBLE, side="right")), masses.size - 1)
    from_below = np.cumsum(masses)
    bottom = min(int(np.searchsorted(from_below, NEGLIGIBLE, side="right")), masses.size - top - 1)
    kept = masses[bottom : masses.size - top].copy()
    cut = float(from_above[top - 1]) if top else 0.0
    kept[0] += float(from_below[bottom - 1]) if bottom else 0.0
    return _Gridded(first + bottom, kept, beyond + 2 * cut)
