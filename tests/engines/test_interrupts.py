"""Whoever interrupts an engine is answered with an interrupt, not with a failure of the engine."""

from __future__ import annotations

import os
import signal
import threading

import pyarrow as pa
import pytest

from querycloak.engines.duckdb import DuckDBEngine


@pytest.mark.parametrize("doing", ["stage", "fetch"])
def test_duckdb_interrupted_at_work(doing: str) -> None:
    engine = DuckDBEngine(threads=1)
    numbers = engine.upload(pa.table({"x": pa.array(range(1_000_000), pa.int64())}))
    pairs = numbers.cross_join(numbers.rename(y="x"))
    hours = pairs.filter((pairs.x * pairs.y) % 7 == 3).agg(most=(pairs.x * pairs.y).max())
    work = {"stage": engine.stage, "fetch": engine.fetch}[doing]
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            work(hours)
    finally:
        timer.join()
        engine.close()
