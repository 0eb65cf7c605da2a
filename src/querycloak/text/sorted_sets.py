"""Very many (owner, value) pairs gathered into lists of different values, compiled."""

from __future__ import annotations

import numpy as np

from querycloak.text.compiled import kernel
from querycloak.text.lists import Lists, Numbers
from querycloak.text.sorting import sort_span


def sorted_sets(owners: Numbers, values: Numbers, count: int) -> Lists:
    """What each of `count` owners has, once each and ascending; by counting, since pairs may be very many."""
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
