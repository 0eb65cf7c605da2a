"""What a Parquet file can hold that is no row of a log: kinds of columns, names, times, and bytes without end."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.logs.formats import parquet_batches
from querycloak.logs.searchlog import SearchLog, read
from tests.commands import in_process
from tests.logs import write

USERS, TIMES, QUERIES = ["a", "b"], ["2006-03-01 10:00:00"] * 2, ["x", "y"]


def saved(path: Path, **columns: Any) -> Path:
    usual = {"user": USERS, "time": TIMES, "query": QUERIES}
    pq.write_table(pa.table({**usual, **columns}), path)
    return path


def opened(engine: Engine, path: Path, **options: Any) -> SearchLog:
    return read(path, log_format="parquet", engine=engine, **options)


def kept(log: SearchLog, column: str) -> list[Any]:
    return sorted(log.engine.fetch(log.rows)[column].to_pylist())


@pytest.mark.parametrize(
    ("column", "values", "kind"),
    [
        ("user", pa.array([["a"], ["b"]]), "list"),
        ("query", pa.array([{"jane": 1}, {"jane": 2}]), "struct"),
        ("user", pa.array([[("a", 1)], []], pa.map_(pa.string(), pa.int64())), "map"),
        ("user", pa.array([True, False]), "bool"),
        ("time", pa.array([1, 2], pa.duration("us")), "duration"),
        ("time", pa.array([1, 2], pa.time64("us")), "time64"),
        ("time", pa.array([["a"], ["b"]]), "list"),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
def test_a_column_that_is_no_text_number_or_time_is_bad_input(
    duckdb_engine: Engine, tmp_path: Path, column: str, values: pa.Array, kind: str
) -> None:
    path = saved(tmp_path / "log.parquet", **{column: values})
    with pytest.raises(InputError) as refusal:
        opened(duckdb_engine, path)
    assert f"its column {column!r} is of type {kind}; {column} must be a t" in str(refusal.value)
    assert "jane" not in str(refusal.value)


def test_a_column_name_that_stands_twice_is_bad_input(duckdb_engine: Engine, tmp_path: Path) -> None:
    table = pa.Table.from_arrays(
        [pa.array(each) for each in (USERS, TIMES, QUERIES, USERS)], ["user", "time", "query", "user"]
    )
    pq.write_table(table, tmp_path / "log.parquet")
    with pytest.raises(InputError, match="LOG has more than one column 'user'"):
        opened(duckdb_engine, tmp_path / "log.parquet")


def test_names_that_are_no_utf8_are_bad_input(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = saved(tmp_path / "log.parquet", jane=USERS)
    path.write_bytes(path.read_bytes().replace(b"jane", b"\xff\xfe\xff\xfe"))
    with pytest.raises(InputError, match="its schema names columns in bytes that are no UTF-8"):
        opened(duckdb_engine, path)


def test_a_uuid_is_a_user(duckdb_engine: Engine, tmp_path: Path) -> None:
    ids = [uuid.UUID(int=5), uuid.UUID("123e4567-e89b-12d3-a456-426614174000")]
    column = pa.array([each.bytes for each in ids], pa.uuid())
    log = opened(duckdb_engine, saved(tmp_path / "log.parquet", user=column))
    assert kept(log, "user") == sorted(map(str, ids))


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Mars/Phobos", "+02:00"])
def test_times_are_read_whatever_zone_they_are_to_be_shown_in(
    duckdb_engine: Engine, tmp_path: Path, unit: str, zone: str | None
) -> None:
    scale = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    far = 2**53 if unit == "s" else 2**62  # no time, but in nanoseconds
    column = pa.array([1_141_207_200 * scale, far], pa.int64()).cast(pa.timestamp(unit, tz=zone))
    log = opened(duckdb_engine, saved(tmp_path / "log.parquet", time=column))
    assert f"{kept(log, 'time')[0]:%Y-%m-%d %H:%M:%S}" == "2006-03-01 10:00:00"
    assert log.accounting().rejected == ({} if unit == "ns" else {"L102": 1})


def test_a_user_or_query_that_is_no_number_is_missing_and_nobodys_twin(duckdb_engine: Engine, tmp_path: Path) -> None:
    nan = float("nan")
    users = [nan, nan, float("inf"), None, 7.0, 1.5, 1.25, 2.0**60]
    path = saved(tmp_path / "log.parquet", user=users, time=TIMES * 4, query=QUERIES * 4)
    log = opened(duckdb_engine, path)
    assert kept(log, "user") == ["1.152921504606847e+18", "1.25", "1.5", "7"]
    assert log.accounting().rejected == {"L101": 4}
    asked = opened(duckdb_engine, saved(tmp_path / "asked.parquet", query=[nan, 3.0]))
    assert kept(asked, "query") == ["3"]
    assert asked.accounting().rejected == {"L106": 1}


def test_batches_are_bounded_by_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_batches, "_BATCH_BYTES", 10_000)
    texts = ["x" * length for length in range(0, 3_000, 7)]
    users = pa.DictionaryArray.from_arrays(pa.array([0] * len(texts), pa.int32()), pa.array(["u" * 50]))
    path = saved(tmp_path / "log.parquet", user=users, query=texts, time=TIMES[:1] * len(texts))
    log = read(path, log_format="parquet")
    sizes, lengths = [], []
    for block in log.source.blocks(log.source.parts(None)[0]):
        rows = log.source.parse(block)
        sizes.append(rows.nbytes)
        lengths += [len(text or "") for text in rows["query"].to_pylist()]
    log.close()
    assert max(sizes) < 30_000
    assert sorted(lengths) == sorted(map(len, texts))


def searches_with_results(**columns: Any) -> pa.Table:
    """Two searches of one user with three results each, with these columns in the place of ours."""
    ours = {
        "user": ["u"] * 6,
        "time": [TIMES[0]] * 3 + [TIMES[1]] * 3,
        "query": ["a"] * 3 + ["b"] * 3,
        "rank": pa.array([1, 2, 3] * 2, pa.int32()),
        "url": ["x.com", "y.com", "z.com"] * 2,
        "clicked": [True, False, False] * 2,
        "country": ["de"] * 6,
    }
    return pa.table({**ours, **columns})


RESULTS: dict[str, tuple[dict[str, Any], int]] = {
    "all sound": ({}, 2),
    "no country": ({"country": pa.array([None] * 6, pa.string())}, 2),
    "two countries": ({"country": ["de", "de", "fr", "de", None, None]}, 4),
    "a rank that is none": ({"rank": pa.array([1, -2, 3, 1, 2, None], pa.int32())}, 3),
    "an address that is too long": ({"url": ["x.com", "y" * 70_000, "z.com"] * 2}, 4),
    "an address that is no text": ({"url": pa.array([b"x.com", b"y.com", b"\xff"] * 2, pa.binary())}, 2),
    "clicked as texts": ({"clicked": ["yes", "no", "perhaps"] * 2}, 2),
    "ranks as texts": ({"rank": ["1", "2", "x"] * 2}, 4),
    "no user": ({"user": ["u"] * 3 + [None] * 3}, 1),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_search_is_written_once_for_its_adjacent_results(tmp_path: Path, name: str) -> None:
    columns, once = RESULTS[name]
    path = tmp_path / "log.parquet"
    pq.write_table(searches_with_results(**columns), path)
    source = read(path, log_format="parquet", attributes=["country"]).source
    (block,) = source.blocks(source.parts(None)[0])
    whole, searches = source.parse(block), replace(source, clicks=False).parse(block)
    names = ["user", "time", "query", "country"]
    seen = [tuple(row[each] for each in names) for row in searches.to_pylist() if row["user"] is not None]
    assert len(seen) == once
    assert set(seen) == {tuple(row[each] for each in names) for row in whole.to_pylist() if row["code"] == 0}
    assert Counter(searches["code"].to_pylist()) == Counter(whole["code"].to_pylist())


def test_texts_stored_one_by_one_are_read_as_they_are_if_no_dictionary_entry_is_long(tmp_path: Path) -> None:
    texts = {
        "coded": ["one text"] * 50_000,
        "plain": [f"http://{number}.example/" for number in range(50_000)],
        "a bomb before": ["x" * 5_000] * 10_000 + [f"http://{number}.example/" for number in range(40_000)],
    }
    path = tmp_path / "texts.parquet"
    pq.write_table(pa.table(texts), path, dictionary_pagesize_limit=10_000)
    coded = pq.ParquetFile(path, read_dictionary=list(texts))
    longest = len("http://9999.example/")
    assert set(parquet_batches._stored_one_by_one(coded, list(texts))) == {"plain"}
    assert 0 < parquet_batches._stored_one_by_one(coded, list(texts))["plain"] <= longest + 1


BOMBS = {
    "one long value": (["x" * (1 << 20)], 65_536, 0),
    "a value at the limit": (["x" * (1 << 16)], 20_000, 20_000),
}
READ = """
import sys
import querycloak as qc
with qc.read(sys.argv[1], log_format="parquet", engine=qc.connect(memory="500MB", threads=2)) as log:
    print(log.accounting().rows_read, log.accounting().rows_kept)
# What getrusage says begins with what the process that started this one held.
print(int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0]) // 1024)
"""


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_few_bytes_do_not_become_gigabytes(tmp_path: Path, bomb: str) -> None:
    values, rows, fine = BOMBS[bomb]
    column = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(values))
    times = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(TIMES[:1]))
    users = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["u"]))
    path = tmp_path / "bomb.parquet"
    pq.write_table(pa.table({"user": users, "time": times, "query": column}), path, compression="zstd")
    assert path.stat().st_size < 10_000
    done = subprocess.run([sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True)
    (read_rows, kept_rows), megabytes = map(int, done.stdout.split()[:2]), int(done.stdout.split()[2])
    assert (read_rows, kept_rows) == (rows, fine)
    assert megabytes < 1_200  # with the libraries; written out it is 64 GB, or 1.3


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a":' * 100_000, '{"user":' + "[" * 100_000])
def test_deep_json_is_bad_input(tmp_path: Path, text: str) -> None:
    (tmp_path / "tmp").mkdir()
    log = write(tmp_path / "log.jsonl", f'{text}\n{{"user": 1, "time": 1733824800, "query": "q"}}\n')
    done = in_process("inspect", log, "--log-format", "jsonl", "--max-bad", "1", "--json", tmp=tmp_path / "tmp")
    assert done.returncode == 0, done.stderr
    assert '"L109": 1' in done.stdout
    (tmp_path / "release").mkdir()
    write(tmp_path / "release" / "card.json", text)
    for command in ("describe", "verify"):
        done = in_process(command, tmp_path / "release", tmp=tmp_path / "tmp")
        assert done.returncode == 2
        assert "bug" not in done.stderr


def test_codes_of_eight_bits_reach_their_last_text() -> None:
    texts = pa.DictionaryArray.from_arrays(pa.array([127, 0, None], pa.int8()), pa.array([f"t{n}" for n in range(128)]))
    spans = parquet_batches.coded_texts(texts)
    assert [bytes(spans.data[a:b]) for a, b in zip(spans.starts, spans.ends, strict=True)] == [b"t127", b"t0", b""]
