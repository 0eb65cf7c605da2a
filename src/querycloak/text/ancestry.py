"""How deep concepts stand, and all that stands above each, level by level in whole arrays."""

from __future__ import annotations

import numpy as np

from querycloak.text.lists import Lists, Numbers, places


def longest_ways(parents_of: Lists) -> Numbers:
    """Steps from the roots to each concept, by the longest way; -1 for what is on a cycle or under one."""
    count = len(parents_of)
    children_of = parents_of.inverted(count)
    depths = np.full(count, -1, np.int32)
    waiting = parents_of.lengths.copy()
    frontier = np.flatnonzero(waiting == 0)
    depth = 0
    while len(frontier):
        depths[frontier] = depth
        reached, times = np.unique(children_of.take(frontier).values, return_counts=True)
        waiting[reached] -= times.astype(np.int32)
        frontier = reached[waiting[reached] == 0]
        depth += 1
    return depths


def all_above(parents_of: Lists, depths: Numbers) -> Lists:
    """Concept -> itself and all above it, ascending; level after level, each from its parents' lists."""
    count = len(parents_of)
    own, above = parents_of.owners().astype(np.int64), parents_of.values
    starts, lengths = np.zeros(count, np.int64), np.zeros(count, np.int64)
    values = np.empty(0, np.int64)
    for depth in range(int(depths.max(initial=0)) + 1):
        level = np.flatnonzero(depths == depth)
        edges = np.flatnonzero(depths[own] == depth)
        inherited = values[places(starts[above[edges]], lengths[above[edges]])]
        owners = np.concatenate([np.repeat(own[edges], lengths[above[edges]]), level])
        pairs = np.sort(owners * count + np.concatenate([inherited, level]))
        pairs = pairs[np.append(True, pairs[1:] != pairs[:-1])]
        owners, found = np.divmod(pairs, count)
        starts[level] = len(values) + np.searchsorted(owners, level)
        lengths[level] = np.bincount(owners, minlength=count)[level]
        values = np.concatenate([values, found])
    return Lists.of_lengths(lengths, values[places(starts, lengths)])
