"""Synthetic users: pairs dealt to them keep every total and come close to associations (optimal.md, default, 5).

All of it reads noisy tables only. A slot is one pair of one user; dealing decides which pair stands in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.methods.optimal.degree_sequences import Degrees
from querycloak.methods.optimal.noisy_tables import NoisyTables
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.text.lists import first_at_least


@njit(cache=True, nogil=True)
def below(state, bound):  # type: ignore[no-untyped-def]
    """An integer below the bound; the state, one word in an array, moves on by one step of SplitMix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((word ^ (word >> np.uint64(31))) % np.uint64(bound))


def named(user: IntArray, randomness: Randomness) -> pa.Array:
    """A fresh random name for every user, the same wherever that user stands; it says nothing about who it was."""
    _, numbered = np.unique(user, return_inverse=True)
    people = int(numbered.max()) + 1 if numbered.size else 0
    numbers = randomness.below(1 << 63, people)
    # Two users of one name would be one; drawn again as a whole, names stay uniform among different ones.
    while np.unique(numbers).size < people:
        numbers = randomness.below(1 << 63, people)
    digits = np.frombuffer(numbers.astype(">u8").tobytes().hex().encode(), dtype="S16")
    return pa.array(digits.astype(str), pa.string()).take(pa.array(numbered))


def log_table(keys: pa.Table, pair: IntArray, names: pa.Array, count: IntArray) -> pa.Table:
    """The rows of a log: user, query, url, count; largest count first, then by name and pair."""
    texts = keys.take(pa.array(pair))
    columns = {"user": names, "query": texts["query"], "url": texts["url"], "count": pa.array(count)}
    order = [("count", "descending"), *((name, "ascending") for name in ("user", "query", "url"))]
    return pa.table(columns).sort_by(order)


_ROUNDS_PER_LINK = 300
_MOST_ROUNDS = 30_000_000
_REPAIRS = 200
_MIXES = 20


class Dealt(NamedTuple):
    """The pair and the user of every slot; user u has those from starts[u] to starts[u + 1]."""

    pair: IntArray
    user: IntArray
    starts: IntArray


class Holders(NamedTuple):
    """The slots of every pair, pair after pair."""

    starts: IntArray
    slot: IntArray


class Links(NamedTuple):
    """Associations with how many users should have them, and for every pair its partners in ascending order."""

    first: IntArray
    second: IntArray
    target: IntArray
    starts: IntArray
    other: IntArray
    link: IntArray


def deal(degrees: Degrees, tables: NoisyTables, randomness: Randomness) -> tuple[IntArray, IntArray]:
    """User and pair of every slot: each pair as often as its count, each user as many different ones as its size."""
    starts = np.concatenate([[0], np.cumsum(degrees.users)])
    slots = np.repeat(np.arange(degrees.pairs.size), degrees.pairs)
    pair = slots[np.argsort(randomness.below(1 << 63, slots.size), kind="stable")]
    user = np.repeat(np.arange(degrees.users.size), degrees.users)
    state = randomness.below(1 << 62, 1).astype(np.uint64)
    if not _part_equals(pair, user, starts, state, _REPAIRS):
        pair = _nested(degrees)
        _mix(pair, user, starts, state, _MIXES * pair.size)
    _associate(Dealt(pair, user, starts), degrees, tables, state)
    return user, pair


def _associate(dealt: Dealt, degrees: Degrees, tables: NoisyTables, state: NDArray[np.uint64]) -> None:
    """Exchange pairs between users until as many hold two of them together as the noisy associations say."""
    if tables.link_count.size == 0 or dealt.pair.size == 0:
        return
    links = _links(tables, degrees, dealt.pair.size / int(np.maximum(tables.count, 0).sum()))
    holders = Holders(np.concatenate([[0], np.cumsum(degrees.pairs)]), np.argsort(dealt.pair, kind="stable"))
    rounds = min(_ROUNDS_PER_LINK * int(links.target.sum()), _MOST_ROUNDS)
    _fit(dealt, holders, links, rounds, state)


def _links(tables: NoisyTables, degrees: Degrees, part: float) -> Links:
    """The links with their targets: an output that keeps part of the rows keeps as large a part of the associations."""
    kept = (degrees.pairs[tables.first] > 0) & (degrees.pairs[tables.second] > 0)
    first, second, count = tables.first[kept], tables.second[kept], tables.link_count[kept]
    both = np.minimum(degrees.pairs[first], degrees.pairs[second])
    target = np.minimum(np.round(count * part).astype(np.int64), both)
    ends, others = np.concatenate([first, second]), np.concatenate([second, first])
    order = np.lexsort((others, ends))
    starts = np.searchsorted(ends[order], np.arange(degrees.pairs.size + 1))
    return Links(first, second, target, starts, others[order], np.tile(np.arange(target.size), 2)[order])


@njit(cache=True, nogil=True)
def _holds(pair, starts, one, wanted):  # type: ignore[no-untyped-def]
    """True if a user holds a pair."""
    holds = False
    for i in range(starts[one], starts[one + 1]):
        if pair[i] == wanted:
            holds = True
            break
    return holds


@njit(cache=True, nogil=True)
def _times(pair, starts, one, wanted):  # type: ignore[no-untyped-def]
    number = 0
    for i in range(starts[one], starts[one + 1]):
        number += pair[i] == wanted
    return number


@njit(cache=True, nogil=True)
def _part_equals(pair, user, starts, state, tries):  # type: ignore[no-untyped-def]
    """Exchange every pair that a user has twice for one that fits; returns whether all could be exchanged."""
    for slot in range(pair.size):
        attempt = 0
        while _times(pair, starts, user[slot], pair[slot]) > 1:
            other = below(state, pair.size)
            attempt += 1
            if attempt > tries:
                return False
            if _holds(pair, starts, user[slot], pair[other]) or _holds(pair, starts, user[other], pair[slot]):
                continue
            pair[slot], pair[other] = pair[other], pair[slot]
    return True


def _nested(degrees: Degrees) -> IntArray:
    """A dealing that exists whenever any does: each pair, most frequent first, to the users with most slots left."""
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
        one, two = below(state, pair.size), below(state, pair.size)
        if _holds(pair, starts, user[one], pair[two]) or _holds(pair, starts, user[two], pair[one]):
            continue
        pair[one], pair[two] = pair[two], pair[one]


@njit(cache=True, nogil=True)
def _link_of(one, two, links):  # type: ignore[no-untyped-def]
    """The link between two pairs, or -1."""
    if links.starts[one + 1] - links.starts[one] > links.starts[two + 1] - links.starts[two]:
        one, two = two, one
    last = links.starts[one + 1]
    place = first_at_least(links.other, links.starts[one], last, two)
    return links.link[place] if place < last and links.other[place] == two else -1


@njit(cache=True, nogil=True)
def _shift(slot, moving, sign, dealt, current, links):  # type: ignore[no-untyped-def]
    """Add or remove the links of `moving` with the other pairs of the slot's user; returns the change of the error."""
    if links.starts[moving + 1] == links.starts[moving]:
        return 0
    change = 0
    one = dealt.user[slot]
    for i in range(dealt.starts[one], dealt.starts[one + 1]):
        if i == slot:
            continue
        link = _link_of(moving, dealt.pair[i], links)
        if link >= 0:
            change -= abs(current[link] - links.target[link])
            current[link] += sign
            change += abs(current[link] - links.target[link])
    return change


@njit(cache=True, nogil=True)
def _swap(mine, theirs, dealt, current, links):  # type: ignore[no-untyped-def]
    """Exchange the pairs of two slots; returns the change of the error."""
    given, taken = dealt.pair[mine], dealt.pair[theirs]
    change = _shift(mine, given, -1, dealt, current, links) + _shift(theirs, taken, -1, dealt, current, links)
    dealt.pair[mine], dealt.pair[theirs] = taken, given
    return change + _shift(mine, taken, 1, dealt, current, links) + _shift(theirs, given, 1, dealt, current, links)


@njit(cache=True, nogil=True)
def _present(dealt, links):  # type: ignore[no-untyped-def]
    """Number of users who hold the two pairs of each link."""
    current = np.zeros(links.target.size, np.int64)
    for slot in range(dealt.pair.size):
        for i in range(slot + 1, dealt.starts[dealt.user[slot] + 1]):
            link = _link_of(dealt.pair[slot], dealt.pair[i], links)
            if link >= 0:
                current[link] += 1
    return current


@njit(cache=True, nogil=True)
def _proposed(wanted, short, dealt, holders, links, state):  # type: ignore[no-untyped-def]
    """Two slots to exchange so that a link's pairs come together, or apart; the same slot twice if none was found."""
    one, two = links.first[wanted], links.second[wanted]
    if below(state, 2):
        one, two = two, one
    anchor = holders.slot[holders.starts[one] + below(state, holders.starts[one + 1] - holders.starts[one])]
    who = dealt.user[anchor]
    if _holds(dealt.pair, dealt.starts, who, two) == short:
        return anchor, anchor
    if not short:
        return anchor, below(state, dealt.pair.size)
    # `two` comes to a user who holds `one`, and something else of that user's goes the other way.
    mine = dealt.starts[who] + below(state, dealt.starts[who + 1] - dealt.starts[who])
    theirs = holders.slot[holders.starts[two] + below(state, holders.starts[two + 1] - holders.starts[two])]
    return (anchor, anchor) if mine == anchor else (mine, theirs)


@njit(cache=True, nogil=True)
def _fit(dealt, holders, links, rounds, state):  # type: ignore[no-untyped-def]
    """Exchange slots where a link misses its target; keep exchanges that do not increase the error."""
    pair, starts, user = dealt.pair, dealt.starts, dealt.user
    current = _present(dealt, links)
    place = np.empty(pair.size, np.int64)
    for i in range(pair.size):
        place[holders.slot[i]] = i
    error = np.abs(current - links.target).sum()
    for _ in range(rounds):
        if error == 0:
            break
        wanted = below(state, links.target.size)
        if current[wanted] == links.target[wanted]:
            continue
        short = current[wanted] < links.target[wanted]
        mine, theirs = _proposed(wanted, short, dealt, holders, links, state)
        if _holds(pair, starts, user[theirs], pair[mine]) or _holds(pair, starts, user[mine], pair[theirs]):
            continue
        change = _swap(mine, theirs, dealt, current, links)
        if change > 0:
            _swap(mine, theirs, dealt, current, links)
            continue
        error += change
        # The lists of holders follow the exchange.
        place[mine], place[theirs] = place[theirs], place[mine]
        holders.slot[place[mine]], holders.slot[place[theirs]] = mine, theirs
