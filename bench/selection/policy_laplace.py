"""Policy Laplace: users come one after another and fill keys evenly up to a cutoff, 1 in all.

Gopi, Gulhane, Kulkarni, Shen, Shokouhi and Yekhanin, *Differentially Private Set Union*, ICML 2020: the l1-descent
policy, Algorithms 4 to 6. Pure Laplace noise of scale 1/epsilon; all of delta is for keys of one user alone.
"""

from __future__ import annotations

import math

import numba
import numpy as np

from bench.selection.holdings import Floats, Holdings, Ints
from bench.selection.policy_gaussian import in_any_order


def select(
    held: Holdings,
    budget: tuple[float, float],
    draw: np.random.Generator,
    *,
    most: int,
    alpha: float,
    threshold: float | None = None,
) -> Ints:
    """The keys that come out; the cutoff lies alpha scales above the threshold."""
    epsilon, delta = budget
    threshold = threshold_of(epsilon, delta, most=most) if threshold is None else threshold
    kept = in_any_order(held.first(most), draw)
    weights = _filled(kept.user, kept.key, held.keys, threshold + alpha / epsilon)
    noisy = weights + draw.laplace(scale=1 / epsilon, size=held.keys)
    return np.flatnonzero((weights > 0) & (noisy > threshold))


def threshold_of(epsilon: float, delta: float, *, most: int) -> float:
    """What a key must exceed if a user gives t keys of its own at most 1/t each, t up to `most`."""
    t = np.arange(1, most + 1)
    each = -np.expm1(math.log1p(-delta) / t)
    return float((1 / t - np.log(2 * each) / epsilon).max())


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _filled(user: Ints, key: Ints, keys: int, cutoff: float) -> Floats:
    weights = np.zeros(keys)
    start = 0
    for end in range(1, user.size + 1):
        if end < user.size and user[end] == user[start]:
            continue
        mine = key[start:end]
        gaps = cutoff - weights[mine]
        left, open_keys = 1.0, end - start
        for place in np.argsort(gaps):  # those that are nearly full first: what they do not need goes to the others
            step = min(max(0.0, gaps[place]), left / open_keys)
            weights[mine[place]] += step
            left -= step
            open_keys -= 1
        start = end
    return weights
