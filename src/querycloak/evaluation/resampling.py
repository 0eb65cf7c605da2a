"""How far a mean may be off: users drawn with replacement, all at once as a matrix; the seed is public.

A mean is a ratio of sums over users: what their cases add, by how many they are. So a resample is a weighted sum, and
all means of a task share the same resamples.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
RESAMPLES = 1000
SEED = 2017
LEVEL = 0.95
RULE_OF_THREE = 3.0
"""If none of n shows an event, a share of up to 3/n of all may show it (95 %); Hanley & Lippman-Hand, JAMA 1983."""
_AT_ONCE = 100


@lru_cache(maxsize=2)
def _weights(users: int) -> NDArray[np.uint8]:
    """How often each user is drawn in each resample."""
    generator = np.random.default_rng(SEED)
    drawn = np.empty((RESAMPLES, users), np.uint8)
    for number in range(RESAMPLES):
        drawn[number] = np.bincount(generator.integers(users, size=users), minlength=users)
    return drawn


def intervals(numerators: Sequence[Floats], denominators: Sequence[Floats]) -> list[tuple[float, float]]:
    """Low and high of each ratio of sums over users; NaN where fewer than two users count."""
    above, below = _resampled(numerators), _resampled(denominators)
    tail = (1 - LEVEL) / 2
    found = []
    for numerator, denominator in zip(numerators, denominators, strict=True):
        with np.errstate(invalid="ignore", divide="ignore"):
            means = above[id(numerator)] / below[id(denominator)]
        means = means[np.isfinite(means)]  # a resample without any of the users that count says nothing
        told = np.count_nonzero(denominator) >= 2
        low, high = np.quantile(means, [tail, 1 - tail]) if told else (np.nan, np.nan)
        found.append((float(low), float(high)))
    return found


def _resampled(sums: Sequence[Floats]) -> dict[int, Floats]:
    """The total of each array in all resamples, by the array's identity: many means share one."""
    distinct = {id(array): array for array in sums}
    stacked = np.column_stack(list(distinct.values())).astype(np.float32)
    drawn = _weights(len(stacked))
    totals = np.empty((RESAMPLES, len(distinct)))
    for first in range(0, RESAMPLES, _AT_ONCE):
        some = slice(first, first + _AT_ONCE)
        totals[some] = drawn[some].astype(np.float32) @ stacked
    return dict(zip(distinct, totals.T, strict=True))
