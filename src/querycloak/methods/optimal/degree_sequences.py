"""Consistent output counts and numbers of pairs per user, computed from noisy tables alone (optimal.md, default, 4)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from querycloak.methods.optimal.objectives import FloatArray, Objective
from querycloak.privacy.sampling.randomness import IntArray


@dataclass(frozen=True, eq=False)
class Degrees:
    """Released frequency of each pair, and number of pairs of each synthetic user; both sums are equal."""

    pairs: IntArray
    users: IntArray


def reconcile(noisy: IntArray, sizes: IntArray, objective: Objective) -> Degrees:
    """Counts that the objective prefers, and users to hold them; zeros and no users if noise left no user or pair."""
    histogram = np.maximum(sizes, 0)
    people = int(histogram.sum())
    most = np.clip(noisy, 0, people)
    # A user holds at most as many pairs as the histogram has bins.
    available = min(int(most.sum()), people * histogram.size)
    if available == 0:
        return Degrees(np.zeros_like(noisy), np.zeros(0, dtype=np.int64))
    total = available if objective.total is None else min(objective.total, available)
    counts = allocate(objective, most, total)
    # A smaller output has fewer users, not fewer pairs of each user: the distribution of pairs per user is kept.
    people = min(total, max(int(counts.max()), -(-people * total // available)))
    chosen = apportion(people, histogram.astype(np.float64), np.full(histogram.size, people))
    wanted = np.repeat(np.arange(1, histogram.size + 1), chosen)[::-1]
    largest = min(int((counts > 0).sum()), histogram.size)
    return Degrees(counts, graphical(counts, _summing_to(total, wanted, largest)))


def allocate(objective: Objective, most: IntArray, total: int) -> IntArray:
    """The best counts with this total, none above `most`: steps of one, by falling gain.

    Steps of equal gain are divided in proportion to `most`.
    """
    goal = np.maximum(objective.goal, 0.0)
    ones = np.minimum(1, most)
    marks = [ones, np.floor(goal).astype(np.int64), np.ceil(goal).astype(np.int64)]
    edges = np.sort(np.stack([np.zeros_like(most), *(np.minimum(mark, most) for mark in marks), most]), axis=0)
    counts = np.zeros_like(most)
    gains = np.stack([_gain(objective, low) for low in edges[:-1]])
    widths = np.diff(edges, axis=0)
    for gain in np.unique(gains[widths > 0])[::-1]:
        level = np.where(gains == gain, widths, 0).sum(axis=0)
        counts += apportion(min(total - int(counts.sum()), int(level.sum())), most.astype(np.float64), level)
    return counts


def _gain(objective: Objective, count: IntArray) -> FloatArray:
    towards = np.where(objective.goal >= 0, np.abs(count - objective.goal) - np.abs(count + 1 - objective.goal), 0.0)
    # Rounding makes equal gains equal floats.
    gain: FloatArray = objective.size + objective.diversity * (count == 0) + objective.distance * towards
    return np.round(gain, 12)


def apportion(number: int, share: FloatArray, most: IntArray) -> IntArray:
    """Divide a number of units in proportion to shares, by largest remainders, with a limit for each."""
    given = np.zeros(most.size, dtype=np.int64)
    share = np.maximum(share, 0.0)
    while (left := min(number, int(most.sum())) - int(given.sum())) > 0:
        room = most - given
        weight = np.where(room > 0, share, 0.0)
        if weight.sum() == 0:
            weight = (room > 0).astype(np.float64)
        wanted = np.minimum(left * weight / weight.sum(), room)
        more = np.floor(wanted).astype(np.int64)
        rest = left - int(more.sum())
        # The largest remainders get one more each, where there is room.
        order = np.argsort(more - wanted, kind="stable")
        more[order[((room - more)[order] > 0) & (weight[order] > 0)][:rest]] += 1
        given += more
    return given


def _summing_to(total: int, sizes: IntArray, most: int) -> IntArray:
    """The sizes, between 1 and `most`, changed in proportion so that they sum to the total."""
    above_one = apportion(total - sizes.size, (sizes - 1).astype(np.float64), np.full(sizes.size, most - 1))
    return np.sort(1 + above_one)[::-1]


def graphical(counts: IntArray, sizes: IntArray) -> IntArray:
    """The sizes, evened as little as possible until each count can consist of different users (Gale and Ryser)."""
    if fits(counts, sizes):
        return sizes
    # The most even sizes always fit. Bisection finds the highest cap that fits.
    low, high = int(sizes.sum()) // sizes.size, int(sizes.max())
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(counts, _evened(sizes, middle)) else (low, middle)
    base, extra = divmod(int(sizes.sum()), sizes.size)
    capped = _evened(sizes, low) if low > base else sizes
    return capped if fits(counts, capped) else base + (np.arange(sizes.size) < extra).astype(np.int64)


def fits(counts: IntArray, sizes: IntArray) -> bool:
    """True if, for each k, the k largest sizes sum to at most the sum of min(count, k) (Gale and Ryser)."""
    above = np.bincount(counts, minlength=sizes.size + 1)
    # Numbers of counts that are at least 1, 2, ...: the pairs that the first, second, ... user can hold.
    at_least = counts.size - np.cumsum(above)[: sizes.size]
    room = np.cumsum(at_least)
    return bool((np.cumsum(np.sort(sizes)[::-1]) <= room).all() and int(counts.sum()) == int(sizes.sum()))


def _evened(sizes: IntArray, cap: int) -> IntArray:
    """The capped sizes; the smallest are raised by the sum that the cap removes."""
    capped = np.sort(np.minimum(sizes, cap))
    surplus = int(sizes.sum() - capped.sum())
    # Raise the smallest sizes to one level: their number, and the level.
    cost = np.arange(1, capped.size + 1) * capped - np.cumsum(capped)
    number = int(np.searchsorted(cost, surplus, side="right"))
    raised = capped.copy()
    base, extra = divmod(int(capped[:number].sum()) + surplus, number)
    raised[:number] = base
    raised[:extra] += 1
    return np.sort(raised)[::-1]
