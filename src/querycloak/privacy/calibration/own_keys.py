"""Chance that a key of one user alone comes out of a weighted selection, rounded up (selection.md, claims 3 and 6)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from querycloak.privacy.calibration.poisoning import GRID
from querycloak.privacy.sampling.noise import Gaussian

FLOAT_SLACK = 2.0**-40
MOST_KEYS = 10**12
"""Keys of a log, at most, for the chance that two of them share a digest (claim 6, which counts 64 of its 128 bits)."""
DIGESTS = 2**64
"""Digests of which claim 6 supposes that there are at least as many."""


class Floor(NamedTuple):
    """A round of keys: a key is left if its weight with this noise exceeds the limit."""

    noise: Gaussian
    limit: int


@lru_cache(maxsize=1024)  # a plan is solved for to see whether it is the best, and again to be used
def own_keys(noise: Gaussian, threshold: int, per_user: int, *, equal: bool) -> float:
    """Return the largest probability that any key of one user alone passes the decision, rounded up (claim 3).

    equal: the user's keys have equal weights, GRID/sqrt(n) rounded down; else any weights of length GRID.
    """
    if threshold < GRID:
        return 1.0
    losses: NDArray[np.float64] = -np.log1p(-_passing(Floor(noise, threshold))) * (1 + FLOAT_SLACK)
    if equal:
        n = np.arange(1, per_user + 1)
        weights = np.array([math.isqrt(GRID * GRID // number) for number in range(1, per_user + 1)])
        most = float((n * losses[weights]).max())
    else:
        most = _most_of_any_weights(losses, per_user, 1.0)
    return min(1.0, -math.expm1(-most) * (1 + FLOAT_SLACK))


def mean_own_keys(rounds: Sequence[Floor], per_user: int) -> float:
    """Return the mean number of keys of one user alone that pass all these rounds, rounded up (claim 6, A').

    rounds: those of keys in their order, the decision last.
    """
    left = float(per_user)
    for each in rounds:
        left = min(left, _most_of_any_weights(_passing(each), left, min(1.0, left)))
    return left


def added_by(noise: Gaussian, threshold: int, per_user: int, scouts: Sequence[Floor]) -> float:
    """Return x/(1 + x), where x is what own keys add to delta: A/(1 - d) of claim 6, rounded up."""
    in_decision = own_keys(noise, threshold, per_user, equal=False)
    if in_decision >= 1:
        return 1.0
    sharing = min(1.0, per_user * (MOST_KEYS / DIGESTS)) * in_decision
    mean = mean_own_keys([*scouts, Floor(noise, threshold)], per_user)
    added = min(mean + sharing, in_decision) / (1 - in_decision) * (1 + FLOAT_SLACK)
    return min(1.0, added / (1 + added) * (1 + FLOAT_SLACK))


def _passing(floor: Floor) -> NDArray[np.float64]:
    """Return Pr[w + Z > limit] for the weights w = 0 to GRID, rounded up."""
    tails = _tails(floor.noise.sigma)
    needed = floor.limit + 1 - np.arange(GRID + 1)
    above = tails[np.clip(needed, 0, tails.size - 1)]
    # For a limit below the weight: 1 - Pr[Z >= 1 - needed], where the bound on the tail exceeds it by 2^-29 at most.
    below = 1 - tails[np.clip(1 - needed, 0, tails.size - 1)] * (1 - 2.0**-28) + 1e-41
    passing: NDArray[np.float64] = np.where(needed > 0, above, np.minimum(below * (1 + FLOAT_SLACK), 1.0))
    return passing


@lru_cache(maxsize=16)
def _tails(sigma: float) -> NDArray[np.float64]:
    """Return upper bounds of Pr[Z >= m] for m = 0, 1, ... up to 14 sigma."""
    # Beyond 14 sigma lies less than 1e-42 of the law; sums of 2^18 positive terms are good to 2^-34.
    weights = np.exp(-0.5 * (np.arange(math.ceil(14 * sigma) + 2) / sigma) ** 2)
    from_here = np.cumsum(weights[::-1])[::-1]
    total = 2 * from_here[0] - 1
    tails: NDArray[np.float64] = np.minimum((from_here / total + 1e-42) * (1 + 2.0**-30), 0.75)
    return tails


def _most_of_any_weights(values: NDArray[np.float64], number: float, any_left: float) -> float:
    """Return an upper bound on the mean sum of values over weights of length GRID together: Lagrange's.

    values: by weight, growing. number: the mean number of weights. any_left: the chance that there is any.
    """
    squares = (np.arange(GRID + 1) / GRID) ** 2
    prices = np.concatenate([[0.0], values[-1] * np.geomspace(2.0**-20, 2.0, 256)])
    gains = (values[None, :] - prices[:, None] * squares[None, :]).max(axis=1)
    bounds = (prices * any_left + number * np.maximum(gains, 0)) * (1 + FLOAT_SLACK)
    return float(bounds.min())
