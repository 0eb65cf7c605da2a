from __future__ import annotations

from encodings.aliases import aliases
from itertools import chain, pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.logs.reading.encodings import UTF8_OR_GB18030, checked_encoding, to_utf8
from querycloak.text.spans import Spans
from tests.unit.text.columns import spans_of, texts_of

ENCODINGS = ["utf-8", "gb18030", "big5", "shift_jis", "euc_kr", "latin-1", "cp1252", "ascii"]
SAMPLE = "aé€ñЯж中文あア가힣"
# Overlong forms, surrogates, beyond the last character, cut and stray bytes: what UTF-8 does not allow.
ILL_FORMED = st.sampled_from(
    [
        b"\xc0\x80",
        b"\xe0\x80\x80",
        b"\xed\xa0\x80",
        b"\xf4\x90\x80\x80",
        b"\xc3",
        b"\xe4\xb8",
        b"\xa9",
        b"\xff",
        b"\x81",
    ]
)


def one_line(data: bytes) -> bytes:
    """Records hold no line feeds."""
    return data.replace(b"\n", b"")


def records_in(encoding: str) -> st.SearchStrategy[list[bytes]]:
    written = st.text(max_size=6).map(lambda text: one_line(text.encode(encoding, "ignore")))
    record = st.lists(written | ILL_FORMED | st.binary(max_size=3).map(one_line), max_size=3).map(b"".join)
    return st.lists(written | record, max_size=6)


def slow(record: bytes, encoding: str) -> bytes | None:
    try:
        return record.decode(encoding).encode()
    except UnicodeError:
        return None


def check(records: Spans, encoding: str) -> None:
    expected = [slow(record, encoding) for record in texts_of(records)]
    decoded, undecodable = to_utf8(records, encoding)
    assert texts_of(decoded) == [text or b"" for text in expected]
    assert undecodable.tolist() == [text is None for text in expected]


@pytest.mark.parametrize("encoding", ENCODINGS)
@given(data=st.data())
@settings(deadline=None, max_examples=80)
def test_each_record_is_decoded_as_if_it_stood_alone(encoding: str, data: st.DataObject) -> None:
    check(spans_of(data.draw(records_in(encoding))), checked_encoding(encoding))


@given(st.text(max_size=8) | st.text("é中\U0001f600a", max_size=8), st.lists(st.integers(0, 32), max_size=6))
@example("é", [1])
@settings(deadline=None)
def test_records_side_by_side_that_share_a_character_cannot_be_decoded(text: str, cuts: list[int]) -> None:
    data = text.encode()
    places = sorted({0, len(data), *(min(cut, len(data)) for cut in cuts)})
    check(spans_of([data[start:end] for start, end in pairwise(places)], between=b""), "utf-8")


@pytest.mark.parametrize("places", [[(0, 1), (2, 3)], [(0, 1), (0, 2)]])
def test_a_record_that_ends_within_a_character_cannot_be_decoded(places: list[tuple[int, int]]) -> None:
    starts, ends = (np.array([place[side] for place in places], np.int32) for side in (0, 1))
    check(Spans(np.frombuffer(bytearray("éa".encode()), np.uint8), starts, ends), "utf-8")


def test_a_lone_surrogate_that_a_codec_lets_through_is_undecodable() -> None:
    assert to_utf8(spans_of([b"\xe9\\ud800", b"\xe9"]), "raw_unicode_escape")[1].tolist() == [True, False]


def test_a_line_feed_that_a_codec_makes_does_not_begin_another_record() -> None:
    decoded, _ = to_utf8(spans_of([b"\xe9\\u000ax", b"y"]), "raw_unicode_escape")
    assert texts_of(decoded) == ["é\nx".encode(), b"y"]


def chinese(record: bytes) -> bytes | None:
    """The rule of `UTF8_OR_GB18030`, for one record."""
    utf8, gb18030 = slow(record, "utf-8"), slow(record, "gb18030")
    wide = utf8 is not None and any(len(character.encode()) > 2 for character in utf8.decode())
    return utf8 if wide or gb18030 is None else gb18030


@given(
    st.lists(st.sampled_from(["utf-8", "gb18030"]).flatmap(records_in), max_size=4).map(lambda some: [*chain(*some)])
)
@settings(deadline=None, max_examples=300)
def test_utf_8_and_gb18030_are_told_apart_record_by_record(written: list[bytes]) -> None:
    expected = [chinese(record) for record in written]
    decoded, undecodable = to_utf8(spans_of(written), UTF8_OR_GB18030)
    assert texts_of(decoded) == [text or b"" for text in expected]
    assert undecodable.tolist() == [text is None for text in expected]


@pytest.mark.parametrize("text", ["天气预报", "小说", "同志小说", "图", "医院", "a", ""])
def test_chinese_is_read_in_either_encoding_even_where_gb18030_makes_utf_8(text: str) -> None:
    records = spans_of([text.encode("utf-8"), text.encode("gb18030")])
    assert texts_of(to_utf8(records, UTF8_OR_GB18030)[0]) == [text.encode()] * 2


@pytest.mark.parametrize("name", sorted(set(aliases.values())))
@given(data=st.data())
@settings(deadline=None, max_examples=5)
def test_in_every_encoding_that_is_accepted_a_record_does_not_depend_on_its_neighbours(
    name: str, data: st.DataObject
) -> None:
    try:
        encoding = checked_encoding(name)
    except ParameterError:
        return
    records = [*data.draw(records_in(encoding)), b"\\u0041~{%+AGE-\\", "é中あ가".encode(encoding, "ignore")]
    alone = [to_utf8(spans_of([record]), encoding) for record in records]
    decoded, undecodable = to_utf8(spans_of(records), encoding)
    assert texts_of(decoded) == [texts_of(text)[0] for text, _ in alone]
    assert undecodable.tolist() == [bool(mask[0]) for _, mask in alone]


def test_a_record_of_gb18030_that_ends_within_a_character_does_not_spoil_the_next() -> None:
    records = spans_of([b"\xd6", "中国".encode("gb18030"), b"", b"\x84\x31\xa4"])
    decoded, undecodable = to_utf8(records, "gb18030")
    assert texts_of(decoded) == [b"", "中国".encode(), b"", b""]
    assert undecodable.tolist() == [True, False, False, True]


@pytest.mark.parametrize("count", [0, 3])
@pytest.mark.parametrize("encoding", ["utf-8", "gb18030"])
def test_empty_records_decode_to_themselves(count: int, encoding: str) -> None:
    decoded, undecodable = to_utf8(Spans.empty(count), encoding)
    assert texts_of(decoded) == [b""] * count
    assert undecodable.tolist() == [False] * count


@pytest.mark.parametrize(
    ("name", "codec"),
    [("UTF8", "utf-8"), ("utf-8", "utf-8"), ("GB18030", "gb18030"), ("latin-1", "iso8859-1"), ("CP1252", "cp1252")],
)
def test_an_encoding_is_known_by_any_of_its_names(name: str, codec: str) -> None:
    assert checked_encoding(name) == codec


def test_utf_8_with_a_byte_order_mark_is_utf_8() -> None:
    # Blocks take the mark away themselves, whatever the encoding is called.
    assert checked_encoding("utf-8-sig") == "utf-8"


@pytest.mark.parametrize("name", ["klingon", "", "é", "\ud800", "rot13", "../utf_8", "a\0b"])
def test_an_unknown_encoding_is_named_with_those_to_try(name: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        checked_encoding(name)
    assert str(refusal.value) == (
        f"encoding must be an encoding that Python knows, got {name!r}; try utf-8, gb18030, latin-1 or cp1252"
    )


@pytest.mark.parametrize(
    "name",
    ["utf-16", "utf-16-le", "utf-32", "cp037", "punycode", "shift_jis_2004", "shift_jisx0213", "cp864", "hz"],
)
def test_an_encoding_in_which_lines_cannot_be_found_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        checked_encoding(name)
    assert str(refusal.value) == (
        f"encoding must be one in which ASCII bytes stand for ASCII alone, got {name!r}; save the log as UTF-8"
    )


@pytest.mark.parametrize("name", sorted(set(aliases.values())))
def test_every_encoding_that_is_accepted_is_read_as_python_reads_it(name: str) -> None:
    try:
        encoding = checked_encoding(name)
    except ParameterError:
        return
    for character in SAMPLE:
        if record := one_line(character.encode(encoding, "ignore")):
            assert texts_of(to_utf8(spans_of([record]), encoding)[0]) == [character.encode()]
