"""Spark that is killed or interrupted: one line and the right exit code, whatever Java and its threads have to say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.engines import connect
from querycloak.engines.engine import memory_bytes
from querycloak.errors import ParameterError
from tests.commands import PATIENCE
from tests.conftest import LIGHT_JAVA, require_java

WORK = """
import os, signal, sys, threading
import pyarrow as pa
from querycloak.cli.running import run_and_exit
def work():
    from querycloak.engines import connect
    engine = connect("spark", threads=1, memory="1GB")
    try:
        numbers = engine.upload(pa.table({{"x": pa.array(range(100_000), pa.int64())}}))
        pairs = numbers.cross_join(numbers.rename(y="x"))
        {act}
        engine.fetch(pairs.filter((pairs.x * pairs.y) % 7 == 3).agg(most=(pairs.x * pairs.y).max()))
    finally:
        engine.close()
run_and_exit(work)
"""
ACTS = {
    "killed": ("os.kill(engine._session.sparkContext._gateway.proc.pid, signal.SIGKILL)", 2, "Spark's Java has ended"),
    "interrupted": ("threading.Timer(3, os.kill, (os.getpid(), signal.SIGINT)).start()", 130, "interrupted; nothing"),
}


@pytest.mark.parametrize("how", ["killed", pytest.param("interrupted", marks=pytest.mark.slow)])
def test_spark_that_is_ended_by_somebody_says_so_in_one_line(how: str) -> None:
    require_java()
    act, code, said = ACTS[how]
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)" + WORK.format(act=act)
    command, light = [sys.executable, "-c", script], {**os.environ, "JAVA_TOOL_OPTIONS": LIGHT_JAVA}
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=light)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith(f"querycloak: {said}")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "size"),
    [("3GB", 3 * 10**9), ("3g", 3 << 30), ("3GiB", 3 << 30), ("500MB", 5 * 10**8), ("1.5 gb", 15 * 10**8), ("7", 7)],
)
def test_memory_is_read_as_people_write_it(typed: str, size: int) -> None:
    assert memory_bytes(typed) == size


@given(st.text(max_size=6))
def test_memory_is_an_amount_or_refused(text: str) -> None:
    try:
        size = memory_bytes(text)
    except ParameterError:
        return
    assert size > 0
    assert any(character.isdecimal() for character in text)


def test_spark_needs_more_than_a_little() -> None:
    with pytest.raises(ParameterError, match="memory must be at least 512MiB with Spark, got '100MB'"):
        connect("spark", memory="100MB")
