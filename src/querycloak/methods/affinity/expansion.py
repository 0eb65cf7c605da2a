"""Queries as sets of concepts, and who asked them (affinity.md, step 2).

Queries with the same concepts are one vertex. What stays in memory is whole numbers: for each query its vertex, for
each vertex its concepts and its users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numba import njit
from numpy.typing import NDArray

from querycloak.methods.affinity.concepts import Concepts
from querycloak.methods.affinity.rows import Rows, grown, sorted_sets
from querycloak.words.lexicon import Lexicon, find, spans_of
from querycloak.words.spans import Spans

UNEXPANDABLE, UNSAFE = -1, -2
# A cosine of longer vectors might not fit 64 bits; such queries are not expanded (affinity.md, step 3).
MOST_CONCEPTS = 2048


@dataclass(frozen=True)
class Expanded:
    """Every distinct query, in the order of the log's queries sorted by text."""

    queries: pa.ChunkedArray
    own_users: NDArray[np.int32]
    vertex: NDArray[np.int32]
    concepts: Rows
    users: Rows
    number_of_users: int


def expand(uses: Iterable[pa.RecordBatch], concepts: Concepts) -> Expanded:
    """Expand queries from batches of (query, user), each pair once, sorted by query."""
    expansion = _Expansion(concepts)
    for batch in uses:
        expansion.add(batch)
    return expansion.finished()


class _Expansion:
    def __init__(self, concepts: Concepts) -> None:
        self._concepts = concepts
        self._users = Lexicon()
        self._texts: list[pa.Array] = []
        self._own: list[NDArray[np.int32]] = []
        self._vertex: list[NDArray[np.int32]] = []
        self._use_vertex: list[NDArray[np.int32]] = []
        self._use_user: list[NDArray[np.int32]] = []
        self._vertices = _Vertices()
        self._last: bytes | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        if batch.num_rows == 0:
            return
        texts = Spans.of(batch.column("query"))
        user = self._users.add(batch.column("user"))
        begins = np.empty(len(texts), np.bool_)
        _changes(*spans_of(texts), begins)
        begins[0] = texts.bytes_at(0) != self._last
        self._last = texts.bytes_at(len(texts) - 1)
        fresh = texts.where(begins)
        vertex = self._vertices.add(fresh, self._concepts)
        # The first rows may still belong to the query that the batch before ended with.
        known = np.concatenate([self._vertex[-1][-1:] if self._vertex else np.empty(0, np.int32), vertex])
        place = np.cumsum(begins) - (0 if self._vertex else 1)
        of_use = known[place]
        expanded = of_use >= 0
        self._use_vertex.append(of_use[expanded])
        self._use_user.append(user[expanded])
        own = np.bincount(place, minlength=len(known)).astype(np.int32)
        if self._vertex:
            self._own[-1][-1] += own[0]
            own = own[1:]
        if len(fresh):
            self._texts.append(fresh.strings())
            self._own.append(own)
            self._vertex.append(vertex)

    def finished(self) -> Expanded:
        none = np.empty(0, np.int32)
        use_vertex, use_user = (np.concatenate([none, *parts]) for parts in (self._use_vertex, self._use_user))
        self._use_vertex, self._use_user = [], []
        return Expanded(
            queries=pa.chunked_array(self._texts, pa.string()),
            own_users=np.concatenate([none, *self._own]),
            vertex=np.concatenate([none, *self._vertex]),
            concepts=self._vertices.rows(),
            users=sorted_sets(use_vertex, use_user, len(self._vertices)),
            number_of_users=len(self._users),
        )


class _Vertices:
    """Different sets of concepts, numbered as they come; a table finds each exactly."""

    def __init__(self) -> None:
        self._slots = np.full(1 << 10, -1, np.int32)
        self._data = np.empty(1 << 12, np.int32)
        self._ends = np.zeros(1 << 8, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Spans, concepts: Concepts) -> NDArray[np.int32]:
        """The vertex of each query, or why it has none."""
        self._make_room(texts)
        vertex = np.empty(len(texts), np.int32)
        self._count = _expand(
            *spans_of(texts),
            *concepts.words.table,
            concepts.safe,
            concepts.word_concepts,
            max(1, len(concepts.words)),
            concepts.pair_keys,
            concepts.pair_concepts,
            concepts.triple_keys,
            concepts.triple_concepts,
            self._slots,
            self._data,
            self._ends,
            self._count,
            vertex,
            np.empty(MOST_CONCEPTS, np.int32),
        )
        return vertex

    def rows(self) -> Rows:
        ends = self._ends[: self._count + 1]
        return Rows(ends.copy(), self._data[: ends[-1]].copy())

    def _make_room(self, texts: Spans) -> None:
        most = self._count + len(texts)
        self._ends = grown(self._ends, most + 1)
        # n words have at most 3 n - 3 n-grams, and every word takes two bytes with its blank.
        longest = np.minimum(3 * (texts.lengths.astype(np.int64) // 2 + 1), MOST_CONCEPTS)
        self._data = grown(self._data, int(self._ends[self._count] + longest.sum()))
        if 2 * most > len(self._slots):
            self._slots = np.full(1 << (2 * most).bit_length(), -1, np.int32)
            _refill(self._slots, self._data, self._ends, self._count)


@njit(cache=True, nogil=True)
def _changes(data, starts, ends, begins):  # type: ignore[no-untyped-def]
    """Mark the texts that differ from the one before."""
    for row in range(1, starts.size):
        length = ends[row] - starts[row]
        differs = length != ends[row - 1] - starts[row - 1]
        for i in range(0 if differs else length):
            if data[starts[row] + i] != data[starts[row - 1] + i]:
                differs = True
                break
        begins[row] = differs


@njit(cache=True, nogil=True)
def _place(keys, key):  # type: ignore[no-untyped-def]
    """Where a key stands among sorted ones, or -1."""
    low, high = 0, keys.size
    while low < high:
        middle = (low + high) // 2
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < keys.size and keys[low] == key else -1


@njit(cache=True, nogil=True)
def _expand(data, starts, ends, word_slots, word_texts, word_ends, safe, word_concepts, width, pair_keys, pair_concepts, triple_keys, triple_concepts, slots, vertex_data, vertex_ends, count, vertex, found):  # type: ignore[no-untyped-def]  # noqa: E501  # fmt: skip
    for row in range(starts.size):
        size, all_safe = 0, True
        last, last_pair = -1, -1
        begin = starts[row]
        for i in range(starts[row], ends[row] + 1):
            if i < ends[row] and data[i] != 32:
                continue
            if i > begin:
                word = word_slots[find(data, begin, i, word_slots, word_texts, word_ends)]
                pair = triple = -1
                all_safe = all_safe and word >= 0 and safe[word]
                if word >= 0 and last >= 0:
                    pair = _place(pair_keys, last * width + word)
                if pair >= 0 and last_pair >= 0:
                    triple = _place(triple_keys, last_pair * width + word)
                size = _noted(found, size, word_concepts[word] if word >= 0 else -1)
                size = _noted(found, size, pair_concepts[pair] if pair >= 0 else -1)
                size = _noted(found, size, triple_concepts[triple] if triple >= 0 else -1)
                last, last_pair = word, pair
            begin = i + 1
        if not all_safe:
            vertex[row] = UNSAFE
        elif size == 0 or size > MOST_CONCEPTS:
            vertex[row] = UNEXPANDABLE
        else:
            count = _joined(found, size, slots, vertex_data, vertex_ends, count, vertex, row)
    return count


@njit(cache=True, nogil=True)
def _noted(found, size, concept):  # type: ignore[no-untyped-def]
    """Note a concept; one too many only counts."""
    if concept < 0:
        return size
    if size < MOST_CONCEPTS:
        found[size] = concept
    return min(size + 1, MOST_CONCEPTS + 1)


@njit(cache=True, nogil=True)
def _joined(found, size, slots, vertex_data, vertex_ends, count, vertex, row):  # type: ignore[no-untyped-def]
    """Give a row the vertex of its concepts, a new one if they are new."""
    found[:size].sort()
    at = vertex_ends[count]
    kept = 0
    for i in range(size):
        if i == 0 or found[i] != found[i - 1]:
            vertex_data[at + kept] = found[i]
            kept += 1
    slot = _find_vertex(vertex_data, at, at + kept, slots, vertex_ends)
    if slots[slot] < 0:
        slots[slot] = count
        count += 1
        vertex_ends[count] = at + kept
    vertex[row] = slots[slot]
    return count


@njit(cache=True, nogil=True)
def _find_vertex(data, start, end, slots, vertex_ends):  # type: ignore[no-untyped-def]
    value = np.uint64(14695981039346656037)
    for i in range(start, end):
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
        value ^= value >> np.uint64(31)
    mask = np.uint64(slots.size - 1)
    slot = value & mask
    while slots[slot] >= 0:
        other = vertex_ends[slots[slot]]
        if vertex_ends[slots[slot] + 1] - other == end - start:
            same = True
            for i in range(end - start):
                if data[other + i] != data[start + i]:
                    same = False
                    break
            if same:
                return slot
        slot = (slot + np.uint64(1)) & mask
    return slot


@njit(cache=True, nogil=True)
def _refill(slots, data, vertex_ends, count):  # type: ignore[no-untyped-def]
    for number in range(count):
        slots[_find_vertex(data, vertex_ends[number], vertex_ends[number + 1], slots, vertex_ends)] = number
