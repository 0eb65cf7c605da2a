"""Lists of whole numbers, and queries gathered from batches, against plain Python."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit

from querycloak.methods.distinct_queries import gather
from querycloak.text.lists import sort_span, sorted_sets
from querycloak.text.spans import Spans

PAIRS = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 9)), max_size=60)


@settings(max_examples=100, deadline=None)
@given(PAIRS, st.permutations(range(8)))
def test_pairs_become_sorted_sets(pairs: list[tuple[int, int]], order: list[int]) -> None:
    row, number = (np.array([pair[i] for pair in pairs], np.int32) for i in (0, 1))
    found = sorted_sets(row, number, 8)
    true = [sorted({b for a, b in pairs if a == i}) for i in range(8)]
    assert [found[i].tolist() for i in range(8)] == true
    taken = found.take(np.array(order))
    assert [taken[i].tolist() for i in range(8)] == [true[i] for i in order]


@settings(max_examples=100, deadline=None)
@given(
    st.sets(st.tuples(st.sampled_from(["", "a", "ab", "b", "ba", "é"]), st.sampled_from("uvwxyz"))), st.integers(1, 7)
)
def test_uses_of_one_query_may_lie_in_several_batches(uses: set[tuple[str, str]], size: int) -> None:
    ordered = sorted(uses)
    table = pa.table({"query": [q for q, _ in ordered], "user": [u for _, u in ordered]})
    lengths = {"": -1, "b": -2}

    def number(texts: Spans) -> np.ndarray[tuple[int], np.dtype[np.int32]]:
        return np.array([lengths.get(t.decode(), len(t)) for t in texts.texts()], np.int32)

    found = gather(table.to_batches(max_chunksize=size), number)
    users: dict[str, set[str]] = defaultdict(set)
    for query, user in ordered:
        users[query].add(user)
    assert found.queries.to_pylist() == list(users)
    assert found.own_users.tolist() == [len(each) for each in users.values()]
    assert found.numbers.tolist() == [lengths.get(q, len(q.encode())) for q in users]
    assert sorted(found.use_numbers.tolist()) == sorted(len(q.encode()) for q, _ in ordered if q not in lengths)
    assert found.number_of_users == len({u for _, u in ordered})


@njit(nogil=True)  # not kept: it would go on with an earlier sort_span
def _sorted(data, first, last):  # type: ignore[no-untyped-def]
    sort_span(data, first, last)


@given(st.lists(st.integers(-9, 9) | st.integers(-(1 << 31), (1 << 31) - 1), max_size=200), st.data())
def test_a_piece_is_put_in_order_and_nothing_else_moves(values: list[int], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(values)))
    last = data.draw(st.integers(first, len(values)))
    for kind in (np.int32, np.int64):
        found = np.array(values, kind)
        _sorted(found, first, last)
        assert found.tolist() == values[:first] + sorted(values[first:last]) + values[last:]
