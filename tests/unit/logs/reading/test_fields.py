from __future__ import annotations

import csv
import io
import re

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from querycloak.logs.reading.blocks import Block
from querycloak.logs.reading.fields import Fields, first_words, integers, split, split_lines, without_brackets
from tests.unit.text.columns import spans_of, texts_of

SEPARATOR = st.sampled_from(",;|\t")
WIDTH = st.integers(1, 4)
# Little but what matters to a CSV, so that it comes together often.
CELL = st.text('",;|\t\r\n aé', max_size=6)
TABLE = st.lists(st.lists(CELL, min_size=1, max_size=4), min_size=1, max_size=5)
QUOTING = st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC])
MESS = st.text('",\n\ra', max_size=12)


def rows_of(fields: Fields) -> list[list[bytes]]:
    """The fields of each record, among those that were asked for."""
    columns = [texts_of(spans) for spans in fields.spans]
    return [[column[row] for column in columns[:count]] for row, count in enumerate(fields.counts.tolist())]


def written(table: list[list[str]], separator: str, quoting: int, line_end: str = "\r\n") -> bytes:
    text = io.StringIO(newline="")
    # csv.QUOTE_* are plain numbers; the stubs want to see which.
    csv.writer(text, delimiter=separator, quoting=quoting, lineterminator=line_end).writerows(table)  # type: ignore[arg-type]
    return text.getvalue().encode()


@given(st.lists(st.binary(max_size=6) | st.text("\t,a", max_size=8).map(str.encode), max_size=6), SEPARATOR, WIDTH)
@settings(deadline=None)
def test_plain_split_is_pythons_split(records: list[bytes], separator: str, width: int) -> None:
    fields = split(spans_of(records, between=separator.encode()), ord(separator), width)
    expected = [record.split(separator.encode()) for record in records]
    assert fields.counts.tolist() == [len(row) for row in expected]
    assert rows_of(fields) == [row[:width] for row in expected]


@given(st.lists(st.text(",a", max_size=3).map(str.encode), max_size=6), WIDTH, st.booleans())
@settings(deadline=None)
def test_fields_that_a_record_lacks_are_empty(records: list[bytes], width: int, quotes: bool) -> None:
    fields = split(spans_of(records), ord(","), width, quotes=quotes)
    for place, spans in enumerate(fields.spans):
        lacking = fields.counts <= place
        assert not spans.lengths[lacking].any()


@given(TABLE, SEPARATOR, QUOTING, WIDTH)
@settings(deadline=None, max_examples=300)
def test_quoted_split_reads_what_csv_writes(table: list[list[str]], separator: str, quoting: int, width: int) -> None:
    records = [written([row], separator, quoting).removesuffix(b"\r\n") for row in table]
    fields = split(spans_of(records, between=b'"'), ord(separator), width, quotes=True)
    assert fields.counts.tolist() == [len(row) for row in table]
    assert rows_of(fields) == [[cell.encode() for cell in row[:width]] for row in table]


@given(MESS)
@example('"a"b"c')
@settings(deadline=None, max_examples=300)
def test_fields_of_ill_formed_text_are_those_of_pythons_csv_unless_a_quote_stays_open(line: str) -> None:
    # A bare carriage return ends a record for Python's csv, not for us: it is left out here.
    line = line.replace("\r", "").replace("\n", "")
    fields = split(spans_of([line.encode()]), ord(","), 64, quotes=True)
    expected, *more = csv.reader(io.StringIO(line + "\n.", newline=""))
    if not line:
        assert rows_of(fields) == [[b""]]
    elif more:
        assert rows_of(fields) == [[cell.encode() for cell in expected]]
    else:  # the next line was swallowed: the quote is open
        assert fields.counts.tolist() == [0]


@pytest.mark.parametrize(
    ("record", "fields"),
    [
        (b"", [b""]),
        (b",", [b"", b""]),
        (b'""', [b""]),
        (b'"",""', [b"", b""]),
        (b'"a,b",c', [b"a,b", b"c"]),
        (b'"say ""hi""",c', [b'say "hi"', b"c"]),
        (b'"""",x', [b'"', b"x"]),
        (b'"a\r\nb",c', [b"a\r\nb", b"c"]),
        (b'a"b,c', [b'a"b', b"c"]),  # a quote within a field is a quote
        (b'"a"b,c', [b"ab", b"c"]),
        (b'"a" "b",c', [b'a "b"', b"c"]),
        (b' "a,b"', [b' "a', b'b"']),  # a blank before the quote: no quoted field
        (b'"a,b', []),  # never closed
        (b'"', []),
        (b'a,"', []),
    ],
)
def test_quoted_golden(record: bytes, fields: list[bytes]) -> None:
    assert rows_of(split(spans_of([record]), ord(","), 4, quotes=True)) == [fields]


def test_without_quotes_a_quote_is_a_plain_character() -> None:
    assert rows_of(split(spans_of([b'"a\tb"']), ord("\t"), 2)) == [[b'"a', b'b"']]


@given(st.lists(st.binary(max_size=3) | st.text("0123456789-+ .", max_size=11).map(str.encode), max_size=8))
@settings(deadline=None)
def test_integers_are_one_to_nine_ascii_digits_and_a_fraction_of_zeros(texts: list[bytes]) -> None:
    values, readable = integers(spans_of(texts, between=b"0"))
    whole = [re.sub(rb"(?<=[0-9])\.0+\Z", b"", text) for text in texts]
    numbers = [1 <= len(text) <= 9 and text.isdigit() for text in whole]
    assert readable.tolist() == numbers
    assert values.tolist() == [int(text) if is_one else 0 for text, is_one in zip(whole, numbers, strict=True)]


@pytest.mark.parametrize(
    ("text", "value"), [(b"0", 0), (b"007", 7), (b"1.0", 1), (b"10.00", 10), (b"999999999", 999_999_999)]
)
def test_golden_integers(text: bytes, value: int) -> None:
    values, readable = integers(spans_of([text]))
    assert (values[0], readable[0]) == (value, True)


@pytest.mark.parametrize(
    "text", [b"", b"-1", b"+1", b"1.5", b"1.", b".0", b"1 ", b"1e3", b"1000000000", "१".encode(), b"0x1"]
)
def test_what_is_no_integer(text: bytes) -> None:
    assert not integers(spans_of([text]))[1].any()


@given(st.lists(st.binary(max_size=6) | st.text(" \ta", max_size=6).map(str.encode), max_size=8))
@settings(deadline=None)
def test_first_words_end_at_the_first_blank(texts: list[bytes]) -> None:
    spans = spans_of(texts, between=b" ")
    assert texts_of(first_words(spans)) == [text.partition(b" ")[0] for text in texts]
    assert texts_of(spans) == texts


@given(st.lists(st.text("[]a", max_size=5).map(str.encode), max_size=8))
@settings(deadline=None)
def test_brackets_go_only_where_both_are_there(texts: list[bytes]) -> None:
    spans = spans_of(texts, between=b"]")
    expected = [
        text[1:-1] if len(text) > 1 and text.startswith(b"[") and text.endswith(b"]") else text for text in texts
    ]
    assert texts_of(without_brackets(spans)) == expected
    assert texts_of(spans) == texts


@settings(max_examples=200, deadline=None)
@given(
    data=st.lists(st.sampled_from([b"\t", b"\n", b"\r\n", b"\r", b"a", b"bc", b""]), min_size=1, max_size=40).map(
        b"".join
    )
)
def test_lines_and_fields_in_one_go_are_lines_and_then_fields(data: bytes) -> None:
    assume(data)
    records, fields = split_lines(np.frombuffer(data, np.uint8), ord("\t"), 3)
    expected = Block(0, data).records()
    separately = split(expected, ord("\t"), 3)
    assert [records.bytes_at(i) for i in range(len(records))] == [expected.bytes_at(i) for i in range(len(expected))]
    assert fields.counts.tolist() == separately.counts.tolist()
    for one, other in zip(fields.spans, separately.spans, strict=True):
        assert [one.bytes_at(i) for i in range(len(one))] == [other.bytes_at(i) for i in range(len(other))]
