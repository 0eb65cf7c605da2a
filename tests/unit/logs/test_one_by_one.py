"""The law that every proof uses: one more user changes nothing of what is read of the others.

Whatever that user's rows hold, wherever they stand, in a file with others or in one of their own. The format
is named here: then a log can be read whatever that user wrote. Where it is not, `test_detection` holds that nobody's
rows decide it. UBI's joins are held to the same law by `test_ubi`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from querycloak.logs.choices import Choices
from querycloak.logs.reading.checks import KEPT
from querycloak.logs.searchlog import prepare

# Some names begin as compressed or binary files do: as the first row's, they are the first bytes of a file.
ONE_MORE = (
    b"0-extra", b"nan", b"{", b"PAR1x", b"BZh91AY&SY", b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04",
    b"7z\xbc\xaf", b"\xff\xfe",
)  # fmt: skip
MARK = b"\xef\xbb\xbf"
OTHERS = (b"u1", MARK + b"u2", b"u3")
NAMES = {name.decode() for name in (*OTHERS, b"u2")}  # a mark at the beginning of a line is no part of it
TEXTS = st.sampled_from(["", "a", "~b\\", "é", "小说", "天气 预报", '"', '"q', 'q"', "[x", "1,2", "AnonID", "\ufeff"])
LONG = st.sampled_from([b"x " * 32_000, b"y" * (1 << 16), b"z" * ((1 << 16) + 1)])
WEIRD = st.sampled_from([b"\x1b]0;x\x07", "\u202egnp".encode(), b"NaN", b"\x00"])
ODD = TEXTS.map(str.encode) | TEXTS.map(lambda text: text.encode("gb18030")) | st.binary(max_size=6) | WEIRD | LONG
RANKS = st.sampled_from([b"", b"1", b"2 3", b"one"])
CLICKED = st.sampled_from([b"", b"1", b"FALSE", b"maybe"])
TIMES = st.sampled_from(["12:00:00", "12:00:01", "25:00:00"])


@dataclass(frozen=True)
class Row:
    """A row before a format writes it; what lacks is left out where a format can."""

    user: bytes
    time: str
    query: bytes
    rank: bytes
    url: bytes
    lacks: frozenset[str] = frozenset()
    rough: bytes = b""
    clicked: bytes = b""
    country: bytes = b""


def rows(users: Sequence[bytes], *, odd: bool) -> st.SearchStrategy[list[Row]]:
    texts = ODD if odd else TEXTS.map(str.encode) | TEXTS.map(lambda text: text.encode("gb18030"))
    lacks = st.frozensets(st.sampled_from(["time", "query", "rank", "url"] if odd else ["rank", "url"]))
    rough = st.sampled_from([b"", b"", b"\t", b"\r", b'"', b",,", b"}", MARK]) if odd else st.just(b"")
    row = st.builds(Row, st.sampled_from(users), TIMES, texts, RANKS, texts, lacks, rough, CLICKED, texts)
    return st.lists(row, max_size=6)


def aol(row: Row) -> bytes:
    fields = [row.user, row.query, b"2006-03-01 " + row.time.encode(), row.rank, row.url]
    return b"\t".join(fields[: 3 if {"rank", "url"} <= row.lacks else 5])


def excite(row: Row) -> bytes:
    return b"\t".join([row.user, b"970916" + row.time.replace(":", "").encode(), row.query])


def sogou(row: Row) -> bytes:
    return b"\t".join([row.time.encode(), row.user, b"[" + row.query + b"]", row.rank, row.url])


def csv(row: Row) -> bytes:
    return b",".join([row.user, b"2006-03-01 " + row.time.encode(), row.query, row.rank, row.url])


def jsonl(row: Row) -> bytes:
    texts = {"query": row.query, "rank": row.rank, "url": row.url}
    held: dict[str, str] = {name: text.decode("utf-8", "replace") for name, text in texts.items()}
    held |= {"user": row.user.decode("utf-8", "replace"), "time": f"2006-03-01 {row.time}"}
    written = {name: value for name, value in held.items() if name not in row.lacks}
    if "url" not in row.lacks and row.rank:  # some write their keys in capitals
        written = {name.upper(): value for name, value in written.items()}
    return json.dumps(written, ensure_ascii=row.rank == b"1").encode()


def mapped(row: Row) -> bytes:
    held = json.loads(jsonl(row).lower())
    return json.dumps({"event": {"user": held.pop("user"), **held}}).encode()


def viewed(row: Row) -> bytes:
    return b",".join([csv(row), row.clicked, row.country])


def viewed_json(row: Row) -> bytes:
    texts = {"clicked": row.clicked, "country": row.country}
    return json.dumps(
        {**json.loads(jsonl(row).lower()), **{name: text.decode("utf-8", "replace") for name, text in texts.items()}}
    ).encode()


@dataclass(frozen=True)
class Written:
    """A way to write a log, and how it is then read."""

    write: Callable[[Row], bytes]
    options: dict[str, Any]
    header: bytes = b""


PATHS = {name: f"event.{name}" for name in ("user", "time", "query", "rank", "url")}
COUNTRY = {"choices": Choices(attributes=("country",))}
FORMATS: dict[str, Written] = {
    "aol": Written(aol, {"log_format": "aol"}),
    "aol in gb18030": Written(aol, {"log_format": "aol", "encoding": "gb18030"}),
    "aol in shift_jis": Written(aol, {"log_format": "aol", "encoding": "shift_jis"}),
    "excite": Written(excite, {"log_format": "excite"}),
    "sogou": Written(sogou, {"log_format": "sogou"}),
    "csv": Written(csv, {"log_format": "csv"}, b"user,time,query,rank,url\n"),
    "tsv": Written(lambda row: csv(row).replace(b",", b"\t"), {"log_format": "csv"}, b"user\ttime\tquery\trank\turl\n"),
    "json lines": Written(jsonl, {"log_format": "jsonl"}),
    "json lines by paths": Written(mapped, {"columns": PATHS}),
    "csv with views": Written(viewed, {"log_format": "csv", **COUNTRY}, b"user,time,query,rank,url,clicked,country\n"),
    "json lines with views": Written(viewed_json, {"log_format": "jsonl", **COUNTRY}),
}


def kept(folder: Path, size: int | None, **options: Any) -> list[tuple[Any, ...]]:
    """The rows that are kept of all others, read in parts of a size."""
    source = prepare(folder, **options).source
    if source.reader.views is not None:
        source = replace(source, views=True)
    batches = [source.parse(block) for part in source.parts(size) for block in source.blocks(part)]
    found = [row for batch in batches for row in batch.to_pylist() if row["code"] == KEPT and row["user"] in NAMES]
    return sorted((tuple(row.values()) for row in found), key=repr)


def clear(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    return folder


def write(path: Path, written: Written, lines: list[bytes]) -> None:
    path.write_bytes(written.header + b"".join(line.replace(b"\n", b"") + b"\n" for line in lines))


@pytest.mark.parametrize("name", FORMATS)
@given(others=rows(OTHERS, odd=False), more=rows(ONE_MORE, odd=True), data=st.data())
@settings(deadline=None, max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_more_user_leaves_the_rows_of_others_as_they_are(
    tmp_path: Path, name: str, others: list[Row], more: list[Row], data: st.DataObject
) -> None:
    written = FORMATS[name]
    lines = [written.write(row) for row in others]
    extra = [written.write(row) + row.rough for row in more]
    assume(lines and extra)
    long = any(len(line) > 1_000 for line in extra)
    size = data.draw(st.sampled_from([None, 10_007, 65_537] if long else [None, 40, 200]))
    mark = data.draw(st.sampled_from([b"", MARK]))
    before = clear(tmp_path / "before")
    write(before / "1.log", written, [mark + lines[0], *lines[1:]])
    after = clear(tmp_path / "after")
    if data.draw(st.booleans()):
        write(after / "0.log", written, extra)
        write(after / "1.log", written, [mark + lines[0], *lines[1:]])
    else:
        together = list(lines)
        for line in extra:
            together.insert(data.draw(st.integers(0, len(together))), line)
        write(after / "1.log", written, [mark + together[0], *together[1:]])
    assert kept(before, size, **written.options) == kept(after, size, **written.options)


@pytest.mark.parametrize("name", [*FORMATS, "parquet"])
@given(held=rows(OTHERS + ONE_MORE, odd=True), binary=st.booleans())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_without_clicks_the_same_rows_are_kept(tmp_path: Path, name: str, held: list[Row], binary: bool) -> None:
    held = [Row(OTHERS[0], "12:00:00", b"a", b"1", b"b"), *held]  # a log without any sound row is refused
    folder = clear(tmp_path / "log")
    if name == "parquet":
        pq.write_table(parquet(held, held[-1].lacks & {"rank", "url"}, binary), folder / "1.parquet")
    else:
        write(folder / "1.log", FORMATS[name], [FORMATS[name].write(row) + row.rough for row in held])
    source = prepare(folder, **(FORMATS[name].options if name in FORMATS else {})).source
    for part in source.parts(None):
        for block in source.blocks(part):
            whole, searches = source.parse(block), replace(source, clicks=False).parse(block)
            names = ["user", "time", "query", *source.choices.attributes, "code"]
            assert searches.equals(whole.select(names))
            if source.reader.views is not None:
                shown = replace(source, views=True).parse(block)
                assert shown.select(names).equals(whole.select(names))


@given(others=rows(OTHERS, odd=False), more=rows(ONE_MORE, odd=True), first=st.booleans(), binary=st.booleans())
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_one_more_user_in_parquet_too(
    tmp_path: Path, others: list[Row], more: list[Row], first: bool, binary: bool
) -> None:
    """In a file of their own, with columns and types of its own, or in a table with others."""
    assume(others and more)
    alone = clear(tmp_path / "before")
    pq.write_table(parquet(others, frozenset(), binary), alone / "1.parquet")
    apart = clear(tmp_path / "apart")
    pq.write_table(parquet(others, frozenset(), binary), apart / "1.parquet")
    lacks = more[0].lacks & {"rank", "url"}
    pq.write_table(parquet(more, lacks, not binary), apart / ("0.parquet" if first else "2.parquet"))
    mixed = clear(tmp_path / "mixed")
    pq.write_table(parquet(more + others if first else others + more, frozenset(), binary), mixed / "1.parquet")
    for options in ({}, COUNTRY):
        assert kept(alone, None, **options) == kept(apart, None, **options) == kept(mixed, None, **options)


def parquet(written: list[Row], lacks: frozenset[str], binary: bool) -> pa.Table:
    def texts(values: list[bytes]) -> pa.Array:
        held = pa.array(values, pa.binary())
        return held if binary else pa.StringArray.from_buffers(len(held), held.buffers()[1], held.buffers()[2])

    columns = {
        "user": texts([row.user for row in written]),
        "time": pa.array([f"2006-03-01 {row.time}" for row in written]),
        "query": texts([row.query for row in written]),
        "rank": texts([row.rank for row in written]),
        "url": texts([row.url for row in written]),
        "clicked": texts([row.clicked for row in written]),
        "country": texts([row.country for row in written]),
    }
    return pa.table({name: column for name, column in columns.items() if name not in lacks})
