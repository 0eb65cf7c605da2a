"""Queries as sets of concepts, and who asked them (affinity.md, step 2).

Queries with the same concepts are one vertex. What stays in memory is whole numbers: for each query its vertex, for
each vertex its concepts and its users.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.methods.affinity.ngram_concepts import Concepts
from querycloak.methods.distinct_queries import gather
from querycloak.text.compiled import kernel, part
from querycloak.text.lexicon import find, grown, probe, spans_of
from querycloak.text.lists import Lists, first_at_least, sort_span, sorted_sets
from querycloak.text.spans import Spans

UNEXPANDABLE, UNSAFE = -1, -2
# A cosine of longer vectors might not fit 64 bits; such queries are not expanded (affinity.md, step 3).
MOST_CONCEPTS = 2048


@dataclass(frozen=True)
class Expanded:
    """The distinct queries, in order of text."""

    queries: pa.ChunkedArray
    own_users: NDArray[np.int32]
    vertex: NDArray[np.int32]
    concepts: Lists
    users: Lists
    number_of_users: int


def expand(uses: Iterable[pa.RecordBatch], concepts: Concepts) -> Expanded:
    """Expand queries from batches of (query, user), each pair once, sorted by query."""
    vertices = Vertices()
    gathered = gather(uses, lambda texts: vertices.add(texts, concepts))
    return Expanded(
        queries=gathered.queries,
        own_users=gathered.own_users,
        vertex=gathered.numbers,
        concepts=vertices.rows(),
        users=sorted_sets(gathered.use_numbers, gathered.use_users, len(vertices)),
        number_of_users=gathered.number_of_users,
    )


class _Texts(NamedTuple):
    """Queries as compiled code takes them."""

    data: NDArray[np.uint8]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]


class _Phrases(NamedTuple):
    """Words, pairs and triples with their concepts, as compiled code takes them."""

    slots: NDArray[np.int32]
    texts: NDArray[np.uint8]
    ends: NDArray[np.int64]
    safe: NDArray[np.bool_]
    unknown_is_safe: bool
    word_concepts: NDArray[np.int32]
    width: int
    pair_keys: NDArray[np.int64]
    pair_concepts: NDArray[np.int32]
    triple_keys: NDArray[np.int64]
    triple_concepts: NDArray[np.int32]


class _VertexTable(NamedTuple):
    """Distinct sets of concepts, and the slots of the hash table over them."""

    slots: NDArray[np.int32]
    data: NDArray[np.int32]
    ends: NDArray[np.int64]


def _phrases_of(concepts: Concepts) -> _Phrases:
    return _Phrases(
        *concepts.words.table,
        concepts.safe,
        concepts.unknown_is_safe,
        concepts.word_concepts,
        max(1, len(concepts.words)),
        concepts.pair_keys,
        concepts.pair_concepts,
        concepts.triple_keys,
        concepts.triple_concepts,
    )


class Vertices:
    """Different sets of concepts, numbered as they come; a table finds each exactly."""

    def __init__(self) -> None:
        self._slots = np.full(1 << 10, -1, np.int32)
        self._data: NDArray[np.int32] = np.empty(1 << 12, np.int32)
        self._ends: NDArray[np.int64] = np.zeros(1 << 8, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Spans, concepts: Concepts) -> NDArray[np.int32]:
        """The vertex of each query; UNEXPANDABLE or UNSAFE for queries without one."""
        self._make_room(texts)
        vertex = np.empty(len(texts), np.int32)
        vertices = _VertexTable(self._slots, self._data, self._ends)
        room = np.empty(MOST_CONCEPTS, np.int32)
        self._count = _expand(_Texts(*spans_of(texts)), _phrases_of(concepts), vertices, self._count, vertex, room)
        return vertex

    def rows(self) -> Lists:
        """The concepts of each vertex, ascending."""
        ends = self._ends[: self._count + 1]
        return Lists(ends.copy(), self._data[: ends[-1]].copy())

    def _make_room(self, texts: Spans) -> None:
        most = self._count + len(texts)
        self._ends = grown(self._ends, most + 1)
        # n words have at most 3 n - 3 n-grams, and every word takes two bytes with its blank.
        longest = np.minimum(3 * (texts.lengths.astype(np.int64) // 2 + 1), MOST_CONCEPTS)
        self._data = grown(self._data, int(self._ends[self._count] + longest.sum()))
        if 2 * most > len(self._slots):
            self._slots = np.full(1 << (2 * most).bit_length(), -1, np.int32)
            _refill(self._slots, self._data, self._ends, self._count)


@part
def _place(keys, key):  # type: ignore[no-untyped-def]
    """Place of a key among sorted ones, or -1."""
    place = first_at_least(keys, 0, keys.size, key)
    return place if place < keys.size and keys[place] == key else -1


@kernel
def _expand(texts, phrases, vertices, count, vertex, room):  # type: ignore[no-untyped-def]
    data, slots, width = texts.data, phrases.slots, phrases.width
    for row in range(texts.starts.size):
        size, all_safe = 0, True
        last, last_pair = -1, -1
        begin = texts.starts[row]
        for i in range(texts.starts[row], texts.ends[row] + 1):
            if i < texts.ends[row] and data[i] != 32:
                continue
            if i > begin:
                word = slots[find(data, begin, i, slots, phrases.texts, phrases.ends)]
                pair = triple = -1
                all_safe = all_safe and (phrases.safe[word] if word >= 0 else phrases.unknown_is_safe)
                if word >= 0 and last >= 0:
                    pair = _place(phrases.pair_keys, last * width + word)
                if pair >= 0 and last_pair >= 0:
                    triple = _place(phrases.triple_keys, last_pair * width + word)
                size = _noted(room, size, phrases.word_concepts[word] if word >= 0 else -1)
                size = _noted(room, size, phrases.pair_concepts[pair] if pair >= 0 else -1)
                size = _noted(room, size, phrases.triple_concepts[triple] if triple >= 0 else -1)
                last, last_pair = word, pair
            begin = i + 1
        if not all_safe:
            vertex[row] = UNSAFE
        elif size == 0 or size > MOST_CONCEPTS:
            vertex[row] = UNEXPANDABLE
        else:
            vertex[row], count = _joined(room, size, vertices, count)
    return count


@part
def _noted(room, size, concept):  # type: ignore[no-untyped-def]
    """Note a concept; one too many only counts."""
    if concept < 0:
        return size
    if size < MOST_CONCEPTS:
        room[size] = concept
    return min(size + 1, MOST_CONCEPTS + 1)


@part
def _joined(room, size, vertices, count):  # type: ignore[no-untyped-def]
    """The vertex of these concepts, a new one if they are new, and how many vertices there are then."""
    sort_span(room, 0, size)
    at = vertices.ends[count]
    kept = 0
    for i in range(size):
        if i == 0 or room[i] != room[i - 1]:
            vertices.data[at + kept] = room[i]
            kept += 1
    slot = _find_vertex(vertices.data, at, at + kept, vertices.slots, vertices.ends)
    if vertices.slots[slot] < 0:
        vertices.slots[slot] = count
        count += 1
        vertices.ends[count] = at + kept
    return vertices.slots[slot], count


@part
def _find_vertex(data, start, end, slots, vertex_ends):  # type: ignore[no-untyped-def]
    value = np.uint64(14695981039346656037)
    for i in range(start, end):
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
        value ^= value >> np.uint64(31)
    return probe(value, data, start, end, slots, data, vertex_ends)


@kernel
def _refill(slots, data, vertex_ends, count):  # type: ignore[no-untyped-def]
    for number in range(count):
        slots[_find_vertex(data, vertex_ends[number], vertex_ends[number + 1], slots, vertex_ends)] = number
