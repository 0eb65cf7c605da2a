"""Loops that have a second form over whole arrays: both do the same, whatever the bytes are."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.logs.reading import fields, places, times
from querycloak.text import array_forms, normalisation, spans
from querycloak.text.compiled import Loop

BLANKS_AND_LETTERS = st.lists(st.sampled_from(b"\t\n\r 0019.aB\x7f\xc3\xa4\x00Z"), max_size=60).map(bytes)
NUMBERS = st.from_regex(rb"[ 0-9]{0,11}(\.0{0,3})?[0-9a]?", fullmatch=True)
TIMES = st.one_of(
    st.from_regex(rb"[12][0-9]{3}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3}Z)?", fullmatch=True),
    st.datetimes(min_value=datetime(1890, 1, 1)).map(lambda t: t.isoformat()[:19].encode()),
    st.sampled_from([b"2000-02-29 00:00:00", b"1900-02-29 00:00:00", b"2006-13-01 07:17:12", b"2006-03-01 24:00:00"]),
    st.binary(min_size=19, max_size=19),
)
TEXTS = st.lists(st.one_of(BLANKS_AND_LETTERS, NUMBERS, TIMES), max_size=8)


def texts(given: list[bytes]) -> tuple[Any, Any, Any]:
    """Data, starts and ends of texts that stand in another order than their bytes."""
    ends = np.cumsum([0, *map(len, given)]).astype(np.int32)
    return np.frombuffer(b"".join(given), np.uint8), ends[:-1][::-1].copy(), ends[1:][::-1].copy()


def both(loop: Loop, form: Any, arrays: tuple[Any, ...], outputs: tuple[Any, ...]) -> list[Any]:
    """Outputs of the compiled loop, after a comparison with those of its array form."""
    results = []
    for function in (loop.compiled, form):
        made = [each.copy() for each in outputs]
        returned = function(*arrays, *made)
        results.append([*made, np.array(returned or 0)])
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_array_equal(compiled, plain)
    return results[0]


@given(TEXTS)
def test_texts_are_gathered_compared_and_noticed_alike(some: list[bytes]) -> None:
    data, starts, ends = texts(some)
    both(spans._gather, array_forms.gather, (data, starts, ends), (np.zeros(len(data), np.uint8),))
    table = (np.arange(256) % 7).astype(np.uint8)
    both(spans._notice, array_forms.notice, (data, starts, ends, table), (np.zeros(len(some), np.uint8),))
    for text in (*some[:2], b"", b"0"):
        wanted = np.frombuffer(text, np.uint8)
        both(spans._compare, array_forms.compare, (data, starts, ends, wanted), (np.zeros(len(some), np.bool_),))


@given(TEXTS)
def test_texts_are_trimmed_alike(some: list[bytes]) -> None:
    data, starts, ends = texts(some)
    both(spans._trim, array_forms.trim, (data,), (starts, ends))


@given(TEXTS)
def test_texts_are_normalised_alike(some: list[bytes]) -> None:
    data, starts, ends = texts(some)
    results = []
    for function in (normalisation._normalise_ascii.compiled, array_forms.normalise_ascii):
        out, offsets = np.zeros(len(data) + 1, np.uint8), np.zeros(len(some) + 1, np.int32)
        beyond = np.zeros(len(some), np.bool_)
        tables = (normalisation._BECOMES, normalisation._IS_BLANK)
        written = function(data, starts, ends, out, offsets, beyond, *tables)
        results.append((written, out[:written].tobytes(), offsets.tolist(), beyond.tolist()))
    assert results[0] == results[1]


@given(st.lists(st.sampled_from(b"\t\n\rab;"), max_size=80).map(bytes), st.integers(1, 4))
def test_lines_are_cut_alike(written: bytes, width: int) -> None:
    data = np.frombuffer(written, np.uint8)
    (marks, _) = both(places._mark_delimiters, array_forms.mark_delimiters, (data, 9), (places._no_marks(len(data)),))
    words = np.packbits(marks, bitorder="little").view(np.uint64)
    (at, _) = both(places._list_bits, array_forms.list_bits, (words,), (np.zeros(int(marks.sum()), np.int32),))
    lines = written.count(b"\n") + (not written.endswith(b"\n"))
    rows, cells = np.zeros(lines, np.int32), np.zeros((width, lines), np.int32)
    both(fields._assign_fields, array_forms.assign_fields, (data, at), (rows, rows, cells, cells, rows))


@given(st.lists(st.one_of(NUMBERS, BLANKS_AND_LETTERS), max_size=8))
def test_numbers_are_read_alike(some: list[bytes]) -> None:
    count = len(some)
    both(fields._integers, array_forms.integers, texts(some), (np.zeros(count, np.int32), np.zeros(count, np.bool_)))


@given(st.lists(st.one_of(TIMES, NUMBERS), max_size=8))
def test_times_are_read_alike(some: list[bytes]) -> None:
    results = []
    for function in (times._plain_times.compiled, array_forms.plain_times):
        instants, readable = np.zeros(len(some), np.int64), np.zeros(len(some), np.bool_)
        function(*texts(some), instants, readable)
        results.append((readable.tolist(), instants[readable].tolist()))
    assert results[0] == results[1]


@pytest.mark.parametrize(("size", "times", "imported"), [(10, 10, False), (1 << 20, 40, True), (1 << 22, 1, True)])
def test_numba_is_imported_when_there_is_much_to_do(size: int, times: int, imported: bool) -> None:
    code = (
        "import sys, numpy as np\n"
        "from querycloak.text.spans import Spans\n"
        f"data, start, end = np.full({size}, 97, np.uint8), np.zeros(1, np.int32), np.full(1, {size}, np.int32)\n"
        f"[Spans(data, start, end).trimmed() for _ in range({times})]\n"
        "print('numba' in sys.modules)"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == str(imported)
