"""Splits: nobody in both sides, nothing lost, the same whatever the order of rows; private, whole or not at all."""

from __future__ import annotations

import json
import stat
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import querycloak as qc
from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.split_folder import SPLIT, WrittenSplit
from querycloak.files.locked_folder import UNFINISHED
from querycloak.logs.split import Split, moment_before
from tests.evaluated import Asked, open_rows, some_rows, write_rows

START = datetime(2006, 3, 1)


def rows_in(path: Path) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in pq.read_table(path).to_pylist())


def users_in(rows: Counter[tuple[Any, ...]]) -> set[str]:
    return {row[0] for row in rows}


def as_read(rows: Sequence[Asked]) -> Counter[tuple[Any, ...]]:
    return Counter((user, START + timedelta(seconds=s), query, rank, url) for user, s, query, url, rank in rows)


def sides(made: WrittenSplit, place: str = "") -> tuple[Counter[tuple[Any, ...]], Counter[tuple[Any, ...]]]:
    folder = made.folder / place
    return rows_in(folder / "train.parquet"), rows_in(folder / "test.parquet")


@pytest.fixture
def rows() -> list[Asked]:
    return some_rows(5, 60)


def test_by_user_nothing_is_lost_and_nobody_is_in_both(
    duckdb_engine: Engine, tmp_path: Path, rows: list[Asked]
) -> None:
    made = qc.split(open_rows(duckdb_engine, tmp_path / "log.parquet", rows), tmp_path / "out", by="user", test=0.3)
    train, test = sides(made)
    assert train + test == as_read(rows)
    assert not users_in(train) & users_in(test)
    told = json.loads((tmp_path / "out" / SPLIT).read_text())
    assert told["private"] is True
    assert (told["by"], told["test"], told["seed"], told["folds"], told["moment"]) == ("user", 0.3, 1, None, None)
    counted = {"rows": test.total(), "users": len(users_in(test))}
    assert told["files"]["test.parquet"] == counted
    assert told["files"]["train.parquet"] == {"rows": train.total(), "users": len(users_in(train))}


def test_only_the_owner_may_enter(duckdb_engine: Engine, tmp_path: Path, rows: list[Asked]) -> None:
    made = qc.split(open_rows(duckdb_engine, tmp_path / "log.parquet", rows), tmp_path / "out", by="user", test=0.3)
    assert stat.S_IMODE(made.folder.stat().st_mode) == 0o700
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(UNFINISHED)] == []


@pytest.mark.parametrize("by", ["user", "time"])
def test_both_sides_are_read_back_without_options(
    duckdb_engine: Engine, tmp_path: Path, rows: list[Asked], by: str
) -> None:
    made = qc.split(open_rows(duckdb_engine, tmp_path / "log.parquet", rows), tmp_path / "out", by=by, test=0.4)
    for path in (made.train, made.test):
        log = qc.read(path, engine=duckdb_engine)
        found = Counter(tuple(row.values()) for row in duckdb_engine.fetch(log.rows).to_pylist())
        assert found == rows_in(path)
        assert log.checked().rows_kept == found.total()


def test_by_time_train_is_before_and_test_after(duckdb_engine: Engine, tmp_path: Path, rows: list[Asked]) -> None:
    made = qc.split(open_rows(duckdb_engine, tmp_path / "log.parquet", rows), tmp_path / "out", by="time", test=0.4)
    by_user = qc.split(
        open_rows(duckdb_engine, tmp_path / "log.parquet", rows), tmp_path / "users", by="user", test=0.4
    )
    train, test = sides(made)
    all_train, all_test = sides(by_user)
    moment = made.moment
    assert moment is not None
    assert train == Counter({row: n for row, n in all_train.items() if row[1] < moment})
    assert test == Counter({row: n for row, n in all_test.items() if row[1] >= moment})
    assert train
    assert test


def test_folds_take_turns(duckdb_engine: Engine, tmp_path: Path, rows: list[Asked]) -> None:
    made = qc.split(open_rows(duckdb_engine, tmp_path / "log.parquet", rows), tmp_path / "out", by="user", folds=4)
    assert [side.file for side in made.sides][:3] == [
        "fold-1/train.parquet", "fold-1/test.parquet", "fold-2/train.parquet",
    ]  # fmt: skip
    tests = []
    for number in range(1, 5):
        train, test = sides(made, f"fold-{number}")
        assert train + test == as_read(rows)
        assert not users_in(train) & users_in(test)
        tests.append(users_in(test))
    assert sum(map(len, tests)) == len(set().union(*tests)) == 60


@settings(max_examples=15)
@given(order=st.permutations(list(range(40))), seed=st.integers(0, 5))
def test_the_order_of_rows_decides_nothing(
    duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory, order: list[int], seed: int
) -> None:
    folder = tmp_path_factory.mktemp("order")
    rows = some_rows(1, 20)[:40]
    shuffled = [rows[place] for place in order if place < len(rows)]
    found = [
        sides(qc.split(open_rows(duckdb_engine, folder / f"{name}.parquet", given), folder / name, by="user",
                       test=0.5, seed=seed))
        for name, given in (("one", rows), ("two", shuffled))
    ]  # fmt: skip
    assert found[0] == found[1]
    assert not users_in(found[0][0]) & users_in(found[0][1])


def test_the_share_is_about_the_one_asked_for_and_seeds_differ(duckdb_engine: Engine, tmp_path: Path) -> None:
    rows: list[Asked] = [(f"user {number}", 0, "a", None, None) for number in range(4000)]
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows)
    chosen = [users_in(sides(qc.split(log, tmp_path / f"{seed}", by="user", seed=seed))[1]) for seed in (1, 2)]
    for users in chosen:
        assert 400 - 5 * 19 < len(users) < 400 + 5 * 19  # five standard deviations of a binomial
    assert chosen[0] != chosen[1]
    again = qc.split(log, tmp_path / "again", by="user", seed=1)
    assert users_in(sides(again)[1]) == chosen[0]
    # A side can be split once more: who is where depends on the share, too.
    assert qc.split(again.test, tmp_path / "more", by="user", test=0.5).sides[0].users > 100


@given(
    seconds=st.lists(st.integers(0, 3 * 86_400), min_size=1, max_size=40),
    share=st.sampled_from([0.1, 0.5, 0.9]),
)
@settings(max_examples=25)
def test_the_moment_is_the_first_second_after_the_share(
    duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory, seconds: list[int], share: float
) -> None:
    path = tmp_path_factory.mktemp("moment") / "log.parquet"
    log = open_rows(duckdb_engine, path, [("u", second, "a", None, None) for second in seconds])
    moment = (moment_before(log, share) - START).total_seconds()
    earlier = [sum(second < end for second in seconds) for end in (moment, moment - 1)]
    assert earlier[0] >= share * len(seconds) > earlier[1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"by": "query"}, "by must be one of user, time, got 'query'"),
        ({"by": "user", "test": 0}, "test must be a number above 0 and below 1, got 0"),
        ({"by": "user", "test": 1.0}, "test must be a number above 0 and below 1, got 1.0"),
        ({"by": "user", "seed": -1}, "seed must be at least 0, got -1"),
        ({"by": "user", "folds": 1}, "folds must be at least 2, got 1"),
        ({"by": "user", "folds": 1000}, "folds must be at most 100, got 1000"),
        ({"by": "user", "folds": 5, "test": 0.1}, "test and folds must not both be given"),
    ],
)
def test_bad_parameters_are_refused(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ParameterError, match=said):
        Split(**options)


def test_a_side_without_users_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    log = write_rows(tmp_path / "log.parquet", [("only", 0, "a", None, None)])
    with pytest.raises(InputError, match="would be empty"):
        qc.split(log, tmp_path / "out", by="user")
    with pytest.raises(InputError, match="would be empty"):
        qc.split(log, tmp_path / "out", by="time")
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]


def test_what_exists_is_left_alone(tmp_path: Path) -> None:
    log = write_rows(tmp_path / "log.parquet", some_rows(1, 9))
    (tmp_path / "out").mkdir()
    with pytest.raises(ParameterError, match="must not exist yet"):
        qc.split(log, tmp_path / "out", by="user", test=0.5)


def test_what_fails_on_the_way_leaves_nothing(
    duckdb_engine: Engine, tmp_path: Path, rows: list[Asked], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows)

    def broken(*_: object) -> Any:
        raise InputError("the disk went away")

    monkeypatch.setattr(duckdb_engine, "stream", broken)
    with pytest.raises(InputError, match="the disk went away"):
        qc.split(log, tmp_path / "out", by="user", test=0.5)
    assert [path.name for path in tmp_path.iterdir()] == ["log.parquet"]
