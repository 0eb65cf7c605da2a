"""Synthetic users: pairs dealt out so that every total is met and associations come close (optimal.md, default, 5).

All of it reads noisy tables only. A slot is one pair of one user; dealing decides which pair stands in it.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from querycloak.methods.optimal.associations import NoisyTables
from querycloak.methods.optimal.reconciling import Degrees
from querycloak.methods.optimal.rounding import _below
from querycloak.privacy.randomness import IntArray, Randomness

_ROUNDS_PER_LINK = 30
_MOST_ROUNDS = 20_000_000
_REPAIRS = 200


def deal(degrees: Degrees, tables: NoisyTables, randomness: Randomness) -> tuple[IntArray, IntArray]:
    """User and pair of every slot: each pair as often as its count, each user as many different ones as its size."""
    starts = np.concatenate([[0], np.cumsum(degrees.users)])
    slots = np.repeat(np.arange(degrees.pairs.size), degrees.pairs)
    pair = slots[np.argsort(randomness.below(1 << 63, slots.size), kind="stable")]
    user = np.repeat(np.arange(degrees.users.size), degrees.users)
    seed = randomness.below(1 << 62, 1).astype(np.uint64)
    if not _part_equals(pair, user, starts, seed, _REPAIRS):
        pair = _nested(degrees)
        _mix(pair, user, starts, seed, 20 * pair.size)
    _associate(pair, user, starts, degrees, tables, seed)
    return user, pair


def _associate(
    pair: IntArray, user: IntArray, starts: IntArray, degrees: Degrees, tables: NoisyTables, seed: IntArray
) -> None:
    """Exchange pairs between users until as many hold two of them together as the noisy associations say."""
    if tables.link_count.size == 0 or pair.size == 0:
        return
    # An output that keeps part of the rows keeps as large a part of the associations.
    share = pair.size / int(tables.count.sum())
    both = np.minimum(degrees.pairs[tables.first], degrees.pairs[tables.second])
    target = np.minimum(np.round(tables.link_count * share).astype(np.int64), both)
    link = np.arange(target.size)
    ends = np.concatenate([tables.first, tables.second])
    order = np.lexsort((np.concatenate([tables.second, tables.first]), ends))
    other = np.concatenate([tables.second, tables.first])[order]
    link_starts = np.searchsorted(ends[order], np.arange(degrees.pairs.size + 1))
    rounds = min(_ROUNDS_PER_LINK * int(target.sum()), _MOST_ROUNDS)
    holders = np.argsort(pair, kind="stable")
    holder_starts = np.concatenate([[0], np.cumsum(degrees.pairs)])
    _fit(
        pair, user, starts, holders, holder_starts, tables.first, tables.second, target,
        link_starts, other, np.concatenate([link, link])[order], rounds, seed,
    )  # fmt: skip


@njit(cache=True, nogil=True)
def _holds(pair, starts, one, wanted):  # type: ignore[no-untyped-def]
    """Whether a user holds a pair."""
    for i in range(starts[one], starts[one + 1]):
        if pair[i] == wanted:
            return True
    return False


@njit(cache=True, nogil=True)
def _times(pair, starts, one, wanted):  # type: ignore[no-untyped-def]
    number = 0
    for i in range(starts[one], starts[one + 1]):
        number += pair[i] == wanted
    return number


@njit(cache=True, nogil=True)
def _part_equals(pair, user, starts, state, tries):  # type: ignore[no-untyped-def]
    """Exchange every pair that a user has twice for one that fits; whether all could be."""
    for slot in range(pair.size):
        attempt = 0
        while _times(pair, starts, user[slot], pair[slot]) > 1:
            other = _below(state, pair.size)
            attempt += 1
            if attempt > tries:
                return False
            if _holds(pair, starts, user[slot], pair[other]) or _holds(pair, starts, user[other], pair[slot]):
                continue
            pair[slot], pair[other] = pair[other], pair[slot]
    return True


def _nested(degrees: Degrees) -> IntArray:
    """A dealing that exists whenever any does: each pair, the most frequent first, to the users with most slots left."""
    starts = np.concatenate([[0], np.cumsum(degrees.users)])
    pair = np.empty(int(degrees.pairs.sum()), dtype=np.int64)
    most_first = np.argsort(-degrees.pairs, kind="stable")
    _deal_nested(most_first, degrees.pairs, np.argsort(-degrees.users, kind="stable"), degrees.users, starts, pair)
    return pair


@njit(cache=True, nogil=True)
def _deal_nested(order, counts, people, sizes, starts, pair):  # type: ignore[no-untyped-def]
    left = sizes[people]  # stays sorted, largest first
    for each in order:
        number = counts[each]
        if number == 0:
            break
        # Of the users with as many slots left as the last one chosen, the hindmost are chosen: so it stays sorted.
        level = left[number - 1]
        begin = left.size - np.searchsorted(left[::-1], level, side="right")
        end = left.size - np.searchsorted(left[::-1], level, side="left")
        for i in range(number):
            j = i if i < begin else end - (number - i)
            one = people[j]
            pair[starts[one + 1] - left[j]] = each
            left[j] -= 1


@njit(cache=True, nogil=True)
def _mix(pair, user, starts, state, rounds):  # type: ignore[no-untyped-def]
    """Exchange the pairs of two slots wherever both users may have them."""
    for _ in range(rounds):
        one, two = _below(state, pair.size), _below(state, pair.size)
        if _holds(pair, starts, user[one], pair[two]) or _holds(pair, starts, user[two], pair[one]):
            continue
        pair[one], pair[two] = pair[two], pair[one]


@njit(cache=True, nogil=True)
def _link_of(one, two, link_starts, other, link):  # type: ignore[no-untyped-def]
    """The link between two pairs, or -1."""
    if link_starts[one + 1] - link_starts[one] > link_starts[two + 1] - link_starts[two]:
        one, two = two, one
    low, high = link_starts[one], link_starts[one + 1]
    while low < high:
        middle = (low + high) // 2
        if other[middle] < two:
            low = middle + 1
        else:
            high = middle
    if low < link_starts[one + 1] and other[low] == two:
        return link[low]
    return -1


@njit(cache=True, nogil=True)
def _shift(slot, moving, sign, pair, user, starts, current, target, link_starts, other, link):  # type: ignore[no-untyped-def]
    """Add or take away the links of `moving` with the other pairs of the slot's user; how the error changes."""
    if link_starts[moving + 1] == link_starts[moving]:
        return 0
    change = 0
    one = user[slot]
    for i in range(starts[one], starts[one + 1]):
        if i == slot:
            continue
        found = _link_of(moving, pair[i], link_starts, other, link)
        if found >= 0:
            change -= abs(current[found] - target[found])
            current[found] += sign
            change += abs(current[found] - target[found])
    return change


@njit(cache=True, nogil=True)
def _fit(
    pair, user, starts, holders, holder_starts, first, second, target, link_starts, other, link, rounds, state
):  # type: ignore[no-untyped-def]  # fmt: skip
    """Bring two pairs together, or apart, where their link is short of its target, or beyond it."""
    current = np.zeros(target.size, np.int64)
    for slot in range(pair.size):
        for i in range(slot + 1, starts[user[slot] + 1]):
            found = _link_of(pair[slot], pair[i], link_starts, other, link)
            if found >= 0:
                current[found] += 1
    place = np.empty(pair.size, np.int64)
    for i in range(holders.size):
        place[holders[i]] = i
    for _ in range(rounds):
        wanted = _below(state, target.size)
        if current[wanted] == target[wanted]:
            continue
        one, two = first[wanted], second[wanted]
        if _below(state, 2):
            one, two = two, one
        anchor = holders[holder_starts[one] + _below(state, holder_starts[one + 1] - holder_starts[one])]
        together = _holds(pair, starts, user[anchor], two)
        if current[wanted] < target[wanted]:
            # `two` comes to a user who holds `one`, and something else of that user's goes the other way.
            if together:
                continue
            mine = starts[user[anchor]] + _below(state, starts[user[anchor] + 1] - starts[user[anchor]])
            theirs = holders[holder_starts[two] + _below(state, holder_starts[two + 1] - holder_starts[two])]
            if mine == anchor:
                continue
        else:
            if not together:
                continue
            mine, theirs = anchor, _below(state, pair.size)
        taken, given = pair[theirs], pair[mine]
        if _holds(pair, starts, user[theirs], given) or _holds(pair, starts, user[mine], taken):
            continue
        change = _shift(mine, given, -1, pair, user, starts, current, target, link_starts, other, link)
        change += _shift(theirs, taken, -1, pair, user, starts, current, target, link_starts, other, link)
        pair[mine], pair[theirs] = taken, given
        change += _shift(mine, taken, 1, pair, user, starts, current, target, link_starts, other, link)
        change += _shift(theirs, given, 1, pair, user, starts, current, target, link_starts, other, link)
        if change > 0:
            _shift(mine, taken, -1, pair, user, starts, current, target, link_starts, other, link)
            _shift(theirs, given, -1, pair, user, starts, current, target, link_starts, other, link)
            pair[mine], pair[theirs] = given, taken
            _shift(mine, given, 1, pair, user, starts, current, target, link_starts, other, link)
            _shift(theirs, taken, 1, pair, user, starts, current, target, link_starts, other, link)
            continue
        # The lists of holders follow the exchange.
        place[mine], place[theirs] = place[theirs], place[mine]
        holders[place[mine]], holders[place[theirs]] = mine, theirs
