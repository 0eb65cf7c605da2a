"""How the concepts of a domain are related: for every concept, how many others share how many ancestors with it.

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

import numpy as np
from numpy.typing import NDArray

from querycloak.methods.semantic.kin_classes import Types, count_kin, find_members, find_spreads
from querycloak.text.lists import Lists
from querycloak.text.taxonomy import Taxonomy

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
        """As compiled code takes them."""
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
        """For each draw the concept of that rank in that class of the source concept's kin."""
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
