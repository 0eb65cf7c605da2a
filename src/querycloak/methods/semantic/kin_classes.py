"""Compiled passes over all pairs of types of a domain: who shares how many ancestors with whom.

A class of kin is numbered `shared * width + ancestors`, where width is one more than the most
ancestors of any type.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

UNRELATED = 0  # the class of concepts of another topic, where topics matter


class Types(NamedTuple):
    """The types of a domain as compiled code takes them; what each field means stands in `Kinship`."""

    starts: NDArray[np.int64]  # of each type's members
    members: NDArray[np.int32]
    ancestors: NDArray[np.int32]
    topics: NDArray[np.int32]
    parent: NDArray[np.int32]
    above_starts: NDArray[np.int64]
    above: NDArray[np.int32]


@njit(cache=True, nogil=True)
def _share(source, types, marked, shared):  # type: ignore[no-untyped-def]
    """How many ancestors every type shares with the source type; parents come before their children."""
    parent, above_starts, above = types.parent, types.above_starts, types.above
    for i in range(above_starts[source], above_starts[source + 1]):
        marked[above[i]] = 1
    for other in range(parent.size):
        if parent[other] >= 0:
            shared[other] = shared[parent[other]] + marked[other]
        else:
            common = 0
            for i in range(above_starts[other], above_starts[other + 1]):
                common += marked[above[i]]
            shared[other] = common
    for i in range(above_starts[source], above_starts[source + 1]):
        marked[above[i]] = 0


@njit(cache=True, nogil=True)
def count_kin(sources, types, table):  # type: ignore[no-untyped-def]
    """For each of these types, the number of concepts in each class of its kin."""
    starts, ancestors, topics = types.starts, types.ancestors, types.topics
    width = ancestors.max() + 1
    marked, shared = np.zeros(ancestors.size, np.int32), np.zeros(ancestors.size, np.int32)
    for place in range(sources.size):
        source = sources[place]
        _share(source, types, marked, shared)
        row = table[place]
        for other in range(ancestors.size):
            kin = shared[other] * width + ancestors[other] if topics[other] == topics[source] else UNRELATED
            row[kin] += starts[other + 1] - starts[other]
        own = ancestors[source]
        # A concept's own type shares all but the last ancestor with it, except for itself.
        siblings = starts[source + 1] - starts[source] - 1
        row[own * width + own] -= siblings
        row[(own - 1) * width + own] += siblings


@njit(cache=True, nogil=True)
def find_spreads(first, last, types, values, offsets, spreads):  # type: ignore[no-untyped-def]
    """For each output type the most by which values[ancestors, class] - offset differs between input types."""
    starts, ancestors, topics = types.starts, types.ancestors, types.topics
    width = ancestors.max() + 1
    near = np.empty((width, width))
    marked, shared = np.zeros(ancestors.size, np.int32), np.zeros(ancestors.size, np.int32)
    for output in range(first, last):
        _share(output, types, marked, shared)
        own = ancestors[output]
        for a in range(width):  # what this output needs of the values fits into the fastest memory
            for s in range(width):
                near[a, s] = values[a, s * width + own]
        most = values[own, own * width + own] - offsets[output]
        least = most
        if starts[output + 1] - starts[output] > 1:
            sibling = values[own, (own - 1) * width + own] - offsets[output]
            most, least = max(most, sibling), min(least, sibling)
        for source in range(ancestors.size):
            if source != output:
                value = near[ancestors[source], shared[source]]
                if topics[source] != topics[output]:
                    value = values[ancestors[source], UNRELATED]
                value -= offsets[source]
                most, least = max(most, value), min(least, value)
        spreads[output] = most - least


@njit(cache=True, nogil=True)
def _list_kin(source, types, marked, shared, kin_of, ends, listed, sums):  # type: ignore[no-untyped-def]
    """List the types by their class of kin: where each class ends, and how many concepts it holds so far."""
    starts, ancestors, topics = types.starts, types.ancestors, types.topics
    width = ancestors.max() + 1
    _share(source, types, marked, shared)
    ends[:] = 0
    for other in range(ancestors.size):
        kin_of[other] = shared[other] * width + ancestors[other] if topics[other] == topics[source] else UNRELATED
        if other == source:  # its own type as siblings; itself needs no list
            kin_of[other] = (ancestors[source] - 1) * width + ancestors[source]
        ends[kin_of[other] + 1] += 1
    for kin in range(ends.size - 1):
        ends[kin + 1] += ends[kin]
    for other in range(ancestors.size):
        listed[ends[kin_of[other]]] = other
        ends[kin_of[other]] += 1  # from where the class begins to where it ends
    total = 0
    for place in range(ancestors.size):
        other = listed[place]
        if place and kin_of[other] != kin_of[listed[place - 1]]:
            total = 0
        total += starts[other + 1] - starts[other] - (other == source)
        sums[place] = total


@njit(cache=True, nogil=True)
def _member(source, concept, kin, rank, types, ends, listed, sums):  # type: ignore[no-untyped-def]
    """The concept of that rank in a class of kin that has been listed."""
    starts, members = types.starts, types.members
    low, high = ends[kin - 1] if kin else 0, ends[kin] - 1
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > rank:
            high = middle
        else:
            low = middle + 1
    other = listed[low]
    size = starts[other + 1] - starts[other] - (other == source)
    place = starts[other] + rank - (sums[low] - size)
    if other == source:  # the concept itself stands among its siblings, and is not one
        for before in range(starts[other], place + 1):
            if members[before] == concept:
                return members[place + 1]
    return members[place]


@njit(cache=True, nogil=True)
def find_members(first, last, types, bounds, sources, classes, ranks, order, chosen):  # type: ignore[no-untyped-def]
    """Resolve the draws of each source type, which stand together: its kin is listed once for all of them."""
    ancestors = types.ancestors
    width = ancestors.max() + 1
    marked, shared = np.zeros(ancestors.size, np.int32), np.zeros(ancestors.size, np.int32)
    kin_of, listed = np.empty(ancestors.size, np.int64), np.empty(ancestors.size, np.int64)
    ends, sums = np.empty(width * width + 1, np.int64), np.empty(ancestors.size, np.int64)
    for source in range(first, last):
        if bounds[source] == bounds[source + 1]:
            continue
        _list_kin(source, types, marked, shared, kin_of, ends, listed, sums)
        itself = ancestors[source] * width + ancestors[source]
        for draw in range(bounds[source], bounds[source + 1]):
            if classes[draw] == itself:
                chosen[order[draw]] = sources[draw]
            else:
                chosen[order[draw]] = _member(
                    source, sources[draw], classes[draw], ranks[draw], types, ends, listed, sums
                )
