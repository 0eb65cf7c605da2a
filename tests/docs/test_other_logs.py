"""Mappings of docs/other-logs.md on files in the form of each log."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import querycloak as qc
from tests.pages import ROOT, examples

Row = dict[str, Any]
SLOW = json.dumps({"query": {"match": {"title": {"query": "garden shovel"}}}})


def rows_of(sign: str) -> Callable[[Iterable[str]], Iterator[Row]]:
    """The function of the example that holds this text."""
    (text,) = (each.text for each in examples(ROOT / "docs" / "other-logs.md") if sign in each.text)
    names: dict[str, Any] = {}
    exec(compile(text, "an example", "exec"), names)
    function: Callable[[Iterable[str]], Iterator[Row]] = names["rows_of"]
    return function


@pytest.mark.parametrize(
    "clicks",
    ["[('44759354', 'works')]", "[('44759354', datetime.datetime(2025, 2, 8, 15, 55, 2), 'works')]"],
    ids=["LongEval", "Sim4IA"],
)
def test_sessions_of_core(tmp_path: Path, clicks: str) -> None:
    """Eight fields without a header, lists as Python writes them; a comma and quotes in a query."""
    searches = [
        (1, "test_user", 44, 'media "literacy", effects', "2025-02-08 15:54:49", "[213271, 44759354]", "4dd1", clicks),
        (2, "test_user", 44, "media literacy skills ", "2025-02-08 15:55:11", "[156462828]", "7307", "[]"),
        (3, "test_user", 45, "passivation", "2025-02-09 08:00:00", "[]", "bf45", "[]"),
    ]
    with (tmp_path / "sessions.csv").open("w", newline="") as file:
        csv.writer(file).writerows(searches)
    with (tmp_path / "sessions.csv").open(newline="") as file:
        rows = list(rows_of("test_user")(file))
    assert [(row["user"], row["rank"], row["url"], row["clicked"]) for row in rows] == [
        ("44", 1, "213271", False), ("44", 2, "44759354", True), ("44", 1, "156462828", False),
        ("45", None, None, False),
    ]  # fmt: skip
    with qc.read(pa.Table.from_pylist(rows)) as log:
        assert log.holds_views
        profile = qc.profile(log)
    assert (profile.users, sum(profile.rejected.values())) == (2, 0)


@pytest.mark.parametrize(
    ("sign", "lines"),
    [
        pytest.param(
            "DateCreated",
            [
                json.dumps(
                    {
                        "DateCreated": "/Date(1361550219000)/",
                        "SessionId": "s1",
                        "Keywords": "garden shovel",
                        "Documents": [7, 9],
                        "DocumentId": document,
                    }
                )
                for document in (9, 0)
            ],
            id="TripClick",
        ),
        pytest.param(
            "slowlog",
            [
                json.dumps(
                    {
                        "@timestamp": "2026-01-05T10:00:00.000Z",
                        "elasticsearch.slowlog.id": "s1",
                        "elasticsearch.slowlog.source": SLOW,
                    }
                ),
                json.dumps({"timestamp": "2026-01-05T10:00:00,000Z", "source": SLOW, "id": "s1"}),
                json.dumps({"timestamp": "2026-01-05T10:00:00,000Z", "source": SLOW}),
            ],
            id="slow log",
        ),
        pytest.param(
            "QTime",
            [
                "2026-01-05 10:00:00.123 INFO  (qtp1-20) [c:books] o.a.s.c.S.Request webapp=/solr path=/select "
                "params={q=garden+shovel&reader=s1&wt=json} hits=3 status=0 QTime=2",
                "2026-01-05 10:00:01.000 INFO  (qtp1-20) [c:books] o.a.s.u.p.LogUpdateProcessorFactory webapp=/solr",
            ],
            id="Solr",
        ),
    ],
)
def test_logs_of_systems(sign: str, lines: list[str]) -> None:
    rows = list(rows_of(sign)(lines))
    assert {(row["user"], row["query"]) for row in rows} == {("s1", "garden shovel")}
    with qc.read(pa.Table.from_pylist(rows)) as log:
        profile = qc.profile(log)
    assert (profile.users, sum(profile.rejected.values())) == (1, 0)
