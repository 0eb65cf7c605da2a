"""Split and evaluate, on both engines: the same sides, the same rows."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.evaluation.evaluation_file import Row
from querycloak.privacy.sampling.randomness import Randomness
from tests.evaluated import open_rows, some_rows


@pytest.mark.parametrize("by", ["user", "time"])
def test_sides_are_the_same_on_spark(duckdb_engine: Engine, spark_engine: Engine, tmp_path: Path, by: str) -> None:
    def sides(engine: Engine) -> tuple[datetime | None, list[Counter[str]]]:
        log = open_rows(engine, tmp_path / f"{engine.name}.parquet", some_rows(1, 50))
        made = qc.split(log, tmp_path / engine.name, by=by, test=0.4)
        return made.moment, [Counter(map(repr, pq.read_table(path).to_pylist())) for path in (made.train, made.test)]

    assert sides(spark_engine) == sides(duckdb_engine)


def evaluated(engine: Engine, folder: Path, releases: dict[str, qc.Release], tasks: list[str]) -> list[Row]:
    train = open_rows(engine, folder / f"{engine.name}-train.parquet", some_rows(1, 40))
    test = open_rows(engine, folder / f"{engine.name}-test.parquet", some_rows(2, 15, first=100))
    return list(qc.evaluate(train, test, releases, tasks).rows)


def test_rows_are_the_same_on_spark(duckdb_engine: Engine, spark_engine: Engine, tmp_path: Path) -> None:
    train = open_rows(duckdb_engine, tmp_path / "train.parquet", some_rows(1, 40))
    releases = {"mine": qc.KAnonymity(min_users=3, keys="log").release(train)}
    tasks = ["suggestion", "completion", "retrieval-walk", "retrieval-feedback", "ranking"]
    found = evaluated(spark_engine, tmp_path, releases, tasks)
    assert found == evaluated(duckdb_engine, tmp_path, releases, tasks)


@pytest.mark.slow
def test_figures_are_the_same_on_spark(duckdb_engine: Engine, spark_engine: Engine, tmp_path: Path) -> None:
    """Tasks that compare with TRAIN: releases made once, every table of counts in them."""
    train = open_rows(duckdb_engine, tmp_path / "train.parquet", some_rows(1, 40))
    sessions = qc.Sessions(noise=0.05, threshold=2, max_keys_per_user=3, sessions_per_user=2)
    releases = {
        "sessions": sessions.release(train, randomness=Randomness(1)),
        "pool": qc.QueryPool(noise=0.05, threshold=2).release(train, randomness=Randomness(1)),
        "log": qc.KAnonymity(min_users=3, keys="log").release(train),
    }
    tasks = ["counts", "pairs", "profiles", "loss"]
    found = evaluated(spark_engine, tmp_path, releases, tasks)
    assert any(row.value is not None and row.slice and "sessions" in row.slice for row in found)
    assert found == evaluated(duckdb_engine, tmp_path, releases, tasks)
