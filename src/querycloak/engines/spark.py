"""Spark, on this machine or on a cluster: for logs that are too large for one process.

Executors run the same Python as DuckDB's threads, so querycloak must be installed where they run, and
paths must mean the same file there.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines.engine import CLOSED, BatchSource, OnBytes, Result, Work, guarded, memory_bytes
from querycloak.engines.spark_session import (
    PATIENCE,
    Desertion,
    answers_at,
    failed_start,
    failure,
    is_running,
    is_unanswered,
    new_session,
    require_answer,
)
from querycloak.errors import InputError, ParameterError, QuerycloakError
from querycloak.files.locked_folder import PrivateFolder
from querycloak.memory_limits import engine_memory
from querycloak.privacy.parameters import refuse

PART = 32 << 20
DEFAULT_MEMORY = "3GiB"
_LEAST_MEMORY = 512 << 20
"""Below this Java does not start Spark."""
# The code of a row that only says why a source could not be read: exceptions lose their type on the way
# from an executor, and their text comes with a trace that may quote the log.
_FAILED = -1
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
        require_answer(master)
        self._master, self.threads = master, threads or os.cpu_count() or 1
        self._folder = PrivateFolder()
        self._cached: list[Any] = []
        self._settled: list[Any] = []
        self._views: list[str] = []
        self._calls = ThreadPoolExecutor(1)
        self._closed = False
        self._ours = not is_running()
        folder = str(self._folder.path)
        with self._folder.removed_on_failure():
            self._session = guarded(
                lambda: new_session(master, self.threads, f"{amount >> 20}m", folder),
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

        Rows without a plan cannot be computed again if an executor is lost, so on a cluster two of them keep every row.
        """
        from pyspark import StorageLevel

        level = StorageLevel.MEMORY_AND_DISK if self._master == "local" else StorageLevel.MEMORY_AND_DISK_2
        frame = self._run(lambda: self._frame(table).localCheckpoint(True, level), "staging a table")
        self._settled.append(frame)
        return self._named(frame)

    def upload(self, table: pa.Table) -> ir.Table:
        """Upload a table for the executors."""
        schema = _spark_schema(table.schema)  # a Connect server does not find out that of an empty table by itself
        return self._view(self._run(lambda: self._session.createDataFrame(table, schema), "uploading a table"))

    def mapped(self, table: ir.Table, work: Work, schema: pa.Schema, together: str | None = None) -> ir.Table:
        """The rows that `work` makes of the table, computed by the executors at each use."""
        frame = self._run(lambda: self._frame(table), "opening a table")
        if together is not None:
            frame = frame.repartition(together).sortWithinPartitions(together)
        return self._named(frame.mapInArrow(work, _spark_schema(schema)))

    def fetch(self, table: ir.Table) -> pa.Table:
        """The whole result; every column may hold nulls, as DuckDB's may, whatever Spark infers."""
        rows = self._run(lambda: self._frame(table).toArrow(), "computing a result")
        return rows.cast(pa.schema([column.with_nullable(True) for column in rows.schema]))

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
        """In a thread of its own: Spark's Python waits for the answer of Java and cannot be interrupted."""
        call = self._calls.submit(work)
        try:
            return call.result()
        except KeyboardInterrupt:
            with contextlib.suppress(Exception):  # broad: the interrupt is raised even if Spark cannot be told
                if self._master.startswith("sc://"):
                    self._session.interruptAll()
                else:
                    self._session.sparkContext.cancelAllJobs()
                wait([call], PATIENCE)  # it has nothing left to wait for
            raise

    def _explain(self, error: Exception) -> QuerycloakError | None:
        """Explained error; None if it may be a bug of ours."""
        answers = not (self._master.startswith("sc://") and is_unanswered(error)) or answers_at(self._master)
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
