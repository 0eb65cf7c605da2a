"""Weighted Gaussian: each of a user's n keys gets 1/sqrt(n), and noise decides.

Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, *Differentially Private Set Union*, ICML 2020, Algorithm 3.
The others are built on it; ours is `weighted`, with whole weights.
"""

from __future__ import annotations

import numpy as np

from bench.selection.accounting import Purse
from bench.selection.holdings import Floats, Holdings, Ints


def equal_weights(held: Holdings) -> Floats:
    """The total weight of each key."""
    each = 1 / np.sqrt(np.maximum(held.of_users(), 1))
    return summed(held.key, each[held.user], held.keys)


def summed(group: Ints, values: Floats, groups: int) -> Floats:
    """The sum of the values of each group."""
    return np.bincount(group, values, minlength=groups).astype(np.float64)


def select(held: Holdings, purse: Purse, draw: np.random.Generator, *, most: int) -> Ints:
    """The keys that come out."""
    return passing(held, equal_weights(held.first(most)), purse, draw, most)


def passing(held: Holdings, weights: Floats, purse: Purse, draw: np.random.Generator, most: int) -> Ints:
    """The keys whose weight with noise exceeds the threshold, of those that anybody gives weight to."""
    noisy = weights + purse.sigma * draw.standard_normal(held.keys)
    return np.flatnonzero((weights > 0) & (noisy > purse.threshold(most)))
