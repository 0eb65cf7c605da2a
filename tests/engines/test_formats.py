"""Every format gives the same rows on both engines: non-ASCII text, nulls, ties, empty logs, compressed files."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.errors import InputError, MissingColumn, QuerycloakError, UnknownFormat
from querycloak.logs.searchlog import SearchLog, read
from tests.logs import AOL_HEADER, KEPT, ROWS, WRITERS, chosen, open_rows, rows_of, write

EXPECTED: dict[str, list[tuple[Any, ...]]] = {
    "aol": KEPT,
    "csv": KEPT,
    "jsonl": KEPT,
    "sogou": [row if row[4] else (*row[:3], None, None) for row in KEPT],
    "excite": [(*row[:3], None, None) for row in KEPT],
}


@pytest.mark.parametrize("name", WRITERS)
def test_same_rows_whatever_the_format(engine: Engine, tmp_path: Path, name: str) -> None:
    path = write(tmp_path / f"log.{name}", WRITERS[name](ROWS))
    log = open_rows(engine, path, name, encoding="utf-8" if name == "sogou" else None)
    assert rows_of(log) == sorted(EXPECTED[name], key=repr)
    assert log.accounting().by_code == {0: len(ROWS)}


@pytest.mark.parametrize("name", ["aol", "jsonl"])
def test_what_was_asked_is_read_without_clicks_and_accounted_for(engine: Engine, tmp_path: Path, name: str) -> None:
    unreadable = ("7", "12:00:00", "a", "first", "http://a.example/")  # its rank is: such a click is rejected
    path = write(tmp_path / f"log.{name}", WRITERS[name]([*ROWS, unreadable]))
    log = open_rows(engine, path, name)
    found = log.engine.fetch(log.asked)
    assert found.column_names == ["user", "time", "query"]
    assert sorted(found["query"].to_pylist()) == sorted(row[2] for row in KEPT)
    assert log.accounting().by_code == {0: len(ROWS), 108: 1}
    assert "marked_rows" not in log.__dict__  # nobody read the addresses to know that


def test_a_second_reading_that_fails_is_heard(engine: Engine, tmp_path: Path) -> None:
    """Spark's executors tell a failure by a row, which only whoever counts codes sees."""
    path = write(tmp_path / "log.aol", WRITERS["aol"](ROWS))
    log = open_rows(engine, path, "aol")
    assert engine.fetch(log.asked).num_rows == len(ROWS)
    log.checked()
    away = path.rename(tmp_path / "away")
    with pytest.raises(InputError, match=r"cannot be opened|no such file"):
        read_while_away(log, away, path)


def read_while_away(log: SearchLog, away: Path, path: Path) -> None:
    log.engine.fetch(log.rows)  # DuckDB says so here
    away.rename(path)
    log.checked()


def test_parquet_with_other_names_and_types(engine: Engine, tmp_path: Path) -> None:
    columns = list(zip(*ROWS, strict=True))
    table = pa.table(
        {
            "who": [int(user) for user in columns[0]],
            "when": pa.array([f"1970-01-01T{time}" for time in columns[1]]).cast(pa.timestamp("ns")),
            "what": pa.array(columns[2]).dictionary_encode(),
            "position": [float(rank) if rank else None for rank in columns[3]],
            "target": pa.array([url or None for url in columns[4]], pa.large_string()),
        }
    )
    pq.write_table(table, tmp_path / "log.parquet", row_group_size=3)
    mapping = {"user": "who", "time": "when", "query": "what", "rank": "position", "url": "target"}
    log = read(tmp_path / "log.parquet", columns=mapping, engine=engine)
    assert rows_of(log) == sorted(KEPT, key=repr)


def test_sogou_encodings_are_told_apart_line_by_line(engine: Engine, tmp_path: Path) -> None:
    chosen_rows = [row for row in ROWS if "Ä" not in row[2]]  # which is Chinese in GB18030: --encoding helps
    expected = sorted((row for row in EXPECTED["sogou"] if "ä" not in row[2]), key=repr)
    lines = WRITERS["sogou"](chosen_rows).splitlines(keepends=True)
    for encodings in (["utf-8"], ["utf-8-sig"], ["gb18030"], ["gb18030", "utf-8"], ["utf-8", "gb18030"]):
        data = b"".join(line.encode(encodings[i % len(encodings)]) for i, line in enumerate(lines))
        assert rows_of(read(write(tmp_path / "log.txt", data), engine=engine)) == expected


def table(**columns: Any) -> pa.Table:
    return pa.table({"user": ["1"], "time": ["1970-01-01 12:00:00"], "query": ["a"], **columns})


@pytest.mark.parametrize("lacking", ["1", "2", "3"])
def test_a_parquet_file_without_clicks_costs_the_others_none(engine: Engine, tmp_path: Path, lacking: str) -> None:
    others = [name for name in "123" if name != lacking]
    pq.write_table(table(), tmp_path / f"{lacking}.parquet")
    pq.write_table(table(user=["2"], url=["b"], rank=[1]), tmp_path / f"{others[0]}.parquet")
    pq.write_table(table(user=["3"]).rename_columns(["User", "TIME", "query"]).append_column("URL", [["c"]]), tmp_path / f"{others[1]}.parquet")  # noqa: E501  # fmt: skip
    expected = [("1", "12:00:00", "a", None, None), ("2", "12:00:00", "a", 1, "b"), ("3", "12:00:00", "a", None, "c")]
    assert rows_of(read(tmp_path, engine=engine)) == expected


def test_parquet_texts_that_are_no_utf_8_cost_nobody_else_a_row(engine: Engine, tmp_path: Path) -> None:
    queries = [b"\xff", "Ü".encode(), b"a"]
    for kind in (pa.binary(), pa.dictionary(pa.int8(), pa.binary()), pa.string()):
        held = pa.array(queries, pa.binary())
        if kind == pa.string():  # written by somebody who did not check
            held = pa.StringArray.from_buffers(3, held.buffers()[1], held.buffers()[2])
        columns = {"user": ["1", "2", "3"], "time": ["1970-01-01 12:00:00"] * 3}
        pq.write_table(pa.table({**columns, "query": held.cast(kind)}), tmp_path / "log.parquet")
        log = read(tmp_path / "log.parquet", engine=engine)
        assert [row[:3] for row in rows_of(log)] == [("2", "12:00:00", "ü"), ("3", "12:00:00", "a")]
        assert log.accounting().rejected == {"L104": 1}


def test_json_keys_are_looked_for_in_each_object(engine: Engine, tmp_path: Path) -> None:
    first = {"user": "1", "time": "1970-01-01 12:00:00", "query": "a"}
    objects = [first, {**first, "URL": "b", "Rank": 2}, {"USER": 3, "Time": first["time"], "Query": "c", "url": "d"}]
    objects += [{"user": "1", "time": first["time"], "q": "x"}, {**first, "query": None}]
    text = "".join(json.dumps(held) + "\n" for held in objects)
    log = read(write(tmp_path / "log.jsonl", text), log_format="table", engine=engine)
    expected = [("1", "12:00:00", "a", 2, "b"), ("1", "12:00:00", "a", None, None), ("3", "12:00:00", "c", None, "d")]
    assert rows_of(log) == expected
    assert log.accounting().rejected == {"L103": 1, "L106": 1}


def test_json_columns_by_a_mapping_need_not_be_in_the_first_object(engine: Engine, tmp_path: Path) -> None:
    text = '{"who": 1}\n{"who": 2, "when": 1700000000, "event": {"q": "a"}, "event.url": "b"}\n'
    mapping = {"user": "who", "time": "when", "query": "event.q", "url": "event.url"}
    log = read(write(tmp_path / "log.jsonl", text), columns=mapping, engine=engine)
    assert [(row[0], row[2], row[4]) for row in rows_of(log)] == [("2", "a", "b")]


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as out:
        out.write(data)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def test_compressed_files_and_folders(engine: Engine, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    (folder / "deeper").mkdir(parents=True)
    thirds = [WRITERS["aol"](ROWS[i::3]).encode() for i in range(3)]
    write(folder / "1.txt.gz", gzip.compress(thirds[0]))
    write(folder / "2.txt.bz2", bz2.compress(thirds[1]))
    write(folder / "deeper/3.txt.zst", zstd(thirds[2]))
    write(folder / "U500k_README.txt", "about this log")
    write(folder / "_SUCCESS", "")
    assert rows_of(read(folder, engine=engine)) == sorted(KEPT, key=repr)


def test_several_files_and_an_address(engine: Engine, tmp_path: Path) -> None:
    first = write(tmp_path / "a.tsv", WRITERS["aol"](ROWS[:5]))
    second = write(tmp_path / "b.tsv", WRITERS["aol"](ROWS[5:]))
    assert rows_of(read([first, second.as_uri()], engine=engine)) == sorted(KEPT, key=repr)


def test_a_log_without_rows(engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", AOL_HEADER + "\n"), engine=engine)
    assert rows_of(log) == []
    assert log.accounting().rows_read == 0
    assert engine.fetch(log.sessions()).num_rows == 0


def test_aol_without_header_with_short_rows_and_repeated_headers(engine: Engine, tmp_path: Path) -> None:
    body = "\n".join(["1\ta b\t2006-03-01 10:00:00", AOL_HEADER, "2\tb\t2006-03-01 10:00:00\t\t", ""])
    log = read(write(tmp_path / "x.tsv", f"{AOL_HEADER}\n{body}"), engine=engine)
    assert log.accounting().by_code == {0: 2}


def test_normalisation_and_addresses_as_chosen(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "log.tsv", WRITERS["aol"](ROWS))
    kept = rows_of(read(path, engine=engine, choices=chosen(normalise=False, keep_url="full")))
    assert kept == sorted(((u, t, q, int(r) if r else None, a or None) for u, t, q, r, a in ROWS), key=repr)
    hosts = rows_of(read(path, engine=engine, choices=chosen(keep_url="host")))
    assert {row[4] for row in hosts if row[4]} == {"www.weather.example", "polo.example", "天气.example", "z.example", "a.example"}  # noqa: E501  # fmt: skip


def test_a_quote_left_open_costs_nobody_else_a_row(engine: Engine, tmp_path: Path) -> None:
    text = WRITERS["csv"](ROWS).replace("\r\n", '\r\n1970-01-01T12:00:00Z,x,"flu\r\n', 1)
    log = open_rows(engine, write(tmp_path / "log.csv", text), "csv")
    assert rows_of(log) == sorted(KEPT, key=repr)
    assert log.accounting().rejected == {"L103": 1}


def test_a_few_odd_lines_do_not_decide_for_all(engine: Engine, tmp_path: Path) -> None:
    odd = b"5\t\x81\x81\t1970-01-01 12:00:00\t\t\n"
    log = read(write(tmp_path / "log.tsv", WRITERS["aol"](ROWS).encode() + odd), engine=engine)
    assert rows_of(log) == sorted(KEPT, key=repr)
    assert log.accounting().rejected == {"L104": 1}


@given(data=st.binary(min_size=1, max_size=300))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_read_or_refused_in_our_own_words(duckdb_engine: Engine, tmp_path: Path, data: bytes) -> None:
    with contextlib.suppress(QuerycloakError):
        read(write(tmp_path / "bytes.log", data), engine=duckdb_engine).accounting()


def test_formats_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UnknownFormat, match="is not known"):
        read(write(tmp_path / "prose.txt", "It was a dark night.\nIt rained.\n"))
    with pytest.raises(UnknownFormat, match=r"several formats \(1 aol, 1 excite\)"):
        read([write(tmp_path / "a.tsv", WRITERS["aol"](ROWS)), write(tmp_path / "e.tsv", WRITERS["excite"](ROWS))])
    with pytest.raises(UnknownFormat, match="UTF-16"):
        read(write(tmp_path / "u.tsv", WRITERS["aol"](ROWS).encode("utf-16")))
    with pytest.raises(UnknownFormat, match="read Parquet, JSON lines and other text apart"):
        read([write(tmp_path / "t.csv", "user,time,query\n"), write(tmp_path / "j.jsonl", WRITERS["jsonl"](ROWS))])
    with pytest.raises(UnknownFormat, match="is not text"):
        read(write(tmp_path / "b.tsv", bytes(range(256))))


def test_missing_columns_list_those_that_are_there(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", WRITERS["csv"](ROWS))
    with pytest.raises(MissingColumn, match="no column 'wann'; existing columns: when, who, what, target, position"):
        read(path, columns={"user": "who", "time": "wann", "query": "what"})
    headless = write(tmp_path / "headless.csv", "4711,numb fingers,1970-01-01\n4711,dogs,1970-01-02\n")
    with pytest.raises(MissingColumn, match="its first line has none of the names given") as raised:
        read(headless, columns={"user": "who", "time": "when", "query": "what"})
    assert "numb" not in str(raised.value)
