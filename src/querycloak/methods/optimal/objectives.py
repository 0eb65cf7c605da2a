"""Objectives of output counts: a concave value of each pair's count, and limits on their sum.

    value(x) = size * sum x + sum of diversity over {x > 0} - distance * sum over frequent pairs of |x - goal|

Every objective of the paper is one of these, and so is any weighted sum of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from querycloak.privacy.sampling.randomness import IntArray

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Objective:
    """Weights and limits of output counts.

    size: value of each unit of a count. diversity: value of each pair's presence. distance: price of each unit between
    a frequent pair's count and its goal. goal: by pair, below 0 for pairs that are not frequent. most: largest count;
    None for no limit. once_per_query: whether one pair of a query may come out at most. total: the sum of all counts,
    exactly if `total_exact`, else at most; None for no limit.
    """

    name: str
    size: float
    diversity: FloatArray
    distance: float
    goal: FloatArray
    most: int | None = None
    once_per_query: bool = False
    total: int | None = None
    total_exact: bool = False

    def value(self, counts: IntArray | FloatArray) -> float:
        """Value of these counts."""
        frequent = self.goal >= 0
        apart = float(np.abs(counts[frequent] - self.goal[frequent]).sum())
        return self.size * float(counts.sum()) + float(self.diversity[counts > 0].sum()) - self.distance * apart


def objective(
    name: str,
    totals: IntArray,
    *,
    support: float | None = None,
    output_size: int | None = None,
    weights: Mapping[str, float] | None = None,
    whole: int | None = None,
) -> Objective:
    """The objective of this name for pairs with these counts in the log (or these noisy counts).

    whole: what supports are shares of; the sum of the counts if None.
    """
    none, zero = np.full(totals.size, -1.0), np.zeros(totals.size)
    if name == "size":
        return Objective(name, 1.0, zero, 0.0, none, total=output_size)
    if name in ("diversity", "queries"):
        return Objective(name, 1.0, zero, 0.0, none, most=1, once_per_query=name == "queries", total=output_size)
    if support is None or output_size is None:
        raise TypeError("a distance from the log's supports needs a support and an output size")
    counted = max(1, int(totals.sum()))
    frequent = totals / (whole or counted) >= support
    goal = np.where(frequent, output_size * (totals / counted), -1.0)
    if name == "frequent":
        return Objective(name, 0.0, zero, 1 / output_size, goal, total=output_size, total_exact=True)
    share = dict(weights or {})
    return Objective(
        name,
        share.get("size", 0.0) / output_size,
        np.full(totals.size, share.get("diversity", 0.0) / output_size),
        share.get("frequent", 0.0) / output_size,
        goal,
        total=output_size,
    )


def free_objective(
    name: str,
    noisy: IntArray,
    query: IntArray,
    *,
    support: float | None = None,
    output_size: int | None = None,
    weights: Mapping[str, float] | None = None,
    whole: int | None = None,
) -> Objective:
    """The objective for counts that no user's constraint limits.

    For `diversity` the first unit of each pair has more value than further units; for `queries` only the first unit of
    each query's most frequent pair has.
    """
    if name not in ("diversity", "queries"):
        return objective(name, noisy, support=support, output_size=output_size, weights=weights, whole=whole)
    first = np.ones(noisy.size)
    if name == "queries":
        order = np.lexsort((-noisy, query))
        first[order[1:]] = query[order[1:]] != query[order[:-1]]
    return Objective(name, 1.0, first, 0.0, np.full(noisy.size, -1.0), total=output_size)
