"""Exports: grades that noise cannot explain, files that other tools read back, refusals that name a way out."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.exports.export import EXPORTS, export
from querycloak.exports.grades import _graded, judgements
from querycloak.privacy.calibration.accuracy import Range, TableAccuracy
from querycloak.releases.release import Release
from querycloak.releases.safe_text import safe_text
from tests.commands import in_process
from tests.unit.releases.making import QUERIES, SESSIONS, a_release

ROWS = [
    ("weather", "http://weather.example/", 100),
    ("weather", "http://news.example/a b", 97),
    ("weather", "http://maps.example/", 40),
    ("maps", "http://maps.example/", 60),
]


def clicks(rows: list[tuple[str, str, int | None]] | list[tuple[str, str, int]] = ROWS, margin: int = 5) -> Release:
    queries, urls, counts = zip(*rows, strict=True)
    table = pa.table({"query": queries, "url": urls, "count": pa.array(counts, pa.int64())})
    accuracy = TableAccuracy("users", Range(margin, margin), Range(9, 9), Range(12, 12), 0.0)
    return a_release(tables={"clicks": table}, reach={"clicks": accuracy})


def test_grades_by_hand() -> None:
    """100 and 97 lie within 5 sqrt(2) and share the top grade; 40 is 41 % of their mean: grade 2 of 4."""
    graded = judgements(clicks())
    assert [(row.query, row.count, row.grade) for row in graded.rows] == [
        ("weather", 100, 4), ("weather", 97, 4), ("weather", 40, 2), ("maps", 60, 4),
    ]  # fmt: skip
    assert graded.queries == {"weather": "q1", "maps": "q2"}


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30), st.floats(0, 1000), st.integers(2, 20))
def test_grades_are_monotone_and_never_within_noise(counts: list[int], margin: float, levels: int) -> None:
    falling = sorted(counts, reverse=True)
    grades = _graded(falling, margin, levels)
    assert grades == sorted(grades, reverse=True)
    assert all(1 <= grade <= levels - 1 for grade in grades)
    assert grades[0] == levels - 1
    for count, grade in zip(falling, grades, strict=True):
        for other, its in zip(falling, grades, strict=True):
            assert grade == its or abs(count - other) > margin


def test_qrels_as_trec_eval_reads_them(tmp_path: Path) -> None:
    import pytrec_eval

    written = export(clicks(), "qrels", tmp_path / "out.qrels")
    assert [path.name for path in written] == ["out.qrels", "out.qrels.queries.tsv", "out.qrels.rule.txt"]
    qrels = pytrec_eval.parse_qrel((tmp_path / "out.qrels").open())
    assert qrels["q1"] == {
        "http://weather.example/": 4, "http://news.example/a%20b": 4, "http://maps.example/": 2,
    }  # fmt: skip
    assert (tmp_path / "out.qrels.queries.tsv").read_text() == "q1\tweather\nq2\tmaps\n"
    assert "share a grade" in (tmp_path / "out.qrels.rule.txt").read_text()


def test_quepid_and_workbench(tmp_path: Path) -> None:
    export(clicks(), "quepid", tmp_path / "quepid.csv")
    rows = list(csv.DictReader((tmp_path / "quepid.csv").open()))
    assert rows[0] == {"query": "weather", "docid": "http://weather.example/", "rating": "4"}
    export(clicks(), "workbench", tmp_path / "judgements.json")
    document = json.loads((tmp_path / "judgements.json").read_text())
    assert document["type"] == "IMPORT_JUDGMENT"
    assert document["judgmentRatings"][0]["query"] == "weather"
    assert document["judgmentRatings"][0]["ratings"][2] == {"docId": "http://maps.example/", "rating": "2.0"}


def test_csv_of_every_table(tmp_path: Path) -> None:
    nasty = pa.table({"query": ['=cmd|"x"', '"=1+1', "plain"], "count": pa.array([9, 8, None], pa.int64())})
    release = a_release(tables={"queries": QUERIES, "sessions": SESSIONS})
    export(release, "csv", tmp_path / "tables")
    assert (tmp_path / "tables" / "queries.csv").read_text().splitlines()[1] == "weather,30"
    rows = list(csv.DictReader((tmp_path / "tables" / "sessions.csv").open()))
    assert json.loads(rows[0]["queries"]) == ["weather", "maps"]
    assert safe_text(nasty["query"][0].as_py()).startswith("'=")
    assert safe_text(nasty["query"][1].as_py()) == "'\"=1+1"


@pytest.mark.parametrize("text", ["=1", "+1", "-1", "@a", '"=1', "\"'=1", " =1", "\uff1d1"])
def test_no_text_is_computed(text: str) -> None:
    assert safe_text(text) == f"'{text}"


def test_an_export_of_ir_datasets(tmp_path: Path) -> None:
    export(clicks(), "ir-datasets", tmp_path / "set")
    assert sorted(path.name for path in (tmp_path / "set").iterdir()) == [
        "docs.tsv",
        "qrels",
        "queries.tsv",
        "rule.txt",
    ]
    assert (tmp_path / "set" / "docs.tsv").read_text().splitlines()[
        1
    ] == "http://news.example/a%20b\thttp://news.example/a b"


@pytest.mark.parametrize(
    ("release", "options", "message"),
    [
        (a_release(), {}, "judgements need a table of clicks, and this release has queries; clicks, sessions"),
        (clicks(), {"grades": "coec"}, "need views of results"),
        (clicks(), {"levels": 1}, "levels"),
        (clicks(), {"grades": "stars"}, "grades"),
    ],
)
def test_what_cannot_be_exported(tmp_path: Path, release: Release, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        export(release, "qrels", tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_the_command(tmp_path: Path) -> None:
    clicks().save(tmp_path / "release")
    done = in_process("export", tmp_path / "release", "--as", "qrels", "--out", tmp_path / "q")
    assert done.stdout.splitlines()[0] == f"written: {tmp_path / 'q'}"
    refused = in_process("export", tmp_path / "release", "--as", "qrels", "--out", tmp_path / "q")
    assert refused.returncode == 2
    assert "must not exist yet" in refused.stderr
    unknown = in_process("export", tmp_path / "release", "--as", "xml", "--out", tmp_path / "x")
    assert all(name in unknown.stderr for name in EXPORTS)
