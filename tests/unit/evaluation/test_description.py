"""What a release says of itself: tables, tasks that it can serve, a citation; by folder and in memory."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.description import describe
from querycloak.evaluation.task import TASKS
from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage, TableAccuracy
from querycloak.privacy.sampling.noise import Laplace
from querycloak.releases.loading import load
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.statements import citation
from tests.commands import in_process
from tests.unit.releases.making import CLICKS, LOG, QUERIES, a_release

REACH = TableAccuracy.of_route(
    ReleaseProbability((Stage(Laplace(1.0), 18),)),
    "users who asked the query",
    spurious=0.25,
    notes=["A note of the method."],
)
EMPTY = QUERIES.slice(0, 0)


def test_the_keys_that_others_check_by(tmp_path: Path) -> None:
    a_release(reach={"queries": REACH}).save(tmp_path / "out")
    found = describe(tmp_path / "out").to_json()
    assert list(found) == ["tables", "tasks", "cite"]
    assert found["tables"] == {
        "queries": {
            "rows": 3, "counts": "users who asked the query", "margin95": 3, "users50": 19, "users95": 21,
            "spurious": 0.25, "notes": ["A note of the method."],
        }
    }  # fmt: skip
    assert list(found["tasks"]) == list(TASKS)
    assert found["tasks"]["counts"] is None
    assert found["tasks"]["pairs"] == "it has no urls, so no pairs; clicks, sessions, optimal and k-anonymity have"


def test_reach_comes_back_from_a_folder(tmp_path: Path) -> None:
    release = a_release(tables={"queries": QUERIES, "clicks": CLICKS}, reach={"queries": REACH})
    release.save(tmp_path / "out")
    assert load(tmp_path / "out").reach == {"queries": REACH}
    in_memory, in_folder = describe(release).to_json(), describe(tmp_path / "out").to_json()
    assert in_memory["tables"] == in_folder["tables"]
    assert in_memory["tasks"] == in_folder["tasks"]
    # Of clicks nothing was said but how counts were made.
    clicks = in_folder["tables"]["clicks"]
    assert clicks["counts"] == "one draw of noise decides whether a row is released and is its count"
    assert (clicks["margin95"], clicks["users50"], clicks["spurious"]) == (None, None, None)
    assert clicks["notes"] == ["its method does not say how exact its counts are"]


def test_what_is_empty_serves_nothing(tmp_path: Path) -> None:
    a_release(tables={"queries": EMPTY}).save(tmp_path / "out")
    assert set(describe(tmp_path / "out").tasks.values()) == {"no row came out"}
    some = describe(a_release(tables={"queries": QUERIES, "clicks": CLICKS.slice(0, 0)})).tasks
    assert some["counts"] is None
    assert "no urls" in (some["pairs"] or "")


def test_replaced_queries_serve_profiles_only() -> None:
    tasks = describe(a_release(tables={"log": LOG}, rows=RowKind.REPLACED, method="semantic")).tasks
    assert tasks["profiles"] is None
    assert "drawn at random" in (tasks["loss"] or "")
    assert "rows hold other texts in place of what was asked" in (tasks["counts"] or "")


def test_the_citation_holds_digest_version_and_date_and_nobody(tmp_path: Path) -> None:
    saved = a_release().save(tmp_path / "out")
    cited = describe(tmp_path / "out").cite
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    key = f"@misc{{querycloak-clicks-{card['checksums']['queries.parquet'][:8]},\n"
    assert cited.startswith(key)
    assert key in (tmp_path / "out" / "README.md").read_text()
    assert json.loads((tmp_path / "out" / "croissant.json").read_text())["citeAs"].startswith(key)
    assert f"note = {{SHA-256 of card.json:\n    {saved.digest}}}" in cited
    assert max(map(len, cited.splitlines())) <= 80
    assert f"date = {{{card['published']}}}" in cited
    assert f"year = {{{card['published'][:4]}}}" in cited
    assert f"made with querycloak {card['versions']['querycloak']}" in cited
    assert "author" not in cited
    assert cited.count("{") == cited.count("}")
    # Of a release in memory nobody knows a digest or a day.
    assert re.findall(r"(\w+) = ", describe(a_release()).cite) == ["title", "howpublished"]


def test_a_citation_that_bibtex_can_read() -> None:
    cited = citation(a_release(method="a_b & {c}"), "not a day", None, None)
    assert r"method a\_b \& \{c\}" in cited
    assert cited.startswith("@misc{querycloak-abc,")
    assert "year" not in cited


def test_the_datasheet_says_the_same(tmp_path: Path) -> None:
    a_release(tables={"queries": QUERIES, "clicks": CLICKS.slice(0, 0)}, reach={"queries": REACH}).save(
        tmp_path / "out"
    )
    text = (tmp_path / "out" / "README.md").read_text()
    for line in REACH.lines():
        assert f"- {line}" in text
    assert "Two counts that differ by less than 1.4 times the margin" in text
    assert "**queries.parquet** (3 rows): queries that people asked. Good for: " in text
    assert "(0 rows)" in text
    assert "No row came out, so it is good for nothing." in text
    assert "how often" not in text
    assert "```bibtex\n@misc{querycloak-clicks-" in text


def test_lines_for_people() -> None:
    assert REACH.lines() == [
        "count: users who asked the query",
        "95 % margin of a count: 3 up or down",
        "users who bring a row out: 19 with probability 50 %, 21 with 95 %",
        "spurious rows (rows that no user has): at most 0.25 expected",
        "A note of the method.",
    ]
    assert TableAccuracy("rows").lines() == ["count: rows"]


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a release folder"):
        describe(tmp_path)
    nothing: Any = 7
    with pytest.raises(ParameterError, match="release must be a release, or the name of its folder"):
        qc.describe(nothing)
    a_release(reach={"queries": REACH}).save(tmp_path / "out")
    card = tmp_path / "out" / "card.json"
    card.write_text(card.read_text().replace('"margin95": 3', '"margin95": "three"'))
    with pytest.raises(InputError, match="damaged or was not written by querycloak"):
        describe(tmp_path / "out")
    with pytest.raises(ParameterError, match="reach must be about the tables of the release"):
        a_release(reach={"clicks": REACH})


def test_the_command(tmp_path: Path) -> None:
    a_release(reach={"queries": REACH}).save(tmp_path / "out")
    shown = in_process("describe", tmp_path / "out")
    assert shown.returncode == 0
    assert "queries: 3 rows, queries that people asked" in shown.stdout
    assert "  95 % margin of a count: 3 up or down" in shown.stdout
    assert "tasks that can use it, from 3 rows of queries: completion, language, counts, " in " ".join(
        shown.stdout.split()
    )
    assert "@misc{querycloak-clicks-" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100
    machine = in_process("describe", tmp_path / "out", "--json")
    assert json.loads(machine.stdout) == describe(tmp_path / "out").to_json()
    missing = in_process("describe", tmp_path / "nowhere")
    assert missing.returncode == 2
    assert "is not a release folder" in missing.stderr
