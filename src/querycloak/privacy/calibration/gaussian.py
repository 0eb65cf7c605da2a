"""Composition of adaptive Gaussian mechanisms: total squared loss, delta and largest loss.

Proofs: selection.md, claims 1 and 2.
"""

import math

from querycloak.privacy.calibration.bisection import bisected
from querycloak.privacy.parameters import refuse
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.sentence import Sentence

SMOOTHING = 3.0
"""The variance that integer noise gives up to be a function of continuous noise (claim 1)."""
SLACK = 1e-17
"""More than the factors of claim 1 add to delta for fifty million counts."""
ROUNDING = 2.0**-44
LEAST_LOSS = 1e-12
"""A mu^2 below this is no loss: there is no budget to spend."""


def squared_loss(noise: Gaussian, squared_change: float) -> float:
    """Return mu^2 of a release whose counts one user moves by a vector of this squared length, rounded up."""
    variance = noise.sigma * noise.sigma * (1 - ROUNDING) - SMOOTHING
    if variance <= 0:
        refuse("noise sigma", f"above {math.sqrt(SMOOTHING):.3g}", noise.sigma, "take more noise")
    return squared_change / variance * (1 + ROUNDING)


def noise_for(squared_loss: float, squared_change: float) -> float:
    """Return a sigma for which a release costs no more than this."""
    return math.sqrt(squared_change / squared_loss * (1 + 4 * ROUNDING) + SMOOTHING) * (1 + ROUNDING)


def gaussian_delta(squared: float, epsilon: float) -> float:
    """Return delta at any epsilon of releases whose mu^2 sum up to `squared`, rounded up (claim 2)."""
    if squared <= 0:
        return SLACK
    mu = math.sqrt(squared) * (1 + ROUNDING)
    above, below = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    # An error in the argument x of the tail counts 2x-fold: both tails are moved to the worse side.
    first = _tail(above - ROUNDING * (1 + abs(above)))
    second = _tail(below + ROUNDING * (1 + abs(below)))
    # e^epsilon may be beyond floats where the tail is below them.
    scaled = math.exp(epsilon + math.log(second)) if second > 0 else 0.0
    rounding = ROUNDING * (4 + abs(epsilon) + below * below)
    return min(1.0, max(0.0, first * (1 + rounding) - scaled * (1 - rounding)) + SLACK)


def _tail(x: float) -> float:
    """Return Pr[standard normal > x]."""
    return 0.5 * math.erfc(x / math.sqrt(2))


def largest_loss(epsilon: float, delta: float) -> float:
    """Return the largest mu^2, to seven digits, that keeps within the budget."""

    def exceeds(squared: float) -> bool:
        return gaussian_delta(squared, epsilon) > delta

    low, high = 0.0, 1.0
    while not exceeds(high):
        low, high = high, high * 2
    low, high = bisected(exceeds, low, high, precision=1e-7, floor=LEAST_LOSS)
    if high < LEAST_LOSS:
        rule = f"above {SLACK:g} for composed Gaussian noise"
        refuse("delta", rule, delta, Sentence("raise it, or {epsilon}"))
    return low
