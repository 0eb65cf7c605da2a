"""Many short rows of whole numbers in two arrays: the numbers, and where each row begins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray


@dataclass(frozen=True)
class Rows:
    """Row i is data[starts[i]:starts[i + 1]]."""

    starts: NDArray[np.int64]
    data: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Numbers in each row."""
        return np.diff(self.starts)

    def row(self, index: int) -> NDArray[np.int32]:
        """One row."""
        return self.data[self.starts[index] : self.starts[index + 1]]

    def take(self, order: NDArray[np.int64]) -> Rows:
        """The rows in another order."""
        starts = np.concatenate([[0], np.cumsum(self.lengths[order])]).astype(np.int64)
        data = np.empty(starts[-1], np.int32)
        _take(self.starts, self.data, order, starts, data)
        return Rows(starts, data)


def sorted_sets(row: NDArray[np.int32], number: NDArray[np.int32], rows: int) -> Rows:
    """Gather (row, number) pairs into rows of different numbers in ascending order."""
    starts = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=rows))]).astype(np.int64)
    data = np.empty(len(row), np.int32)
    _gather(row, number, starts.copy(), data)
    kept = np.empty(rows + 1, np.int64)
    used = _without_repeats(starts, data, kept)
    return Rows(kept, data[:used].copy())


@njit(cache=True, nogil=True)
def _take(starts, data, order, new_starts, new_data):  # type: ignore[no-untyped-def]
    for place in range(order.size):
        at = new_starts[place]
        for i in range(starts[order[place]], starts[order[place] + 1]):
            new_data[at] = data[i]
            at += 1


@njit(cache=True, nogil=True)
def _gather(row, number, next_place, data):  # type: ignore[no-untyped-def]
    for i in range(row.size):
        data[next_place[row[i]]] = number[i]
        next_place[row[i]] += 1


@njit(cache=True, nogil=True)
def _without_repeats(starts, data, kept):  # type: ignore[no-untyped-def]
    used = 0
    for row in range(starts.size - 1):
        first, last = starts[row], starts[row + 1]
        kept[row] = used
        data[first:last].sort()
        for i in range(first, last):
            if i == first or data[i] != data[i - 1]:
                # Written at or before the place that is read, and never over the number just compared with.
                data[used] = data[i]
                used += 1
    kept[starts.size - 1] = used
    return used
