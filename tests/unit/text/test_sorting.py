from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from querycloak.text.sorting import sort_span


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
