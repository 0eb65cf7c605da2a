"""Records without names, pairs of them, and what can be seen of a pair: shared words, gap in time, site, lengths."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

Numbers = NDArray[np.int64]
Floats = NDArray[np.float64]
_DAY = 86_400_000_000
_HOST = r"^(?:[a-zA-Z][a-zA-Z0-9+.-]*://)?(?P<host>[^/?#]*)"


@dataclass(frozen=True, eq=False)
class Records:
    """Records sorted by user; words are numbers, those of record i are word[starts[i]:starts[i + 1]], ascending.

    `user` is the truth that the attacker does not see; `host` and `time` are -1 where there is none.
    """

    user: Numbers
    query: Numbers
    starts: Numbers
    word: NDArray[np.int32]
    letters: Numbers
    host: Numbers
    time: Numbers

    @classmethod
    def of(cls, rows: pa.Table, most: int, random: np.random.Generator) -> Records:
        """From rows with user and query, and url and time if there are any; of each user at most `most`, at random.

        Clicks of one search are one record.
        """
        if "time" in rows.column_names:
            rows = rows.group_by(["user", "time", "query"]).aggregate(
                [("url", "min")] if "url" in rows.column_names else []
            )
            rows = rows.rename_columns([name.removesuffix("_min") for name in rows.column_names])
        rows = _some_of_each(rows.sort_by([("user", "ascending"), ("query", "ascending")]), most, random)
        query = rows["query"].combine_chunks().dictionary_encode()
        starts, word = _words(rows["query"].combine_chunks())
        return cls(
            user=_codes(rows["user"].combine_chunks()),
            query=query.indices.to_numpy().astype(np.int64),
            starts=starts,
            word=word,
            letters=pc.utf8_length(rows["query"]).to_numpy().astype(np.int64),
            host=_hosts(rows),
            time=_times(rows),
        )

    def __len__(self) -> int:
        return len(self.user)

    @property
    def first(self) -> Numbers:
        """Where each user's records begin, and the end."""
        return np.searchsorted(self.user, np.arange(self.user.max(initial=-1) + 2)).astype(np.int64)


def _some_of_each(rows: pa.Table, most: int, random: np.random.Generator) -> pa.Table:
    """At most `most` rows of each user, where rows come sorted by user."""
    user = _codes(rows["user"].combine_chunks())
    order = np.lexsort((random.random(len(user)), user))
    place = np.arange(len(user)) - np.searchsorted(user, user)
    return rows.take(pa.array(np.sort(order[place < most])))


def _codes(values: pa.Array) -> Numbers:
    return np.asarray(values.dictionary_encode().indices.to_numpy(), np.int64)


def _words(texts: pa.Array) -> tuple[Numbers, NDArray[np.int32]]:
    """The different words of each text, ascending by number."""
    lists = pc.utf8_split_whitespace(texts)
    coded = lists.flatten().dictionary_encode().indices.to_numpy().astype(np.int64)
    record = pc.list_parent_indices(lists).to_numpy().astype(np.int64)
    many = int(coded.max(initial=0)) + 1
    record, word = np.divmod(np.unique(record * many + coded), many)
    return np.searchsorted(record, np.arange(len(texts) + 1)).astype(np.int64), word.astype(np.int32)


def _hosts(rows: pa.Table) -> Numbers:
    if "url" not in rows.column_names:
        return np.full(rows.num_rows, -1, np.int64)
    hosts = pc.struct_field(pc.extract_regex(rows["url"].combine_chunks(), _HOST), "host")
    return np.asarray(pc.fill_null(hosts.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False), np.int64)


def _times(rows: pa.Table) -> Numbers:
    if "time" not in rows.column_names:
        return np.full(rows.num_rows, -1, np.int64)
    moments = rows["time"].combine_chunks().cast(pa.timestamp("us")).cast(pa.int64())
    return np.asarray(pc.fill_null(moments, -1).to_numpy(zero_copy_only=False), np.int64)


def features(records: Records, one: Numbers, other: Numbers) -> Floats:
    """What is seen of each pair; -1 where the records do not tell."""
    weight = _weights(records)
    shared = np.zeros((len(one), 4))
    _compare(records.starts, records.word, weight, one, other, shared)
    lengths = np.diff(records.starts)
    timed = (records.time[one] >= 0) & (records.time[other] >= 0)
    gap = np.abs(records.time[one] - records.time[other])
    clock = np.abs(records.time[one] % _DAY - records.time[other] % _DAY)
    clicked = (records.host[one] >= 0).astype(np.int64) + (records.host[other] >= 0)
    columns = [
        *shared.T,
        records.query[one] == records.query[other],
        np.minimum(lengths[one], lengths[other]),
        np.maximum(lengths[one], lengths[other]),
        np.abs(records.letters[one] - records.letters[other]),
        clicked,
        np.where(clicked == 2, records.host[one] == records.host[other], -1),
        np.where(timed, np.log1p(gap / 1e6), -1),
        np.where(timed, np.minimum(clock, _DAY - clock) / 3.6e9, -1),
    ]
    return np.column_stack([np.asarray(column, np.float64) for column in columns])


def _weights(records: Records) -> Floats:
    """How much a word says: the fewer records have it, the more."""
    number = np.bincount(records.word) if len(records.word) else np.ones(1, np.int64)
    return np.log1p(len(records) / np.maximum(number, 1))


@njit(cache=True, nogil=True)
def _compare(starts, word, weight, one, other, out):  # type: ignore[no-untyped-def]
    """Shared words, their weight, the heaviest of them, and the cosine."""
    for pair in range(one.size):
        a, b = starts[one[pair]], starts[other[pair]]
        end_a, end_b = starts[one[pair] + 1], starts[other[pair] + 1]
        norm_a = norm_b = shared = squared = 0.0
        for i in range(a, end_a):
            norm_a += weight[word[i]] ** 2
        for i in range(b, end_b):
            norm_b += weight[word[i]] ** 2
        while a < end_a and b < end_b:
            if word[a] == word[b]:
                heavy = weight[word[a]]
                shared += 1
                squared += heavy * heavy
                out[pair, 1] += heavy
                out[pair, 2] = max(out[pair, 2], heavy)
                a += 1
                b += 1
            elif word[a] < word[b]:
                a += 1
            else:
                b += 1
        out[pair, 0] = shared
        if norm_a > 0 and norm_b > 0:
            out[pair, 3] = squared / np.sqrt(norm_a * norm_b)


def same_user(records: Records, number: int, random: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Pairs of records of one user, every such pair as likely as any other."""
    first = records.first
    size = np.diff(first)
    pairs = np.cumsum(size * (size - 1))
    if not len(pairs) or not pairs[-1]:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    user = np.searchsorted(pairs, random.integers(0, pairs[-1], number), side="right")
    one = random.integers(0, size[user])
    other = (one + 1 + random.integers(0, size[user] - 1)) % size[user]
    return first[user] + one, first[user] + other


def different_users(
    records: Records, number: int, random: np.random.Generator, group: Numbers | None = None
) -> tuple[Numbers, Numbers]:
    """Pairs of records of two users, each as likely as any other; `group`: the ends of stretches that hold both."""
    ends = np.array([len(records)]) if group is None else group
    begins = np.concatenate([[0], ends[:-1]])
    chance = np.cumsum((ends - begins).astype(np.float64) ** 2)
    where = np.searchsorted(chance, random.random(2 * number) * chance[-1], side="right").clip(0, len(ends) - 1)
    one, other = (random.integers(begins[where], ends[where]) for _ in range(2))
    apart = records.user[one] != records.user[other]
    return one[apart][:number], other[apart][:number]


def alike(records: Records, number: int, random: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Hard pairs of two users: they share a word, or stand close to each other in time."""
    record = np.repeat(np.arange(len(records)), np.diff(records.starts))
    order = np.argsort(records.word, kind="stable")
    place = np.searchsorted(records.word[order], np.arange(records.word.max(initial=-1) + 2))
    entry = random.integers(0, max(len(order), 1), number) if len(order) else np.zeros(0, np.int64)
    word = records.word[order][entry] if len(order) else np.zeros(0, np.int32)
    pairs = [(record[order][entry], record[order][random.integers(place[word], place[word + 1])])] if len(order) else []
    if (records.time >= 0).any():
        in_time = np.argsort(records.time, kind="stable")
        start = random.integers(0, len(records), number)
        near = np.minimum(start + random.integers(1, 21, number), len(records) - 1)
        pairs.append((in_time[start], in_time[near]))
    one, other = (np.concatenate([np.zeros(0, np.int64), *side]) for side in zip(*pairs, strict=True))
    apart = records.user[one] != records.user[other]
    return one[apart], other[apart]
