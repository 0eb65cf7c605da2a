"""One JSON document as a log: an array, or a `_search` reply; several lines are never one document."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.logs.searchlog import read
from tests.logs import rows_of

ROWS = [{"user": "u1", "time": "2006-03-01", "query": "first"}, {"user": "u2", "time": "2006-03-02", "query": "second"}]
MAPPING = {"user": "user", "time": "time", "query": "query"}
REPLY = {"took": 3, "hits": {"total": {"value": 2}, "hits": [{"_index": "i", "_id": "1", "_source": r} for r in ROWS]}}
UBI = [
    {"query_id": "q1", "client_id": "c1", "user_query": "shoes", "timestamp": "2024-01-01T10:00:00Z"},
    {"action_name": "item_click", "query_id": "q1", "client_id": "c1", "timestamp": "2024-01-01T10:00:09Z"},
]


def queries_of(path: Path, engine: Engine, **options: Any) -> list[str]:
    return sorted(row[2] for row in rows_of(read(path, engine=engine, **options)))


@pytest.mark.parametrize("document", [ROWS, REPLY], ids=["array", "reply"])
@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("columns", [None, MAPPING], ids=["own names", "columns"])
def test_a_document_is_read_as_its_rows(
    duckdb_engine: Engine, tmp_path: Path, document: Any, indent: int | None, columns: dict[str, str] | None
) -> None:
    path = tmp_path / "log.json"
    path.write_text(json.dumps(document, indent=indent))
    assert queries_of(path, duckdb_engine, columns=columns) == ["first", "second"]


def test_compressed_and_marked_documents_are_read_too(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "log.json.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf\n" + json.dumps(ROWS).encode()))
    assert queries_of(path, duckdb_engine) == ["first", "second"]


def test_a_reply_of_ubi_documents_is_a_ubi_log(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "reply.json"
    path.write_text(json.dumps({"hits": {"hits": [{"_source": each} for each in UBI]}}))
    log = read(path, engine=duckdb_engine)
    assert log.format == "ubi"
    assert log.accounting().rejected == {"L204": 1}


def test_lines_stay_lines_whatever_the_first_one_holds(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text("\n".join(json.dumps(each) for each in [REPLY, *ROWS]) + "\n")
    log = read(path, log_format="jsonl", engine=duckdb_engine)
    assert (log.accounting().rows_read, log.accounting().rows_kept) == (3, 2)
    log = read(path, columns=MAPPING, engine=duckdb_engine)
    assert (log.accounting().rows_read, log.accounting().rows_kept) == (3, 2)


def test_with_columns_only_a_name_tells_a_document(duckdb_engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps(ROWS) + "\n" + json.dumps(ROWS[0]) + "\n")
    log = read(path, columns=MAPPING, engine=duckdb_engine)
    assert log.accounting().by_code == {0: 1, 109: 1}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (json.dumps(ROWS)[:-5], "LOG begins as a JSON array does, but is none: is it cut short? Write it again"),
        ("[]", "LOG is a JSON document without rows"),
    ],
)
def test_a_document_that_is_none_or_empty_is_refused(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "log.json"
    path.write_text(content)
    with pytest.raises(InputError) as refusal:
        read(path)
    assert str(refusal.value) == message
