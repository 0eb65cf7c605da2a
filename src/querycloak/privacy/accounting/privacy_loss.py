"""Privacy-loss distributions of several mechanisms together, on a grid, never rounded down (composition.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from types import MappingProxyType

import numpy as np

from querycloak.privacy.calibration.bisection import bisected
from querycloak.privacy.calibration.deltas import (
    ROUNDING,
    SMOOTH_SIGMA,
    FloatArray,
    convolved,
    gain,
    laplace_law,
    smoothness,
)
from querycloak.privacy.sampling.exact import rounded_up, stated
from querycloak.privacy.sampling.noise import LARGEST_NOISE, Laplace, Noise

Law = tuple[FloatArray, FloatArray, float]
"""Losses in ascending order, upper bounds of their masses, and the mass whose loss is taken to be unlimited."""

KEPT_DEVIATIONS = 13.0
"""Standard deviations kept of a Gaussian sum; beyond lies less than e^-84, as it is subgaussian."""
BEYOND = math.exp(-84)
MOST_ATOMS = 1 << 20
MOST_SUMMED = 1 << 14
MOST_INTERVALS = 1 << 17


def proxy_variance(noise: Noise) -> float:
    """The variance of which the loss of one changed count is subgaussian."""
    return 1 / noise.scale**2 if isinstance(noise, Laplace) else 1 / noise.sigma**2


def law_of_losses(noise: Noise, s: int) -> Law:
    """The law for s >= 1 changed counts."""
    if isinstance(noise, Laplace):
        return _laplace(noise.scale, s)
    if noise.sigma >= SMOOTH_SIGMA:
        return _smooth_gaussian(noise.sigma, s)
    return _rough_gaussian(noise.sigma, s)


def _laplace(scale: float, s: int) -> Law:
    if s > MOST_ATOMS:  # the most that it can lose, for certain
        return np.array([s / scale * (1 + 4 * ROUNDING)]), np.ones(1), 0.0
    losses, masses = laplace_law(scale, s)
    return losses, masses, 0.0


def _smooth_gaussian(sigma: float, s: int) -> Law:
    """Blocks of neighbouring sums n, each at its largest loss; histogram.md, claim 3, bounds their masses."""
    spread = sigma * math.sqrt(s)
    reach = math.ceil(KEPT_DEVIATIONS * spread)
    block = -(-(2 * reach + 1) // MOST_ATOMS)
    first = np.arange(-reach, reach + 1, block, dtype=np.float64)
    last = first + (block - 1)
    nearest = np.where(first > 0, first, np.minimum(last, 0.0))
    density = np.exp(-0.5 * (nearest / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
    masses = block * density * (smoothness(sigma, s) * (1 + ROUNDING * 1024))
    masses[0] += BEYOND  # what lies below is lifted
    return (last + s / 2) / sigma**2, masses, BEYOND


def normal_law(squared: float) -> Law:
    """The law of a normal loss of mean squared/2 and variance `squared`, in narrow intervals at their upper ends."""
    mu = math.sqrt(squared)
    ends = np.linspace(-KEPT_DEVIATIONS, KEPT_DEVIATIONS, MOST_INTERVALS + 1)
    first, last = ends[:-1], ends[1:]
    nearest = np.where(first > 0, first, np.minimum(last, 0.0))
    masses = (last - first) * np.exp(-0.5 * nearest**2) / math.sqrt(2 * math.pi) * (1 + ROUNDING * 1024)
    masses[0] += BEYOND
    return squared / 2 + mu * last, masses, BEYOND


def _rough_gaussian(sigma: float, s: int) -> Law:
    """The law of the sum by repeated squaring: positive floats, convolved directly."""
    if s > MOST_SUMMED:
        return np.zeros(1), np.zeros(1), 1.0
    reach = math.ceil(2 * KEPT_DEVIATIONS * sigma) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    power, total = weights / weights.sum(), np.ones(1)
    longest = power.size
    for digit in reversed(bin(s)[2:]):
        if digit == "1":
            total = _within(convolved(total, power), sigma, s)
        power = _within(convolved(power, power), sigma, s)
        longest = max(longest, total.size, power.size)
    n = np.arange(total.size, dtype=np.float64) - total.size // 2
    masses = total * (1 + ROUNDING * s * (longest + 1024))
    lost = 4 * s * BEYOND  # at each end, by all cuts together
    masses[0] += lost
    return (n + s / 2) / sigma**2, masses, lost


def _within(law: FloatArray, sigma: float, s: int) -> FloatArray:
    """Cut what no sum of s draws reaches but with a probability below e^-84."""
    surplus = law.size // 2 - math.ceil(KEPT_DEVIATIONS * sigma * math.sqrt(s)) - 1
    return law[surplus:-surplus] if surplus > 0 else law


POINTS = 1 << 13
"""Number of points of the grid: 4,000 would give three digits."""
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

    def __add__(self, other: Losses) -> Losses:
        """Joint loss of both: claims 1 and 3."""
        noises = [*self.changed, *(noise for noise in other.changed if noise not in self.changed)]
        together = {noise: self.changed.get(noise, 0) + other.changed.get(noise, 0) for noise in noises}
        return Losses(
            MappingProxyType(together),
            self.exceptions + other.exceptions,
            self.own + other.own,
            self.normal + other.normal,
        )

    def __mul__(self, times: int) -> Losses:
        """Joint loss of `times` of one kind."""
        changed = {noise: s * times for noise, s in self.changed.items()}
        return Losses(MappingProxyType(changed), self.exceptions * times, self.own * times, self.normal * times)

    @classmethod
    def of_guarantee(cls, epsilon: float, delta: float) -> Losses:
        """The losses of any mechanism that is (epsilon, delta)-DP (claim 4)."""
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
    masses: FloatArray = convolved(one.masses, other.masses).astype(np.float64)
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
