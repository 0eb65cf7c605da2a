"""Split and evaluate, on both engines: the same sides, the same rows."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.privacy.chance.randomness import Randomness
from querycloak.utility.evaluation_rows import Row
from tests.evaluated import open_rows, some_rows

SIDES: dict[str, tuple[datetime | None, list[Counter[Any]]]] = {}
ROWS: dict[str, list[Row]] = {}


@pytest.mark.parametrize("by", ["user", "time"])
def test_sides_do_not_depend_on_the_engine(engine: Engine, tmp_path: Path, by: str) -> None:
    log = open_rows(engine, tmp_path / "log.parquet", some_rows(1, 50))
    made = qc.split(log, tmp_path / "out", by=by, test=0.4)
    found = [Counter(map(repr, pq.read_table(path).to_pylist())) for path in (made.train, made.test)]
    assert SIDES.setdefault(by, (made.moment, found)) == (made.moment, found)


def test_rows_do_not_depend_on_the_engine(engine: Engine, tmp_path: Path) -> None:
    train = open_rows(engine, tmp_path / "train.parquet", some_rows(1, 40))
    test = open_rows(engine, tmp_path / "test.parquet", some_rows(2, 15, first=100))
    release = qc.KAnonymity(min_users=3, keys="log").release(train)
    tasks = ["suggestion", "completion", "retrieval-walk", "retrieval-feedback", "ranking"]
    found = list(qc.evaluate(train, test, {"mine": release}, tasks).rows)
    assert ROWS.setdefault("found", found) == found


def test_figures_do_not_depend_on_the_engine(engine: Engine, tmp_path: Path) -> None:
    """Tasks that compare with TRAIN: the same log, a release made once, every table of counts in it."""
    train = open_rows(engine, tmp_path / "train.parquet", some_rows(1, 40))
    test = open_rows(engine, tmp_path / "test.parquet", some_rows(2, 15, first=100))
    sessions = qc.Sessions(noise=0.05, threshold=2, per_user=3, sessions_per_user=2)
    releases = {
        "sessions": sessions.release(train, randomness=Randomness(1)),
        "pool": qc.QueryPool(noise=0.05, threshold=2).release(train, randomness=Randomness(1)),
        "log": qc.KAnonymity(min_users=3, keys="log").release(train),
    }
    found = list(qc.evaluate(train, test, releases, ["counts", "pairs", "profiles", "loss"]).rows)
    assert any(row.value is not None and row.slice and "sessions" in row.slice for row in found)
    assert ROWS.setdefault("figures", found) == found
