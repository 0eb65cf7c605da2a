"""Very many (owner, value) pairs gathered into sorted lists of distinct values, and places in these; compiled."""

from __future__ import annotations

import numpy as np

from querycloak.text.compiled import kernel, part
from querycloak.text.lists import Lists, Numbers

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
