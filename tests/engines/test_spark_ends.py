"""Spark that is killed or interrupted: one line and the right exit code, whatever Java and its threads have to say."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.engines import connect
from querycloak.engines.engine import memory_bytes
from querycloak.engines.spark_session import RETRIES, failed_start, failure
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


STARTING = """#!/bin/sh
echo $$ > {pid}.new && mv {pid}.new {pid}
exec sleep 300
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_spark_starts_ends_what_it_started(tmp_path: Path, number: int) -> None:
    """Java is played by a process that never says that it is ready."""
    (tmp_path / "bin").mkdir()
    script, pid = tmp_path / "bin" / "spark-submit", tmp_path / "pid"
    script.write_text(STARTING.format(pid=pid))
    script.chmod(0o755)
    command = [sys.executable, "-c", "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)" + START]
    settings = {**os.environ, "SPARK_HOME": str(tmp_path), "QUERYCLOAK_TMP": str(tmp_path)}
    process = subprocess.Popen(command, env=settings, stderr=subprocess.PIPE, text=True)
    while not pid.exists() and process.poll() is None:
        time.sleep(0.05)
    process.send_signal(number)
    _, told = process.communicate(timeout=PATIENCE)
    assert (process.returncode, told.count("\n")) == (130, 1), told
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


START = """
from querycloak.cli.running import run_and_exit
def work():
    from querycloak.engines import connect
    connect("spark", threads=1, memory="1GB")
run_and_exit(work)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_at_20_moments_of_a_start_leave_no_java(tmp_path: Path, number: int) -> None:
    require_java()
    mark = f"-Dquerycloak.test={tmp_path.name}"
    settings = {**os.environ, "JAVA_TOOL_OPTIONS": f"{LIGHT_JAVA} {mark}", "QUERYCLOAK_TMP": str(tmp_path)}
    script = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)" + START
    for moment in range(20):
        process = subprocess.Popen([sys.executable, "-c", script], env=settings, stderr=subprocess.DEVNULL)
        time.sleep(0.75 * moment)
        process.send_signal(number)
        # Before the handlers stand, Python ends by the signal; afterwards 130; 0 if Spark was up and done.
        assert process.wait(PATIENCE) in (130, 0, -number), moment
    until = time.monotonic() + 20
    while (left := java_processes(mark)) and time.monotonic() < until:
        time.sleep(0.5)
    assert left == []


def java_processes(mark: str) -> list[int]:
    """Processes whose environment holds the mark."""
    marked = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if folder.name.isdigit() and mark.encode() in (folder / "environ").read_bytes():
                marked.append(int(folder.name))
    return marked


def test_a_wrong_home_of_spark_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "nowhere"))
    told = failed_start(FileNotFoundError(2, "spark-submit"))
    assert str(told).startswith(f"SPARK_HOME is '{tmp_path / 'nowhere'}', where no Spark is: unset it")
    monkeypatch.delenv("SPARK_HOME")
    assert str(failed_start(FileNotFoundError(2, "java"))).startswith("Spark found no Java")


def test_workers_without_querycloak_are_named() -> None:
    error = RuntimeError("PythonException: ... ModuleNotFoundError: No module named 'querycloak'")
    told = failure(error, SimpleNamespace(), "spark://host:7077", answers=True)
    assert str(told).startswith("workers of Spark have no querycloak: install the same version")


def test_a_server_that_is_gone_is_asked_again_for_half_a_minute_at_most() -> None:
    retries = pytest.importorskip("pyspark.sql.connect.client.retries")
    policy = retries.DefaultPolicy(max_retries=RETRIES)
    waits = [policy.initial_backoff / 1000 * policy.backoff_multiplier**retry for retry in range(RETRIES)]
    assert sum(waits) + RETRIES * policy.jitter / 1000 < 30
