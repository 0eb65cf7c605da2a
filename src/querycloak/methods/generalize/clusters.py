"""Concepts cut so that whatever remains has k users (generalize.md, steps 2 and 3)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.methods.rows import Rows
from querycloak.words.taxonomy import Taxonomy

Numbers = NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Tree:
    """A taxonomy in which each concept has its first parent only; the root is its own."""

    parents: Numbers
    root: int

    @classmethod
    def of(cls, taxonomy: Taxonomy) -> Tree:
        """The tree of a taxonomy."""
        lists = taxonomy.parents_of
        first = lists.values[np.minimum(lists.starts[:-1], max(0, len(lists.values) - 1))]
        parents = first.astype(np.int32)
        parents[taxonomy.root] = taxonomy.root
        return cls(parents, taxonomy.root)

    @cached_property
    def top_down(self) -> NDArray[np.int64]:
        """Every concept after its parent."""
        depths, above = np.zeros(len(self.parents), np.int32), self.parents
        while (above != self.root).any():
            depths += above != self.root
            above = self.parents[above]
        depths += np.arange(len(self.parents)) != self.root
        return np.argsort(depths, kind="stable")

    @cached_property
    def leaves_under(self) -> Numbers:
        """How many leaves stand under each concept; a leaf counts as one."""
        inner = np.zeros(len(self.parents), np.bool_)
        inner[np.delete(self.parents, self.root)] = True
        counts = (~inner).astype(np.int32)
        _add_up(self.top_down, self.parents, self.root, counts)
        return counts


def cut(tree: Tree, concepts_of_users: Rows, least: int) -> Numbers:
    """What each concept becomes: the deepest concept above it or itself that is reached, or -1 if none is."""
    users = np.zeros(len(tree.parents), np.int64)
    _count_users(concepts_of_users.starts, concepts_of_users.data, tree.parents, tree.root, users)
    rest = np.zeros(len(tree.parents), np.int64)
    _count_rest(concepts_of_users.starts, concepts_of_users.data, tree.parents, tree.root, users, least, rest)
    becomes: Numbers = _reached(tree.top_down, tree.parents, tree.root, users, rest, least)
    return becomes


@njit(cache=True, nogil=True)
def _add_up(top_down, parents, root, counts):  # type: ignore[no-untyped-def]
    for i in range(top_down.size - 1, -1, -1):
        if top_down[i] != root:
            counts[parents[top_down[i]]] += counts[top_down[i]]


@njit(cache=True, nogil=True)
def _count_users(starts, data, parents, root, users):  # type: ignore[no-untyped-def]
    """Different users at or below each concept: a walk up ends where the same user has passed."""
    passed = np.full(parents.size, -1, np.int64)
    for user in range(starts.size - 1):
        for i in range(starts[user], starts[user + 1]):
            concept = data[i]
            while passed[concept] != user:
                passed[concept] = user
                users[concept] += 1
                if concept == root:
                    break
                concept = parents[concept]


@njit(cache=True, nogil=True)
def _count_rest(starts, data, parents, root, users, least, rest):  # type: ignore[no-untyped-def]
    """Different users at each concept itself, or below a child of too few users."""
    passed, rested = np.full(parents.size, -1, np.int64), np.full(parents.size, -1, np.int64)
    for user in range(starts.size - 1):
        for i in range(starts[user], starts[user + 1]):
            concept, in_rest = data[i], True
            while True:
                if in_rest and rested[concept] != user:
                    rested[concept] = user
                    rest[concept] += 1
                if passed[concept] == user or concept == root:
                    break
                passed[concept] = user
                in_rest = users[concept] < least
                concept = parents[concept]


@njit(cache=True, nogil=True)
def _reached(top_down, parents, root, users, rest, least):  # type: ignore[no-untyped-def]
    becomes = np.full(parents.size, -1, np.int32)
    if users[root] < least:
        return becomes
    kept_back = np.full(parents.size, -1, np.int32)  # of each concept the child with the fewest users, but enough
    for child in range(parents.size):
        parent = parents[child]
        if child == root or users[child] < least or rest[parent] == 0 or rest[parent] >= least:
            continue
        if kept_back[parent] < 0 or users[child] < users[kept_back[parent]]:
            kept_back[parent] = child
    for concept in top_down:
        parent = parents[concept]
        if concept == root:
            becomes[concept] = root
        elif users[concept] >= least and becomes[parent] == parent and kept_back[parent] != concept:
            becomes[concept] = concept
        else:
            becomes[concept] = becomes[parent]
    return becomes
