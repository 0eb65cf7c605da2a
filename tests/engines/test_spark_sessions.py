"""Two engines in one session of Spark's: neither takes the other's tables, and whoever closes leaves none behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from querycloak.engines import Engine, connect
from querycloak.engines.spark_session import failure
from querycloak.errors import ResourceError


@pytest.fixture
def guest(spark_engine: Engine) -> Iterator[Engine]:
    """An engine in a session that it has not started, as in somebody's notebook."""
    engine = connect("spark", threads=2, memory="1g")
    yield engine
    engine.close()


def numbers(*values: int) -> pa.Table:
    return pa.table({"number": pa.array(values, pa.int64())})


def kept_by(session: Any) -> tuple[set[str], int]:
    """Names of tables, and how many of what executors keep."""
    return {each.tableName for each in session.sql("SHOW TABLES").collect()}, len(
        session.sparkContext._jsc.getPersistentRDDs()
    )


def test_tables_of_two_engines_are_apart(spark_engine: Engine, guest: Engine) -> None:
    mine, theirs = spark_engine.upload(numbers(1)), guest.upload(numbers(2))
    assert [spark_engine.fetch(mine), guest.fetch(theirs)] == [numbers(1), numbers(2)]


def test_a_guest_leaves_nothing_in_the_session(spark_engine: Any, guest: Engine) -> None:
    before = kept_by(spark_engine._session)
    table = guest.upload(numbers(1, 2, 3))
    settled = guest.settle(guest.stage(table.filter(table.number > 1)))
    assert sorted(guest.fetch(settled)["number"].to_pylist()) == [2, 3]
    assert kept_by(spark_engine._session)[1] > before[1]
    guest.close()
    assert kept_by(spark_engine._session) == before
    assert spark_engine.fetch(spark_engine.upload(numbers(4))) == numbers(4)


def test_what_is_settled_has_forgotten_how(spark_engine: Any) -> None:
    """A plan that goes on from a plan would grow with every round."""
    table = spark_engine.upload(numbers(*range(20)))
    joined = table.inner_join(table.select("number"), "number")
    assert "Join" in spark_engine.plan(spark_engine.stage(joined))
    assert "Join" not in spark_engine.plan(spark_engine.settle(joined))


def test_settled_rows_that_are_lost_are_said_to_be(spark_engine: Any) -> None:
    lost = RuntimeError("[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_12_1 not found!")
    found = failure(lost, spark_engine._session, "spark://there:7077", answers=True)
    assert isinstance(found, ResourceError)
    assert str(found).startswith("workers of Spark were lost")


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="the system does not show what a process writes to")
def test_java_writes_neither_to_our_output_nor_to_our_errors(spark_engine: Any) -> None:
    java = spark_engine._session.sparkContext._gateway.proc.pid
    assert [os.readlink(f"/proc/{java}/fd/{number}") for number in (1, 2)] == [os.devnull, os.devnull]
