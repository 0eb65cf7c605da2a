"""Many short lists of whole numbers in two arrays: the numbers, and where each list begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Lists:
    """List i is `values[starts[i]:starts[i + 1]]`."""

    starts: NDArray[np.int64]
    values: Numbers

    @classmethod
    def of_lengths(cls, lengths: NDArray[np.integer], values: NDArray[np.integer]) -> Lists:
        """Lists of these lengths, one after another."""
        starts = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=starts[1:])
        return cls(starts, values.astype(np.int32, copy=False))

    @classmethod
    def of_pairs(cls, owners: NDArray[np.integer], values: NDArray[np.integer], count: int) -> Lists:
        """Values of each of `count` owners, in the order given."""
        order = np.argsort(owners, kind="stable")
        return cls.of_lengths(np.bincount(owners, minlength=count), values[order])

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Numbers:
        return self.values[self.starts[index] : self.starts[index + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Length of each list."""
        return np.diff(self.starts)

    def owners(self) -> Numbers:
        """For each value the list that it stands in."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    def inverted(self, count: int) -> Lists:
        """For each of `count` values the lists that hold it, ascending."""
        return Lists.of_pairs(self.values, self.owners(), count)

    def take(self, indices: NDArray[np.integer]) -> Lists:
        """Only these lists, in this order."""
        return Lists.of_lengths(self.lengths[indices], self.values[self.places(indices)])

    def places(self, indices: NDArray[np.integer]) -> NDArray[np.int64]:
        """Places of the values of these lists, list after list."""
        return places(self.starts[indices], self.lengths[indices])


def places(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """The places of runs that start here and are as long, run after run."""
    ends = np.cumsum(lengths, dtype=np.int64)
    offsets = np.repeat(starts - ends + lengths, lengths)
    return offsets + np.arange(len(offsets), dtype=np.int64)
