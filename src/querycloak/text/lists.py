"""Many short lists of whole numbers in two arrays: the numbers, and where each list begins.

`sorted_sets` gathers (owner, value) pairs into sorted lists of distinct values, by compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from querycloak.text.compiled import kernel, part

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
        """List number of each value."""
        return np.repeat(np.arange(len(self), dtype=np.int32), self.lengths)

    def inverted(self, count: int) -> Lists:
        """Inverse: the lists that hold each of `count` values, ascending."""
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


_FEW = 24


@part
def sort_span(data, first, last):  # type: ignore[no-untyped-def]
    """Put data[first:last] in ascending order: by insertion if it is short, else as a heap, which needs no memory."""
    if last - first <= _FEW:
        for i in range(first + 1, last):
            value, at = data[i], i
            while at > first and data[at - 1] > value:
                data[at] = data[at - 1]
                at -= 1
            data[at] = value
        return
    for root in range((last - first) // 2 - 1, -1, -1):
        _sift(data, first, root, last - first)
    for end in range(last - first - 1, 0, -1):
        data[first], data[first + end] = data[first + end], data[first]
        _sift(data, first, 0, end)


@part
def first_at_least(values, first, last, least):  # type: ignore[no-untyped-def]
    """Place of the first of the ascending values[first:last] that is not below `least`; `last` if all are."""
    while first < last:
        middle = (first + last) // 2
        if values[middle] < least:
            first = middle + 1
        else:
            last = middle
    return first


@part
def _sift(data, first, root, count):  # type: ignore[no-untyped-def]
    """Move the root of a heap down to where it belongs."""
    value = data[first + root]
    while 2 * root + 1 < count:
        child = 2 * root + 1
        if child + 1 < count and data[first + child] < data[first + child + 1]:
            child += 1
        if data[first + child] <= value:
            break
        data[first + root] = data[first + child]
        root = child
    data[first + root] = value


def sorted_sets(owners: Numbers, values: Numbers, count: int) -> Lists:
    """Values of each of `count` owners, once each and ascending; by counting, since pairs may be very many."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)
    gathered = np.empty(len(owners), np.int32)
    _gather(owners, values, starts.copy(), gathered)
    kept = np.empty(count + 1, np.int64)
    used = _without_repeats(starts, gathered, kept)
    return Lists(kept, gathered[:used].copy())


@kernel
def _gather(row, number, next_place, data):  # type: ignore[no-untyped-def]
    for i in range(row.size):
        data[next_place[row[i]]] = number[i]
        next_place[row[i]] += 1


@kernel
def _without_repeats(starts, data, kept):  # type: ignore[no-untyped-def]
    used = 0
    for row in range(starts.size - 1):
        first, last = starts[row], starts[row + 1]
        kept[row] = used
        sort_span(data, first, last)
        for i in range(first, last):
            if i == first or data[i] != data[i - 1]:
                # Written at or before the place that is read, and never over the number just compared with.
                data[used] = data[i]
                used += 1
    kept[starts.size - 1] = used
    return used
