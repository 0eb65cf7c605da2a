"""A thresholded histogram with Gaussian noise for a given mu^2 and chance of own keys (proof: accounting/filter.md)."""

from __future__ import annotations

import math

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.accounting.gaussian_filter import COUNTS_SMOOTHING
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.deltas import any_passes, tail_bounds
from querycloak.privacy.calibration.gaussian import largest_loss
from querycloak.privacy.calibration.histogram_plan import HistogramPlan, price
from querycloak.privacy.parameters import checked_bound
from querycloak.privacy.sampling.exact import four_digits_up, stated
from querycloak.privacy.sampling.noise import LARGEST_NOISE, Gaussian
from querycloak.sentence import Sentence

__all__ = ["plan_for_filter", "spend_of"]


def spend_of(epsilon: float, delta: float) -> GaussianRounds:
    """Return what a release of this budget may take of a Gaussian limit: one half of delta for noise, one for keys."""
    half = float(stated(delta) / 2)
    return GaussianRounds(largest_loss(epsilon, half * (1 - 1e-9)), half)


def plan_for_filter(epsilon: float, delta: float, per_user: int, *, squared_share: float = 1.0) -> HistogramPlan:
    """Return noise and the smallest threshold that take no more of a Gaussian limit than `spend_of` this budget.

    A plan of `calibrate` may use the whole of delta twice, for noise and for own keys: several such plans add up to
    more (filter.md, claim 1). squared_share: the part of the squared loss that it may take.
    """
    per_user, spend = checked_bound(per_user), spend_of(epsilon, delta)
    sigma = four_digits_up(
        math.sqrt(per_user / (spend.squared_loss * squared_share) * (1 + 2.0**-38) + COUNTS_SMOOTHING)
    )
    if sigma > LARGEST_NOISE:
        raise ParameterError(
            Sentence(
                "the budget must allow noise of sigma {most:g} at most, it needs {needed:.3g}; raise {epsilon} or "
                "{delta}, or lower the bound",
                most=LARGEST_NOISE,
                needed=sigma,
            )
        )
    noise = Gaussian(sigma)
    threshold = smallest_integer(
        lambda threshold: any_passes(tail_bounds(noise, threshold)[1], per_user) <= spend.own_keys,
        above=0,
        first=math.ceil(5 * sigma) + 1,
    )
    return price(noise, threshold, per_user, epsilon=epsilon)
