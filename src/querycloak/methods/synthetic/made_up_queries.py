"""Queries of made-up users, compiled: new ones, ones asked again, and the next one of a session (synthetic.md).

A search's words stand in `spoken` from start[search] to start[search + 1]; place[search] is its number among whole
released queries, -1 for none.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from querycloak.logs.reformulations import KINDS
from querycloak.methods.optimal.made_up_users import below
from querycloak.methods.synthetic.laws import MOST_WORDS

ADDED, DROPPED, REPLACED, SAME, NEW = range(len(KINDS))
_TRIES = 6


@njit(cache=True, nogil=True)
def unit(state):  # type: ignore[no-untyped-def]
    """A number from 0 on, below 1."""
    return below(state, 1 << 53) * 2.0**-53


@njit(cache=True, nogil=True)
def chosen(sums, first, end, share):  # type: ignore[no-untyped-def]
    """The place of a share among cumulative ones; `end` if it exceeds them all."""
    low, high = first, end
    while low < high:
        middle = (low + high) // 2
        if sums[middle] > share:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def drawn_new(search, start, place, spoken, shape, words, whole, state):  # type: ignore[no-untyped-def]
    """A new query: a whole one as often as the log has them, else words that are no whole query."""
    if whole.sums.size > 0 and (unit(state) < shape.whole or words.word.size == 0):
        _ask_whole(search, chosen(whole.sums, 0, whole.sums.size, unit(state)), start, place, spoken, whole)
        return
    wanted = min(MOST_WORDS, 1 + chosen(shape.lengths, 0, shape.lengths.size, unit(state)))
    for _ in range(_TRIES):
        end, context = start[search], words.begin
        if wanted == 1 and words.alone.size > 0:
            spoken[end] = chosen(words.alone, 0, words.alone.size, unit(state))
            end += 1
        for place_of_word in range(end - start[search], wanted):
            at = _fitting_word(context, spoken, start[search], end, place_of_word + 1 == wanted, words, state)
            if at < 0:
                break
            spoken[end] = words.word[at]
            end += 1
            context = words.after[at]
        _settle(search, end, start, place, spoken, whole)
        if end > start[search] and place[search] < 0:
            return


@njit(cache=True, nogil=True)
def asked_again(search, earlier, start, place, spoken):  # type: ignore[no-untyped-def]
    """The query of an earlier search."""
    size = start[earlier + 1] - start[earlier]
    spoken[start[search] : start[search] + size] = spoken[start[earlier] : start[earlier + 1]]
    start[search + 1] = start[search] + size
    place[search] = place[earlier]


@njit(cache=True, nogil=True)
def after(search, start, place, spoken, shape, words, whole, next_query, state):  # type: ignore[no-untyped-def]
    """The next query of a session: a released transition, or by a kind of reformulation."""
    kind = chosen(shape.kinds, 0, shape.kinds.size, unit(state))
    before = place[search - 1]
    if kind != SAME and before >= 0:
        end = next_query.start[before + 1]
        at = chosen(next_query.sums, next_query.start[before], end, unit(state))
        if at < end:
            _ask_whole(search, next_query.what[at], start, place, spoken, whole)
            return
    if kind == SAME:
        asked_again(search, search - 1, start, place, spoken)
        return
    if kind == ADDED and _added(search, start, place, spoken, words, whole, state):
        return
    if kind == DROPPED and _dropped(search, start, place, spoken, words, whole, state):
        return
    if kind == REPLACED and _replaced(search, start, place, spoken, words, whole, state):
        return
    drawn_new(search, start, place, spoken, shape, words, whole, state)


@njit(cache=True, nogil=True)
def _added(search, start, place, spoken, words, whole, state):  # type: ignore[no-untyped-def]
    """The query before with one more word at its end; False if the model knows none."""
    first, end = start[search - 1], start[search]
    if end == first or end - first >= MOST_WORDS:
        return False
    word = _other_word(spoken, first, end, words, state)
    if word < 0:
        return False
    asked_again(search, search - 1, start, place, spoken)
    spoken[start[search + 1]] = word
    _settle(search, start[search + 1] + 1, start, place, spoken, whole)
    return True


@njit(cache=True, nogil=True)
def _dropped(search, start, place, spoken, words, whole, state):  # type: ignore[no-untyped-def]
    """The query before without one word: one that leaves a whole released query, if there is one, else any that fits.

    False if what is left would begin or end with a word that queries do not begin or end with.
    """
    first, size = start[search - 1], start[search] - start[search - 1]
    if size < 2:
        return False
    offset = below(state, size)
    for step in range(2 * size):
        left_out = (offset + step) % size
        end = start[search]
        for at in range(size):
            if at != left_out:
                spoken[end] = spoken[first + at]
                end += 1
        _settle(search, end, start, place, spoken, whole)
        fits = _fits(spoken[start[search]], True, False, words) and _fits(spoken[end - 1], False, True, words)
        if place[search] >= 0 or (fits and step >= size):
            return True
    return False


@njit(cache=True, nogil=True)
def _replaced(search, start, place, spoken, words, whole, state):  # type: ignore[no-untyped-def]
    """The query before with another last word; False if it has one word, or the model knows no other."""
    first, end = start[search - 1], start[search]
    if end - first < 2:
        return False
    word = _other_word(spoken, first, end - 1, words, state)
    if word < 0 or word == spoken[end - 1]:
        return False
    asked_again(search, search - 1, start, place, spoken)
    spoken[start[search + 1] - 1] = word
    _settle(search, start[search + 1], start, place, spoken, whole)
    return True


@njit(cache=True, nogil=True)
def _other_word(spoken, first, end, words, state):  # type: ignore[no-untyped-def]
    """A last word that may follow these and is none of them; -1 if there is none."""
    context = words.begin
    for at in range(first, end):
        context = _context_after(context, spoken[at], words)
    if words.back[context] < 0:
        return -1  # nothing is known of these words
    for _ in range(_TRIES):
        at = _next_word(context, words, state)
        if at >= 0 and words.ends[words.word[at]] and not np.any(spoken[first:end] == words.word[at]):
            return words.word[at]
    return -1


@njit(cache=True, nogil=True)
def _fitting_word(context, spoken, first, end, last, words, state):  # type: ignore[no-untyped-def]
    """The place of a next word: none of these if that can be; a first one begins queries, a last one ends them."""
    at = -1
    for _ in range(_TRIES):
        at = _next_word(context, words, state)
        if at < 0 or (
            not np.any(spoken[first:end] == words.word[at]) and _fits(words.word[at], end == first, last, words)
        ):
            break
    return at


@njit(cache=True, nogil=True)
def _fits(word, first, last, words):  # type: ignore[no-untyped-def]
    return (words.begins[word] or not first) and (words.ends[word] or not last)


@njit(cache=True, nogil=True)
def _next_word(context, words, state):  # type: ignore[no-untyped-def]
    """The place of a next word among those of a context or of a shorter one; -1 if there is none."""
    while context >= 0:
        first, end = words.start[context], words.start[context + 1]
        if end > first and (words.back[context] < 0 or unit(state) >= words.shorter[context]):
            return chosen(words.sums, first, end, unit(state))
        context = words.back[context]
    return -1


@njit(cache=True, nogil=True)
def _context_after(context, word, words):  # type: ignore[no-untyped-def]
    """The context after one more word."""
    while context >= 0:
        low, high = words.start[context], words.start[context + 1]
        while low < high:
            middle = (low + high) // 2
            if words.word[middle] < word:
                low = middle + 1
            else:
                high = middle
        if low < words.start[context + 1] and words.word[low] == word:
            return words.after[low]
        if words.back[context] < 0:
            return context
        context = words.back[context]
    return context


@njit(cache=True, nogil=True)
def _ask_whole(search, query, start, place, spoken, whole):  # type: ignore[no-untyped-def]
    size = whole.start[query + 1] - whole.start[query]
    spoken[start[search] : start[search] + size] = whole.word[whole.start[query] : whole.start[query + 1]]
    start[search + 1], place[search] = start[search] + size, query


@njit(cache=True, nogil=True)
def _settle(search, end, start, place, spoken, whole):  # type: ignore[no-untyped-def]
    start[search + 1] = end
    place[search] = _place_of(spoken, start[search], end, whole)


@njit(cache=True, nogil=True)
def _place_of(spoken, first, end, whole):  # type: ignore[no-untyped-def]
    """The number of the whole query of these words; -1 if it is none."""
    digest = digest_of_words(spoken, first, end)
    at = np.searchsorted(whole.digest, digest)
    while at < whole.digest.size and whole.digest[at] == digest:
        query = whole.place[at]
        same = whole.start[query + 1] - whole.start[query] == end - first
        for offset in range(end - first):
            same = same and whole.word[whole.start[query] + offset] == spoken[first + offset]
        if same:
            return query
        at += 1
    return -1


@njit(cache=True, nogil=True)
def digest_of_words(spoken, first, end):  # type: ignore[no-untyped-def]
    """A number for a sequence of words (FNV-1a), as `laws.digest_of` has it."""
    digest = np.uint64(0xCBF29CE484222325)
    for at in range(first, end):
        digest = (digest ^ np.uint64(spoken[at] + 1)) * np.uint64(0x100000001B3)
    return digest
