"""Weighted Gaussian: each of a user's n keys gets 1/sqrt(n), and noise decides.

Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, *Differentially Private Set Union*, ICML 2020, Algorithm 3.
The others are built on it; ours is `weighted`, with whole weights.
"""

from __future__ import annotations

import numpy as np

from bench.selection.accounting import Purse
from bench.selection.holdings import Floats, Holdings, Ints
from bench.selection.renyi import RenyiPurse


def equal_weights(held: Holdings) -> Floats:
    """The total weight of each key."""
    each = 1 / np.sqrt(np.maximum(held.of_users(), 1))
    return summed(held.key, each[held.user], held.keys)


def summed(group: Ints, values: Floats, groups: int) -> Floats:
    """The sum of the values of each group."""
    return np.bincount(group, values, minlength=groups).astype(np.float64)


def select(held: Holdings, purse: Purse | RenyiPurse, draw: np.random.Generator, *, most: int) -> Ints:
    """The keys that come out."""
    return passing(equal_weights(held.first(most)), purse, draw, most)


def passing(weights: Floats, purse: Purse | RenyiPurse, draw: np.random.Generator, most: int) -> Ints:
    """The keys that the purse lets pass, of those that anybody gives weight to."""
    return np.flatnonzero((weights > 0) & purse.passes(weights, most, draw))
