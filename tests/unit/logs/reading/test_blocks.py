from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from querycloak.errors import InputError
from querycloak.logs.reading import blocks
from querycloak.logs.reading.blocks import Block, Part, parts_of, read_blocks
from querycloak.logs.reading.fields import split
from querycloak.logs.reading.files import LogFile
from tests.unit.text.columns import texts_of

MARK = b"\xef\xbb\xbf"
COMMA = ord(",")
CODECS = ["gzip", "bz2", "zstd"]
Records = list[bytes | None]
SHORT_LINES = st.text("\n\n\ra", max_size=20).map(str.encode)
PIECE = (
    st.sampled_from([b"\n", b"\r\n", b"\r", b"a", b'"', MARK])
    | st.binary(max_size=4)
    | st.integers(9, 30).map(b"x".__mul__)
)
DATA = SHORT_LINES | st.lists(PIECE, max_size=15).map(b"".join)
MARKED = st.tuples(st.sampled_from([b"", MARK]), DATA).map(b"".join)
BLOCK = st.integers(1, 40)
LONGEST = st.integers(1, 40)
PART = st.integers(1, 8) | st.integers(1, 50)
CELL = st.text('",\r\n aé', max_size=6)
TABLE = st.lists(st.lists(CELL, min_size=2, max_size=3), min_size=1, max_size=6)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks") / "u4417-anna.tsv"


@contextmanager
def limits(block: int, longest: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", block)
        patch.setattr(blocks, "LONGEST_RECORD", longest)
        yield


def log_of(path: Path, data: bytes, compression: str | None = None) -> LogFile:
    path.write_bytes(data)
    return LogFile("LOG", str(path), len(data), compression)


def blocks_of(file: LogFile, size: int | None = None, *, numbered: bool = True) -> list[Block]:
    parts = parts_of([file], size, divisible=True)
    return [block for part in parts for block in read_blocks(file, part, numbered=numbered)]


def records_of(found: list[Block]) -> Records:
    """The records; none for one too long to be held."""
    return [None if block.overlong else text for block in found for text in texts_of(block.records())]


def lines_of(data: bytes) -> list[bytes]:
    lines = [re.sub(b"^(" + MARK + b")+", b"", line) for line in data.split(b"\n")]
    return lines if lines[-1] else lines[:-1]


def without_return(line: bytes) -> bytes:
    return line.removesuffix(b"\r")


def assert_same(found: Records, lines: list[bytes], longest: int) -> None:
    """All the records in their order, of which only overlong ones may be missing, each counted once."""
    kept = [
        None if record is None and len(without_return(line)) > longest else without_return(line)
        for record, line in zip(found, lines, strict=False)
    ]
    assert found == kept + [without_return(line) for line in lines[len(found) :]]


@given(MARKED, BLOCK, PART)
@example(b"a\nb\nc\n", 3, 2)  # records that begin where a part does
@settings(deadline=None, max_examples=300)
def test_the_records_of_all_parts_are_the_lines_of_the_file(path: Path, data: bytes, block: int, size: int) -> None:
    file = log_of(path, data)
    with limits(block, 1 << 20):
        whole, parted, unnumbered = blocks_of(file), blocks_of(file, size), blocks_of(file, numbered=False)
    assert records_of(whole) == [without_return(line) for line in lines_of(data)]
    assert records_of(parted) == records_of(unnumbered) == records_of(whole)


# Read in pieces of eight bytes, a short record follows an overlong one, and the last has no line feed.
@given(MARKED, BLOCK, LONGEST, st.none() | PART, st.booleans())
@example(b"x" * 17 + b"\na\nb\nccccccc", 8, 8, None, True)
@settings(deadline=None, max_examples=300)
def test_overlong_records_are_counted_once_and_all_others_are_there(
    path: Path, data: bytes, block: int, longest: int, size: int | None, numbered: bool
) -> None:
    file = log_of(path, data)
    with limits(block, longest):
        found = blocks_of(file, size, numbered=numbered)
    assert_same(records_of(found), lines_of(data), longest)


def test_a_record_too_long_to_be_held_is_skipped_up_to_its_line_feed(path: Path) -> None:
    file = log_of(path, b"a\n" + b"x" * 50 + b"\r\nb\n" + b"y" * 50)
    with limits(4, 8):
        found = blocks_of(file)
    assert records_of(found) == [b"a", None, b"b", None]
    assert [block.line for block in found if block.overlong] == [2, 4]
    assert all(len(block.data) <= 8 + 2 * 4 for block in found)


@given(MARKED, BLOCK, LONGEST)
@settings(deadline=None)
def test_the_first_part_numbers_its_records_from_one_and_others_do_not_count(
    path: Path, data: bytes, block: int, longest: int
) -> None:
    file = log_of(path, data)
    with limits(block, longest):
        before = 0
        for found in blocks_of(file):
            assert found.line == before + 1
            before += len(found.records())
        assert {found.line for found in read_blocks(file, Part(0, 1))} <= {0}


@given(DATA.filter(lambda data: not data.endswith(MARK)), BLOCK, st.booleans())
@settings(deadline=None)
def test_the_sizes_of_blocks_add_up_to_the_file(path: Path, data: bytes, block: int, numbered: bool) -> None:
    file = log_of(path, data)
    with limits(block, 1 << 20):
        found = blocks_of(file, numbered=numbered)
    assert sum(block.size for block in found) == (len(data) if lines_of(data) else 0)


@given(st.lists(st.integers(0, 200), min_size=1, max_size=3), st.integers(1, 64))
@settings(deadline=None)
def test_parts_cover_each_file_without_gaps(sizes: list[int], size: int) -> None:
    parts = parts_of([LogFile("LOG", "log", length) for length in sizes], size, divisible=True)
    for number, length in enumerate(sizes):
        own = [part for part in parts if part.file == number]
        assert [part.start for part in own] == list(range(0, max(length, 1), size))
        assert [part.stop for part in own] == [*(part.start for part in own[1:]), None]


@pytest.mark.parametrize(
    ("compression", "size", "divisible"), [("gzip", 10, True), (None, None, True), (None, 10, False)]
)
def test_what_cannot_be_cut_is_one_part(compression: str | None, size: int | None, divisible: bool) -> None:
    assert parts_of([LogFile("LOG", "log", 100, compression)], size, divisible=divisible) == [Part(0)]


def test_rewriting_quoted_fields_leaves_the_block_as_it_was() -> None:
    block = Block(0, b'"a ""b""",c\n')
    first = [texts_of(spans) for spans in split(block.records(), COMMA, 2, quotes=True).spans]
    again = [texts_of(spans) for spans in split(block.records(), COMMA, 2, quotes=True).spans]
    assert first == again == [[b'a "b"'], [b"c"]]


@pytest.mark.parametrize(
    ("data", "records"),
    [
        (b"", []),
        (MARK, []),
        (b"\n", [b""]),
        (b"\r\n", [b""]),
        (b"\r", [b""]),
        (b"a", [b"a"]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"a\r\r\n", [b"a\r"]),
        (b"a\rb\n", [b"a\rb"]),  # a return by itself is no line end
        (MARK + b"a\n" + MARK + b"b", [b"a", b"b"]),  # whoever comes before, a mark is none of the record
        (MARK + MARK + b"a\nb" + MARK + b"\n" + MARK, [b"a", b"b" + MARK]),
        (b"a\0b\n\xff\n", [b"a\0b", b"\xff"]),
    ],
)
def test_golden(path: Path, data: bytes, records: Records) -> None:
    assert records_of(blocks_of(log_of(path, data))) == records


def compressed(data: bytes, codec: str) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(data)
    result: bytes = sink.getvalue().to_pybytes()
    return result


@pytest.mark.parametrize("codec", CODECS)
@given(data=MARKED, block=BLOCK)
@settings(deadline=None, max_examples=60)
def test_compressed_logs_hold_the_records_of_plain_ones(path: Path, codec: str, data: bytes, block: int) -> None:
    with limits(block, 1 << 20):
        records = records_of(blocks_of(log_of(path, compressed(data, codec), codec)))
    assert records == [without_return(line) for line in lines_of(data)]


@pytest.mark.parametrize("codec", CODECS)
def test_a_compressed_log_may_come_in_several_members(path: Path, codec: str) -> None:
    members = [b"a\nb", b"c\n", b"d"]
    file = log_of(path, b"".join(compressed(member, codec) for member in members), codec)
    assert records_of(blocks_of(file)) == [b"a", b"bc", b"d"]


@pytest.mark.parametrize("codec", CODECS)
def test_an_empty_member_in_between_is_read_or_refused_as_damage(path: Path, codec: str) -> None:
    file = log_of(path, b"".join(compressed(member, codec) for member in (b"a\n", b"", b"b\n")), codec)
    try:
        records = records_of(blocks_of(file))
    except InputError as refusal:
        assert_damage(refusal, codec)
    else:
        assert records == [b"a", b"b"]


SECRETS = b"".join(b"u%d\tquery of number %d\n" % (number, number * number) for number in range(400))


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_compressed_log_cut_short_is_refused_without_its_name_or_content(
    path: Path, codec: str, data: st.DataObject
) -> None:
    whole = compressed(SECRETS, codec)
    cut = data.draw(st.integers(1, len(whole) - 1) | st.integers(len(whole) - 12, len(whole) - 1))
    assert_damaged(log_of(path, whole[:cut], codec))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("tail", [b"query", b"\xff" * 30])
def test_a_compressed_log_with_other_bytes_behind_it_is_refused(path: Path, codec: str, tail: bytes) -> None:
    assert_damaged(log_of(path, compressed(SECRETS, codec) + tail, codec))


@pytest.mark.parametrize("codec", ["gzip", "bz2"])  # Arrow writes zstd without a checksum
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_a_damaged_log_is_refused_or_read_as_it_was(path: Path, codec: str, data: st.DataObject) -> None:
    whole = bytearray(compressed(SECRETS, codec))
    whole[data.draw(st.integers(0, len(whole) - 1))] ^= data.draw(st.integers(1, 255))
    file = log_of(path, bytes(whole), codec)
    try:
        records = records_of(blocks_of(file))
    except InputError as refusal:
        assert_damage(refusal, codec)
    else:
        assert records == lines_of(SECRETS)


def assert_damaged(file: LogFile) -> None:
    with pytest.raises(InputError) as refusal:
        blocks_of(file)
    assert_damage(refusal.value, file.compression)


def assert_damage(refusal: InputError, codec: str | None) -> None:
    """In our own words, with nothing behind them that quotes the file or names it."""
    assert str(refusal) == f"LOG: its {codec} data is damaged or cut short; fetch the file again"
    assert refusal.__context__ is None
