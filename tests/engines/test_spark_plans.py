"""What would not scale: a window or a sort over everything in one place, or rows collected to the driver."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pytest

from querycloak.engines import Engine
from querycloak.logs.profile import profile
from querycloak.logs.searchlog import read
from querycloak.methods.keys.contribution_bounding import first_records, once_per_key
from querycloak.methods.query_pool.count import Pooling
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.sessions.method import Sessions
from tests.conftest import FIXTURES
from tests.logs import ROWS, aol, write
from tests.spark_plans import flaws


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several partitions: over a single one, Spark has no need to bring anything together."""
    monkeypatch.setattr("querycloak.engines.spark.PART", 97)


def test_no_unpartitioned_window_or_sort(spark_engine: Any, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", aol(ROWS)), engine=spark_engine)
    pooling = Pooling(QueryPool(epsilon=8, delta=1e-6, clicks="threshold", pool=str(FIXTURES / "pool.txt")), log)
    released = spark_engine.upload(pa.table({"query": ["zebra"]}))
    for table in (
        log.rows,
        log.clicks,
        log.searches,
        log.sessions(),
        first_records(log.clicks, 3),
        once_per_key(log.clicks, ("query", "url"), 3),
        *Sessions(epsilon=8, delta=1e-6).contributions(log).values(),
        *Sessions(noise=1, threshold=20, variant="paper").contributions(log).values(),
        *(pooling.queries(), pooling.transitions(released), pooling.clicks(released, None)),
    ):
        assert flaws(spark_engine.plan(table)) == set()


def test_the_check_of_plans_has_power(spark_engine: Any, tmp_path: Path) -> None:
    rows = read(write(tmp_path / "log.tsv", aol(ROWS)), engine=spark_engine).rows
    everywhere = rows.mutate(place=ibis.row_number().over(ibis.window(order_by=rows.time)))
    assert flaws(spark_engine.plan(everywhere)) == {"single place", "window"}
    assert flaws(spark_engine.plan(rows.order_by("time"))) == {"sorted"}
    assert flaws(spark_engine.plan(rows.agg(users=rows.user.nunique(), rows=rows.count()))) == set()
    by_user = rows.mutate(most=rows["rank"].max().over(ibis.window(group_by=rows.user)))
    assert flaws(spark_engine.plan(by_user)) == set()


def test_a_profile_collects_single_rows(spark_engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collected: list[int] = []
    fetch = type(spark_engine).fetch

    def counting(self: Engine, table: Any) -> Any:
        result = fetch(self, table)
        collected.append(result.num_rows)
        return result

    monkeypatch.setattr(type(spark_engine), "fetch", counting)
    monkeypatch.setattr("querycloak.engines.spark.PART", 9700)
    log = read(write(tmp_path / "log.tsv", aol(ROWS * 100)), engine=spark_engine)
    assert profile(log).rows_kept == len(ROWS) * 100
    assert max(collected) <= 2
