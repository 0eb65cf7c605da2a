"""The leak search finds what was planted anywhere in a folder, and nothing in releases as they are written."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.audits.attacks.folder_leaks import NAMES, FolderLeaks, Leak
from querycloak.audits.audit_data import AuditData
from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.evaluation.target import Target
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.k_anonymity.method import KAnonymity
from tests.unit.audits.toy_logs import a_log, knowing

SECRET, SHORT, USER, URL = "widow of lilburn", "xqjz", "u4417749", "http://widow-of-lilburn.example/"
TRAIN = {
    **{f"u{i}": ["weather", "query", "count", "search log"] for i in range(100, 110)},
    USER: [SECRET, SHORT, "7 users"],
}


@pytest.fixture
def log(duckdb_engine: Engine, tmp_path: Path) -> SearchLog:
    return a_log(duckdb_engine, tmp_path, "train", TRAIN)


@pytest.fixture
def folder(log: SearchLog, tmp_path: Path) -> Path:
    KAnonymity(min_users=5, keys="clicks").release(log).save(tmp_path / "release")
    return tmp_path / "release"


def places(folder: Path, log: SearchLog) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for leak in qc.find_leaks(folder, log):
        found.setdefault(leak.secret, set()).add(leak.place)
    return found


def test_a_release_as_it_is_written_holds_nothing_else(log: SearchLog, folder: Path) -> None:
    assert qc.find_leaks(folder, log) == []


@pytest.mark.parametrize("name", [f"{USER}.txt", "a-widow_of-lilburn.txt", f"x{SECRET}x", f"{SHORT}-1"])
def test_in_names_of_files(log: SearchLog, folder: Path, name: str) -> None:
    (folder / "more").mkdir()
    (folder / "more" / name).write_text("")
    assert [set(each) for each in places(folder, log).values()] == [{"the name of a file"}]


def test_in_texts(log: SearchLog, folder: Path) -> None:
    (folder / "notes.txt").write_text("The Widow\nof Lilburn clicked on " + URL)
    (folder / "notes.gz").write_bytes(gzip.compress(f"asked by {USER.upper()}, twice".encode()))
    (folder / "notes.bin").write_bytes(b"\x00\xff\x01" + URL.encode() + b"\x02")
    assert places(folder, log) == {
        SECRET: {"notes.txt"}, URL: {"notes.txt", "notes.bin"}, USER: {"notes.gz"},
    }  # fmt: skip


def test_in_the_card(log: SearchLog, folder: Path) -> None:
    card = json.loads((folder / "card.json").read_bytes())
    card["parameters"]["note"] = {"of": [f"see {SHORT}"]}
    (folder / "card.json").write_text(json.dumps(card))
    assert places(folder, log) == {SHORT: {"card.json"}}


def test_in_parquet_files(log: SearchLog, folder: Path) -> None:
    schema = pa.schema([pa.field("query", pa.string()), pa.field(SHORT, pa.int64())], {"made for": USER})
    rows = pa.table({"query": ["weather"], SHORT: [1]}).cast(schema)
    pq.write_table(rows, folder / "more.parquet")
    found = places(folder, log)
    assert found[USER] == {"more.parquet, metadata"}
    assert found[SHORT] >= {"more.parquet, a column's name"}


def test_in_dictionaries_and_statistics_of_a_released_table(log: SearchLog, folder: Path) -> None:
    table = pq.read_table(folder / "clicks.parquet")
    values = pa.array([*table["query"].to_pylist(), SECRET])
    coded = pa.DictionaryArray.from_arrays(pa.array(range(table.num_rows), pa.int32()), values)
    planted = table.set_column(0, "query", coded)
    pq.write_table(planted, folder / "clicks.parquet", write_statistics=False)
    stored = pq.ParquetFile(folder / "clicks.parquet", read_dictionary=["query"]).read()["query"]
    assert SECRET in stored.chunk(0).dictionary.to_pylist()  # or this test tests nothing
    vouched_again(folder)
    assert places(folder, log) == {SECRET: {"clicks.parquet, a dictionary"}}


def vouched_again(folder: Path) -> None:
    """The card's checksums, as if a careless method had written all of it."""
    import hashlib

    card = json.loads((folder / "card.json").read_bytes())
    for name in card["checksums"]:
        if name != "algorithm":
            card["checksums"][name] = hashlib.sha256((folder / name).read_bytes()).hexdigest()
    (folder / "card.json").write_text(json.dumps(card))


def test_values_of_a_table_that_nobody_released(log: SearchLog, tmp_path: Path) -> None:
    (tmp_path / "any").mkdir()
    pq.write_table(pa.table({"text": [SECRET, None, "nothing"]}), tmp_path / "any" / "table.parquet")
    assert places(tmp_path / "any", log)[SECRET] >= {"table.parquet, a value"}


def test_names_of_the_log_in_released_rows(log: SearchLog, folder: Path, tmp_path: Path) -> None:
    KAnonymity(min_users=5, keys="log").release(log).save(tmp_path / "named")
    assert qc.find_leaks(tmp_path / "named", log) == []
    rows = pq.read_table(tmp_path / "named" / "log.parquet")
    own = rows.set_column(0, "user", pa.array(["u100"] * rows.num_rows))
    pq.write_table(own, tmp_path / "named" / "log.parquet", use_dictionary=False, write_statistics=False)
    vouched_again(tmp_path / "named")
    assert Leak("u100", NAMES, "users") in qc.find_leaks(tmp_path / "named", log)


def test_released_queries_are_no_leak_in_names(log: SearchLog, folder: Path) -> None:
    (folder / "weather.txt").write_text("weather")
    assert qc.find_leaks(folder, log) == []


def test_a_leak_is_an_alarm_that_does_not_quote_it(duckdb_engine: Engine, tmp_path: Path) -> None:
    knowledge: AuditData = knowing(duckdb_engine, tmp_path, TRAIN, {"9": ["weather"]})
    KAnonymity(min_users=5, keys="clicks").release(knowledge.train).save(tmp_path / "release")
    (tmp_path / "release" / "notes.txt").write_text(SECRET)
    rows = {each.setting: each for each in FolderLeaks().run(Target.in_folder(tmp_path / "release"), knowledge)}
    assert rows["queries"].alarm == "leaks: release holds queries of the log in notes.txt"
    assert rows["queries"].main == pytest.approx(1 / 7)
    assert (rows["users"].main, rows["users"].alarm, rows["users"].why) == (0, None, None)
    assert SECRET not in repr(qc.find_leaks(tmp_path / "release", knowledge.train))


def test_not_a_folder(log: SearchLog, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder; name the one to search"):
        qc.find_leaks(tmp_path / "nowhere", log)
