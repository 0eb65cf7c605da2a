"""Generalized k-cores, one peeling for all k (affinity.md, step 5), and the anonymity degree of every query.

Degrees are true figures, private until something is released.

The degree of a vertex in a set is the number of different users of it and its neighbours in the set. Counting them
anew at every step would be slow, so each vertex has a lower bound of its degree: the last count less the users of
what has been removed since. Only a vertex whose bound has come down to the level is counted again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import ibis.expr.types as ir
import numpy as np
from numpy.typing import NDArray

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.affinity.cosine import Index
from querycloak.methods.affinity.expansion import UNEXPANDABLE, Expanded, expand
from querycloak.methods.affinity.graph import Graph, OnShare, build_graph, symmetric
from querycloak.methods.affinity.ngram_concepts import Concepts, mine_concepts
from querycloak.methods.distinct_queries import sorted_uses
from querycloak.text.compiled import kernel, part
from querycloak.text.lists import Lists

OnStep = Callable[[str, float], None]


@dataclass(frozen=True)
class Expansion:
    """A log's queries as concepts: all that degrees depend on, for any theta."""

    concepts: Concepts
    expanded: Expanded


def words_of(log: SearchLog, uses: ir.Table) -> ir.Table:
    """The uses with single blanks between words, as n-grams are counted over."""
    if log.source.choices.normalise:
        return uses
    single = uses.query.re_replace(" +", " ").re_replace("^ | $", "")
    return uses.mutate(query=single)


def expand_log(
    log: SearchLog, uses: ir.Table, concept_users: float, min_word_users: int, progress: OnStep = lambda *_: None
) -> Expansion:
    """Find the concepts and expand every query."""
    progress("counting phrases", 0.0)
    concepts = mine_concepts(log.engine, words_of(log, uses), concept_users, min_word_users)
    progress("expanding queries", 0.0)
    return Expansion(concepts, expand(log.engine.stream(sorted_uses(uses)), concepts))


@dataclass(frozen=True)
class Cores:
    """The degree of each vertex, up to `most`, in the order of the index."""

    index: Index
    users: Lists
    degrees: NDArray[np.int32]

    @classmethod
    def of(
        cls,
        expanded: Expanded,
        weights: NDArray[np.int64],
        theta: int,
        most: int,
        *,
        max_neighbours: int | None = None,
        threads: int | None = None,
        progress: OnShare = lambda _: None,
    ) -> Cores:
        """Compare, and peel."""
        index = Index.of(expanded.concepts, weights, theta)
        users = expanded.users.take(index.order)
        graph = build_graph(
            index,
            users,
            expanded.number_of_users,
            most,
            max_neighbours=max_neighbours,
            threads=threads,
            progress=progress,
        )
        whole = graph if max_neighbours is None else symmetric(graph)
        return cls(index, users, core_degrees(whole, expanded.number_of_users, most))

    def of_queries(self, expanded: Expanded) -> NDArray[np.int32]:
        """Degree of each query: 0 for dropped queries, the number of their own users for those without concepts."""
        of_vertex = np.zeros(len(self.index), np.int32)
        of_vertex[self.index.order] = self.degrees
        degrees = np.where(expanded.vertex == UNEXPANDABLE, expanded.own_users, 0).astype(np.int32)
        has_vertex = expanded.vertex >= 0
        degrees[has_vertex] = of_vertex[expanded.vertex[has_vertex]]
        return degrees


def degrees_at(
    expansion: Expansion,
    theta: int,
    most: int,
    *,
    max_neighbours: int | None = None,
    threads: int | None = None,
    progress: OnShare = lambda _: None,
) -> NDArray[np.int32]:
    """Degree of each query; those of expandable queries are counted up to `most`."""
    weights = expansion.concepts.weights
    cores = Cores.of(
        expansion.expanded, weights, theta, most, max_neighbours=max_neighbours, threads=threads, progress=progress
    )
    return cores.of_queries(expansion.expanded)


Places = NDArray[np.int64]


class _Edges(NamedTuple):
    """Removable vertices, the index of each among them (-1 for permanent ones), and their neighbours."""

    vertices: NDArray[np.integer]
    place: NDArray[np.int32]
    starts: Places
    neighbours: NDArray[np.int32]
    left: Places
    """Number of neighbours still listed: removed ones are dropped on the way."""
    removed: NDArray[np.bool_]


class _Users(NamedTuple):
    """The users of every vertex, and when each user was last counted."""

    starts: Places
    values: NDArray[np.int32]
    seen: Places


class _Levels(NamedTuple):
    """Own users and lower bounds, by place; and the places of each bound in a chain: its head, then one by one."""

    own: Places
    bound: Places
    head: Places
    following: Places
    before: Places


def core_degrees(graph: Graph, number_of_users: int, most: int) -> NDArray[np.int32]:
    """The largest k, up to `most`, for which each vertex lies in a generalized k-core.

    Uses up the graph's lists of neighbours: they may be too large to be copied.
    """
    degrees, count = np.where(graph.stays, most, 0).astype(np.int32), len(graph.open)
    place = np.full(len(graph.stays), -1, np.int32)
    place[graph.open] = np.arange(count, dtype=np.int32)
    lists, users = graph.neighbours, graph.users
    edges = _Edges(graph.open, place, lists.starts, lists.values, np.diff(lists.starts), np.zeros(count, np.bool_))
    people = _Users(users.starts, users.values, np.full(number_of_users + 1, -1, np.int64))
    own = users.lengths[graph.open].astype(np.int64)
    chains = (np.full(most + 1, -1, np.int64), np.full(count, -1, np.int64), np.full(count, -1, np.int64))
    peeled = np.full(count, most, np.int32)
    _peel(edges, people, _Levels(own, np.minimum(own, most), *chains), most, peeled)
    degrees[graph.open] = peeled
    return degrees


@kernel
def _peel(edges, users, levels, most, degrees):  # type: ignore[no-untyped-def]
    bound, own, removed = levels.bound, levels.own, edges.removed
    for i in range(bound.size):
        _enter(i, bound[i], levels)
    stamp = 0
    for level in range(most):
        while levels.head[level] >= 0:
            i = levels.head[level]
            _leave(i, level, levels)
            # Counting far beyond the level is not needed yet; doubling keeps the number of counts small.
            degree = _count(i, edges, users, stamp, min(most, 2 * level + 16))
            stamp += 1
            if degree > level:
                bound[i] = degree
                _enter(i, degree, levels)
                continue
            removed[i] = True
            degrees[i] = level
            for at in range(edges.starts[i], edges.starts[i] + edges.left[i]):
                j = edges.place[edges.neighbours[at]]
                if j >= 0 and not removed[j]:
                    lower = max(bound[j] - own[i], own[j])
                    old, new = min(max(bound[j], level), most), min(max(lower, level), most)
                    bound[j] = lower
                    if new != old:
                        _leave(j, old, levels)
                        _enter(j, new, levels)


@part
def _count(i, edges, users, stamp, enough):  # type: ignore[no-untyped-def]
    """Drop removed neighbours from a list; count the different users of the rest and of the vertex, up to `enough`."""
    v, start, total = edges.vertices[i], edges.starts[i], 0
    for j in range(users.starts[v], users.starts[v + 1]):
        users.seen[users.values[j]] = stamp
        total += 1
    kept = start
    for at in range(start, start + edges.left[i]):
        other = edges.neighbours[at]
        if edges.place[other] >= 0 and edges.removed[edges.place[other]]:
            continue
        edges.neighbours[kept] = other
        kept += 1
        if total < enough:
            for j in range(users.starts[other], users.starts[other + 1]):
                if users.seen[users.values[j]] != stamp:
                    users.seen[users.values[j]] = stamp
                    total += 1
    edges.left[i] = kept - start
    return min(total, enough)


@part
def _enter(i, value, levels):  # type: ignore[no-untyped-def]
    levels.following[i], levels.before[i] = levels.head[value], -1
    if levels.head[value] >= 0:
        levels.before[levels.head[value]] = i
    levels.head[value] = i


@part
def _leave(i, value, levels):  # type: ignore[no-untyped-def]
    if levels.before[i] >= 0:
        levels.following[levels.before[i]] = levels.following[i]
    else:
        levels.head[value] = levels.following[i]
    if levels.following[i] >= 0:
        levels.before[levels.following[i]] = levels.before[i]
