"""Policy Gaussian: users come one after another and move weight to keys that are still below a cutoff.

Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, *Differentially Private Set Union*, ICML 2020: the l2-descent
policy. A user adds to each key in proportion to what it lacks to the cutoff, a vector of length 1 in all.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from bench.selection.accounting import Purse
from bench.selection.holdings import Floats, Holdings, Ints
from bench.selection.renyi import RenyiPurse
from bench.selection.weighted_gaussian import passing


def select(held: Holdings, purse: Purse | RenyiPurse, draw: np.random.Generator, *, most: int, alpha: float) -> Ints:
    """The keys that come out; the cutoff lies alpha standard deviations above the threshold."""
    cutoff = purse.threshold(most) + alpha * purse.sigma
    kept = in_any_order(held.first(most), draw)
    return passing(_descended(kept.user, kept.key, held.keys, cutoff), purse, draw, most)


def in_any_order(held: Holdings, draw: np.random.Generator) -> Holdings:
    """The same with users in random order."""
    order = np.argsort(draw.permutation(held.users)[held.user], kind="stable")
    return held.kept(order)  # type: ignore[arg-type]


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _descended(user: Ints, key: Ints, keys: int, cutoff: float) -> Floats:
    weights = np.zeros(keys)
    start = 0
    for end in range(1, user.size + 1):
        if end < user.size and user[end] == user[start]:
            continue
        lacking = 0.0
        for entry in range(start, end):
            lacking += max(0.0, cutoff - weights[key[entry]]) ** 2
        step = 1 / max(1.0, math.sqrt(lacking))
        for entry in range(start, end):
            weights[key[entry]] += max(0.0, cutoff - weights[key[entry]]) * step
        start = end
    return weights
