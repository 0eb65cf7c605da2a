"""MAD (MaxAdaptiveDegree): weight above a cutoff goes back to its users, who share it out among all their keys.

Chen, Cohen-Addad, Epasto and Zadimoghaddam, *Scalable Private Partition Selection via Adaptive Weighting*, ICML 2025
(arXiv:2502.08878). Users of more than `degree` keys, and of one key, weigh as the weighted Gaussian mechanism does. The
others first give the *squares* of their weights (1 in all); what exceeds the cutoff is sent back, divided by `degree`,
and shared out evenly; the rest of their weights (1/sqrt(n) - 1/n) follows. The division keeps the sensitivity.
"""

from __future__ import annotations

import numpy as np

from bench.selection.accounting import Purse
from bench.selection.holdings import Floats, Holdings, Ints
from bench.selection.weighted_gaussian import passing, summed


def select(
    held: Holdings, purse: Purse, draw: np.random.Generator, *, most: int, degree: int = 50, beta: float = 2.0
) -> Ints:
    """The keys that come out; the cutoff lies beta standard deviations above the threshold."""
    kept = held.first(most)
    cutoff = purse.threshold(most) + beta * purse.sigma
    each = 1 / np.sqrt(np.maximum(kept.of_users(), 1))[kept.user]
    weights = adaptive_weights(kept, each, cutoff, least=1, degree=degree)
    return passing(weights, purse, draw, most)


def adaptive_weights(held: Holdings, each: Floats, cutoff: float, *, least: int, degree: int) -> Floats:
    """The total weight of each key if entries have these weights, of length 1 for each user.

    Users of more than `least` and at most `degree` keys are adaptive.
    """
    number = held.of_users()
    adaptive = ((number > least) & (number <= degree))[held.user]
    plain = summed(held.key, np.where(adaptive, 0.0, each), held.keys)
    first = np.where(adaptive, each * each, 0.0)
    total = summed(held.key, first, held.keys)
    excess = np.maximum(0.0, total - cutoff) / np.maximum(total, 1e-300)
    returned = summed(held.user, first * excess[held.key], held.users) / degree
    shared = np.where(adaptive, returned[held.user] / number[held.user], 0.0)
    rest = np.where(adaptive, each - first, 0.0)
    again = summed(held.key, shared + rest, held.keys)
    return plain + np.minimum(total, cutoff) + again
