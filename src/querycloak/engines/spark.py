"""Spark, on this machine or on a cluster: for logs that are too large for one process.

Executors run the same Python as DuckDB's threads, so querycloak must be installed where they run, and
paths must mean the same file there.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines.engine import CLOSED, BatchSource, OnBytes, Result, Work, guarded, memory_bytes
from querycloak.engines.spark_failures import Desertion, failed_start, failure, is_unanswered
from querycloak.errors import InputError, ParameterError, QuerycloakError, ResourceError
from querycloak.files.locked_folder import PrivateFolder
from querycloak.interruption import uninterrupted
from querycloak.memory_limits import engine_memory
from querycloak.privacy.parameters import refuse

PART = 32 << 20
DEFAULT_MEMORY = "3GiB"
_LEAST_MEMORY = 512 << 20
"""Below this Java does not start Spark."""
# The code of a row that only says why a source could not be read: exceptions lose their type on the way
# from an executor, and their text comes with a trace that may quote the log.
_FAILED = -1
_PORTS = {"spark": 7077, "sc": 15002}
_PATIENCE = 10.0
_RETRIES = 5
"""Each wait is four times the one before it, from 0.05 seconds on: about 20 seconds in all."""
_NAMES = (f"querycloak_{number}" for number in itertools.count(1))
"""Names of tables, for all engines: those of one process share a session, and would take each other's tables."""


class SparkEngine:
    """A Spark session of our own, silent, spilling into a private folder."""

    name = "spark"

    def __init__(self, master: str, *, threads: int | None = None, memory: str | None = None) -> None:
        usual, _ = engine_memory(memory_bytes(DEFAULT_MEMORY))
        amount = memory_bytes(memory) if memory else max(usual, _LEAST_MEMORY)
        if amount < _LEAST_MEMORY:
            refuse("memory", "at least 512MiB with Spark", memory, "give it more, or take duckdb")
        _require_answer(master)
        self._master, self.threads = master, threads or os.cpu_count() or 1
        self._folder = PrivateFolder()
        self._cached: list[Any] = []
        self._settled: list[Any] = []
        self._views: list[str] = []
        self._calls = ThreadPoolExecutor(1)
        self._closed = False
        self._ours = not _running()
        folder = str(self._folder.path)
        with self._folder.removed_on_failure():
            self._session = guarded(
                lambda: _session(master, self.threads, f"{amount >> 20}m", folder),
                failed_start,
                "starting Spark",
            )
            self._backend = guarded(lambda: ibis.pyspark.connect(self._session), failed_start, "starting Spark")
        self._desertion = Desertion(self._session) if master.startswith("spark://") else None

    def table(self, source: BatchSource, on_bytes: OnBytes | None = None) -> ir.Table:  # noqa: ARG002
        """Read by the executors, once, and kept among them."""
        parts = source.parts(PART)
        frame = self._run(lambda: self._parsed(source, parts), "opening the log")
        return self._view(frame)

    def _parsed(self, source: BatchSource, parts: list[Any]) -> Any:
        return self._session.range(0, len(parts), 1, len(parts)).mapInArrow(
            _Parts(source, parts), _spark_schema(source.schema)
        )

    def code_counts(self, table: ir.Table) -> Counter[int]:
        """Counted in one pass over what the executors keep."""
        counts = self.fetch(table.group_by("code").agg(rows=table.count()))
        by_code = dict(zip(counts["code"].to_pylist(), counts["rows"].to_pylist(), strict=True))
        if _FAILED in by_code:
            text = next(name for name, kind in table.schema().items() if kind.is_string())
            failures = self.fetch(table.filter(table.code == _FAILED).select(text))
            raise InputError(min(failures[text].to_pylist()))
        return Counter(by_code)

    def stage(self, table: ir.Table) -> ir.Table:
        """Computed once and kept among the executors."""
        return self._view(self._frame(table))

    def settle(self, table: ir.Table) -> ir.Table:
        """Kept among the executors. A plan that goes on from a plan grows by a factor with every round.

        What is forgotten cannot be computed again where an executor is lost, so two of them keep every row.
        """
        from pyspark import StorageLevel

        level = StorageLevel.MEMORY_AND_DISK if self._master == "local" else StorageLevel.MEMORY_AND_DISK_2
        frame = self._run(lambda: self._frame(table).localCheckpoint(True, level), "staging a table")
        self._settled.append(frame)
        return self._named(frame)

    def upload(self, table: pa.Table) -> ir.Table:
        """Uploaded for the executors."""
        schema = _spark_schema(table.schema)  # a Connect server does not find out that of an empty table by itself
        return self._view(self._run(lambda: self._session.createDataFrame(table, schema), "uploading a table"))

    def mapped(self, table: ir.Table, work: Work, schema: pa.Schema, together: str | None = None) -> ir.Table:
        """By the executors, whenever it is used."""
        frame = self._run(lambda: self._frame(table), "opening a table")
        if together is not None:
            frame = frame.repartition(together).sortWithinPartitions(together)
        return self._named(frame.mapInArrow(work, _spark_schema(schema)))

    def fetch(self, table: ir.Table) -> pa.Table:
        """The whole result."""
        return self._run(lambda: self._frame(table).toArrow(), "computing a result")

    def stream(self, table: ir.Table) -> Iterator[pa.RecordBatch]:
        """The result in batches, one partition after another."""
        frame = self._run(lambda: self._frame(table), "computing a result")
        rows = self._run(lambda: frame.toLocalIterator(prefetchPartitions=True), "computing a result")
        schema = table.schema().to_pyarrow()
        while batch := self._run(lambda: list(itertools.islice(rows, 10_000)), "computing a result"):
            yield pa.RecordBatch.from_pylist([row.asDict() for row in batch], schema=schema)

    def plan(self, table: ir.Table) -> str:
        """Spark's plan for a table (private: it may quote literals)."""
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            self._frame(table).explain("formatted")
        return printed.getvalue()

    def close(self) -> None:
        """Give back what the executors keep, and end the session."""
        self._closed = True
        if self._desertion is not None:
            self._desertion.end()
        with contextlib.suppress(Exception):  # broad: a server that is gone, in any type, has nothing to give back
            for frame in self._cached:
                frame.unpersist()
            for name in self._views:
                self._session.catalog.dropTempView(name)
            for frame in self._settled:
                _give_back(frame)
            if self._ours:
                self._session.stop()
        self._calls.shutdown(wait=False, cancel_futures=True)
        self._folder.remove()

    def _frame(self, table: ir.Table) -> Any:
        return self._session.sql(self._backend.compile(table))

    def _view(self, frame: Any) -> ir.Table:
        from pyspark import StorageLevel

        kept = frame.persist(StorageLevel.MEMORY_AND_DISK)
        self._cached.append(kept)
        return self._named(kept)

    def _named(self, frame: Any) -> ir.Table:
        name = next(_NAMES)
        frame.createTempView(name)
        self._views.append(name)
        return self._run(lambda: self._backend.table(name), "reading a table")

    def _run(self, work: Callable[[], Result], doing: str) -> Result:
        if self._closed:
            raise ParameterError(CLOSED)
        return guarded(lambda: self._interruptible(work), self._explain, doing)

    def _interruptible(self, work: Callable[[], Result]) -> Result:
        """In a thread of its own: Spark's Python waits for its Java's answer to the end, whoever interrupts it."""
        call = self._calls.submit(work)
        try:
            return call.result()
        except KeyboardInterrupt:
            with contextlib.suppress(Exception):  # broad: the interrupt is raised even if Spark cannot be told
                if self._master.startswith("sc://"):
                    self._session.interruptAll()
                else:
                    self._session.sparkContext.cancelAllJobs()
                wait([call], _PATIENCE)  # it has nothing left to wait for
            raise

    def _explain(self, error: Exception) -> QuerycloakError | None:
        """Explained error; None if it may be a bug of ours."""
        answers = not (self._master.startswith("sc://") and is_unanswered(error)) or _answers(self._master)
        return failure(error, self._session, self._master, answers=answers)


def _give_back(settled: Any) -> None:
    """A Connect server gives rows back when nobody names them any more; Java, only when it looks for garbage."""
    if hasattr(settled, "_jdf"):
        settled._jdf.logicalPlan().rdd().unpersist(False)


class _Parts:
    """Task of an executor: read the parts with these numbers."""

    def __init__(self, source: BatchSource, parts: list[Any]) -> None:
        self._source, self._parts = source, parts

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self._read(self._parts[number])

    def _read(self, part: Any) -> Iterator[pa.RecordBatch]:
        try:
            for block in self._source.blocks(part):
                yield self._source.parse(block)
        except QuerycloakError as error:
            yield _failure(self._source.schema, str(error))


def _failure(schema: pa.Schema, message: str) -> pa.RecordBatch:
    text = next(field.name for field in schema if pa.types.is_string(field.type))
    row = dict.fromkeys(schema.names) | {"code": _FAILED, text: message}
    return pa.RecordBatch.from_pylist([row], schema=schema)


def _spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _require_answer(master: str) -> None:
    """Refuse an address at which nobody answers: Spark itself would go on trying for many minutes."""
    if master.partition("://")[0] in _PORTS and not _answers(master):
        raise ResourceError(f"nobody answers at {master!r}: check the address, and that Spark runs there")


def _answers(master: str) -> bool:
    scheme, _, places = master.partition("://")
    for place in places.partition("/")[0].partition(";")[0].split(","):
        host, _, port = place.rpartition(":") if ":" in place else (place, "", "")
        with contextlib.suppress(OSError, ValueError):
            socket.create_connection((host, int(port or _PORTS[scheme])), timeout=_PATIENCE).close()
            return True
    return False


def _running() -> bool:
    """True if somebody else has started a session here, which is then used and left running."""
    if "pyspark" not in sys.modules:
        return False
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    # A session is active only in the thread that started it, and ours are started in one of their own.
    return SparkSession.getActiveSession() is not None or SparkContext._active_spark_context is not None


def _hush() -> None:
    """Turn off the loggers of Spark's Python side: they quote the value that an error is about."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger", "pyspark.sql.connect.logging", "py4j"):
        logging.getLogger(name).disabled = True
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)  # which loggers below it take over
    logging.getLogger().addFilter(_is_not_of_spark)  # some of it goes to everybody's logger
    from pyspark.accumulators import AccumulatorServer

    # Its threads write tracebacks when Java ends.
    AccumulatorServer.handle_error = lambda *_: None


def _is_not_of_spark(record: logging.LogRecord) -> bool:
    return not any(f"{os.sep}{package}{os.sep}" in record.pathname for package in ("py4j", "pyspark"))


def _session(master: str, threads: int, memory: str, folder: str) -> Any:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    _hush()
    builder = SparkSession.builder.appName("querycloak")
    settings = {
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.ansi.enabled": "true",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.timestampType": "TIMESTAMP_NTZ",
    }
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        builder = builder.master(f"local[{threads}]" if master == "local" else master)
        java = f"-Djava.io.tmpdir={folder} -Dlog4j2.level=OFF -Dlog4j.rootLogger=OFF -XX:+ExitOnOutOfMemoryError"
        settings |= {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.driver.memory": memory,
            "spark.driver.bindAddress": "127.0.0.1" if master == "local" else "0.0.0.0",
            "spark.driver.extraJavaOptions": java,
            "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        }
        if master == "local":
            settings |= {
                "spark.local.dir": folder,
                "spark.driver.host": "127.0.0.1",
                "spark.sql.shuffle.partitions": str(2 * threads),
            }
    for name, value in settings.items():
        builder = builder.config(name, value)
    with _silence(), _own_signals():
        if master.startswith("sc://"):
            session = builder.getOrCreate()  # it starts no Java here
            _give_up_sooner(session)
        else:
            _start(builder.getOrCreate)
            session = builder.getOrCreate()  # the same one
            session.sparkContext.setLogLevel("OFF")
    return session


def _start(start: Callable[[], Any]) -> None:
    """Start Spark from a thread of its own, so that a signal ends the wait, and with it the Java that was started.

    Java that loses its Python while it starts would run for ever: it finds no place for its address, and waits.
    """
    from pyspark import java_gateway

    processes: list[subprocess.Popen[bytes]] = []
    call: Future[Any] = Future()
    given_up = threading.Event()
    popen = java_gateway.Popen

    def recorded(*arguments: Any, **named: Any) -> subprocess.Popen[bytes]:
        if given_up.is_set():
            raise InterruptedError
        processes.append(popen(*arguments, **named))
        return processes[-1]

    def work() -> None:
        try:
            call.set_result(start())
        except BaseException as error:  # broad: whoever waits for it raises it
            call.set_exception(error)

    java_gateway.Popen = recorded
    try:
        threading.Thread(target=work, daemon=True).start()
        call.result()
    except KeyboardInterrupt:
        with uninterrupted():
            given_up.set()
            _end(call, processes)
        raise
    finally:
        java_gateway.Popen = popen


def _end(call: Future[Any], processes: list[subprocess.Popen[bytes]]) -> None:
    """End the Java that a start has made, also if it appears only now."""
    until = time.monotonic() + _PATIENCE
    while True:
        for process in processes:
            process.kill()
        if call.done() or time.monotonic() > until:
            return
        wait([call], 0.1)


def _give_up_sooner(session: Any) -> None:
    """A server that has left is asked again for half a minute, not for ten."""
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep whatever answers Ctrl-C: with Spark's own handler an interrupt becomes an error of Java's."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, kept)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Start what is started here with its error stream closed for good: Java logs would quote the log."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
