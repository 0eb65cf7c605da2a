"""Cost of a thresholded noisy histogram: the formulas that histogram.md proves, rounded up."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from querycloak.interruption import interruptibly
from querycloak.privacy.sampling.noise import Laplace, Noise

FloatArray = NDArray[np.float64]

_LONG = 1 << 30
"""Products of a convolution that takes about a second."""
ROUNDING = 2.0**-52
"""Twice the rounding error of one float operation."""
SMOOTH_SIGMA = 2.0
"""From here on the sum of s discrete Gaussians is a discrete Gaussian but for a factor 1 + 2e-17 s."""
MOST_CONVOLUTIONS = 256
WIDEST_SUM = 2.0**17
REACH = 26.0
"""Standard deviations kept: what lies beyond has probability below 2 e^-338 = 1e-146."""
NEGLIGIBLE = 1e-146
UNDERFLOW, LEAST_FLOAT = 1000, 5e-324
"""The tail of Laplace noise beyond this many scales lies between 0 and the least float."""


def hockey_stick(noise: Noise, s: int, e: float) -> float:
    """Return an upper bound on the hockey-stick divergence H_s(e), tight to nine digits below a spread of 131,072."""
    if s == 0:
        return -math.expm1(e) if e < 0 else 0.0
    bound = _laplace(noise.scale, s, e) if isinstance(noise, Laplace) else _gaussian(noise.sigma, s, e)
    return min(1.0, bound)


def tail_bounds(noise: Noise, m: int) -> tuple[float, float]:
    """Return bounds of Pr[Z >= m], m >= 0, as floats: for Gaussian noise much faster than `tail`."""
    if isinstance(noise, Laplace):
        if m > UNDERFLOW * noise.scale:
            return 0.0, LEAST_FLOAT
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


def convolved(one: FloatArray, other: FloatArray) -> FloatArray:
    """The law of a sum; a long computation can be interrupted."""
    if one.size * other.size < _LONG:
        return np.convolve(one, other)
    return interruptibly(lambda: np.convolve(one, other))


def _one_more(sigma: float, laws: list[FloatArray]) -> FloatArray:
    law = convolved(laws[-1], laws[0])
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


@lru_cache(maxsize=64)
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


FORMULA_ROUNDING = 2.0**-48


def any_passes(p: float, keys: int) -> float:
    """Return 1-(1-p)^keys, rounded up: the chance that any of this many keys passes."""
    if p >= 1:
        return 1.0 if keys else 0.0
    return min(1.0, -math.expm1(keys * math.log1p(-p)) * (1 + FORMULA_ROUNDING))


def own_chance(noise: Noise, threshold: int, tie_probability: float = 0.0) -> tuple[float, float]:
    """Return bounds of the chance that a key of one user comes out, with a tie probability (claim 7)."""
    low, high = tail_bounds(noise, threshold)
    if not tie_probability:
        return low, high
    lower, higher = tail_bounds(noise, max(threshold - 1, 0))
    mixed = (
        (1 - tie_probability) * low + tie_probability * lower,
        (1 - tie_probability) * high + tie_probability * higher,
    )
    return mixed[0] * (1 - FORMULA_ROUNDING), min(1.0, mixed[1] * (1 + FORMULA_ROUNDING))


def laplace_delta(noise: Laplace, threshold: int, per_user: int, tie_probability: float = 0.0) -> float:
    """Return delta at epsilon = per_user/scale (claim 2): the user's own keys are all that counts."""
    return any_passes(own_chance(noise, threshold, tie_probability)[1], per_user)


def histogram_delta(
    noise: Noise,
    threshold: int,
    per_user: int,
    epsilon: float,
    *,
    draws: int = 1,
    most: float = 1.0,
    tie_probability: float = 0.0,
) -> float:
    """Return delta at any epsilon (claims 1 and 7); draws = 2 if published counts have fresh noise of the same law.

    Once delta is seen to exceed `most`, any number above it may be returned.
    """
    p_low, p_high = own_chance(noise, threshold, tie_probability)
    worst = max(hockey_stick(noise, draws * per_user, epsilon), any_passes(p_high, per_user))
    if worst >= 1:
        return 1.0
    # H shrinks as own keys replace shared ones: one known value rules out most that come after it.
    loss_high = -math.log1p(-p_high) * (1 + FORMULA_ROUNDING)
    ceiling = 1.0
    for own in range(1, per_user + 1):
        if worst > most:
            break
        if any_passes(p_high, own) + ceiling <= worst:
            continue
        shared = draws * (per_user - own)
        adding = _adding(noise, shared, own, (p_low, p_high), epsilon)
        removing = hockey_stick(noise, shared, epsilon - own * loss_high)
        worst = max(worst, adding, removing)
        ceiling = hockey_stick(noise, shared, epsilon - per_user * loss_high)
    return min(1.0, worst)


def _adding(noise: Noise, shared: int, own: int, p: tuple[float, float], epsilon: float) -> float:
    """Return A(own) of claim 1, each place taking the end of p that makes it larger."""
    p_low, p_high = p
    loss_low = -math.log1p(-p_low) * (1 - FORMULA_ROUNDING)
    none_passes = min(1.0, math.exp(own * math.log1p(-p_low)) * (1 + FORMULA_ROUNDING))
    rest = none_passes * hockey_stick(noise, shared, epsilon + own * loss_low)
    return any_passes(p_high, own) + rest * (1 + FORMULA_ROUNDING)
