"""How the concepts of a domain are related: for every concept, how many others share how many ancestors with it.

The similarity of two concepts depends on three numbers: how many ancestors each has, and how many they share (itself
included). So a concept's kin falls into few classes, and all that a mechanism needs are their sizes. Leaves under one
parent are alike; they count as one type with so many members, which is most of what makes large domains cheap.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.words.lists import Lists
from querycloak.words.taxonomy import Taxonomy

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
UNRELATED = 0  # the class of concepts of another topic, where topics matter
_SOURCES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class Kinship:
    """Types of concepts, and for each type the sizes of its classes of kin.

    A class is numbered `shared * width + ancestors`: how many ancestors are shared, and how many the kin has.
    """

    type_of: Ints  # of each concept
    members: Lists  # of each type, in order of depth: a parent's type comes before its children's
    ancestors: Ints  # how many each type has, itself included
    topics: Ints  # of each type; all alike where topics do not matter
    parent: Ints  # the type of the one parent; -1 for the root and for concepts with several
    above: Lists  # type -> types above it and itself
    classes: Lists  # type -> its classes of kin, ascending
    sizes: NDArray[np.int64]  # beside classes.values: how many concepts are in the class

    @property
    def width(self) -> int:
        """One more than the most ancestors that any concept has."""
        return int(self.ancestors.max()) + 1

    @property
    def concepts(self) -> int:
        """How many concepts the domain has."""
        return len(self.type_of)

    @classmethod
    def of(cls, taxonomy: Taxonomy, topics: Ints | None = None) -> Kinship:
        """The kinship of a domain; with topics, concepts of different topics are unrelated."""
        topics = np.zeros(len(taxonomy), np.int32) if topics is None else topics.astype(np.int32)
        members = _types(taxonomy, topics)
        first = members.values[members.starts[:-1]]
        type_of = np.empty(len(taxonomy), np.int32)
        type_of[members.values] = members.owners()
        lone = taxonomy.parents_of.lengths[first] == 1
        parent = np.full(len(first), -1, np.int32)
        parent[lone] = type_of[taxonomy.parents_of.values[taxonomy.parents_of.starts[first[lone]]]]
        above = taxonomy.ancestors_of.take(first)
        above = Lists(above.starts, type_of[above.values])
        ancestors, own_topics = above.lengths.astype(np.int32), topics[first]
        parts = members.lengths, ancestors, own_topics, parent, above.starts, above.values
        classes, sizes = _count_classes(*parts)
        return cls(type_of, members, ancestors, own_topics, parent, above, classes, sizes)

    def widest_spread(self, values: Floats, offsets: Floats) -> float:
        """The most that value(i, o) - offset(i) differs between two inputs i for one output o.

        `values[ancestors of i, class of (i, o)]`; with logarithms of weights and totals this is the exact loss.
        """
        parts = self.members.lengths, self.ancestors, self.topics, self.parent, self.above.starts, self.above.values
        spreads = np.empty(len(self.ancestors))
        _in_parallel(
            len(spreads), lambda first, last: _spreads(first, last, *parts, values, offsets, self.width, spreads)
        )
        return float(spreads.max())

    def members_of_class(self, sources: Ints, classes: Ints, ranks: NDArray[np.int64]) -> Ints:
        """For each draw the concept of that rank in that class of the source concept's kin."""
        order = np.argsort(self.type_of[sources], kind="stable")
        parts = self.members.starts, self.members.values, self.ancestors, self.topics, self.parent
        chosen = np.empty(len(sources), np.int32)
        bounds = np.searchsorted(self.type_of[sources][order], np.arange(len(self.ancestors) + 1))
        given = sources[order], classes[order], ranks[order]
        _in_parallel(
            len(self.ancestors),
            lambda first, last: _members(
                first, last, bounds, *given, *parts, self.above.starts, self.above.values, self.width, order, chosen
            ),
        )
        return chosen


def _types(taxonomy: Taxonomy, topics: Ints) -> Lists:
    """Leaves that share their one parent and their topic are of one type, all other concepts of their own."""
    alike = taxonomy.leaves & (taxonomy.parents_of.lengths == 1)
    keys = np.arange(len(taxonomy), dtype=np.int64)
    parents = taxonomy.parents_of.values[taxonomy.parents_of.starts[:-1][alike]]
    keys[alike] = len(taxonomy) + parents.astype(np.int64) * (int(topics.max(initial=0)) + 1) + topics[alike]
    order = np.lexsort((np.arange(len(taxonomy)), keys, taxonomy.depths))
    _, first, counts = np.unique(keys[order], return_index=True, return_counts=True)
    return Lists.of_lengths(counts[np.argsort(first)], order)


def _count_classes(*parts: NDArray[np.integer]) -> tuple[Lists, NDArray[np.int64]]:
    count = len(parts[1])
    width = int(parts[1].max()) + 1
    pieces: dict[int, tuple[Ints, Ints, NDArray[np.int64]]] = {}

    def count_some(first: int, last: int) -> None:
        for start in range(first, last, _SOURCES_AT_ONCE):
            stop = min(last, start + _SOURCES_AT_ONCE)
            table = np.zeros((stop - start, width * width), np.int64)
            _histogram(start, stop, *parts, width, table)
            rows, classes = np.nonzero(table)
            pieces[start] = rows.astype(np.int32) + start, classes.astype(np.int32), table[rows, classes]

    _in_parallel(count, count_some)
    owners, classes, sizes = (np.concatenate([pieces[key][i] for key in sorted(pieces)]) for i in range(3))
    return Lists.of_lengths(np.bincount(owners, minlength=count), classes), sizes


def _in_parallel(count: int, work: Callable[[int, int], None]) -> None:
    """The work on 0 to count in a few pieces, each in a thread of its own: compiled code lets others run."""
    threads = max(1, min(os.cpu_count() or 1, count // 64))
    edges = np.linspace(0, count, 4 * threads + 1).astype(int) if threads > 1 else np.array([0, count])
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, edges[:-1].tolist(), edges[1:].tolist()))


@njit(cache=True, nogil=True)
def _shared(source, parent, above_starts, above, marked, shared):  # type: ignore[no-untyped-def]
    """How many ancestors every type shares with the source type; parents come before their children."""
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
def _histogram(first, last, sizes, ancestors, topics, parent, above_starts, above, width, table):  # type: ignore[no-untyped-def]
    marked, shared = np.zeros(parent.size, np.int32), np.zeros(parent.size, np.int32)
    for source in range(first, last):
        _shared(source, parent, above_starts, above, marked, shared)
        row = table[source - first]
        for other in range(parent.size):
            if topics[other] == topics[source]:
                row[shared[other] * width + ancestors[other]] += sizes[other]
            else:
                row[UNRELATED] += sizes[other]
        own = ancestors[source]
        # Its own type shares all but the last ancestor with it, except for itself.
        row[own * width + own] -= sizes[source] - 1
        row[(own - 1) * width + own] += sizes[source] - 1


@njit(cache=True, nogil=True)
def _spreads(first, last, sizes, ancestors, topics, parent, above_starts, above, values, offsets, width, spreads):  # type: ignore[no-untyped-def]
    marked, shared = np.zeros(parent.size, np.int32), np.zeros(parent.size, np.int32)
    local = np.empty((width, width))
    for output in range(first, last):
        _shared(output, parent, above_starts, above, marked, shared)
        own = ancestors[output]
        for a in range(width):
            for s in range(width):
                local[a, s] = values[a, s * width + own]
        most = values[own, own * width + own] - offsets[output]
        least = most
        if sizes[output] > 1:
            least = values[own, (own - 1) * width + own] - offsets[output]
            most = max(most, least)
        for source in range(parent.size):
            if source == output:
                continue
            if topics[source] == topics[output]:
                value = local[ancestors[source], shared[source]] - offsets[source]
            else:
                value = values[ancestors[source], UNRELATED] - offsets[source]
            most = max(most, value)
            least = min(least, value)
        spreads[output] = most - min(least, most)


@njit(cache=True, nogil=True)
def _members(first, last, bounds, sources, classes, ranks, starts, members, ancestors, topics, parent, above_starts, above, width, order, chosen):  # type: ignore[no-untyped-def]  # noqa: E501
    """Resolve the draws of each source type: list the types of its kin class by class, then look up every rank."""
    count = parent.size
    marked, shared = np.zeros(count, np.int32), np.zeros(count, np.int32)
    class_of, listed = np.empty(count, np.int64), np.empty(count, np.int64)
    begins, sums = np.empty(width * width + 1, np.int64), np.empty(count, np.int64)
    for source in range(first, last):
        if bounds[source] == bounds[source + 1]:
            continue
        _shared(source, parent, above_starts, above, marked, shared)
        own = ancestors[source]
        begins[:] = 0
        for other in range(count):
            kin = UNRELATED if topics[other] != topics[source] else shared[other] * width + ancestors[other]
            if other == source:  # its own type as siblings; itself needs no list
                kin = (own - 1) * width + own
            class_of[other] = kin
            begins[kin + 1] += 1
        for kin in range(width * width):
            begins[kin + 1] += begins[kin]
        for other in range(count):
            listed[begins[class_of[other]]] = other
            begins[class_of[other]] += 1  # now where the next class begins
        before, last_class = 0, -1
        for place in range(count):
            other = listed[place]
            if class_of[other] != last_class:
                before, last_class = 0, class_of[other]
            before += starts[other + 1] - starts[other] - (1 if other == source else 0)
            sums[place] = before
        for draw in range(bounds[source], bounds[source + 1]):
            concept, kin, rank = sources[draw], classes[draw], ranks[draw]
            if kin == own * width + own:
                chosen[order[draw]] = concept
                continue
            low, high = begins[kin - 1] if kin else 0, begins[kin] - 1
            while low < high:
                middle = (low + high) // 2
                if sums[middle] > rank:
                    high = middle
                else:
                    low = middle + 1
            other = listed[low]
            size = starts[other + 1] - starts[other] - (1 if other == source else 0)
            place = starts[other] + rank - (sums[low] - size)
            if other == source:  # the concept itself stands among its siblings, and is not one
                for own_place in range(starts[other], place + 1):
                    if members[own_place] == concept:
                        place += 1
                        break
            chosen[order[draw]] = members[place]
