"""Power of a test: the probability that sampling shows a fault that exists, from the plan alone."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy.special import betaincinv
from scipy.stats import binom, norm

from querycloak.audits.guarantees.sampling_test import SamplingTester, level
from querycloak.privacy.calibration.accuracy import Stage
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.sampling.noise import Laplace

__all__ = ["power", "power_if_noise_is_halved", "power_if_threshold_is_off_by_one", "smallest_shown"]

_TAIL = 1e-9
_POINTS = 81
_BISECTIONS = 24
_LIKELY = 0.95
_EVENTS = 10
_STEPS = 8
_BEYOND_CEILING = 3.0
"""Largest excess over the ceiling of an epsilon that runs show, cut at the ceiling."""


def power(likely: float, unlikely: float, tester: SamplingTester, epsilon: float, delta: float) -> float:
    """The chance that an event of these probabilities shows more than epsilon."""
    judged, alpha = tester.judged, level(tester.pairs)
    others = np.arange(binom.ppf(_TAIL, judged, unlikely), binom.isf(_TAIL, judged, unlikely) + 1)
    up = np.where(others < judged, betaincinv(others + 1, np.maximum(judged - others, 1e-9), 1 - alpha), 1.0)
    needed = delta + math.exp(min(epsilon, 700.0)) * up
    # The least number of times that the event must happen, found by halving: its lower bound grows with it.
    low, high = np.zeros(len(others)), np.full(len(others), judged + 1.0)
    for _ in range(_BISECTIONS):
        middle = np.floor((low + high) / 2)
        enough = betaincinv(np.maximum(middle, 1e-9), np.maximum(judged - middle + 1, 1e-9), alpha) > needed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return float((binom.pmf(others, judged, unlikely) * binom.sf(high - 1, judged, likely)).sum())


def smallest_shown(tester: SamplingTester, stated: Guarantee) -> float:
    """The smallest epsilon that the runs would have shown to exceed the stated one, with a chance of 95 %.

    For the event that is best suited: one that has this very epsilon at the stated delta. Infinite if no epsilon would
    be shown: the stated one is above the ceiling, or near it.
    """
    epsilon, delta = stated.numbers
    most = tester.ceiling + _BEYOND_CEILING

    def is_shown(larger: float) -> bool:
        events = [(float(p), float(p - delta) * math.exp(-larger)) for p in np.geomspace(0.01, 0.999, _EVENTS)]
        return any(power(p, q, tester, epsilon, delta) >= _LIKELY for p, q in events if q > 0)

    if epsilon >= most or not is_shown(most):
        return math.inf
    low, high = epsilon, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high


def power_if_noise_is_halved(plan: TablePlan, shared: int, tester: SamplingTester, stated: Guarantee) -> float:
    """The same for a plan whose published counts had half their noise, and a user with this number of shared keys."""
    epsilon, delta = stated.numbers
    if isinstance(plan, WeightedPlan) and plan.counting is not None:
        events = _gaussian_events(math.sqrt(min(shared, plan.counted_per_user)) * 2 / plan.counting.sigma)
    elif isinstance(plan, HistogramPlan) and isinstance(plan.noise, Laplace):
        events = _laplace_events(plan.noise.scale / 2, shared)
    elif isinstance(plan, HistogramPlan):
        events = _gaussian_events(math.sqrt(shared) * 2 / plan.noise.size)
    else:
        return 0.0
    return max(power(p, q, tester, epsilon, delta) for p, q in events)


def power_if_threshold_is_off_by_one(plan: TablePlan, own: int, tester: SamplingTester, stated: Guarantee) -> float:
    """The same for keys that came out at the threshold already, and a user with this number of own keys."""
    epsilon, delta = stated.numbers
    if not isinstance(plan, HistogramPlan):
        return 0.0
    passes = Stage(plan.noise, plan.threshold - 1, plan.tie_probability).passes(1)
    return power(-math.expm1(own * math.log1p(-passes)), 0.0, tester, epsilon, delta)


def _laplace_events(scale: float, keys: int) -> Iterable[tuple[float, float]]:
    """At least a number of the keys is above the middle between their two centres: all that their losses tell."""
    up = 1 / (1 + math.exp(-1 / scale))
    return [
        (float(binom.sf(least - 1, keys, up)), float(binom.sf(least - 1, keys, 1 - up))) for least in range(1, keys + 1)
    ]


def _gaussian_events(distance: float) -> Iterable[tuple[float, float]]:
    """The sum of all counts reaches a point; distance is between the two centres, in deviations."""
    points = np.linspace(-1, distance + 3, _POINTS)
    return [(float(norm.sf(point - distance)), float(norm.sf(point))) for point in points]
