"""DP-SIPS: the weighted Gaussian mechanism several times; what came out is taken away, budgets grow.

Swanberg, Desfontaines and Haney, *DP-SIPS: A simpler, more scalable mechanism for differentially private partition
selection*, PoPETs 2023 (arXiv:2301.01998). Budgets grow geometrically; here mu^2 and the own keys' part of delta do.
"""

from __future__ import annotations

import numpy as np

from bench.selection import weighted_gaussian
from bench.selection.accounting import Purse
from bench.selection.holdings import Holdings, Ints


def select(
    held: Holdings, purse: Purse, draw: np.random.Generator, *, most: int, rounds: int = 3, ratio: float = 1 / 3
) -> Ints:
    """The keys that come out in any round; each round has `ratio` of the next one's budget."""
    shares = ratio ** np.arange(rounds - 1, -1, -1.0)
    left, found = held, []
    for share in shares / shares.sum():
        chosen = weighted_gaussian.select(left, purse.part(float(share)), draw, most=most)
        found.append(chosen)
        left = left.kept(~np.isin(left.key, chosen))
    return np.unique(np.concatenate(found))
