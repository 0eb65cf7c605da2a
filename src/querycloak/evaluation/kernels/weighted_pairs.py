"""Weighted pairs of numbers: clicks of queries on urls, queries that follow queries; sorted, indexed by the left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]
Places = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class WeightedPairs:
    """Each pair once, by left and then right; weights above 0. `lefts` is the number of possible lefts."""

    left: Ints
    right: Ints
    weight: Floats
    lefts: int

    @classmethod
    def of(
        cls, left: NDArray[np.integer], right: NDArray[np.integer], weight: NDArray[np.number], lefts: int
    ) -> WeightedPairs:
        """From pairs in any order, repeats allowed: weights add up; sums of 0 or less are left out."""
        span = int(right.max(initial=0)) + 1
        key = left.astype(np.int64) * span + right
        order = np.argsort(key)
        key = key[order]
        first = np.flatnonzero(np.concatenate([[True], key[1:] != key[:-1]])) if key.size else np.empty(0, np.int64)
        total = np.add.reduceat(weight[order].astype(np.float64), first) if key.size else np.empty(0)
        kept = total > 0
        key, total = key[first][kept], total[kept]
        return cls((key // span).astype(np.int32), (key % span).astype(np.int32), total, lefts)

    def __len__(self) -> int:
        return len(self.left)

    @cached_property
    def starts(self) -> Places:
        """Start of the pairs of each left side, and the end of the last."""
        return np.searchsorted(self.left, np.arange(self.lefts + 1)).astype(np.int64)

    @cached_property
    def totals(self) -> Floats:
        """The weights of each left together."""
        return np.bincount(self.left, self.weight, minlength=self.lefts).astype(np.float64)

    def without_loops(self) -> WeightedPairs:
        """The same without pairs of a number and itself."""
        kept = self.left != self.right
        return WeightedPairs(self.left[kept], self.right[kept], self.weight[kept], self.lefts)
