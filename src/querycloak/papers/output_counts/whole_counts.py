"""Whole output counts: the paper's elimination, filling in an order, and exchanges (optimal.md, step 3).

Nothing here can break a constraint: a unit is added only if it fits into every row, in whole numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from querycloak.methods.optimal.made_up_users import below
from querycloak.methods.optimal.objectives import FloatArray, Objective
from querycloak.papers.output_counts.constraints import Packing
from querycloak.privacy.sampling.randomness import IntArray

NO_TOTAL = 1 << 62
_TRIES, _MOST_OUT = 24, 3
_NO_LOSS = 1e-12


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
    """Take one unit out and put others in its place, this many times; never for a lower value."""
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
    """Gain by one unit more than `count` of a pair."""
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
    size = 0
    for pair in np.flatnonzero(counts):
        size = _enter(pair, chosen, place, size)
    out, added = np.empty(_MOST_OUT, np.int64), np.empty(_TRIES + _MOST_OUT, np.int64)
    for _ in range(rounds):
        taken, lost = _take_out(out, chosen, size, state, counts, load, by_row, rows, worth)
        room = left + taken
        number, won = _refill(out[:taken], lost / taken, room, exact, state, added, counts, load, by_row, rows, worth)
        if won < lost - _NO_LOSS or (exact and number < room):
            for i in range(number):
                _put(added[i], -1, counts, load, rows)
            for i in range(taken):
                _put(out[i], 1, counts, load, rows)
            continue
        left = room - number
        for i in range(number):
            size = _enter(added[i], chosen, place, size)
        for i in range(taken):
            if counts[out[i]] == 0:
                size = _leave(out[i], chosen, place, size)


@njit(cache=True, nogil=True)
def _near(pair, state, by_row, rows):  # type: ignore[no-untyped-def]
    """Any pair that shares a row with this one."""
    row_starts, owner = by_row
    one = rows.row[rows.starts[pair] + below(state, rows.starts[pair + 1] - rows.starts[pair])]
    return owner[row_starts[one] + below(state, row_starts[one + 1] - row_starts[one])]


@njit(cache=True, nogil=True)
def _take_out(out, chosen, size, state, counts, load, by_row, rows, worth):  # type: ignore[no-untyped-def]
    """Take out one unit, and perhaps others near it: how many, and what they were worth together."""
    taken, lost = 0, 0.0
    for attempt in range(1 + below(state, _MOST_OUT)):
        pair = chosen[below(state, size)] if attempt == 0 else _near(out[0], state, by_row, rows)
        if counts[pair] == 0:
            continue
        lost += _gain(pair, counts[pair] - 1, worth)
        _put(pair, -1, counts, load, rows)
        out[taken] = pair
        taken += 1
    return taken, lost


@njit(cache=True, nogil=True)
def _refill(out, lost, room, exact, state, added, counts, load, by_row, rows, worth):  # type: ignore[no-untyped-def]
    """Put in what fits now that units are gone: how many, and what they are worth together."""
    number, won = 0, 0.0
    for attempt in range(_TRIES + out.size):
        # Only who shares a row with a unit taken out has gained room; those themselves come last.
        last = attempt >= _TRIES
        pair = out[attempt - _TRIES] if last else _near(out[below(state, out.size)], state, by_row, rows)
        if number >= room or counts[pair] >= rows.most[pair]:
            continue
        gain = _gain(pair, counts[pair], worth)
        # Where the total is exact, as many units must come in as went out: none that is worth less, if it can be.
        worthwhile = gain > 0 if not exact else last or gain >= lost
        if worthwhile and _fits(pair, load, rows):
            _put(pair, 1, counts, load, rows)
            won += gain
            added[number] = pair
            number += 1
    return number, won


@njit(cache=True, nogil=True)
def _enter(pair, chosen, place, size):  # type: ignore[no-untyped-def]
    """Put a pair on the list of those with a count, unless it is there; how long the list is."""
    if place[pair] >= 0:
        return size
    place[pair] = size
    chosen[size] = pair
    return size + 1


@njit(cache=True, nogil=True)
def _leave(pair, chosen, place, size):  # type: ignore[no-untyped-def]
    """Strike a pair off that list, unless it is off already; how long the list is."""
    if place[pair] < 0:
        return size
    last = chosen[size - 1]
    chosen[place[pair]] = last
    place[last] = place[pair]
    place[pair] = -1
    return size - 1
