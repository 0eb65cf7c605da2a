"""Rows read = kept + rejected, always: random garbage in every format, both engines; a fixture for every code."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.errors import ParameterError, TooManyBadLines
from querycloak.logs.reading.checks import CHECKS, MEANINGS
from querycloak.logs.searchlog import SearchLog, read
from tests.conftest import FIXTURES
from tests.logs import AOL_HEADER, ROWS, WRITERS, aol, chosen, rows_of, write

DOCS = Path(__file__).parents[2] / "docs"
TABLE = {"user": "u", "time": "t", "query": "q", "rank": "r", "url": "a"}
HEADERS = {"aol": AOL_HEADER.encode(), "table": b"u\tt\tq\tr\ta"}
FORMATS = ["aol", "excite", "sogou", "ubi", "table"]

PIECES = (
        [b"\t", b"\t", b"\t", b"\n", b"\n", b"\r\n", b'"', b",", b"[x]", b"1 2", b"970916105432",
         b"2006-03-01 10:00:00",
         b"10:00:00", b"12", b"http://a/?b", b"\xff", "天".encode(), "天".encode("gb18030"), b"{}", b'{"index":{}}',
         b'{"query_id":"1","user_query":"a","client_id":"c","timestamp":1733824800000}', b"\x00"]
)  # fmt: skip
pieces = st.one_of(st.binary(max_size=12), st.sampled_from(PIECES))
garbage = st.lists(pieces, max_size=120).map(b"".join)


def lines_of(data: bytes) -> int:
    data = data.removeprefix(b"\xef\xbb\xbf")
    return data.count(b"\n") + (not data.endswith(b"\n") and bool(data))


def expected_rows(name: str, data: bytes) -> int:
    """Lines, less headers and bulk files' action lines."""
    lines = [line.removesuffix(b"\r") for line in data.split(b"\n")]
    if name == "ubi":
        return lines_of(data) - sum(line in (b'{"index":{}}', b'\t{"index":{}}') or is_action(line) for line in lines)
    return lines_of(data) - sum(line == HEADERS.get(name) for line in lines)


def is_action(line: bytes) -> bool:
    return not line.startswith(b"{") and line.partition(b"\t")[2] == b'{"index":{}}' and line != b'\t{"index":{}}'


def open_garbage(engine: Engine, folder: Path, name: str, data: bytes) -> SearchLog:
    path = write(folder / "garbage.log", data)
    return read(path, log_format=name, columns=TABLE if name == "table" else None, engine=engine)


def check_law(engine: Engine, folder: Path, name: str, body: bytes) -> None:
    # A first line that is a header (or a row) keeps the file from being taken for a binary one.
    first = HEADERS.get(name, b"x")
    data = first + b"\n" + body.replace(b"\x00", b"") + b"\n\x00" + body
    log = open_garbage(engine, folder, name, data)
    kept = engine.fetch(log.rows).num_rows
    accounting = log.accounting()
    assert accounting.rows_read == expected_rows(name, data)
    assert accounting.rows_kept == kept
    assert accounting.rows_read == accounting.rows_kept + sum(accounting.rejected.values())


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=garbage)
def test_rows_read_are_kept_or_rejected(duckdb_engine: Engine, tmp_path: Path, name: str, body: bytes) -> None:
    check_law(duckdb_engine, tmp_path, name, body)


@pytest.mark.parametrize("name", FORMATS)
def test_rows_read_are_kept_or_rejected_on_spark(spark_engine: Engine, tmp_path: Path, name: str) -> None:
    """Executors run the same parser, so one log is enough: a long one, for jobs are slow and rows are not."""
    random = Random(name)
    drawn = [
        random.choice(PIECES) if random.random() < 0.7 else random.randbytes(random.randint(0, 12)) for _ in range(500)
    ]
    check_law(spark_engine, tmp_path, name, b"".join(drawn))


def test_parts_of_a_file_that_spark_reads_lose_nothing(
    spark_engine: Engine, duckdb_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("querycloak.engines.spark.PART", 970)
    path = write(tmp_path / "log.tsv", aol(ROWS * 20))
    split, whole = read(path, engine=spark_engine), read(path, engine=duckdb_engine)
    assert rows_of(split) == rows_of(whole)
    assert split.accounting() == whole.accounting()


FIXTURE_CHOICES: dict[int, dict[str, Any]] = {
    201: {"since": datetime(2006, 3, 1), "until": datetime(2006, 4, 1)},
    202: {"applications": ("shop",)},
    203: {"leave_out": frozenset({"13"})},
}


def fixture_of(code: int) -> Path:
    (found,) = (FIXTURES / "codes").glob(f"L{code}.*")
    return found


@pytest.mark.parametrize("code", MEANINGS)
def test_every_code_has_a_fixture_with_one_such_row(engine: Engine, code: int) -> None:
    log = read(fixture_of(code), engine=engine, choices=chosen(**FIXTURE_CHOICES.get(code, {})))
    accounting = log.accounting()
    assert {number: rows for number, rows in accounting.by_code.items() if number} == {code: 1}
    assert accounting.rows_kept >= 1


def test_every_code_has_one_line_of_docs() -> None:
    documented = re.findall(r"^\| L(\d+) \|", (DOCS / "codes.md").read_text(), re.MULTILINE)
    assert sorted(map(int, documented)) == sorted(MEANINGS)


def test_every_check_says_its_code_first() -> None:
    assert all((check.__doc__ or "").startswith(f"L{code}: ") for code, check in CHECKS.items())


def test_more_than_five_percent_bad_is_refused(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "log.tsv", aol(ROWS * 5) + "bad\nbad\nbad\n")
    with pytest.raises(
        TooManyBadLines, match=r"3 of 43 rows are bad \(7.0%; most of them L103, wrong number of fields\)"
    ):
        read(path, engine=duckdb_engine).checked()
    read(path, engine=duckdb_engine, max_bad=0.07).checked()
    with pytest.raises(ParameterError, match="max_bad must be a share between 0 and 1, got 7"):
        read(path, engine=duckdb_engine, max_bad=7)


def test_rows_left_out_by_choice_are_not_bad(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "log.tsv", aol(ROWS))
    log = read(path, engine=duckdb_engine, choices=chosen(leave_out=frozenset({"7", "8"})))
    assert log.checked().rejected == {"L203": 6}


def test_the_rejected_rows_go_into_a_private_file(engine: Engine, tmp_path: Path) -> None:
    path = write(
        tmp_path / "log.tsv", aol(ROWS[:1]) + "one\ttwo\n\xff\xfe\n".replace("\xff\xfe", "three") + aol(ROWS[1:2])
    )
    target = tmp_path / "aside.jsonl"
    assert read(path, engine=engine).write_rejected(target) == 2
    assert target.stat().st_mode & 0o777 == 0o600
    text = target.read_text()
    assert '"code":"L103","fields":2,"content":"one\\ttwo"' in text
    assert '"line":3,' in text
    assert "weather" not in text


def test_a_clean_log_is_parsed_once_for_its_accounting(duckdb_engine: Engine, tmp_path: Path) -> None:
    blocks: list[int] = []
    path = write(tmp_path / "log.tsv", WRITERS["aol"](ROWS))
    log = read(path, engine=duckdb_engine)
    log._on_bytes = blocks.append
    duckdb_engine.fetch(log.rows)
    assert log.accounting().rows_read == len(ROWS)
    assert len(blocks) == 1
