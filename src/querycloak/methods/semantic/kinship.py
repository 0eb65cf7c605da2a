"""Kinship of a domain's concepts: for every concept, the number of others by the number of shared ancestors.

The similarity of two concepts depends on three numbers: how many ancestors each has, and how many they share (itself
included). So a concept's kin falls into few classes, and all that a mechanism needs are their sizes. Leaves under one
parent are alike; they count as one type with many members, which is most of what makes large domains cheap.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.text.lists import Lists
from querycloak.text.taxonomy import Taxonomy

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
    """Number of ancestors that every type shares with the source type; parents come before their children."""
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
    """Number of concepts in each class of kin, for each of these types."""
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
    """For each output type, the largest difference of values[ancestors, class] - offset between input types."""
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


Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
_SOURCES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Kinship:
    """Types of concepts, and for each type the sizes of its classes of kin, counted when they are asked for.

    A class is numbered `shared * width + ancestors`: how many ancestors are shared, and how many the kin has.
    """

    type_of: Ints  # of each concept
    members: Lists  # of each type, in order of depth: a parent's type comes before its children's
    ancestors: Ints  # how many each type has, itself included
    topics: Ints  # of each type; all alike where topics do not matter
    parent: Ints  # the type of the one parent; -1 for the root and for concepts with several
    above: Lists  # type -> types above it and itself

    @property
    def width(self) -> int:
        """The largest number of ancestors of a concept, plus one."""
        return int(self.ancestors.max()) + 1

    @property
    def concepts(self) -> int:
        """Number of concepts of the domain."""
        return len(self.type_of)

    @classmethod
    def of(cls, taxonomy: Taxonomy, topics: Ints | None = None) -> Kinship:
        """The kinship of a domain; with topics, concepts of different topics are unrelated."""
        topics = np.zeros(len(taxonomy), np.int32) if topics is None else topics.astype(np.int32)
        members = _type_members(taxonomy, topics)
        first = members.values[members.starts[:-1]]
        type_of = np.empty(len(taxonomy), np.int32)
        type_of[members.values] = members.owners()
        lone = taxonomy.parents_of.lengths[first] == 1
        parent = np.full(len(first), -1, np.int32)
        parent[lone] = type_of[taxonomy.parents_of.values[taxonomy.parents_of.starts[first[lone]]]]
        above = taxonomy.ancestors_of.take(first)
        above = Lists(above.starts, type_of[above.values])
        ancestors, own_topics = above.lengths.astype(np.int32), topics[first]
        return cls(type_of, members, ancestors, own_topics, parent, above)

    @property
    def classes(self) -> Lists:
        """Type -> its classes of kin, ascending."""
        return self._counted[0]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Beside classes.values: how many concepts are in the class."""
        return self._counted[1]

    @cached_property
    def _counted(self) -> tuple[Lists, NDArray[np.int64]]:
        return self.classes_of(np.arange(len(self.ancestors), dtype=np.int32))

    def classes_of(self, wanted: Ints) -> tuple[Lists, NDArray[np.int64]]:
        """The classes of these types' kin and their sizes, without a look at the kin of all others."""
        return _count_classes(self._types, wanted)

    @property
    def _types(self) -> Types:
        """The types as a tuple of arrays for compiled code."""
        members, above = self.members, self.above
        return Types(
            members.starts, members.values, self.ancestors, self.topics, self.parent, above.starts, above.values
        )

    def widest_spread(self, values: Floats, offsets: Floats) -> float:
        """The most that value(i, o) - offset(i) differs between two inputs i for one output o.

        `values[ancestors of i, class of (i, o)]`; with logarithms of weights and totals this is the exact loss.
        """
        spreads = np.empty(len(self.ancestors))
        _in_parallel(len(spreads), lambda first, last: find_spreads(first, last, self._types, values, offsets, spreads))
        return float(spreads.max())

    def members_of_class(self, sources: Ints, classes: Ints, ranks: NDArray[np.int64]) -> Ints:
        """For each draw, the concept with this rank in this class of the source's kin."""
        types = self.type_of[sources]
        order = np.argsort(types, kind="stable")
        bounds = np.searchsorted(types[order], np.arange(len(self.ancestors) + 1))
        draws = sources[order], classes[order], ranks[order]
        chosen = np.empty(len(sources), np.int32)
        _in_parallel(
            len(self.ancestors),
            lambda first, last: find_members(first, last, self._types, bounds, *draws, order, chosen),
        )
        return chosen


def _type_members(taxonomy: Taxonomy, topics: Ints) -> Lists:
    """Leaves that share their one parent and their topic are of one type, all other concepts of their own."""
    alike = taxonomy.leaves & (taxonomy.parents_of.lengths == 1)
    keys = np.arange(len(taxonomy), dtype=np.int64)
    parents = taxonomy.parents_of.values[taxonomy.parents_of.starts[:-1][alike]]
    keys[alike] = len(taxonomy) + parents.astype(np.int64) * (int(topics.max(initial=0)) + 1) + topics[alike]
    order = np.lexsort((np.arange(len(taxonomy)), keys, taxonomy.depths))
    _, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    return Lists.of_lengths(counts[np.argsort(first)], order)


def _count_classes(types: Types, wanted: Ints) -> tuple[Lists, NDArray[np.int64]]:
    count = len(wanted)
    width = int(types.ancestors.max()) + 1
    pieces: dict[int, tuple[Ints, Ints, NDArray[np.int64]]] = {}

    def count_some(first: int, last: int) -> None:
        for start in range(first, last, _SOURCES_AT_ONCE):
            sources = wanted[start : min(last, start + _SOURCES_AT_ONCE)]
            table = np.zeros((len(sources), width * width), np.int64)
            count_kin(sources, types, table)
            rows, classes = np.nonzero(table)
            pieces[start] = rows.astype(np.int32) + start, classes.astype(np.int32), table[rows, classes]

    _in_parallel(count, count_some)
    if not pieces:
        return Lists.of_lengths(np.zeros(0, np.int64), np.zeros(0, np.int32)), np.zeros(0, np.int64)
    owners, classes, sizes = (np.concatenate([pieces[key][i] for key in sorted(pieces)]) for i in range(3))
    return Lists.of_lengths(np.bincount(owners, minlength=count), classes), sizes


def _in_parallel(count: int, work: Callable[[int, int], None]) -> None:
    """The work on 0 to count in a few pieces, each in a thread of its own: compiled code lets others run."""
    threads = max(1, min(os.cpu_count() or 1, count // 64))
    edges = np.linspace(0, count, 4 * threads + 1).astype(int) if threads > 1 else np.array([0, count])
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1].tolist(), edges[1:].tolist()))
