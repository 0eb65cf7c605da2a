"""Whole output counts: the paper's elimination, filling in an order, and exchanges (optimal.md, step 3).

Nothing here can break a constraint: a unit is added only where every row has room for it, in whole numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from querycloak.methods.optimal.objectives import FloatArray, Objective
from querycloak.methods.optimal.packing import Packing
from querycloak.methods.optimal.steering import below
from querycloak.privacy.randomness import IntArray

NO_TOTAL = 1 << 62
_TRIES = 24


class Rows(NamedTuple):
    """A packing as compiled code takes it."""

    starts: IntArray
    row: IntArray
    weight: IntArray
    capacity: IntArray
    most: IntArray


class Worth(NamedTuple):
    """An objective as compiled code takes it."""

    size: float
    diversity: FloatArray
    distance: float
    goal: FloatArray


def heaviest(packing: Packing) -> IntArray:
    """The largest weight that a pair puts on a user."""
    weight = np.where(packing.row < packing.users, packing.weight, 0)
    return np.maximum.reduceat(weight, packing.starts[:-1]) if packing.pairs else np.zeros(0, dtype=np.int64)


def eliminate(packing: Packing) -> IntArray:
    """The paper's SPE: drop the pair with the largest t until all constraints hold.

    The t never change, so this is the longest beginning, lightest pairs first, that fits.
    """
    counts = np.zeros(packing.pairs, dtype=np.int64)
    _fill_until_full(np.argsort(heaviest(packing), kind="stable"), counts, _rows(packing))
    return counts


def fill(packing: Packing, objective: Objective, order: IntArray, begun: IntArray, *, gainful: bool = True) -> IntArray:
    """Add units pair after pair while they fit and, if `gainful`, while each is worth something."""
    counts = begun.copy()
    least = 0.0 if gainful else -np.inf
    _fill(order, counts, packing.loads(counts), _total(objective), least, _rows(packing), _worth(objective))
    return counts


def exchange(packing: Packing, objective: Objective, begun: IntArray, rounds: int) -> IntArray:
    """Take one unit out and put others in its place, so many times; never for a lower value."""
    counts = begun.copy()
    if not counts.any():
        return counts
    by_row = np.argsort(packing.row, kind="stable")
    owner = np.repeat(np.arange(packing.pairs), np.diff(packing.starts))[by_row]
    row_starts = np.searchsorted(packing.row[by_row], np.arange(packing.capacity.size + 1))
    _exchange(
        counts,
        packing.loads(counts),
        _total(objective) - int(counts.sum()),
        objective.total_exact,
        rounds,
        (row_starts, owner),
        _rows(packing),
        _worth(objective),
    )
    return counts


def _total(objective: Objective) -> int:
    return NO_TOTAL if objective.total is None else objective.total


def _rows(packing: Packing) -> Rows:
    return Rows(packing.starts, packing.row, packing.weight, packing.capacity, packing.most)


def _worth(objective: Objective) -> Worth:
    return Worth(objective.size, objective.diversity, objective.distance, objective.goal)


@njit(cache=True, nogil=True, inline="always")
def _gain(pair, count, worth):  # type: ignore[no-untyped-def]
    """What one unit more than `count` of a pair is worth."""
    gain = worth.size
    if count == 0:
        gain += worth.diversity[pair]
    goal = worth.goal[pair]
    if goal >= 0:
        gain += worth.distance * (abs(count - goal) - abs(count + 1 - goal))
    return gain


@njit(cache=True, nogil=True, inline="always")
def _fits(pair, load, rows):  # type: ignore[no-untyped-def]
    fitting = True
    for i in range(rows.starts[pair], rows.starts[pair + 1]):
        if load[rows.row[i]] + rows.weight[i] > rows.capacity[rows.row[i]]:
            fitting = False
            break
    return fitting


@njit(cache=True, nogil=True, inline="always")
def _put(pair, sign, counts, load, rows):  # type: ignore[no-untyped-def]
    counts[pair] += sign
    for i in range(rows.starts[pair], rows.starts[pair + 1]):
        load[rows.row[i]] += sign * rows.weight[i]


@njit(cache=True, nogil=True)
def _fill_until_full(order, counts, rows):  # type: ignore[no-untyped-def]
    load = np.zeros(rows.capacity.size, np.int64)
    for pair in order:
        if not _fits(pair, load, rows):
            break
        _put(pair, 1, counts, load, rows)


@njit(cache=True, nogil=True)
def _fill(order, counts, load, total, least, rows, worth):  # type: ignore[no-untyped-def]
    left = total - counts.sum()
    for pair in order:
        while left > 0 and counts[pair] < rows.most[pair]:
            if _gain(pair, counts[pair], worth) <= least or not _fits(pair, load, rows):
                break
            _put(pair, 1, counts, load, rows)
            left -= 1


@njit(cache=True, nogil=True)
def _exchange(counts, load, left, exact, rounds, by_row, rows, worth):  # type: ignore[no-untyped-def]
    state = np.array([np.uint64(1)], np.uint64)
    chosen, place = np.empty(counts.size, np.int64), np.full(counts.size, -1, np.int64)
    held = 0
    for pair in np.flatnonzero(counts):
        held = _enter(pair, chosen, place, held)
    added = np.empty(_TRIES + 1, np.int64)
    for _ in range(rounds):
        out = chosen[below(state, held)]
        lost = _gain(out, counts[out] - 1, worth)
        _put(out, -1, counts, load, rows)
        number, won = _refill(out, lost, left + 1, exact, state, added, counts, load, by_row, rows, worth)
        if won < lost or (exact and number < left + 1):
            for i in range(number):
                _put(added[i], -1, counts, load, rows)
            _put(out, 1, counts, load, rows)
            continue
        left += 1 - number
        for i in range(number):
            held = _enter(added[i], chosen, place, held)
        if counts[out] == 0:
            held = _leave(out, chosen, place, held)


@njit(cache=True, nogil=True)
def _refill(out, lost, room, exact, state, added, counts, load, by_row, rows, worth):  # type: ignore[no-untyped-def]
    """Put in what fits now that a unit of `out` is gone: how many units, and what they are worth together."""
    row_starts, owner = by_row
    number, won = 0, 0.0
    for attempt in range(_TRIES + 1):
        # Only who shares a row with the unit taken out has gained room; its own pair comes last.
        pair = out
        if attempt < _TRIES:
            one = rows.row[rows.starts[out] + below(state, rows.starts[out + 1] - rows.starts[out])]
            pair = owner[row_starts[one] + below(state, row_starts[one + 1] - row_starts[one])]
            if pair == out:
                continue
        if number >= room or counts[pair] >= rows.most[pair]:
            continue
        gain = _gain(pair, counts[pair], worth)
        # Where the total is exact, one unit replaces one: it must be worth as much.
        worthwhile = gain > 0 if not exact else pair == out or gain >= lost
        if worthwhile and _fits(pair, load, rows):
            _put(pair, 1, counts, load, rows)
            won += gain
            added[number] = pair
            number += 1
    return number, won


@njit(cache=True, nogil=True)
def _enter(pair, chosen, place, held):  # type: ignore[no-untyped-def]
    """Put a pair on the list of those with a count, unless it is there; how long the list is."""
    if place[pair] >= 0:
        return held
    place[pair] = held
    chosen[held] = pair
    return held + 1


@njit(cache=True, nogil=True)
def _leave(pair, chosen, place, held):  # type: ignore[no-untyped-def]
    last = chosen[held - 1]
    chosen[place[pair]] = last
    place[last] = place[pair]
    place[pair] = -1
    return held - 1
