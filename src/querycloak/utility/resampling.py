"""How far a mean may be off: users drawn with replacement, all at once as a matrix; the seed is public.

A mean is a ratio of sums over users: what their cases add, by how many they are. So a resample is a weighted sum, and
all means of a task share the same resamples.
"""

from __future__ import annotations

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


def intervals(numerators: Floats, denominators: Floats) -> tuple[Floats, Floats]:
    """Low and high of each column's ratio of sums; rows are users. NaN where fewer than two users count."""
    users, columns = numerators.shape
    low, high = np.full(columns, np.nan), np.full(columns, np.nan)
    told = (denominators > 0).sum(axis=0) >= 2
    if told.any():
        low[told], high[told] = _quantiles(numerators[:, told], denominators[:, told], users)
    return low, high


def _quantiles(numerators: Floats, denominators: Floats, users: int) -> tuple[Floats, Floats]:
    columns = numerators.shape[1]
    means = np.empty((RESAMPLES, columns))
    for first in range(0, RESAMPLES, _AT_ONCE):
        drawn = _weights(users)[first : first + _AT_ONCE].astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            means[first : first + _AT_ONCE] = (drawn @ numerators) / (drawn @ denominators)
    tail = (1 - LEVEL) / 2
    # A resample without any of the users that count says nothing.
    low, high = np.nanquantile(means, [tail, 1 - tail], axis=0)
    return low, high
