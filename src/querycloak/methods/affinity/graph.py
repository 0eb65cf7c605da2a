"""Neighbours of the vertices whose degree is still open (affinity.md, step 4).

A vertex with `most` users of its own is in every core up to `most`, and so are its neighbours. A vertex whose surely
kept neighbours have `most` users is kept as well. Only the other vertices need a list of their neighbours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ResourceError
from querycloak.methods.affinity.cosine import Index, neighbours_of
from querycloak.sentence import Sentence
from querycloak.text.compiled import kernel, part
from querycloak.text.lists import Lists, sort_span, sorted_sets

# Neighbours listed in all, at 4 bytes each and held twice for a moment: 6.4 GB.
MOST_LISTED = 800_000_000
_BLOCK = 2048
_BUFFER = 1 << 20
_PLACES = 1 << 31
TOO_MANY = Sentence(
    "queries have more neighbours than memory should hold: give {max_neighbours:100}, which makes degrees lower bounds "
    "and lets less out, or a higher {theta}"
)
OnShare = Callable[[float], None]


@dataclass(frozen=True)
class Graph:
    """Vertices in the index's order: flags of those that surely stay, the open ones, and the neighbours of these."""

    stays: NDArray[np.bool_]
    open: NDArray[np.int64]
    neighbours: Lists
    users: Lists


def build_graph(
    index: Index,
    users: Lists,
    number_of_users: int,
    most: int,
    *,
    max_neighbours: int | None = None,
    threads: int | None = None,
    progress: OnShare = lambda _: None,
) -> Graph:
    """Find neighbours on all cores; `users` are in the index's order, `most` is the highest degree asked for."""
    keep = 0 if max_neighbours is None else max_neighbours
    search = Search(index, users, number_of_users, Limits(most, keep), users.lengths >= most)
    open_vertices: list[NDArray[np.int64]] = []
    lists: list[NDArray[np.int32]] = []
    sizes: list[NDArray[np.int64]] = []
    listed = 0
    for block in search.everything(threads or os.cpu_count() or 1, progress):
        open_vertices.append(block.vertices)
        sizes.append(block.sizes)
        lists.append(block.neighbours)
        listed += len(block.neighbours)
        if listed > MOST_LISTED:
            raise ResourceError(TOO_MANY)
    vertices = np.concatenate([np.empty(0, np.int64), *open_vertices])
    starts = np.concatenate([[0], np.cumsum(np.concatenate([np.empty(0, np.int64), *sizes]))]).astype(np.int64)
    return Graph(search.stays, vertices, Lists(starts, np.concatenate([np.empty(0, np.int32), *lists])), users)


@dataclass(frozen=True)
class NeighbourBlock:
    """Open vertices, and the neighbours of each, list after list."""

    vertices: NDArray[np.int64]
    sizes: NDArray[np.int64]
    neighbours: NDArray[np.int32]


class _People(NamedTuple):
    """Users of each vertex, and a flag for vertices that surely stay, as compiled code takes them."""

    starts: NDArray[np.int64]
    users: NDArray[np.int32]
    stays: NDArray[np.bool_]


class Limits(NamedTuple):
    """The highest degree asked for, and how many neighbours are kept (0: all)."""

    most: int
    keep: int


class _Scratch(NamedTuple):
    """Room for one thread: neighbours found, for each user the vertex at which it was last seen, and an order."""

    neighbours: NDArray[np.int32]
    seen: NDArray[np.int64]
    order: NDArray[np.int64]
    """Order of neighbours where only some are kept; empty where all are."""


class Search:
    """Finds the neighbours of every vertex; permanent vertices are known at the end, hubs from the beginning."""

    def __init__(
        self, index: Index, users: Lists, number_of_users: int, limits: Limits, hubs: NDArray[np.bool_]
    ) -> None:
        self._index, self._limits, self._number_of_users = index, limits, number_of_users
        self._hubs, self.stays = hubs, hubs.copy()
        self._people = _People(users.starts, users.values, self.stays)
        self._unused: list[_Scratch] = []

    def everything(self, threads: int, progress: OnShare = lambda _: None) -> Iterator[NeighbourBlock]:
        """Lists of the neighbours of all open vertices, block after block."""
        hubs, others = np.flatnonzero(self._hubs), np.flatnonzero(~self._hubs)
        # Those with the most users first: the more is known to stay, the fewer lists must be kept.
        lengths = np.diff(self._people.starts)
        others = others[np.argsort(-lengths[others], kind="stable")]
        blocks = [(hubs[first : first + _BLOCK], True) for first in range(0, len(hubs), _BLOCK)]
        later = [(others[first : first + _BLOCK], False) for first in range(0, len(others), _BLOCK)]
        done, total = 0, max(1, len(blocks) + len(later))
        for work in (blocks, later):  # neighbours of hubs stay, and are marked before the others are compared
            for block in _in_parallel(self._look, work, threads):
                yield block
                done += 1
                progress(done / total)

    def _look(self, work: tuple[NDArray[np.int64], bool]) -> NeighbourBlock:
        """The neighbours of a block of open vertices; empty for hubs, whose neighbours are marked as staying."""
        vertices, hubs = work
        scratch, index = self._borrow(), self._index.arrays
        if hubs:
            _lift(vertices, index, self._people, scratch.neighbours)
            self._unused.append(scratch)
            return NeighbourBlock(vertices[:0], np.empty(0, np.int64), np.empty(0, np.int32))
        sizes = np.full(len(vertices), -1, np.int64)
        parts, done = [], 0
        room = np.empty(_BUFFER, np.int32)
        while done < len(vertices):
            done, used = _list(vertices, done, index, self._people, self._limits, scratch, room, sizes)
            parts.append(room[:used].copy())
            if used == 0 and done < len(vertices):
                room = np.empty(2 * len(room), np.int32)
        self._unused.append(scratch)
        listed = sizes >= 0
        return NeighbourBlock(
            vertices[listed], sizes[listed], np.concatenate(parts) if parts else np.empty(0, np.int32)
        )

    def _borrow(self) -> _Scratch:
        try:
            return self._unused.pop()
        except IndexError:
            neighbours = np.empty(len(self._index), np.int32)
            order = np.empty(len(self._index) if self._limits.keep else 0, np.int64)
            return _Scratch(neighbours, np.full(self._number_of_users + 1, -1, np.int64), order)


def _in_parallel(work: Callable[[Any], Any], pieces: list[Any], threads: int) -> Iterator[Any]:
    """Results in order; no more pieces under way than threads can do soon."""
    waiting: list[Future[Any]] = []
    with ThreadPoolExecutor(threads) as pool:
        for piece in pieces:
            waiting.append(pool.submit(work, piece))
            if len(waiting) > 2 * threads:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def symmetric(graph: Graph) -> Graph:
    """The graph with each kept edge in the lists of both its ends, also where lists were cut short."""
    place = np.full(len(graph.stays), -1, np.int32)
    place[graph.open] = np.arange(len(graph.open), dtype=np.int32)
    source = np.repeat(np.arange(len(graph.open), dtype=np.int32), graph.neighbours.lengths)
    target = place[graph.neighbours.values]
    back = target >= 0
    row = np.concatenate([source, target[back]])
    number = np.concatenate([graph.neighbours.values, graph.open[source[back]].astype(np.int32)])
    return Graph(graph.stays, graph.open, sorted_sets(row, number, len(graph.open)), graph.users)


@kernel
def _lift(hubs, index, people, neighbours):  # type: ignore[no-untyped-def]
    for hub in hubs:
        count = neighbours_of(hub, index, neighbours)
        for i in range(count):
            people.stays[neighbours[i]] = True


@kernel
def _list(vertices, done, index, people, limits, scratch, room, sizes):  # type: ignore[no-untyped-def]
    """List neighbours of vertices from `done` on while there is room; returns the next vertex and the room used."""
    used = 0
    neighbours, starts = scratch.neighbours, people.starts
    for place in range(done, vertices.size):
        v = vertices[place]
        if people.stays[v]:
            continue
        count = neighbours_of(v, index, neighbours)
        if _users_that_stay(v, count, people, limits.most, scratch) >= limits.most:
            people.stays[v] = True
            continue
        if limits.keep and count > limits.keep:
            _keep_largest(neighbours, count, limits.keep, starts, scratch.order)
            count = limits.keep
        if count > room.size - used:
            return place, used
        for i in range(count):
            room[used] = neighbours[i]
            used += 1
        sizes[place] = count
    return vertices.size, used


@part
def _keep_largest(neighbours, count, keep, starts, order):  # type: ignore[no-untyped-def]
    """Keep the neighbours with most users, of equals the first, in ascending order."""
    for i in range(count):
        order[i] = (starts[neighbours[i]] - starts[neighbours[i] + 1]) * _PLACES + i
    sort_span(order, 0, count)
    for i in range(keep):
        order[i] = neighbours[order[i] % _PLACES]
    sort_span(order, 0, keep)
    for i in range(keep):
        neighbours[i] = order[i]


@part
def _users_that_stay(v, count, people, most, scratch):  # type: ignore[no-untyped-def]
    """Different users of v and of those of its neighbours that stay, counted up to `most`."""
    total = 0
    neighbours, seen = scratch.neighbours, scratch.seen
    for i in range(-1, count):
        other = v if i < 0 else neighbours[i]
        if i >= 0 and not people.stays[other]:
            continue
        for j in range(people.starts[other], people.starts[other + 1]):
            if seen[people.users[j]] != v:
                seen[people.users[j]] = v
                total += 1
        if total >= most:
            break
    return total
