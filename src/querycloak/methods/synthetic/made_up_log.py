"""Made-up users, batch after batch: post-processing of the noisy parts and of one random number (synthetic.md)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from querycloak.methods.optimal.made_up_users import below
from querycloak.methods.synthetic.laws import MOST_WORDS, Laws, laws_of
from querycloak.methods.synthetic.made_up_queries import after, asked_again, chosen, digest_of_words, drawn_new, unit
from querycloak.methods.synthetic.parts import NoisyParts
from querycloak.methods.synthetic.shape import CLICKS, GAP_MINUTES, PAUSES, SEARCHES
from querycloak.privacy.sampling.randomness import IntArray

NAME = "made-up-"
"""Every made-up user is named so."""
SCHEMA = pa.schema(
    {"user": pa.string(), "time": pa.timestamp("us"), "query": pa.string(), "rank": pa.int32(), "url": pa.string()}
)
MONDAY, WEEKS = datetime(2000, 1, 3), 13
"""The period of a made-up log if its owner names none."""
_SEARCHES_AT_ONCE = 200_000
_MOST_USERS_AT_ONCE = 20_000
_HOUR, _WEEK = 3600, 7 * 24 * 3600
_GAP = 60 * GAP_MINUTES
_LONGER = 8
"""Sessions of the last cell have up to this many searches more."""
_MOST_ROWS = CLICKS - 1
_ADDRESSES = 10**9
_PAGE, _LATER_PAGES = 10, 3
"""Results of a page, and pages from the third on that a rank of 21 or more may stand on."""
_TRIES = 6
_GOLDEN = 0x9E3779B97F4A7C15
_EDGES = np.array(PAUSES, np.int64)


@dataclass(frozen=True, eq=False)
class MadeUpLog:
    """Batches of rows, the same each time: a function of the laws, the number of users, the period and the seed."""

    laws: Laws
    users: int
    begins: int
    """Seconds since 1970, as is `ends`."""
    ends: int
    seed: int
    schema = SCHEMA

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        at_once = self._users_at_once()
        for place, first in enumerate(range(0, self.users, at_once)):
            state = np.array([(self.seed + place * _GOLDEN) % 2**64], np.uint64)
            yield self._batch(first, min(at_once, self.users - first), state)

    def _users_at_once(self) -> int:
        shape = self.laws.shape
        sessions = float(np.diff(shape.users, prepend=0) @ ((shape.least + shape.most) / 2))
        searches = float(np.diff(shape.sessions, prepend=0) @ np.arange(1, SEARCHES + 1))
        return int(min(max(_SEARCHES_AT_ONCE / max(1.0, sessions * searches), 1), _MOST_USERS_AT_ONCE))

    def _batch(self, first: int, users: int, state: NDArray[np.uint64]) -> pa.RecordBatch:
        laws = self.laws
        most = max(1, (self.ends - self.begins) // (2 * _GAP))
        numbers = _sessions(users, laws.shape, most, state)
        lengths = _searches(int(numbers.sum()), laws.shape, state)
        search, place, words = _queries(numbers, lengths, laws.shape, laws.words, laws.whole, laws.next_query, state)
        times = _times(numbers, lengths, laws.shape, self.begins, self.ends, state)
        row, rank, url = _clicks(
            place, words, search, laws.shape, laws.words, laws.urls_of_query, laws.urls_of_word, state
        )
        texts = _text_of(place, words, search, laws)
        owner = np.repeat(np.arange(users), numbers).repeat(lengths)
        names = pa.array([f"{NAME}{number:08}" for number in range(first + 1, first + users + 1)], pa.string())
        columns = [
            names.take(pa.array(owner[row])),
            pa.array(times[row] * 1_000_000, pa.timestamp("us")),
            texts.take(pa.array(row)),
            pa.array(rank.astype(np.int32), mask=rank < 1),
            _addresses(laws.urls, url),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def made_up_log(
    parts: NoisyParts, users: int | None, period: tuple[datetime | None, datetime | None], seed: int
) -> MadeUpLog:
    """The log of this many made-up users, as many as the noisy parts have if None; none if nothing can be asked."""
    laws = laws_of(parts)
    number = laws.users if users is None else users
    if not parts.phrases.num_rows and not parts.queries.num_rows:
        number = 0
    begins, ends = _period(*period)
    return MadeUpLog(laws, number, begins, ends, seed)


def _period(since: datetime | None, until: datetime | None) -> tuple[int, int]:
    """The seconds since 1970 at which the made-up log begins and ends."""
    span = timedelta(weeks=WEEKS)
    begins = since or (MONDAY if until is None else until - span)
    ends = until or begins + span
    zero = datetime(1970, 1, 1, tzinfo=begins.tzinfo)
    return int((begins - zero).total_seconds()), int((ends.replace(tzinfo=begins.tzinfo) - zero).total_seconds())


@njit(cache=True, nogil=True)
def _sessions(users, shape, most, state):  # type: ignore[no-untyped-def]
    """The number of sessions of each user."""
    numbers = np.empty(users, np.int64)
    for user in range(users):
        at = chosen(shape.users, 0, shape.users.size, unit(state))
        numbers[user] = min(most, shape.least[at] + below(state, shape.most[at] - shape.least[at] + 1))
    return numbers


@njit(cache=True, nogil=True)
def _searches(sessions, shape, state):  # type: ignore[no-untyped-def]
    """The number of searches of each session."""
    lengths = np.empty(sessions, np.int64)
    for session in range(sessions):
        length = 1 + chosen(shape.sessions, 0, shape.sessions.size, unit(state))
        lengths[session] = length + below(state, _LONGER) if length == SEARCHES else length
    return lengths


@njit(cache=True, nogil=True)
def _queries(numbers, lengths, shape, words, whole, next_query, state):  # type: ignore[no-untyped-def]
    """For each search where its words begin, its number among whole queries (-1 for none), and all words."""
    total = lengths.sum()
    start, place = np.zeros(total + 1, np.int64), np.empty(total, np.int64)
    spoken = np.empty(total * MOST_WORDS, np.int64)
    search = session = 0
    for user in range(numbers.size):
        earliest = search
        for _ in range(numbers[user]):
            for step in range(lengths[session]):
                if step > 0:
                    after(search, start, place, spoken, shape, words, whole, next_query, state)
                elif search > earliest and unit(state) < shape.again:
                    asked_again(search, earliest + below(state, search - earliest), start, place, spoken)
                else:
                    drawn_new(search, start, place, spoken, shape, words, whole, state)
                search += 1
            session += 1
    return start, place, spoken[: start[total]]


@njit(cache=True, nogil=True)
def _times(numbers, lengths, shape, begins, ends, state):  # type: ignore[no-untyped-def]
    """Seconds since 1970 of each search: sessions of a user in order, further apart than the gap."""
    times = np.empty(lengths.sum(), np.int64)
    monday = begins - (begins + 3 * 24 * _HOUR) % _WEEK
    weeks = (ends - monday + _WEEK - 1) // _WEEK
    search = session = 0
    for user in range(numbers.size):
        begun = np.empty(numbers[user], np.int64)
        for each in range(numbers[user]):
            begun[each] = begins
            for _ in range(20):
                hour = chosen(shape.hours, 0, shape.hours.size, unit(state))
                moment = monday + below(state, weeks) * _WEEK + hour * _HOUR + below(state, _HOUR)
                if begins <= moment < ends:
                    begun[each] = moment
                    break
        begun.sort()
        moment = begins - 2 * _GAP
        for each in range(numbers[user]):
            moment = max(begun[each], moment + _GAP + 60 + below(state, _GAP))
            for step in range(lengths[session]):
                if step > 0:
                    at = chosen(shape.pauses, 0, shape.pauses.size, unit(state))
                    moment += max(1, _EDGES[at] + below(state, _EDGES[at + 1] - _EDGES[at]))
                times[search] = moment
                search += 1
            session += 1
    return times


@njit(cache=True, nogil=True)
def _clicks(place, words, start, shape, model, of_query, of_word, state):  # type: ignore[no-untyped-def]
    """For each row its search, its rank (0 for none) and its url; clicks of a search by rank.

    url: -1 for none, -2 - n for address n of those about which nothing came out.
    """
    most = place.size * _MOST_ROWS
    row, rank, url = np.empty(most, np.int64), np.zeros(most, np.int64), np.full(most, -1, np.int64)
    size = 0
    for search in range(place.size):
        source = 1 if place[search] >= 0 else 0
        wanted = chosen(shape.clicks[source], 0, CLICKS, unit(state))
        choices, at = of_query, place[search]
        if at < 0 or of_query.start[at] == of_query.start[at + 1]:
            choices, at = of_word, _rarest(words, start[search], start[search + 1], model, of_word)
        row[size] = search
        first, size = size, size + max(1, wanted)
        for each in range(first, first + wanted):
            row[each], rank[each] = search, _rank(shape.ranks[source], state)
            for _ in range(_TRIES):
                if not np.any(rank[first:each] == rank[each]):
                    break
                rank[each] = _rank(shape.ranks[source], state)
        rank[first:size] = np.sort(rank[first:size])
        digest = digest_of_words(words, start[search], start[search + 1])
        for each in range(first, first + wanted):
            unknown = (digest ^ np.uint64(rank[each] + each - first)) * np.uint64(_GOLDEN)
            url[each] = -2 - np.int64((unknown >> np.uint64(32)) % np.uint64(_ADDRESSES))
            if at >= 0:
                what = choices.what[chosen(choices.sums, choices.start[at], choices.start[at + 1], unit(state))]
                if not np.any(url[first:each] == what):
                    url[each] = what
    return row[:size], rank[:size], url[:size]


@njit(cache=True, nogil=True)
def _rarest(words, first, end, model, of_word):  # type: ignore[no-untyped-def]
    """The word of fewest users that has hosts; -1 for none."""
    rarest = -1
    for at in range(first, end):
        word = words[at]
        if of_word.start[word] < of_word.start[word + 1] and (rarest < 0 or model.users[word] < model.users[rarest]):
            rarest = word
    return rarest


@njit(cache=True, nogil=True)
def _rank(sums, state):  # type: ignore[no-untyped-def]
    """A rank; on later pages of ten results, places are as frequent as on the first."""
    cell = chosen(sums, 0, sums.size, unit(state))
    if cell <= _PAGE:
        return cell
    page = 1 if cell == _PAGE + 1 else 2 + below(state, _LATER_PAGES)
    first_page = sums[_PAGE] - sums[0]
    if first_page <= 0:
        return _PAGE * page + 1 + below(state, _PAGE)
    return _PAGE * page + chosen(sums, 1, _PAGE, sums[0] + unit(state) * first_page)


def _addresses(urls: pa.Array, url: IntArray) -> pa.Array:
    """Released addresses, and made-up ones that no site can have."""
    unknown = pa.array(-2 - url, mask=url > -2).cast(pa.string())
    made_up = pc.binary_join_element_wise(f"http://{NAME}", unknown, ".invalid", "")
    return pc.coalesce(urls.take(pa.array(url, mask=url < 0)), made_up)


def _text_of(place: IntArray, words: IntArray, start: IntArray, laws: Laws) -> pa.Array:
    """The query of each search."""
    offsets, data = _joined(place, words, start, laws.word_texts, laws.glued, laws.query_texts)
    return pa.Array.from_buffers(pa.large_string(), place.size, [None, pa.py_buffer(offsets), pa.py_buffer(data)]).cast(
        pa.string()
    )


@njit(cache=True, nogil=True)
def _joined(place, words, start, texts, glued, wholes):  # type: ignore[no-untyped-def]
    """Bytes of all queries one after another, and where each begins: whole ones as they are, others word by word."""
    offsets = np.zeros(place.size + 1, np.int64)
    for search in range(place.size):
        size = 0
        if place[search] >= 0:
            size = wholes.start[place[search] + 1] - wholes.start[place[search]]
        else:
            for at in range(start[search], start[search + 1]):
                word = words[at]
                size += texts.start[word + 1] - texts.start[word]
                size += at > start[search] and not (glued[words[at - 1]] & 2 and glued[word] & 1)
        offsets[search + 1] = offsets[search] + size
    data = np.full(offsets[-1], 32, np.uint8)
    for search in range(place.size):
        to = offsets[search]
        if place[search] >= 0:
            data[to : offsets[search + 1]] = wholes.data[wholes.start[place[search]] : wholes.start[place[search] + 1]]
            continue
        for at in range(start[search], start[search + 1]):
            word = words[at]
            if at > start[search] and not (glued[words[at - 1]] & 2 and glued[word] & 1):
                to += 1
            size = texts.start[word + 1] - texts.start[word]
            data[to : to + size] = texts.data[texts.start[word] : texts.start[word + 1]]
            to += size
    return offsets, data
