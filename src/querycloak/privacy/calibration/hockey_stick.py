"""Upper bounds, never rounded down, on how far s noisy counts and the same counts changed by 1 lie apart.

H_s(e) is the hockey-stick divergence at e; histogram.md, claims 2 and 3, derives each formula.
"""

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from querycloak.privacy.sampling.noise import Laplace, Noise

__all__ = ["FloatArray", "gain", "hockey_stick", "laplace_law", "smoothness", "tail_bounds", "zcdp_delta"]

FloatArray = NDArray[np.float64]

ROUNDING = 2.0**-52
"""Twice the rounding error of one float operation."""
SMOOTH_SIGMA = 2.0
"""From here on the sum of s discrete Gaussians is a discrete Gaussian but for a factor 1 + 2e-17 s."""
MOST_CONVOLUTIONS = 256
WIDEST_SUM = 2.0**17
REACH = 26.0
"""Standard deviations kept: what lies beyond has probability below 2 e^-338 = 1e-146."""
NEGLIGIBLE = 1e-146


def hockey_stick(noise: Noise, s: int, e: float) -> float:
    """Return an upper bound on H_s(e), tight to nine digits below a spread of 131,072."""
    if s == 0:
        return -math.expm1(e) if e < 0 else 0.0
    bound = _laplace(noise.scale, s, e) if isinstance(noise, Laplace) else _gaussian(noise.sigma, s, e)
    return min(1.0, bound)


def tail_bounds(noise: Noise, m: int) -> tuple[float, float]:
    """Return bounds of Pr[Z >= m], m >= 0, as floats: for Gaussian noise much faster than `tail`."""
    if isinstance(noise, Laplace):
        chance = noise.tail(m)
        return chance.down(), chance.up()
    weight = _weight_from(noise.sigma, m)
    total = 2 * _weight_from(noise.sigma, 1) + 1
    # Errors of both sums, of at most 2^21 positive terms with exponents below 1000.
    slack = 1 + ROUNDING * 8192
    return max(0.0, weight / total / slack - NEGLIGIBLE), min(1.0, (weight / total + NEGLIGIBLE) * slack)


def _weight_from(sigma: float, m: int) -> float:
    """Return the sum of e^(-z^2/(2 sigma^2)) over z >= m, cut where the rest no longer counts."""
    last = math.ceil(math.hypot(m, 10 * sigma)) + 1
    z = np.arange(m, last, dtype=np.float64)
    return float(np.exp(-0.5 * (z / sigma) ** 2).sum())


def _laplace(scale: float, s: int, e: float) -> float:
    """Return the bound for s Laplace draws, whose loss is (2k-s)/scale with a binomial weight."""
    if Fraction(e) * Fraction(scale) >= s:
        return 0.0
    loss, weight = laplace_law(scale, s)
    return float((weight * gain(e, loss)).sum()) * (1 + ROUNDING * (s + 64))


def laplace_law(scale: float, s: int) -> tuple[FloatArray, FloatArray]:
    """Return the losses of s Laplace draws, (2k-s)/scale, and upper bounds of their binomial weights."""
    k = np.arange(s + 1, dtype=np.float64)
    log_choices = np.concatenate([[0.0], np.cumsum(np.log((s - k[:-1]) / (k[:-1] + 1)))])
    log_weight = log_choices - (s - k) / scale - s * math.log1p(math.exp(-1 / scale))
    rounding = ROUNDING * (s * s + 8 * s / scale + 64)
    return (2 * k - s) / scale, np.exp(log_weight) * (1 + rounding)


def gain(e: float, loss: FloatArray) -> FloatArray:
    """Return [1 - exp(e - loss)]_+ rounded up, for losses that may be off by a rounding."""
    exponent = np.minimum(e - loss, 0.0)
    slack = 4 * ROUNDING * (abs(e) + np.abs(loss))
    return np.where(e - loss < slack, -np.expm1(exponent - slack), 0.0)


def _gaussian(sigma: float, s: int, e: float) -> float:
    if sigma < SMOOTH_SIGMA and s <= MOST_CONVOLUTIONS:
        return _by_convolution(sigma, s, e)
    if sigma * math.sqrt(s) <= WIDEST_SUM:
        return _by_poisson_summation(sigma, s, e)
    return _by_zcdp(sigma, s, e)


def _by_convolution(sigma: float, s: int, e: float) -> float:
    laws = _laws_of_sums(sigma)
    while len(laws) < s:
        laws.append(_one_more(sigma, laws))
    pmf = laws[s - 1]
    n = np.arange(pmf.size, dtype=np.float64) - pmf.size // 2
    gains = gain(e, (n + s / 2) / sigma**2)
    # Each of the s factors has exponents below 1000 and sums of at most one law's number of positive terms.
    rounding = ROUNDING * s * (laws[0].size + 1024)
    return float((pmf * gains).sum()) * (1 + rounding) + s * 4 * NEGLIGIBLE


@lru_cache(maxsize=8)
def _laws_of_sums(sigma: float) -> list[FloatArray]:
    """Return the laws of sums of 1, 2, ... draws known so far, as floats around zero; callers append."""
    reach = math.ceil(REACH * sigma) + 1
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-0.5 * (z / sigma) ** 2)
    return [weights / weights.sum()]


def _one_more(sigma: float, laws: list[FloatArray]) -> FloatArray:
    law = np.convolve(laws[-1], laws[0])
    surplus = law.size // 2 - math.ceil(REACH * sigma * math.sqrt(len(laws) + 1)) - 1
    return law[surplus:-surplus] if surplus > 0 else law


def _by_poisson_summation(sigma: float, s: int, e: float) -> float:
    spread = sigma * math.sqrt(s)
    first, least = math.floor(e * sigma**2 - s / 2), -math.ceil(10 * spread)
    below_sum = math.exp(-50) if first < least else 0.0
    first = max(first, least)
    last = math.ceil(math.hypot(max(first, 0), 9 * spread)) + 1
    n = np.arange(first, last + 1, dtype=np.float64)
    density = np.exp(-0.5 * (n / spread) ** 2) / (spread * math.sqrt(2 * math.pi))
    rest = float(density[-1]) * (1 + spread**2 / last) + below_sum
    total = float((density * gain(e, (n + s / 2) / sigma**2)).sum()) + rest
    return total * smoothness(sigma, s) * (1 + ROUNDING * 8192) + NEGLIGIBLE


def smoothness(sigma: float, s: int) -> float:
    """Return the factor by which the law of a sum may exceed the normal density."""
    j = np.arange(1, s, dtype=np.float64)
    y = np.exp(-2 * math.pi**2 * sigma**2 * j / (j + 1))
    return math.exp(float(np.log1p(2 * y / (1 - y)).sum()))


def _by_zcdp(sigma: float, s: int, e: float) -> float:
    return zcdp_delta(s / (2 * sigma**2), e)


def zcdp_delta(rho: float, e: float) -> float:
    """Return an upper bound on the delta at e of anything that is rho-zCDP (histogram.md, claim 3)."""
    if e <= rho:
        return 1.0
    orders = 1 + (e / rho - 1) / 2 * np.linspace(0.5, 1.5, 401)
    log_bound = (orders - 1) * (orders * rho - e) - np.log(orders - 1) + orders * np.log1p(-1 / orders)
    return math.exp(min(0.0, float(log_bound.min()))) * (1 + ROUNDING * 2**20)
