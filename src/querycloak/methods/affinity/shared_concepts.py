"""Comparing on executors, block by block of vertices that share a concept (affinity.md, "On a cluster").

Everything here runs where rows are: batches in, batches out. A vertex is named by its concepts, ascending, four bytes
each: the same name wherever it is made. Two affine vertices share a concept that is in the prefixes of both, so the
vertices that are posted under one concept, and whose norms are near enough, are brought to one executor, and there
compared as one machine compares all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.methods.affinity.cosine import MILLION, Index, prefix_lengths
from querycloak.methods.affinity.expansion import UNEXPANDABLE, Vertices
from querycloak.methods.affinity.graph import Limits, Search
from querycloak.methods.affinity.ngram_concepts import Concepts
from querycloak.text.compiled import kernel
from querycloak.text.lexicon import Lexicon
from querycloak.text.lists import Lists, places
from querycloak.text.spans import Spans

EXPANSIONS = pa.schema({"query": pa.string(), "vertex": pa.binary()})
TALLY = pa.schema({"key": pa.int64(), "vertices": pa.int64()})
POSTED = pa.schema({"block": pa.int64(), "vertex": pa.binary(), "users": pa.list_(pa.string()), "hub": pa.bool_()})
NEIGHBOURS = pa.schema({"vertex": pa.binary(), "other": pa.binary()})
MOST_IN_BLOCK = 1 << 16
"""Vertices of a block; one that has more is cut, and every two of its pieces are a block."""
_MOST_PIECES, _BANDS = 1 << 10, 1 << 12
_TOGETHER = 1 << 17
"""Rows that are compared at once: as many whole blocks as come to this."""
_MOST_WRITTEN = 1 << 20
# A band is wider than what affine norms can differ by; the margin is far above any error of a logarithm.
_NARROWEST, _WIDER = 0.1, 1 + 1e-6
_BYTES = 4
Integers = NDArray[np.int64]
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Expand:
    """Queries with their vertices; null for those that have none."""

    concepts: Concepts

    def __call__(self, batches: Batches) -> Batches:
        """From batches with a column `query`."""
        for batch in batches:
            vertices = Vertices()
            numbers = vertices.add(Spans.of(batch.column("query")), self.concepts)
            none = numbers == UNEXPANDABLE
            places = pa.array(np.where(none, 0, numbers), mask=none)
            yield pa.record_batch([batch.column("query"), _named(vertices.rows()).take(places)], schema=EXPANSIONS)


@dataclass(frozen=True)
class CountConcepts:
    """Number of vertices with each concept."""

    number: int

    def __call__(self, batches: Batches) -> Batches:
        """From batches with a column `vertex`."""
        counts = np.zeros(self.number, np.int64)
        for batch in batches:
            counts += np.bincount(_vectors(batch.column("vertex")).values, minlength=self.number)
        counted = np.flatnonzero(counts)
        yield pa.record_batch([counted, counts[counted]], schema=TALLY)


@dataclass(frozen=True)
class Prefixes:
    """Under which concepts a vertex is posted, by one order for all of them, and in which band its norm lies."""

    weights: Integers
    rank: NDArray[np.int32]
    """A concept's place from the rarest to the most frequent."""
    theta: int

    @classmethod
    def of(cls, weights: Integers, frequency: Integers, theta: int) -> Prefixes:
        """Rank the concepts by their numbers of vertices."""
        rank = np.empty(len(weights), np.int32)
        rank[np.argsort(frequency, kind="stable")] = np.arange(len(weights), dtype=np.int32)
        return cls(weights, rank, theta)

    def keys(self, vectors: Lists) -> tuple[NDArray[np.int32], Integers]:
        """Prefix length of each vector in concepts; and for each of these, concept and band as one number."""
        squares = np.empty(len(self.weights), np.int64)
        squares[self.rank] = self.weights**2
        ranked = Lists(vectors.starts, self.rank[vectors.values])
        norms, lengths = prefix_lengths(ranked, squares, self.theta)
        width = max(-2 * np.log(self.theta / MILLION), _NARROWEST) * _WIDER
        bands = (np.log(norms) / width).astype(np.int64)
        concepts = ranked.values[places(ranked.starts[:-1], lengths)].astype(np.int64)
        return lengths, concepts * _BANDS + np.repeat(bands, lengths)


@dataclass(frozen=True)
class CountPostings:
    """Number of vertices posted under each key."""

    prefixes: Prefixes

    def __call__(self, batches: Batches) -> Batches:
        """From batches with a column `vertex`."""
        for batch in batches:
            _, keys = self.prefixes.keys(_vectors(batch.column("vertex")))
            yield pa.record_batch(list(np.unique(keys, return_counts=True)), schema=TALLY)


@dataclass(frozen=True)
class Pieces:
    """Number of pieces of blocks that would have too many vertices; others are whole."""

    keys: Integers
    pieces: Integers

    @classmethod
    def of(cls, keys: Integers, vertices: Integers, most: int = MOST_IN_BLOCK) -> Pieces:
        """Divide blocks by the vertices of keys; keys with more than half of a block's limit must be listed."""
        known = dict(zip(keys.tolist(), vertices.tolist(), strict=True))
        half = most // 2
        sizes = {key: known.get(key, half) + known.get(key + 1, half) for key in sorted({*known, *(k - 1 for k in known)})}  # noqa: E501  # fmt: skip
        pieces = np.array([min(-(-size // most), _MOST_PIECES) for size in sizes.values()], np.int64)
        return cls(np.array(list(sizes), np.int64), pieces)

    def number(self, keys: Integers) -> Integers:
        """Number of pieces of the block of each key."""
        if not len(self.keys):
            return np.ones(len(keys), np.int64)
        place = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        return np.where(self.keys[place] == keys, self.pieces[place], 1)


@dataclass(frozen=True)
class Post:
    """Every vertex once for each block that it belongs to.

    A block has the vertices of a concept and a band, and those of the next band: norms of affine vertices are never
    further apart. Of a block in n pieces every two pieces, and each with itself, are one block.
    """

    prefixes: Prefixes
    pieces: Pieces

    def __call__(self, batches: Batches) -> Batches:
        """From batches with the columns of POSTED other than `block`."""
        for batch in batches:
            vectors = _vectors(batch.column("vertex"))
            lengths, keys = self.prefixes.keys(vectors)
            owner = np.repeat(np.arange(len(vectors)), lengths)
            below = keys % _BANDS > 0
            owner, keys = np.concatenate([owner, owner[below]]), np.concatenate([keys, keys[below] - 1])
            number = self.pieces.number(keys)
            mine = np.repeat((_hashes(vectors)[owner] % number.astype(np.uint64)).astype(np.int64), number)
            other = places(np.zeros(len(number), np.int64), number)
            piece = np.minimum(mine, other) * _MOST_PIECES + np.maximum(mine, other)
            rows = batch.take(pa.array(np.repeat(owner, number)))
            block = np.repeat(keys, number) * _MOST_PIECES**2 + piece
            yield pa.record_batch([pa.array(block), *(rows.column(name) for name in POSTED.names[1:])], schema=POSTED)


@dataclass(frozen=True)
class Compare:
    """The neighbours of vertices that are open, and (without another) those that surely stay."""

    weights: Integers
    theta: int
    most: int

    def __call__(self, batches: Batches) -> Batches:
        """From batches of what is posted, in the order of its blocks."""
        for whole in _whole_blocks(batches):
            yield from self._compared(pa.Table.from_batches(whole).combine_chunks())

    def _compared(self, posted: pa.Table) -> Batches:
        numbered = posted["vertex"].combine_chunks().dictionary_encode()
        names, first = numbered.dictionary, np.unique(numbered.indices, return_index=True)[1]
        rows = posted.take(first)
        vectors = _vectors(names)
        concepts, local = np.unique(vectors.values, return_inverse=True)
        index = Index.of(Lists(vectors.starts, local.astype(np.int32)), self.weights[concepts], self.theta)
        users, number_of_users = _numbered(rows["users"].combine_chunks())
        hubs = rows["hub"].to_numpy()[index.order]
        search = Search(index, users.take(index.order), number_of_users, Limits(self.most, 0), hubs)
        for block in search.everything(threads=1):
            yield from _written(
                names, np.repeat(index.order[block.vertices], block.sizes), index.order[block.neighbours]
            )
        stay = names.take(index.order[search.stays & ~hubs])
        yield pa.record_batch([stay, pa.nulls(len(stay), pa.binary())], schema=NEIGHBOURS)


def _written(names: pa.Array, vertices: Integers, others: Integers) -> Batches:
    for at in range(0, len(vertices), _MOST_WRITTEN):
        some = slice(at, at + _MOST_WRITTEN)
        yield pa.record_batch([names.take(vertices[some]), names.take(others[some])], schema=NEIGHBOURS)


def _whole_blocks(batches: Batches) -> Iterator[list[pa.RecordBatch]]:
    """Batches up to an end of a block, some 100,000 rows or one block at a time."""
    waiting: list[pa.RecordBatch] = []
    rows, last = 0, -1
    for batch in batches:
        if not batch.num_rows:
            continue
        blocks = batch.column("block").to_numpy()
        cut = int(np.searchsorted(blocks, blocks[-1]))  # the last block may go on in the next batch
        if rows + cut >= _TOGETHER and (cut or blocks[0] != last):
            yield [*waiting, batch.slice(0, cut)]
            waiting, rows = [batch.slice(cut)], len(blocks) - cut
        else:
            waiting.append(batch)
            rows += len(blocks)
        last = blocks[-1]
    if waiting:
        yield waiting


def _named(vectors: Lists) -> pa.Array:
    """Names of vertices: their concepts, four bytes each."""
    offsets = (vectors.starts * _BYTES).astype(np.int32)
    data = np.ascontiguousarray(vectors.values, np.int32)
    return pa.Array.from_buffers(pa.binary(), len(vectors), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def _vectors(names: pa.Array) -> Lists:
    """The concepts of vertices with these names."""
    spans = Spans.of(names)
    data = spans.data[spans.starts[0] : spans.ends[-1]].view(np.int32) if len(spans) else np.empty(0, np.int32)
    return Lists.of_lengths(spans.lengths // _BYTES, data.copy())


def _numbered(users: pa.Array) -> tuple[Lists, int]:
    """Lists of users as numbers, and how many users there are; no list is an empty one."""
    lexicon = Lexicon()
    lengths = pc.fill_null(pc.list_value_length(users), 0).to_numpy()
    return Lists.of_lengths(lengths, lexicon.add(users.flatten())), len(lexicon)


def _hashes(vectors: Lists) -> NDArray[np.uint64]:
    hashes = np.empty(len(vectors), np.uint64)
    _hash_all(vectors.starts, vectors.values, hashes)
    return hashes


@kernel
def _hash_all(starts, data, hashes):  # type: ignore[no-untyped-def]
    for v in range(hashes.size):
        value = np.uint64(14695981039346656037)
        for i in range(starts[v], starts[v + 1]):
            value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
            value ^= value >> np.uint64(31)
        hashes[v] = value
