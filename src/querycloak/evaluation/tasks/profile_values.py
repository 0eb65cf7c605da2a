"""The values of measures of users' interests, from concepts before and after: private output."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from querycloak.text.taxonomy import Taxonomy

Ints = NDArray[np.integer]
Floats = NDArray[np.float64]
_PAIRS_AT_ONCE = 1 << 18


def topic_profiles(owners: Ints, topics: Ints, users: int, count: int, weights: Ints | None = None) -> Floats:
    """For each user the share of each topic (0 is other) among the queries, or among their weights."""
    cells = owners.astype(np.int64) * (count + 1) + topics
    table = np.bincount(cells, weights, minlength=users * (count + 1)).reshape(users, count + 1).astype(float)
    totals = table.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(table, totals, out=np.zeros_like(table), where=totals > 0))


def on_topics(profiles: Floats) -> Floats:
    """The same over the named topics alone, as if nothing else had been asked; empty where nothing was on a topic."""
    named = profiles[:, 1:]
    totals = named.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(named, totals, out=np.zeros_like(named), where=totals > 0))


def divergences(before: Floats, after: Floats) -> Floats:
    """The Jensen-Shannon divergence, base 2, of each row; an empty profile is as far as can be from any other."""
    middle = (before + after) / 2
    found = (_relative_entropy(before, middle) + _relative_entropy(after, middle)) / 2
    empty = (before.sum(axis=1) == 0) != (after.sum(axis=1) == 0)
    return np.where(empty, 1.0, np.clip(found, 0.0, 1.0))


def _relative_entropy(shares: Floats, middle: Floats) -> Floats:
    ratio = np.divide(shares, middle, out=np.ones_like(shares), where=shares > 0)
    return np.asarray((shares * np.log2(ratio)).sum(axis=1))


def profile_loss(before: Floats, after: Floats) -> float:
    """The mean divergence over users; exactly 0 where all profiles are equal."""
    return float(divergences(before, after).mean()) if len(before) else 0.0


def profile_loss_on_topics(before: Floats, after: Floats) -> float:
    """The mean divergence over users, on the named topics alone."""
    return profile_loss(on_topics(before), on_topics(after))


def pooled_loss(before: Floats, after: Floats) -> float | None:
    """The divergence of two profiles, from how often each topic (0 is other) occurs; nothing where one is empty."""
    first, second = (np.asarray(each, np.float64).reshape(1, -1) for each in (before, after))
    if first.sum() == 0 or second.sum() == 0:
        return None
    return float(divergences(first / first.sum(), second / second.sum())[0])


def pooled_loss_on_topics(before: Floats, after: Floats) -> float | None:
    """The same without what lies under no topic."""
    return pooled_loss(np.asarray(before)[1:], np.asarray(after)[1:])


def kept_share(before: Ints, after: Ints) -> float:
    """The share of queries whose concept is the one that they had."""
    return float((np.asarray(before) == np.asarray(after)).mean()) if len(before) else 1.0


def similarities(taxonomy: Taxonomy, left: Ints, right: Ints) -> Floats:
    """The similarity of each pair of concepts of one taxonomy."""
    found = np.empty(len(left))
    for first in range(0, len(left), _PAIRS_AT_ONCE):
        some = slice(first, first + _PAIRS_AT_ONCE)
        found[some] = _similarities(taxonomy, left[some], right[some])
    return found


def _similarities(taxonomy: Taxonomy, left: Ints, right: Ints) -> Floats:
    above = taxonomy.ancestors_of
    pairs = np.arange(len(left), dtype=np.int64) * len(taxonomy)
    mine, theirs = above.take(left), above.take(right)
    own = np.repeat(pairs, mine.lengths) + mine.values
    others = np.repeat(pairs, theirs.lengths) + theirs.values
    common = np.intersect1d(own, others, assume_unique=True) // len(taxonomy)
    shared = np.bincount(common, minlength=len(left))
    union = mine.lengths + theirs.lengths - shared
    return np.asarray(1 - np.log2(1 + (union - shared) / union))


def closeness(taxonomy: Taxonomy, before: Ints, after: Ints) -> float:
    """The mean similarity between what was asked and what stands for it."""
    return float(similarities(taxonomy, before, after).mean()) if len(before) else 1.0
