"""Blocks of shared concepts: two affine vertices meet in one of them, and blocks reach the comparison whole."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.methods.affinity import shared_concepts
from querycloak.methods.affinity.shared_concepts import (
    NEIGHBOURS,
    POSTED,
    Compare,
    CountPostings,
    Pieces,
    Post,
    Prefixes,
)
from tests.unit.methods.affinity import oracles

CONCEPTS = 12
Vectors = list[frozenset[int]]
VECTOR = st.frozensets(st.integers(0, CONCEPTS - 1), min_size=1, max_size=6)
VECTORS = st.lists(VECTOR, min_size=1, max_size=30, unique=True)
WEIGHTS = st.lists(st.integers(1, 1 << 16), min_size=CONCEPTS, max_size=CONCEPTS)
THETAS = st.sampled_from([1, 300_000, 700_000, 800_000, 900_000, 999_999, 1_000_000])


def name(vector: frozenset[int]) -> bytes:
    return np.array(sorted(vector), np.int32).tobytes()


def batch_of(vectors: Vectors, users: list[list[str] | None]) -> pa.RecordBatch:
    columns = {"vertex": [name(each) for each in vectors], "users": users, "hub": [each is None for each in users]}
    return pa.RecordBatch.from_pydict(columns, schema=pa.schema([POSTED.field(each) for each in columns]))


def posted(vectors: Vectors, weights: list[int], theta: int, most: int, users: list[list[str] | None]) -> pa.Table:
    rows = batch_of(vectors, users)
    frequency = np.bincount([c for each in vectors for c in each], minlength=CONCEPTS)
    prefixes = Prefixes.of(np.array(weights, np.int64), frequency, theta)
    tallies = pa.Table.from_batches(CountPostings(prefixes)(iter([rows]))).to_pydict()
    large = [(k, n) for k, n in zip(*tallies.values(), strict=True) if n > most // 2]
    pieces = Pieces.of(np.array([k for k, _ in large], np.int64), np.array([n for _, n in large], np.int64), most)
    return pa.Table.from_batches(Post(prefixes, pieces)(iter([rows])), POSTED)


@settings(max_examples=150, deadline=None)
@given(VECTORS, WEIGHTS, THETAS, st.sampled_from([2, 4, 1 << 16]))
def test_affine_vertices_meet_in_a_block(vectors: Vectors, weights: list[int], theta: int, most: int) -> None:
    table = posted(vectors, weights, theta, most, [["one"]] * len(vectors))
    blocks = defaultdict(set)
    for block, vertex in zip(table["block"].to_pylist(), table["vertex"].to_pylist(), strict=True):
        blocks[block].add(vertex)
    met = {(a, b) for block in blocks.values() for a in block for b in block}
    for v, near in enumerate(oracles.neighbours(vectors, weights, theta)):
        assert {(name(vectors[v]), name(vectors[w])) for w in near} <= met


def test_a_large_block_is_cut_into_pieces_that_meet() -> None:
    vectors = [frozenset({0, 1 + i % 11, 1 + i // 11}) for i in range(121)]
    vectors = list(dict.fromkeys(vectors))
    table = posted(vectors, [1000] + [1] * 11, 900_000, 8, [["one"]] * len(vectors))
    sizes = table["block"].value_counts().to_pylist()
    assert len(sizes) > 50
    assert max(each["counts"] for each in sizes) < 60  # two pieces of 8, about, and chance
    whole = posted(vectors, [1000] + [1] * 11, 900_000, 1 << 16, [["one"]] * len(vectors))
    assert whole.num_rows < table.num_rows


def test_how_many_pieces() -> None:
    cut = Pieces.of(np.array([40, 70]), np.array([100, 6]), 10)
    # Keys next to each other share blocks; what was not told is half a block at most.
    assert cut.number(np.array([39, 40, 41, 69, 70, 71])).tolist() == [11, 11, 1, 2, 2, 1]
    assert Pieces.of(np.array([], np.int64), np.array([], np.int64), 10).number(np.array([3, 4])).tolist() == [1, 1]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 6), max_size=60), st.integers(1, 9), st.integers(1, 20))
def test_blocks_stay_whole(blocks: list[int], width: int, together: int) -> None:
    ordered = pa.array(sorted(blocks), pa.int64())
    batches = [pa.record_batch([ordered[at : at + width]], ["block"]) for at in range(0, len(blocks), width)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_concepts, "_TOGETHER", together)
        found = list(shared_concepts._whole_blocks(iter(batches)))
    groups = [pa.Table.from_batches(each)["block"].to_pylist() for each in found]
    assert [block for group in groups for block in group] == sorted(blocks)
    seen = [set(group) for group in groups]
    assert sum(map(len, seen)) == len(set(blocks))
    # No more is kept waiting than needed: the bound, a batch, and a block that has no end yet.
    largest = max(map(blocks.count, blocks), default=0)
    assert all(len(group) <= together + width + largest for group in groups)


@settings(max_examples=100, deadline=None)
@given(VECTORS, WEIGHTS, THETAS, st.integers(2, 6), st.randoms(use_true_random=False))
def test_an_executor_finds_every_neighbour_or_says_who_stays(
    vectors: Vectors, weights: list[int], theta: int, enough: int, random: Random
) -> None:
    people = [sorted({random.randint(0, 8) for _ in range(random.randint(1, 4))}) for _ in vectors]
    users = [None if len(each) >= enough else list(map(str, each)) for each in people]
    table = posted(vectors, weights, theta, 4, users).sort_by("block")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shared_concepts, "_TOGETHER", 5)
        found = list(Compare(np.array(weights, np.int64), theta, enough)(iter(table.to_batches(7))))
    rows = pa.Table.from_batches(found, NEIGHBOURS).to_pylist()
    adjacent = oracles.neighbours(vectors, weights, theta)
    in_core = {name(vectors[v]) for v, d in enumerate(oracles.core_degrees(adjacent, people, enough)) if d >= enough}
    stays = {row["vertex"] for row in rows if row["other"] is None}
    assert stays <= in_core
    listed = {(row["vertex"], row["other"]) for row in rows if row["other"] is not None}
    true = {(name(vectors[v]), name(vectors[w])) for v, near in enumerate(adjacent) for w in near}
    assert listed <= true
    decided = stays | {name(vectors[v]) for v, each in enumerate(users) if each is None}
    assert {pair for pair in true if pair[0] not in decided} <= listed
