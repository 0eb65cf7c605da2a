"""Putting a piece of an array in order inside a kernel; numba's own sorting takes seconds to compile."""

from __future__ import annotations

from querycloak.text.compiled import part

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
