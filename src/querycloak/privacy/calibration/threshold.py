"""Noise and the smallest threshold for a budget, without data (proof: histogram.md).

With Gaussian noise the budget may also be a mu^2 and a chance of own keys (proof: accounting/filter.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import NoReturn

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.accounting.gaussian_filter import COUNTS_SMOOTHING
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.bisection import FOUR_DIGITS, smallest_integer, smallest_number
from querycloak.privacy.calibration.deltas import any_passes, histogram_delta, hockey_stick, laplace_delta, tail_bounds
from querycloak.privacy.calibration.gaussian import largest_loss
from querycloak.privacy.calibration.histogram_plan import HistogramPlan, price
from querycloak.privacy.calibration.table_plan import Times
from querycloak.privacy.parameters import checked_bound, one_of
from querycloak.privacy.sampling.exact import (
    float_up,
    four_digits_down,
    four_digits_up,
    rounded_down,
    rounded_up,
    stated,
)
from querycloak.privacy.sampling.noise import LARGEST_NOISE, Gaussian, Laplace

LAWS = ("laplace", "gaussian")
LEAST_TIE_PROBABILITY, MOST_TIE_PROBABILITY = 1e-6, 0.9999
SIGMA_STEPS = 40
"""Number of steps of 0.1 % more sigma that are tried for one unit less of threshold."""


def calibrate(
    epsilon: float,
    delta: float,
    per_user: int,
    *,
    law: str | None = None,
    two_draws: bool = False,
) -> HistogramPlan:
    """Return noise and the smallest threshold for a budget; without a law, that of the smaller threshold.

    Of two draws, Laplace gives each half of epsilon; Gaussian gives both one sigma.
    """
    budget = Budget(epsilon, delta)
    epsilon, delta = budget.epsilon, budget.delta
    per_user = checked_bound(per_user)
    if law is not None:
        one_of("law", law, LAWS, "or leave it out for the smaller threshold")
    if law == "gaussian":
        return _gaussian_plan(epsilon, delta, per_user, two_draws)
    if law == "laplace":
        return _laplace_plan(epsilon, delta, per_user, two_draws)
    return _smaller_threshold(
        lambda: _laplace_plan(epsilon, delta, per_user, two_draws),
        lambda: _gaussian_plan(epsilon, delta, per_user, two_draws),
    )


def _smaller_threshold(*plans: Callable[[], HistogramPlan]) -> HistogramPlan:
    """Return the plan of the smallest threshold, the first of equals; fail only if all fail."""
    feasible: list[HistogramPlan] = []
    failures: list[ParameterError] = []
    for plan in plans:
        try:
            feasible.append(plan())
        except ParameterError as failure:
            failures.append(failure)
    if not feasible:
        raise failures[0]
    return min(feasible, key=lambda plan: plan.threshold)


def _laplace_plan(epsilon: float, delta: float, per_user: int, two_draws: bool) -> HistogramPlan:
    noise = laplace_noise(per_user, stated(epsilon) / 2 if two_draws else stated(epsilon))
    threshold = least_threshold(noise, delta, per_user)
    return price(
        noise,
        threshold,
        per_user,
        published_noise=noise if two_draws else None,
        tie_probability=largest_tie_probability(noise, threshold, per_user, delta),
    )


def least_threshold(noise: Laplace, delta: float, per_user: int) -> int:
    """Return the least threshold at which keys of one user alone come out with at most the chance delta."""
    return smallest_integer(lambda threshold: laplace_delta(noise, threshold, per_user) <= delta)


def largest_tie_probability(noise: Laplace, threshold: int, per_user: int, delta: float) -> float:
    """Return the largest tie probability of four digits that keeps delta (histogram.md, claim 7); 0 if none."""
    if threshold < 1:
        return 0.0
    at, below = (tail_bounds(noise, m)[1] for m in (threshold, threshold - 1))
    wanted = -math.expm1(math.log1p(-delta) / per_user)
    tie_probability = four_digits_down(min(max(0.0, (wanted - at) / (below - at)), MOST_TIE_PROBABILITY))
    while tie_probability and laplace_delta(noise, threshold, per_user, tie_probability) > delta:
        tie_probability = four_digits_down(tie_probability * 0.999)
    return tie_probability if tie_probability >= LEAST_TIE_PROBABILITY else 0.0


def calibrate_times(
    epsilon: float, delta: float, per_user: int, times: Times, share_of_counts: Fraction
) -> HistogramPlan:
    """Return the plan of Laplace noise whose second draw counts clicks (histogram.md, claim 9)."""
    whole = stated(Budget(epsilon, delta).epsilon)
    deciding = rounded_down(whole * (1 - share_of_counts))
    plan, bounded = calibrate(deciding, delta, per_user, law="laplace"), times.within(checked_bound(per_user))
    published_noise = laplace_noise(bounded.per_user, whole - stated(deciding))
    spent = per_user / Fraction(plan.noise.size) + bounded.per_user / Fraction(published_noise.scale)
    return replace(plan, epsilon=rounded_up(spent), published_noise=published_noise, times=bounded)


def laplace_noise(changed: int, epsilon: Fraction) -> Laplace:
    """Return the least Laplace noise under which `changed` counts that change by 1 stay within epsilon, exactly."""
    scale = changed / epsilon
    if scale > LARGEST_NOISE:
        _refuse_drowning(f"Laplace noise of scale {float(scale):.3g}")
    return Laplace(float_up(scale))


def _refuse_drowning(noise: str) -> NoReturn:
    raise ParameterError.of(
        "the budget must allow noise of at most {most:,}, it needs {needed}; raise {epsilon} or {delta}, or let "
        "fewer keys of each user count",
        most=LARGEST_NOISE,
        needed=noise,
    )


def _gaussian_plan(epsilon: float, delta: float, per_user: int, two_draws: bool) -> HistogramPlan:
    draws = 2 if two_draws else 1
    least = _least_sigma(epsilon, delta, draws * per_user)
    threshold = smallest_integer(lambda k: _own_keys(least, k, per_user) <= delta)
    while True:
        for step in range(SIGMA_STEPS):
            sigma = four_digits_up(stated(least) * Fraction(1000 + step, 1000))
            if _own_keys(sigma, threshold, per_user) > delta:
                break
            noise = Gaussian(sigma)
            reached = histogram_delta(noise, threshold, per_user, epsilon, draws=draws, most=delta)
            if reached <= delta:
                return HistogramPlan(noise, threshold, per_user, epsilon, reached, noise if two_draws else None)
        threshold += 1


def _own_keys(sigma: float, threshold: int, per_user: int) -> float:
    return any_passes(tail_bounds(Gaussian(sigma), threshold)[1], per_user)


def _least_sigma(epsilon: float, delta: float, changed: int) -> float:
    """Return the smallest sigma, to four digits, that keeps `changed` counts within the budget."""

    def fits(sigma: float) -> bool:
        if sigma > LARGEST_NOISE:
            _refuse_drowning(f"Gaussian noise of sigma above {LARGEST_NOISE:,}")
        return hockey_stick(Gaussian(sigma), changed, epsilon) <= delta

    sigma = four_digits_up(smallest_number(fits, ratio=FOUR_DIGITS))
    while not fits(sigma):
        sigma = four_digits_up(stated(sigma) * Fraction(1001, 1000))
    return sigma


def spend_of(epsilon: float, delta: float) -> GaussianRounds:
    """Return the share of a Gaussian limit that a budget stands for: half of delta for noise, half for own keys."""
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
        raise ParameterError.of(
            "the budget must allow noise of sigma {most:g} at most, it needs {needed:.3g}; raise {epsilon} or "
            "{delta}, or lower the bound",
            most=LARGEST_NOISE,
            needed=sigma,
        )
    noise = Gaussian(sigma)
    threshold = smallest_integer(
        lambda threshold: any_passes(tail_bounds(noise, threshold)[1], per_user) <= spend.own_keys,
        above=0,
        first=math.ceil(5 * sigma) + 1,
    )
    return price(noise, threshold, per_user, epsilon=epsilon)
