"""Generalized k-cores, one peeling for all k (affinity.md, step 5).

The degree of a vertex in a set is the number of different users of it and its neighbours in the set. Counting them
anew at every step would be slow, so each vertex has a lower bound of its degree: the last count less the users of
what has been removed since. Only a vertex whose bound has come down to the level is counted again.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.methods.affinity.graph import Graph
from querycloak.words.compiled import kernel, part


def core_degrees(graph: Graph, number_of_users: int, most: int) -> NDArray[np.int32]:
    """The largest k, up to `most`, for which each vertex lies in a generalized k-core.

    Uses up the graph's lists of neighbours: they may be too large to be copied.
    """
    degrees = np.where(graph.stays, most, 0).astype(np.int32)
    place = np.full(len(graph.stays), -1, np.int32)
    place[graph.open] = np.arange(len(graph.open), dtype=np.int32)
    neighbours = graph.neighbours
    degrees[graph.open] = _peel(
        graph.open,
        place,
        neighbours.starts,
        neighbours.values,
        graph.users.starts,
        graph.users.values,
        np.full(number_of_users + 1, -1, np.int64),
        most,
    )
    return degrees


@njit(cache=True, nogil=True)
def _peel(vertices, place, starts, neighbours, user_starts, users, seen, most):  # type: ignore[no-untyped-def]
    count = vertices.size
    degrees = np.full(count, most, np.int32)
    own = np.empty(count, np.int64)
    bound = np.empty(count, np.int64)
    left = np.empty(count, np.int64)  # how many neighbours are still listed: removed ones are dropped on the way
    removed = np.zeros(count, np.bool_)
    head = np.full(most + 1, -1, np.int64)
    following, before = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    for i in range(count):
        v = vertices[i]
        own[i] = user_starts[v + 1] - user_starts[v]
        bound[i] = min(own[i], most)
        left[i] = starts[i + 1] - starts[i]
        _enter(i, bound[i], head, following, before)
    stamp = 0
    for level in range(most):
        while head[level] >= 0:
            i = head[level]
            _leave(i, level, head, following, before)
            # Counting far beyond the level is not needed yet; doubling keeps the number of counts small.
            enough = min(most, 2 * level + 16)
            left[i], degree = _count(vertices[i], place, starts[i], left[i], neighbours, user_starts, users, removed, seen, stamp, enough)  # noqa: E501  # fmt: skip
            stamp += 1
            if degree > level:
                bound[i] = degree
                _enter(i, degree, head, following, before)
                continue
            removed[i] = True
            degrees[i] = level
            for at in range(starts[i], starts[i] + left[i]):
                j = place[neighbours[at]]
                if j >= 0 and not removed[j]:
                    lower = max(bound[j] - own[i], own[j])
                    old, new = min(max(bound[j], level), most), min(max(lower, level), most)
                    bound[j] = lower
                    if new != old:
                        _leave(j, old, head, following, before)
                        _enter(j, new, head, following, before)
    return degrees


@kernel
def _count(v, place, start, left, neighbours, user_starts, users, removed, seen, stamp, enough):  # type: ignore[no-untyped-def]
    """Drop removed neighbours from the list; count the different users of the rest and of v, up to `enough`."""
    total = 0
    for j in range(user_starts[v], user_starts[v + 1]):
        seen[users[j]] = stamp
        total += 1
    kept = start
    for at in range(start, start + left):
        other = neighbours[at]
        if place[other] >= 0 and removed[place[other]]:
            continue
        neighbours[kept] = other
        kept += 1
        if total < enough:
            for j in range(user_starts[other], user_starts[other + 1]):
                if seen[users[j]] != stamp:
                    seen[users[j]] = stamp
                    total += 1
    return kept - start, min(total, enough)


@part
def _enter(i, value, head, following, before):  # type: ignore[no-untyped-def]
    following[i], before[i] = head[value], -1
    if head[value] >= 0:
        before[head[value]] = i
    head[value] = i


@part
def _leave(i, value, head, following, before):  # type: ignore[no-untyped-def]
    if before[i] >= 0:
        following[before[i]] = following[i]
    else:
        head[value] = following[i]
    if following[i] >= 0:
        before[following[i]] = before[i]
