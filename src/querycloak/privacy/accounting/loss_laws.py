"""The privacy-loss distribution of s counts that change by 1 under one noise, from above (composition.md, claim 4)."""

import math

import numpy as np

from querycloak.privacy.calibration.hockey_stick import ROUNDING, SMOOTH_SIGMA, FloatArray, laplace_law, smoothness
from querycloak.privacy.sampling.noise import Laplace, Noise

__all__ = ["Law", "law_of_losses", "normal_law", "proxy_variance"]

Law = tuple[FloatArray, FloatArray, float]
"""Losses in ascending order, upper bounds of their masses, and the mass whose loss is taken to be unlimited."""

REACH = 13.0
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
    reach = math.ceil(REACH * spread)
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
    ends = np.linspace(-REACH, REACH, MOST_INTERVALS + 1)
    first, last = ends[:-1], ends[1:]
    nearest = np.where(first > 0, first, np.minimum(last, 0.0))
    masses = (last - first) * np.exp(-0.5 * nearest**2) / math.sqrt(2 * math.pi) * (1 + ROUNDING * 1024)
    masses[0] += BEYOND
    return squared / 2 + mu * last, masses, BEYOND


def _rough_gaussian(sigma: float, s: int) -> Law:
    """The law of the sum by repeated squaring: positive floats, convolved directly."""
    if s > MOST_SUMMED:
        return np.zeros(1), np.zeros(1), 1.0
    reach = math.ceil(2 * REACH * sigma) + 1
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    power, total = weights / weights.sum(), np.ones(1)
    longest = power.size
    for digit in reversed(bin(s)[2:]):
        if digit == "1":
            total = _within(np.convolve(total, power), sigma, s)
        power = _within(np.convolve(power, power), sigma, s)
        longest = max(longest, total.size, power.size)
    n = np.arange(total.size, dtype=np.float64) - total.size // 2
    masses = total * (1 + ROUNDING * s * (longest + 1024))
    lost = 4 * s * BEYOND  # at each end, by all cuts together
    masses[0] += lost
    return (n + s / 2) / sigma**2, masses, lost


def _within(law: FloatArray, sigma: float, s: int) -> FloatArray:
    """Cut what no sum of s draws reaches but with a probability below e^-84."""
    surplus = law.size // 2 - math.ceil(REACH * sigma * math.sqrt(s)) - 1
    return law[surplus:-surplus] if surplus > 0 else law
