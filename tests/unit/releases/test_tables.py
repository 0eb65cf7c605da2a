"""Tables: fixed columns, exact round trips in both formats, and not a byte that was not released."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import EngineError, ParameterError
from querycloak.evaluation.target import Target
from querycloak.releases import parquet, tables
from querycloak.releases.folder import WrittenFile
from querycloak.releases.loading import load
from querycloak.releases.output_filter import OutputFilter
from querycloak.releases.safe_text import original_text, safe_text
from querycloak.releases.tables import KINDS, Stream, conformed, regrouped, schema_of
from querycloak.releases.text_tables import CSV, TSV
from tests.unit.releases.making import LOG, QUERIES, SESSIONS, TABLES, a_release

SECRET = "gertrude 4711"
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
COUNTS = st.integers(-(2**63), 2**63 - 1)
TIMES = st.none() | st.integers(-(10**15), 10**15)


def round_trip(table: pa.Table, kind: str, form: Any, folder: Path) -> pa.Table:
    schema = schema_of(kind, table.schema.names)
    path = folder / f"{kind}.{form.ending}"
    path.unlink(missing_ok=True)
    file = WrittenFile(path, folder)
    form.write(regrouped((conformed(batch, schema) for batch in table.to_batches()), schema), schema, file)
    file.finish()
    assert file.size == path.stat().st_size
    batches = parquet.read(path) if form is parquet else form.read(path, schema, form.dialect)
    return pa.Table.from_batches((conformed(batch, schema) for batch in batches), schema)


@pytest.mark.parametrize("form", [parquet, TSV, CSV], ids=lambda form: form.ending)
@settings(max_examples=60)
@given(st.data())
def test_a_log_comes_back_exactly(tmp_path_factory: pytest.TempPathFactory, form: Any, data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(TEXTS, TEXTS, st.none() | TEXTS, COUNTS, TIMES), max_size=6))
    users, queries, urls, counts, times = zip(*rows, strict=True) if rows else ((),) * 5
    columns = [pa.array(users, pa.string()), pa.array(queries, pa.string()), pa.array(urls, pa.string())]
    columns += [pa.array(counts, pa.int64()), pa.array(times, pa.timestamp("us"))]
    table = pa.table(columns, schema_of("log", KINDS["log"].columns))
    assert round_trip(table, "log", form, tmp_path_factory.mktemp("trip")).equals(table)


@pytest.mark.parametrize("form", [parquet, TSV, CSV], ids=lambda form: form.ending)
@settings(max_examples=60)
@given(st.lists(st.tuples(st.lists(TEXTS, max_size=4), COUNTS), max_size=6))
def test_sessions_come_back_exactly(
    tmp_path_factory: pytest.TempPathFactory, form: Any, rows: list[tuple[list[str], int]]
) -> None:
    columns = [pa.array([queries for queries, _ in rows], pa.list_(pa.string()))]
    columns += [pa.array([count for _, count in rows], pa.int64())]
    table = pa.table(columns, schema_of("sessions", ["queries", "count"]))
    folder = tmp_path_factory.mktemp("trip")
    assert round_trip(table, "sessions", form, folder).equals(table)
    assert round_trip(table.slice(1), "sessions", form, folder).equals(table.slice(1))


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("format_name", ["parquet", "tsv", "csv"])
def test_every_kind_is_saved_and_loaded(tmp_path: Path, kind: str, format_name: str) -> None:
    a_release(tables={kind: TABLES[kind]}).save(tmp_path / "out", format_name)
    assert load(tmp_path / "out").table(kind).to_pydict() == TABLES[kind].to_pydict()


def test_a_tsv_reads_as_documented(tmp_path: Path) -> None:
    rows = {
        "user": ["a", "b", "c", "d"],
        "query": ['tab\there "quoted"', "back\\slash", "two\nlines\r", '"=cmd|x'],
        "url": [None, "", "x", "\u202e\x1b[2J"],
    }
    a_release(tables={"log": pa.table(rows), "sessions": SESSIONS}).save(tmp_path / "out", "tsv")
    assert (tmp_path / "out" / "log.tsv").read_bytes().decode() == (
        "user\tquery\turl\n"
        'a\t"tab\\u0009here ""quoted"""\t\n'
        'b\tback\\slash\t""\n'
        "c\ttwo\\u000alines\\u000d\tx\n"
        'd\t"\'""=cmd|x"\t\\u202e\\u001b[2J\n'
    )  # fmt: skip
    assert (tmp_path / "out" / "sessions.tsv").read_text() == (
        'queries\tcount\n"[""weather"",""maps""]"\t7\n"[""news"",""maps""]"\t6\n'
    )
    assert load(tmp_path / "out").table("log").to_pydict() == rows


PLAIN = [
    'he said "hello"', '"quoted"', '""', "a,b", "it's", "'quoted'", "back\\slash", "100% cotton", "a;b", "null", "NA",
    "c++", "e-mail", "\u4e2d\u6587", "two  blanks", " led by a blank", "#1", "",
]  # fmt: skip


@pytest.mark.parametrize("kind", TABLES)
def test_other_packages_read_parquet(kind: str, tmp_path: Path) -> None:
    import duckdb
    import pandas
    import polars

    a_release(tables=TABLES).save(tmp_path / "out")
    path, table = tmp_path / "out" / f"{kind}.parquet", TABLES[kind]
    assert polars.read_parquet(path).to_dicts() == table.to_pylist()
    assert pandas.read_parquet(path).columns.tolist() == table.column_names
    with duckdb.connect() as connection:
        rows = connection.execute("FROM read_parquet(?)", [str(path)]).fetchall()
    assert rows == [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize(("format_name", "dialect"), [("tsv", "excel-tab"), ("csv", "excel")])
def test_spreadsheets_and_pandas_read_text_tables(format_name: str, dialect: str, tmp_path: Path) -> None:
    computed = ["=1+1", "+1", "-1", "@x", '"=cmd|...', "\uff1d1", "'=1", ' "=1"']
    texts = [*PLAIN, *computed, "\x1b]0;x\x07", "\u202eabc", "a\tb"]
    table = pa.table({"query": texts, "count": list(range(len(texts)))})
    a_release(tables={"queries": table}).save(tmp_path / "out", format_name)
    path = tmp_path / "out" / f"queries.{format_name}"
    with path.open(newline="") as file:
        read = [row["query"] for row in csv.DictReader(file, dialect=dialect)]
    assert read[: len(PLAIN)] == PLAIN
    assert not [text for text in read if text.lstrip(' "')[:1] in tuple("=+-@\uff1d\uff0b\uff0d\uff20")]
    assert all(character.isprintable() for text in read for character in text)
    assert [original_text(text) for text in read] == texts
    pandas = pytest.importorskip("pandas")
    frame = pandas.read_csv(path, sep="\t" if format_name == "tsv" else ",", keep_default_na=False)
    assert frame["query"].tolist() == read
    assert load(tmp_path / "out").table("queries").equals(load(tmp_path / "out").table("queries"))
    assert load(tmp_path / "out").table("queries")["query"].to_pylist() == texts


@given(TEXTS)
def test_safe_texts_come_back(text: str) -> None:
    assert original_text(safe_text(text)) == text
    assert all(character.isprintable() or character.isspace() or ord(character) > 0x9F for character in safe_text(text))


def test_text_of_earlier_versions_is_read(tmp_path: Path) -> None:
    a_release(tables={"log": pa.table({"user": ["a", "b"], "query": ["x", "y"], "url": ["", None]})}).save(
        tmp_path / "out", "tsv"
    )
    earlier = 'user\tquery\turl\na\t\\=1 "q"\t\\e\nb\tback\\\\slash\\there\t\n'
    (tmp_path / "out" / "log.tsv").write_text(earlier)
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert card["tables"]["log"].pop("dialect") == "excel-tab"
    card["checksums"]["log.tsv"] = hashlib.sha256(earlier.encode()).hexdigest()
    (tmp_path / "out" / "card.json").write_text(json.dumps(card))
    assert load(tmp_path / "out").table("log").to_pylist() == [
        {"user": "a", "query": '=1 "q"', "url": ""},
        {"user": "b", "query": "back\\slash\there", "url": None},
    ]


def test_tables_are_named_after_their_kind() -> None:
    with pytest.raises(ParameterError, match=r"tables must be named after their kind \(queries, clicks, .*\), got 'q'"):
        a_release(tables={"q": QUERIES})


def test_columns_are_these() -> None:
    with pytest.raises(ParameterError) as refused:
        a_release(tables={"queries": LOG})
    assert str(refused.value) == (
        "table queries must have the columns query, count in this order (count may be left out), "
        "got user, query, url, count, time; "
        "select them in the method"
    )
    with pytest.raises(ParameterError, match=r"in this order \(count, time, url may be left out\), got query"):
        a_release(tables={"log": QUERIES.select(["query"])})
    with pytest.raises(ParameterError, match="got count, query"):
        a_release(tables={"queries": QUERIES.select(["count", "query"])})
    for chosen in (["user", "query"], ["user", "query", "time"], ["user", "query", "url", "count"]):
        a_release(tables={"log": LOG.select(chosen)})


@pytest.mark.parametrize(
    "wrong",
    [
        pa.table({"query": ["x", None], "count": [1, 2]}),
        pa.table({"query": ["x"], "count": [1.5]}),
        pa.table({"query": ["x"], "count": [SECRET]}),
    ],
)
def test_rows_that_do_not_fit_are_our_bug_and_stay_unsaid(tmp_path: Path, wrong: pa.Table) -> None:
    with pytest.raises(EngineError) as refused:
        a_release(tables={"queries": wrong}).save(tmp_path / "out")
    assert str(refused.value) == ("a method handed over rows that do not fit its table; this is a bug in querycloak")
    assert refused.value.__context__ is None
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(EngineError):
        a_release(tables={"queries": wrong}).table("queries")


def test_lists_hold_no_missing_text(tmp_path: Path) -> None:
    with pytest.raises(EngineError):
        a_release(tables={"sessions": pa.table({"queries": [["a", None]], "count": [1]})}).save(tmp_path / "out")


def test_any_arrow_type_of_text_will_do(tmp_path: Path) -> None:
    for number, kind in enumerate((pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string()))):
        table = pa.table({"query": QUERIES["query"].cast(kind), "count": QUERIES["count"].cast(pa.int32())})
        a_release(tables={"queries": table}).save(tmp_path / str(number))
        assert (
            load(tmp_path / str(number)).table("queries").equals(QUERIES.cast(schema_of("queries", ["query", "count"])))
        )


@given(st.lists(st.integers(0, 7), max_size=20), st.integers(1, 9))
def test_regrouping_keeps_rows_and_hides_batches(sizes: list[int], group: int) -> None:
    rows = np.arange(sum(sizes))
    schema = pa.schema([("x", pa.int64())])
    starts = np.cumsum([0, *sizes])
    batches = [pa.record_batch([pa.array(rows[a:b])], schema) for a, b in pairwise(starts)]
    tables.ROWS_IN_A_GROUP, kept = group, tables.ROWS_IN_A_GROUP
    try:
        groups = list(regrouped(batches, schema))
    finally:
        tables.ROWS_IN_A_GROUP = kept
    assert [x for table in groups for x in table["x"].to_pylist()] == rows.tolist()
    assert [table.num_rows for table in groups[:-1]] == [group] * (len(groups) - 1)


def decompressed(data: bytes) -> bytes:
    """The bytes of a file and of every zstd frame in it."""
    found, at = [data], data.find(b"\x28\xb5\x2f\xfd")
    while at >= 0:
        stream = pa.CompressedInputStream(pa.BufferReader(data[at:]), "zstd")
        try:
            while part := stream.read(1):
                found.append(part)
        except OSError:
            pass  # the end of the frame: what follows is no zstd
        at = data.find(b"\x28\xb5\x2f\xfd", at + 1)
    return b"".join(found)


def all_bytes(folder: Path) -> bytes:
    paths = sorted(folder.rglob("*"))
    return b"".join(path.name.encode() for path in paths) + b"".join(
        decompressed(path.read_bytes()) for path in paths if path.is_file()
    )


def hidden_in_a_slice() -> pa.Table:
    return pa.table({"query": ["weather", SECRET], "count": [2, 1]}).slice(0, 1)


def hidden_in_a_filter() -> pa.Table:
    table = pa.table({"query": ["weather", SECRET], "count": [2, 1]})
    return table.filter(pa.array([True, False]))


def hidden_in_a_dictionary() -> pa.Table:
    words = pa.DictionaryArray.from_arrays(pa.array([0], pa.int32()), pa.array(["weather", SECRET]))
    return pa.table({"query": words, "count": [2]})


def hidden_in_metadata() -> pa.Table:
    fields = [pa.field("query", pa.string(), metadata={"like": SECRET}), pa.field("count", pa.int64())]
    return pa.table([["weather"], [2]], pa.schema(fields, metadata={"pandas": SECRET}))


def dropped_by_the_last_look() -> pa.Table:
    return pa.table({"query": ["weather", SECRET], "count": [2, 1]})


@pytest.mark.parametrize("format_name", ["parquet", "tsv", "csv"])
@pytest.mark.parametrize(
    "make",
    [hidden_in_a_slice, hidden_in_a_filter, hidden_in_a_dictionary, hidden_in_metadata, dropped_by_the_last_look],
)
def test_no_byte_that_was_not_released(tmp_path: Path, make: Any, format_name: str) -> None:
    look = OutputFilter(words=(SECRET,))
    a_release(tables={"queries": make()}).save(tmp_path / "out", format_name, output_filter=look)
    content = all_bytes(tmp_path)
    assert SECRET.encode() not in content
    assert b"gertrude" not in content
    assert b"weather" in content


@pytest.mark.parametrize("format_name", ["parquet", "tsv", "csv"])
def test_nothing_hides_in_lists_and_missing_values(tmp_path: Path, format_name: str) -> None:
    texts = pa.array(["weather", SECRET, "maps"])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), texts)
    sessions = pa.table({"queries": lists, "count": [3, 2, 1]}).take([0, 2])
    sliced = pa.table({"queries": lists, "count": [3, 2, 1]}).slice(2)
    offsets, validity = pa.py_buffer(np.array([0, 13], np.int32)), pa.py_buffer(b"\x00")
    masked = pa.StringArray.from_buffers(1, offsets, pa.py_buffer(SECRET.encode()), validity)
    log = pa.table({"user": ["u"], "query": ["weather"], "url": masked})
    for number, made in enumerate(({"sessions": sessions}, {"sessions": sliced}, {"log": log})):
        a_release(tables=made).save(tmp_path / str(number), format_name)
    assert b"gertrude" not in all_bytes(tmp_path)


def test_parquet_says_nothing_more_than_rows(tmp_path: Path) -> None:
    a_release(tables={"log": LOG}).save(tmp_path / "out")
    file = pq.ParquetFile(tmp_path / "out" / "log.parquet")
    assert file.metadata.metadata is None
    assert file.metadata.created_by.startswith("parquet-cpp-arrow version ")
    for index in range(file.metadata.num_columns):
        column = file.metadata.row_group(0).column(index)
        assert not column.has_dictionary_page
        assert not column.is_stats_set
        assert not column.has_column_index
        assert column.compression == "ZSTD"


def test_groups_of_rows_do_not_tell_where_rows_were_dropped(tmp_path: Path) -> None:
    texts = ["weather", "a@b.org", "maps", "news", "c@d.org", "rain"]
    batches = [pa.record_batch({"query": texts[first : first + 2], "count": [9, 8]}) for first in (0, 2, 4)]
    stream = Stream(batches[0].schema, lambda: batches)
    saved = a_release(tables={"queries": stream}).save(tmp_path / "out")
    assert saved.dropped == {"e-mail addresses": 2}
    metadata = pq.read_metadata(tmp_path / "out" / "queries.parquet")
    assert [metadata.row_group(index).num_rows for index in range(metadata.num_row_groups)] == [4]


def test_a_table_larger_than_its_share_of_memory(tmp_path: Path) -> None:
    """Ten groups go through, and never more than a few at once."""
    size = 1 << 15
    batch = pa.record_batch({"user": ["u" * 20] * size, "query": ["q" * 40] * size})
    everything = pa.array(np.arange(size))
    highest = 0

    def begin() -> Iterator[pa.RecordBatch]:
        nonlocal highest
        for _ in range(10 * tables.ROWS_IN_A_GROUP // size):
            highest = max(highest, pa.total_allocated_bytes())
            yield batch.take(everything)

    before = pa.total_allocated_bytes()
    a_release(tables={"log": Stream(batch.schema, begin)}).save(tmp_path / "out")
    assert highest - before < 4 * tables.ROWS_IN_A_GROUP * 70
    rows = sum(part.num_rows for part in load(tmp_path / "out").tables["log"])
    assert rows == 10 * tables.ROWS_IN_A_GROUP


def test_the_search_for_bytes_sees_through_compression_and_finds_leftovers(tmp_path: Path) -> None:
    text = "maps of the city " * 40
    a_release(tables={"queries": pa.table({"query": [text], "count": [1]})}).save(tmp_path / "out")
    assert text.encode() not in (tmp_path / "out" / "queries.parquet").read_bytes()
    assert text.encode() in all_bytes(tmp_path)
    pq.write_table(hidden_in_a_dictionary(), tmp_path / "careless.parquet", compression="zstd")
    assert SECRET.encode() in all_bytes(tmp_path)


@pytest.mark.parametrize("format_name", ["parquet", "tsv", "csv"])
def test_counts_that_are_clamped_noise_are_null(tmp_path: Path, format_name: str) -> None:
    table = pa.table({"query": ["a", "b"], "count": pa.array([3, None], pa.int64())})
    a_release(tables={"queries": table}).save(tmp_path / "out", format_name)
    loaded = load(tmp_path / "out")
    assert loaded.table("queries").to_pydict() == table.to_pydict()
    loaded.save(tmp_path / "again", format_name)
    assert load(tmp_path / "again").table("queries").to_pydict() == table.to_pydict()
    assert Target.of(loaded, "it").table("queries")["count"].to_pylist() == [3, 1]
    assert [batch["count"].to_pylist() for batch in Target.of(loaded, "it").batches("queries", ["count"])] == [[3, 1]]
    if format_name != "parquet":
        separator = "\t" if format_name == "tsv" else ","
        assert (tmp_path / "out" / f"queries.{format_name}").read_text().splitlines()[-1] == f"b{separator}"


def test_a_parquet_table_without_clamped_counts_is_written_as_before(tmp_path: Path) -> None:
    a_release().save(tmp_path / "out")
    assert not parquet.misses_counts(tmp_path / "out" / "queries.parquet")
