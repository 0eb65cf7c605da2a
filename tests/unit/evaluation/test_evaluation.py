"""`qc.evaluate` as a whole: its rows, what it refuses, several releases of one kind, its files."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from scipy.stats import t

import querycloak as qc
from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.evaluation import Evaluation
from querycloak.evaluation.evaluation_file import Row, check_evaluation_file
from querycloak.evaluation.task import TASKS, tasks_named
from querycloak.privacy.sampling.randomness import Randomness
from tests.evaluated import open_rows, some_rows, write_rows

COLUMNS = [
    "release", "digest", "task", "measure", "slice", "reading", "value", "low", "high", "cases", "answered",
    "difference", "p_value", "why",
]  # fmt: skip
CASE_TASKS = ["suggestion", "completion", "retrieval-walk", "retrieval-feedback", "ranking"]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("sides")
    return write_rows(folder / "train.parquet", some_rows(1, 60)), write_rows(
        folder / "test.parquet", some_rows(2, 25, first=100)
    )


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory, sides: tuple[Path, Path]) -> dict[str, Path]:
    """Seeded releases of TRAIN: noisy clicks three times, k-anonymity as a log, semantic."""
    folder = tmp_path_factory.mktemp("releases")
    made: dict[str, Path] = {}
    with qc.read(sides[0]) as log:
        methods = {
            **{f"clicks{n}": qc.Clicks(epsilon=3, delta=1e-2, selection="laplace") for n in range(3)},
            "rows": qc.KAnonymity(min_users=3, keys="log"),
            "semantic": qc.Semantic(epsilon=1, max_queries=4),
        }
        for number, (name, method) in enumerate(methods.items()):
            made[name] = folder / name
            method.release(log, randomness=Randomness(seed=number)).save(made[name])
    return made


@pytest.fixture(scope="module")
def evaluated(sides: tuple[Path, Path], folders: dict[str, Path]) -> Evaluation:
    return qc.evaluate(*sides, list(folders.values()))


def rows_of(found: Evaluation, **wanted: Any) -> list[Row]:
    return [row for row in found.rows if all(getattr(row, name) == value for name, value in wanted.items())]


def test_the_columns_are_as_promised(evaluated: Evaluation) -> None:
    assert evaluated.table.column_names == COLUMNS
    told = evaluated.to_json()
    assert told["private"] is True
    assert [list(row) for row in told["results"]] == [COLUMNS] * len(evaluated.rows)
    assert evaluated.table.to_pylist() == told["results"]
    json.dumps(told, allow_nan=False)


def test_every_task_speaks_of_every_release_and_all_baselines(evaluated: Evaluation, folders: dict[str, Path]) -> None:
    subjects = ["original", "k-anonymity", "no-data", *folders]
    for task in TASKS:
        assert list(dict.fromkeys(row.release for row in rows_of(evaluated, task=task)))[:8] == subjects
    for row in evaluated.rows:
        assert (row.value is None) == (row.why is not None), row
        assert (row.digest is None) == (row.release not in folders)
        assert row.low is None or row.high is None or row.low <= row.high


def test_readings_fit_together(evaluated: Evaluation) -> None:
    for task in CASE_TASKS:
        for row in rows_of(evaluated, task=task, reading="answered"):
            if row.value is None or row.measure == "tau-b" or row.release.endswith("releases)"):
                continue
            [everything] = rows_of(evaluated, task=task, release=row.release, measure=row.measure, slice=row.slice, reading="all")  # noqa: E501  # fmt: skip
            [common] = rows_of(evaluated, task=task, release=row.release, measure=row.measure, slice=row.slice, reading="common")  # noqa: E501  # fmt: skip
            assert everything.value is not None
            assert everything.value <= row.value + 1e-12
            assert common.difference == pytest.approx(row.value - (common.value or 0), abs=1e-12)
            if row.release == "original":
                assert common.difference == 0
                assert common.value == row.value


def test_replaced_queries_cannot_be_suggested_and_say_so(evaluated: Evaluation) -> None:
    for task in CASE_TASKS:
        found = rows_of(evaluated, release="semantic", task=task)
        assert {row.value for row in found} == {None}
        assert {row.reading for row in found} == {"answered", "all", "common"}
        assert {row.measure for row in found} == {measure.name for measure in tasks_named([task])[0].measures}
    assert rows_of(evaluated, release="semantic", task="profiles", measure="pooled_loss")[0].value is not None


def test_several_releases_of_one_kind_show_their_noise(evaluated: Evaluation) -> None:
    name = "clicks0, clicks1, clicks2 (3 releases)"
    wanted = {"task": "ranking", "measure": "tau-b", "slice": None, "reading": "all"}
    [together] = rows_of(evaluated, release=name, **wanted)
    values = [rows_of(evaluated, release=f"clicks{n}", **wanted)[0].value or 0.0 for n in range(3)]
    assert len(set(values)) > 1
    mean = sum(values) / 3
    spread = (sum((value - mean) ** 2 for value in values) / 2) ** 0.5
    assert together.value == pytest.approx(mean)
    assert together.low == pytest.approx(mean - t.ppf(0.975, 2) * spread * (4 / 3) ** 0.5)
    assert together.high == pytest.approx(mean + t.ppf(0.975, 2) * spread * (4 / 3) ** 0.5)
    assert {row.release for row in evaluated.rows if "releases)" in row.release} == {name}


def test_the_same_again_gives_the_same(
    sides: tuple[Path, Path], folders: dict[str, Path], evaluated: Evaluation
) -> None:
    again = qc.evaluate(*sides, [folders["clicks1"]], ["suggestion", "completion"])
    before = [row for row in evaluated.rows if row.release == "clicks1" and row.task in ("suggestion", "completion")]
    assert [row for row in again.rows if row.release == "clicks1"] == before


def test_releases_in_memory_and_logs_on_two_engines(sides: tuple[Path, Path], duckdb_engine: Engine) -> None:
    with qc.read(sides[0]) as train, qc.read(sides[1]) as test:
        release = qc.KAnonymity(min_users=2).release(train)
        found = qc.evaluate(train, test, {"mine": release}, ["ranking"])
        twice = qc.evaluate(train, test, [release, release], ["ranking"])
    assert {row.release for row in found.rows} == {"original", "k-anonymity", "no-data", "mine"}
    names = {row.release for row in twice.rows}
    assert {"k-anonymity-2", "k-anonymity-3", "k-anonymity-2, k-anonymity-3 (2 releases)"} < names


def test_sides_that_share_users_are_refused(duckdb_engine: Engine, tmp_path: Path) -> None:
    train = open_rows(duckdb_engine, tmp_path / "train.parquet", some_rows(1, 9))
    test = open_rows(duckdb_engine, tmp_path / "test.parquet", some_rows(2, 9, first=8))
    with pytest.raises(InputError, match=r"^TRAIN and TEST share users, .* with querycloak\.split\("):
        qc.evaluate(train, test, [], ["ranking"])


def test_an_empty_side_is_refused(duckdb_engine: Engine, tmp_path: Path) -> None:
    train = open_rows(duckdb_engine, tmp_path / "train.parquet", some_rows(1, 9))
    test = open_rows(duckdb_engine, tmp_path / "test.parquet", [])
    with pytest.raises(
        InputError, match=r"^TEST has no rows that count; make both sides of one log with querycloak\.split\("
    ):
        qc.evaluate(train, test, [], ["ranking"])
    with pytest.raises(InputError, match=r"^TRAIN has no rows that count"):
        qc.evaluate(test, train, [], ["ranking"])


def test_a_release_of_another_log_is_refused(sides: tuple[Path, Path], tmp_path: Path, duckdb_engine: Engine) -> None:
    other = open_rows(
        duckdb_engine, tmp_path / "other.parquet", [(f"u{n}", n, "elsewhere", None, None) for n in range(9)]
    )
    made = qc.KAnonymity(min_users=2, keys="queries").release(other)
    with pytest.raises(InputError, match=r"^the release 'mine' has no query of TRAIN: .*make it of TRAIN$"):
        qc.evaluate(*sides, {"mine": made}, ["ranking"])


def test_a_release_of_nothing_answers_nothing(sides: tuple[Path, Path]) -> None:
    with qc.read(sides[0]) as train, qc.read(sides[1]) as test:
        empty = qc.KAnonymity(min_users=10_000).release(train)
        found = qc.evaluate(train, test, {"empty": empty}, CASE_TASKS)
    for row in rows_of(found, release="empty", slice=None):
        if row.reading == "all":
            assert (row.value, row.answered) == (0.0, 0)
        else:
            assert row.why == "none of the cases is answered"


def test_an_unknown_task_is_refused_with_those_there_are(sides: tuple[Path, Path]) -> None:
    with pytest.raises(
        ParameterError, match=r"^task must be one of suggestion, completion, language, retrieval-walk, .*'fortune'"
    ):
        qc.evaluate(*sides, [], ["fortune"])


def test_tasks_can_be_given_with_other_choices(sides: tuple[Path, Path]) -> None:
    from querycloak.evaluation.tasks.suggestion import Suggestion

    found = qc.evaluate(*sides, [], [Suggestion(most_queries_of_a_url=1)])
    assert {row.task for row in found.rows} == {"suggestion"}


def test_measures_are_declared_and_can_be_called() -> None:
    listed = qc.measures()
    assert list(listed) == list(TASKS)
    for task, measures in listed.items():
        for measure in measures.values():
            assert measure.better in ("higher", "lower", "none"), (task, measure.name)
            assert measure.meaning
            assert measure.citation
            assert measure.compute is not None, (task, measure.name)


@pytest.mark.parametrize("ending", ["json", "csv", "parquet"])
def test_files_hold_the_rows(evaluated: Evaluation, tmp_path: Path, ending: str) -> None:
    path = evaluated.save(tmp_path / f"found.{ending}")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    if ending == "json":
        assert json.loads(path.read_text()) == evaluated.to_json()
    elif ending == "parquet":
        assert pq.read_table(path).equals(evaluated.table)
    else:
        with path.open() as file:
            read = list(csv.DictReader(file))
        assert list(read[0]) == COLUMNS
        assert [row["release"] for row in read] == [row.release for row in evaluated.rows]


def test_an_evaluation_is_never_written_into_a_release(
    evaluated: Evaluation, folders: dict[str, Path], tmp_path: Path
) -> None:
    inside = folders["rows"] / "deeper"
    link = tmp_path / "link"
    link.symlink_to(folders["rows"])
    before = sorted(path.name for path in folders["rows"].iterdir())
    for place in (folders["rows"], inside, link):
        with pytest.raises(ParameterError, match="out must be outside of release folders"):
            evaluated.save(place / "found.json")
    assert sorted(path.name for path in folders["rows"].iterdir()) == before


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("found.txt", "out must be a file that ends with .json, .csv, .parquet"),
        ("no/found.json", "in a folder that exists"),
    ],
)
def test_files_that_cannot_be_written_are_refused(tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        check_evaluation_file(tmp_path / name)
