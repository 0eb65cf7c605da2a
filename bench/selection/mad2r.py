"""MAD2R: a first round of MAD; in the second, users leave out what came out and what has no chance, and give less to
keys that the first round saw to be heavy.

Chen, Cohen-Addad, Epasto and Zadimoghaddam, *Scalable Private Partition Selection via Adaptive Weighting*, ICML 2025
(arXiv:2502.08878), with its settings: a tenth of the budget first, bounds one standard deviation below and three above
the first round's noisy weights, biases of at least 1/2. A key whose upper bound is below the second threshold is left
out; the bias of a key is threshold / lower bound, at most 1. Whatever biases save goes to a user's other keys, each of
which has at most twice its even share; users of four keys or fewer have no biases. Weights of t keys of one user alone
are equal and of length 1 at most, so the threshold is the plain mechanism's. Our reading of the second round: where we
could not tell what the paper does, we took what releases more.
"""

from __future__ import annotations

import numpy as np

from bench.selection.accounting import Purse
from bench.selection.holdings import Floats, Holdings, Ints
from bench.selection.mad import adaptive_weights
from bench.selection.renyi import RenyiPurse
from bench.selection.weighted_gaussian import passing

LEAST_BIAS = 0.5


def select(
    held: Holdings,
    purse: Purse | RenyiPurse,
    draw: np.random.Generator,
    *,
    most: int,
    first: float = 0.1,
    degree: int = 50,
    beta: float = 2.0,
    below: float = 1.0,
    above: float = 3.0,
) -> Ints:
    """The keys that come out in either round; `first`: the share of the first."""
    early, late = purse.rounds(first)
    kept = held.first(most)
    each = 1 / np.sqrt(np.maximum(kept.of_users(), 1))[kept.user]
    weights = adaptive_weights(kept, each, early.threshold(most) + beta * early.sigma, least=1, degree=degree)
    noisy = weights + early.sigma * draw.standard_normal(held.keys)
    found = np.flatnonzero((weights > 0) & (noisy > early.threshold(most)))
    threshold = late.threshold(most)
    gone = noisy + above * early.sigma < threshold
    gone[found] = True
    left = held.kept(~gone[held.key]).first(most)
    bias = np.clip(threshold / np.maximum(noisy - below * early.sigma, 1e-9), LEAST_BIAS, 1.0)
    again = adaptive_weights(
        left, biased_weights(left, bias), threshold + beta * late.sigma, least=int(LEAST_BIAS**-2), degree=degree
    )
    return np.union1d(found, passing(again, late, draw, most))


def biased_weights(held: Holdings, bias: Floats) -> Floats:
    """The weight of each entry: bias/sqrt(n) where the bias is below 1, and what that saves for the others."""
    number = np.maximum(held.of_users(), 1)
    even = 1 / np.sqrt(number)[held.user]
    mine = np.where(number[held.user] > LEAST_BIAS**-2, bias[held.key], 1.0)
    light = mine < 1
    used = np.bincount(held.user, np.where(light, (mine * even) ** 2, 0.0), minlength=held.users)
    others = np.bincount(held.user, ~light, minlength=held.users)
    rest = np.sqrt((1 - used) / np.maximum(others, 1))[held.user]
    return np.asarray(np.where(light, mine * even, np.minimum(rest, even / LEAST_BIAS)))
