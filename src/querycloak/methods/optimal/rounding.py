"""Whole output counts: the paper's elimination, filling in an order, and exchanges (optimal.md, step 3).

Nothing here can break a constraint: a unit is added only where every row has room for it, in whole numbers.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from querycloak.methods.optimal.objectives import FloatArray, Objective
from querycloak.methods.optimal.packing import Packing
from querycloak.privacy.randomness import IntArray

NO_TOTAL = 1 << 62
_TRIES = 24


def heaviest(packing: Packing) -> IntArray:
    """The largest weight that a pair puts on a user."""
    weight = np.where(packing.row < packing.users, packing.weight, 0)
    return np.maximum.reduceat(weight, packing.starts[:-1]) if packing.pairs else np.zeros(0, dtype=np.int64)


def eliminate(packing: Packing) -> IntArray:
    """The paper's SPE: drop the pair with the largest t until all constraints hold.

    The t never change, so this is the longest beginning, lightest pairs first, that fits.
    """
    counts = np.zeros(packing.pairs, dtype=np.int64)
    order = np.argsort(heaviest(packing), kind="stable")
    _fill_until_full(order, counts, packing.starts, packing.row, packing.weight, packing.capacity)
    return counts


def fill(packing: Packing, objective: Objective, order: IntArray, begun: IntArray, *, gainful: bool = True) -> IntArray:
    """Add units pair after pair while they fit and, if `gainful`, while each is worth something."""
    counts = begun.copy()
    least = 0.0 if gainful else -np.inf
    _fill(order, counts, packing.loads(counts), _total(objective), least, *_rows(packing), *_worth(objective))
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
        _total(objective),
        objective.total_exact,
        rounds,
        row_starts,
        owner,
        *_rows(packing),
        *_worth(objective),
    )
    return counts


def _total(objective: Objective) -> int:
    return NO_TOTAL if objective.total is None else objective.total


def _rows(packing: Packing) -> tuple[IntArray, ...]:
    return packing.starts, packing.row, packing.weight, packing.capacity, packing.most


def _worth(objective: Objective) -> tuple[float, FloatArray, float, FloatArray]:
    return objective.size, objective.diversity, objective.distance, objective.goal


@njit(cache=True, nogil=True)
def _gain(count, size, diversity, distance, goal):  # type: ignore[no-untyped-def]
    """What one unit more than `count` is worth."""
    gain = size
    if count == 0:
        gain += diversity
    if goal >= 0:
        gain += distance * (abs(count - goal) - abs(count + 1 - goal))
    return gain


@njit(cache=True, nogil=True)
def _fits(pair, load, starts, row, weight, capacity):  # type: ignore[no-untyped-def]
    for i in range(starts[pair], starts[pair + 1]):
        if load[row[i]] + weight[i] > capacity[row[i]]:
            return False
    return True


@njit(cache=True, nogil=True)
def _put(pair, sign, counts, load, starts, row, weight):  # type: ignore[no-untyped-def]
    counts[pair] += sign
    for i in range(starts[pair], starts[pair + 1]):
        load[row[i]] += sign * weight[i]


@njit(cache=True, nogil=True)
def _fill_until_full(order, counts, starts, row, weight, capacity):  # type: ignore[no-untyped-def]
    load = np.zeros(capacity.size, np.int64)
    for pair in order:
        if not _fits(pair, load, starts, row, weight, capacity):
            break
        _put(pair, 1, counts, load, starts, row, weight)


@njit(cache=True, nogil=True)
def _fill(order, counts, load, total, least, starts, row, weight, capacity, most, size, diversity, distance, goal):  # type: ignore[no-untyped-def]
    left = total - counts.sum()
    for pair in order:
        while left > 0 and counts[pair] < most[pair]:
            if _gain(counts[pair], size, diversity[pair], distance, goal[pair]) <= least:
                break
            if not _fits(pair, load, starts, row, weight, capacity):
                break
            _put(pair, 1, counts, load, starts, row, weight)
            left -= 1


@njit(cache=True, nogil=True)
def _next(state):  # type: ignore[no-untyped-def]
    """One step of SplitMix64, which only steers a search: nothing private hangs on it."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return (word ^ (word >> np.uint64(31))) >> np.uint64(1)


@njit(cache=True, nogil=True)
def _below(state, bound):  # type: ignore[no-untyped-def]
    return np.int64(_next(state) % np.uint64(bound))


@njit(cache=True, nogil=True)
def _exchange(
    counts, load, total, exact, rounds, row_starts, owner,
    starts, row, weight, capacity, most, size, diversity, distance, goal,
):  # type: ignore[no-untyped-def]  # fmt: skip
    state = np.array([np.uint64(1)], np.uint64)
    chosen = np.flatnonzero(counts)
    held = chosen.size
    chosen = np.concatenate((chosen, np.zeros(counts.size - held, np.int64)))
    place = np.full(counts.size, -1, np.int64)
    for i in range(held):
        place[chosen[i]] = i
    left = total - counts.sum()
    added = np.empty(_TRIES + 1, np.int64)
    for _ in range(rounds):
        out = chosen[_below(state, held)]
        change = -_gain(counts[out] - 1, size, diversity[out], distance, goal[out])
        _put(out, -1, counts, load, starts, row, weight)
        left += 1
        number = 0
        for attempt in range(_TRIES + 1):
            # Only who shares a row with the unit taken out has gained room; its own pair comes last.
            pair = out
            if attempt < _TRIES:
                one = row[starts[out] + _below(state, starts[out + 1] - starts[out])]
                pair = owner[row_starts[one] + _below(state, row_starts[one + 1] - row_starts[one])]
                if pair == out:
                    continue
            if left <= 0 or counts[pair] >= most[pair]:
                continue
            gain = _gain(counts[pair], size, diversity[pair], distance, goal[pair])
            if gain <= 0 and not exact:
                continue
            if exact and attempt < _TRIES and change + gain < 0:
                continue
            if _fits(pair, load, starts, row, weight, capacity):
                _put(pair, 1, counts, load, starts, row, weight)
                change += gain
                left -= 1
                added[number] = pair
                number += 1
        if change < 0 or (exact and left > 0):
            for i in range(number):
                _put(added[i], -1, counts, load, starts, row, weight)
            left += number - 1
            _put(out, 1, counts, load, starts, row, weight)
            continue
        for i in range(number):
            pair = added[i]
            if place[pair] < 0:
                place[pair] = held
                chosen[held] = pair
                held += 1
        if counts[out] == 0 and place[out] >= 0:
            held -= 1
            last = chosen[held]
            chosen[place[out]] = last
            place[last] = place[out]
            place[out] = -1
