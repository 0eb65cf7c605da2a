from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ResourceError
from querycloak.text.spans import Spans, number_array
from tests.unit.text.columns import spans_of, texts_of

BLANKS = bytes(range(33)) + b"\x7f"
TEXTS = st.lists(st.none() | st.text(max_size=8), max_size=8)
STRING_TYPES = st.sampled_from([pa.string(), pa.large_string()])
BINARY_TYPES = st.sampled_from([pa.binary(), pa.large_binary()])
BYTES = st.binary(max_size=8) | st.text(alphabet="\0\t\n \x1f\x7f!aé\u0085\u00a0", max_size=6).map(str.encode)


@st.composite
def sliced(draw: st.DrawFn, values: st.SearchStrategy[list[Any]], types: st.SearchStrategy[pa.DataType]) -> pa.Array:
    """An Arrow column that begins and ends somewhere within its buffers."""
    whole = pa.array(draw(values), draw(types))
    start = draw(st.integers(0, len(whole)))
    return whole.slice(start, draw(st.integers(0, len(whole) - start)))


@st.composite
def scattered(draw: st.DrawFn) -> tuple[bytes, list[tuple[int, int]]]:
    """A buffer, and places in it that overlap and stand in any order."""
    data = draw(st.binary(max_size=20))
    places = st.tuples(st.integers(0, len(data)), st.integers(0, len(data))).map(lambda place: (min(place), max(place)))
    return data, draw(st.lists(places, max_size=8))


def over(data: bytes, places: list[tuple[int, int]]) -> Spans:
    starts, ends = (np.array([place[side] for place in places], np.int32) for side in (0, 1))
    return Spans(np.frombuffer(bytearray(data), np.uint8), starts, ends)


@given(sliced(TEXTS, STRING_TYPES))
@settings(deadline=None)
def test_arrow_to_spans_and_back_is_the_same_column(column: pa.Array) -> None:
    present = column.is_valid().to_numpy(zero_copy_only=False)
    back = Spans.of(column).strings(present)
    back.validate(full=True)
    assert back.type == pa.string()
    assert back.to_pylist() == column.to_pylist()


@given(sliced(TEXTS, STRING_TYPES))
@settings(deadline=None)
def test_a_null_is_an_empty_text(column: pa.Array) -> None:
    assert Spans.of(column).strings().to_pylist() == [text or "" for text in column.to_pylist()]


@given(sliced(st.lists(st.none() | st.binary(max_size=8), max_size=8), BINARY_TYPES))
@settings(deadline=None)
def test_binary_columns_are_texts_too(column: pa.Array) -> None:
    assert texts_of(Spans.of(column)) == [text or b"" for text in column.to_pylist()]


def test_a_null_over_bytes_that_are_there_is_still_an_empty_text() -> None:
    bitmap, offsets = pa.py_buffer(b"\x05"), pa.py_buffer(np.array([0, 1, 3, 4], np.int32))
    column = pa.StringArray.from_buffers(3, offsets, pa.py_buffer(b"axxb"), bitmap)
    assert texts_of(Spans.of(column)) == [b"a", b"", b"b"]


@pytest.mark.parametrize(
    ("column", "texts"),
    [
        (pa.array(["b", None, "a", "b"]).dictionary_encode(), [b"b", b"", b"a", b"b"]),
        (pa.array(["short", "more than a view holds"], pa.string_view()), [b"short", b"more than a view holds"]),
        (pa.array([7, None, -1]), [b"7", b"", b"-1"]),
        (pa.array([None, None]), [b"", b""]),
    ],
)
def test_other_columns_are_read_as_the_texts_they_print_as(column: pa.Array, texts: list[bytes]) -> None:
    assert texts_of(Spans.of(column)) == texts


@given(st.lists(BYTES, max_size=8), st.sampled_from([b"", b" ", b"\x7f", b"x"]))
@settings(deadline=None)
def test_trimmed_strips_blanks_and_controls_and_never_looks_beside_the_text(texts: list[bytes], between: bytes) -> None:
    spans = spans_of(texts, between)
    assert texts_of(spans.trimmed()) == [text.strip(BLANKS) for text in texts]
    assert texts_of(spans) == texts


@given(scattered(), st.data())
@settings(deadline=None)
def test_where_and_blank_select_and_empty_what_the_mask_says(
    buffer: tuple[bytes, list[tuple[int, int]]], data: st.DataObject
) -> None:
    spans = over(*buffer)
    texts = texts_of(spans)
    mask = data.draw(st.lists(st.booleans(), min_size=len(texts), max_size=len(texts)))
    masked = np.array(mask, np.bool_)
    assert texts_of(spans.where(masked)) == [text for text, under in zip(texts, mask, strict=True) if under]
    assert texts_of(spans.blank(masked)) == [b"" if under else text for text, under in zip(texts, mask, strict=True)]
    assert texts_of(spans) == texts


@given(scattered())
@settings(deadline=None)
def test_texts_that_overlap_in_any_order_are_gathered_each_by_itself(
    buffer: tuple[bytes, list[tuple[int, int]]],
) -> None:
    data, places = buffer
    spans = over(data, places)
    assert texts_of(Spans.of(spans.strings())) == [data[start:end] for start, end in places]
    assert spans.lengths.tolist() == [end - start for start, end in places]


@given(st.lists(st.none() | st.integers(-(2**31), 2**31 - 1), max_size=20))
@settings(deadline=None)
def test_numbers_are_null_where_not_present(values: list[int | None]) -> None:
    present = np.array([value is not None for value in values], np.bool_)
    column = number_array(np.array([value or 0 for value in values], np.int32), pa.int32(), present)
    column.validate(full=True)
    assert column.to_pylist() == values


def test_empty_texts_can_be_made_from_nothing() -> None:
    assert Spans.empty(3).strings().to_pylist() == ["", "", ""]
    assert len(Spans.empty(0).strings()) == 0


def test_more_text_than_positions_can_tell_is_refused_not_cut_short() -> None:
    offsets, few = np.array([0, 1, 1 << 31], np.int64), np.frombuffer(b"ab", np.uint8)
    data = pa.foreign_buffer(few.ctypes.data, 1 << 31, few)  # as if all of it were there
    column = pa.LargeStringArray.from_buffers(2, pa.py_buffer(offsets), data)
    with pytest.raises(ResourceError, match="more than 2 GiB of text came in one piece"):
        Spans.of(column)
