"""Views and attributes of a log, in every way a log may write them, on both engines."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from querycloak.engines import Engine
from querycloak.errors import MissingColumn, ParameterError
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read
from tests.engines.test_ubi import click, query, ubi
from tests.logs import write

HEADER = "user,time,query,rank,url,clicked,country\n"
SHOWN = (
    "u1,2024-01-01 00:00:00,a b,1,x.com,0,DE\n"
    "u1,2024-01-01 00:00:00,a b,2,y.com,TRUE,DE\n"
    "u2,2024-01-01 00:00:00,a b,1,x.com,no,\n"
    "u2,2024-01-01 00:00:00,a b,2,y.com,,\n"
)
ODD = (
    "u3,2024-01-01 00:00:00,c,1,x.com,maybe,FR\n"
    "u3,2024-01-01 00:00:00,c,one,x.com,1,FR\n"
    "u3,2024-01-01 00:00:00,,1,x.com,0,FR\n"
)
VIEWS = [
    ("u1", "a b", "x.com", 1, False, "DE"),
    ("u1", "a b", "y.com", 2, True, "DE"),
    ("u2", "a b", "x.com", 1, False, None),
    ("u2", "a b", "y.com", 2, False, None),
]


def views_of(log: SearchLog, *attributes: str) -> list[tuple[Any, ...]]:
    table = log.engine.fetch(log.views).to_pylist()
    names = ("user", "query", "url", "rank", "clicked", *attributes)
    return sorted((tuple(row[name] for name in names) for row in table), key=str)


def rows(log: SearchLog, *attributes: str) -> list[tuple[Any, ...]]:
    table = log.engine.fetch(log.rows).to_pylist()
    return sorted(
        (tuple(row[name] for name in ("user", "query", "url", "rank", *attributes)) for row in table), key=str
    )


def test_a_row_for_each_result_shown_becomes_views_clicks_and_searches(engine: Engine, tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", HEADER + SHOWN + ODD)
    log = read(path, engine=engine, log_format="csv", attributes=["country"])
    assert views_of(log, "country") == VIEWS
    assert rows(log, "country") == [("u1", "a b", "y.com", 2, "DE"), ("u2", "a b", None, None, None)]
    assert log.accounting().rejected == {"L106": 1, "L108": 1, "L112": 1}
    searches = engine.fetch(log.searches).to_pylist()
    assert sorted((row["user"], row["country"]) for row in searches if row["user"] == "u1") == [("u1", "DE")]
    asked = read(path, engine=engine, log_format="csv", attributes=["country"])
    assert engine.fetch(asked.asked).num_rows == 4
    assert asked.accounting().rejected == log.accounting().rejected


def test_parquet_and_json_lines_read_the_same_views(engine: Engine, tmp_path: Path) -> None:
    given = [line.split(",") for line in SHOWN.splitlines()]
    names = HEADER.strip().split(",")
    table: dict[str, list[Any]] = {name: [row[at] or None for row in given] for at, name in enumerate(names)}
    table["clicked"] = [text == "TRUE" for text in table["clicked"]]
    table["rank"] = [int(text or 0) for text in table["rank"]]
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    log = read(tmp_path / "log.parquet", engine=engine, attributes=["country"])
    assert views_of(log, "country") == VIEWS
    lines = [{name: column[at] for name, column in table.items()} for at in range(len(given))]
    text = "".join(json.dumps({"event": line}) + "\n" for line in lines)
    paths = {name: f"event.{name}" for name in names}
    path = write(tmp_path / "log.jsonl", text)
    log = read(path, engine=engine, columns=paths, choices=Choices(attributes=("country",)))
    assert views_of(log, "country") == VIEWS
    assert len(rows(log)) == 2
    plain = write(tmp_path / "plain.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    log = read(plain, engine=engine, log_format="jsonl", attributes=["country", "device"])
    assert views_of(log, "country") == VIEWS
    assert {row[-1] for row in rows(log, "device")} == {None}, "an attribute that no object has is empty, not an error"


def test_json_objects_without_clicked_are_clicks_as_before(engine: Engine, tmp_path: Path) -> None:
    text = '{"user": "u", "time": "2024-01-01 00:00:00", "query": "q", "url": "x.com", "rank": 3}\n'
    log = read(write(tmp_path / "log.jsonl", text), engine=engine, log_format="jsonl")
    assert rows(log) == [("u", "q", "x.com", 3)]


def test_a_list_of_results_for_each_search(engine: Engine, tmp_path: Path) -> None:
    text = (
        "user,time,query,url,list\n"
        "u1,2024-01-01 00:00:00,a,y.com?s=1,x.com y.com?s=2\n"
        'u2,2024-01-01 00:00:00,a,,"[""x.com"", {""id"": ""y.com""}]"\n'
        "u3,2024-01-01 00:00:00,c,q.com,\n"
        "u4,2024-01-01 00:00:00,c,,\n"
    )
    columns = {name: name for name in ("user", "time", "query", "url")} | {"shown": "list"}
    log = read(write(tmp_path / "log.csv", text), engine=engine, columns=columns)
    expected = [
        ("u1", "x.com", 1, False),
        ("u1", "y.com", 2, True),
        ("u2", "x.com", 1, False),
        ("u2", "y.com", 2, False),
    ]
    assert [(row[0], *row[2:]) for row in views_of(log)] == [*expected, ("u3", "q.com", None, True)]
    assert log.accounting().rows_kept == 4
    assert engine.fetch(log.records).num_rows == 6


def test_ubi_lists_impressions_and_attributes(engine: Engine, tmp_path: Path) -> None:
    attributes = {"query_attributes": {"country": "DE"}, "query_response_hit_ids": ["B1", 2]}
    documents = [
        query("q1", "shoes", **attributes),
        query("q2", "boots", client_id="c2"),
        click("q1"),
        click("q1", "B9", action_name="impression"),
        click("q2", "B7", client_id="c2", event_attributes={"object": {"object_id": "B7", "country": "FR"}}),
        click("lost", "B7", action_name="impression"),
    ]
    log = ubi(engine, tmp_path, *documents, choices=Choices(attributes=("country", "application")))
    expected = [("B1", 1, True, "DE"), ("2", 2, False, "DE"), ("B9", 3, False, "DE"), ("B7", None, True, "FR")]
    assert sorted(row[2:] for row in views_of(log, "country")) == sorted(expected, key=lambda row: row[0])
    assert log.accounting().rejected == {"L204": 2}
    assert ("c1", "shoes", "B1", 3, "DE") in rows(log, "country")
    without = ubi(engine, tmp_path, *documents)
    assert rows(without) == rows(log)


def test_attributes_that_are_not_there_are_refused_by_name(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", HEADER + SHOWN)
    with pytest.raises(MissingColumn, match="has no column 'device'; existing columns: user, time"):
        read(path, log_format="csv", attributes=["device"])
    aol = write(tmp_path / "log.tsv", "AnonID\tQuery\tQueryTime\tItemRank\tClickURL\n1\tq\t2006-03-01 00:00:00\t\t\n")
    with pytest.raises(MissingColumn, match="aol logs have no column country"):
        read(aol, attributes=["country"])


@pytest.mark.parametrize("names", [("url",), ("Country",), ("week",), ("a", "a"), ("",)])
def test_names_that_no_attribute_can_have(names: tuple[str, ...]) -> None:
    with pytest.raises(ParameterError, match="attributes"):
        Choices(attributes=names)


def test_clicked_and_shown_are_not_mapped_together(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", HEADER + SHOWN)
    columns = {name: name for name in ("user", "time", "query", "clicked")} | {"shown": "url"}
    with pytest.raises(ParameterError, match="clicked and shown"):
        read(path, columns=columns)
