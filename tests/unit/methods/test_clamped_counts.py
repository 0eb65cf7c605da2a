"""Counts below 1 are noise alone: they are null, and rows keep their order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from querycloak.methods.keys.thresholded import by_count, by_noisy_count


@given(st.lists(st.integers(-5, 5), max_size=12))
def test_clamped_counts_are_null_and_the_order_is_that_of_ones(noisy: list[int]) -> None:
    keys = pa.table({"query": pa.array([f"q{7 * place % 12}" for place in range(len(noisy))], pa.string())})
    table = by_noisy_count(keys, np.array(noisy, np.int64), ["query"])
    ones = by_count(keys.append_column("count", pa.array([max(1, each) for each in noisy], pa.int64())), ["query"])
    assert table["query"].to_pylist() == ones["query"].to_pylist()
    by_query = dict(zip(keys["query"].to_pylist(), noisy, strict=True))
    for row in table.to_pylist():
        assert row["count"] == (by_query[row["query"]] if by_query[row["query"]] >= 1 else None)
