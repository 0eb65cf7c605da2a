"""DuckDB, embedded: the default engine."""

from __future__ import annotations

import itertools
import os
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa

from querycloak.engines.engine import CLOSED, BatchSource, OnBytes, Result, Work, guarded, memory_bytes
from querycloak.errors import ParameterError, QuerycloakError
from querycloak.files.locked_folder import PrivateFolder
from querycloak.memory_limits import engine_memory

DEFAULT_MEMORY = "3GB"
_BATCH_ROWS = 1 << 16


class DuckDBEngine:
    """DuckDB in this process, by default with a thread per core; beyond its memory it spills into a private folder."""

    name = "duckdb"

    def __init__(self, *, threads: int | None = None, memory: str | None = None) -> None:
        self.threads = threads or os.cpu_count() or 1
        self._folder = PrivateFolder()
        self._streams: dict[str, _Stream] = {}
        self._closed = False
        self._names = (f"querycloak_{number}" for number in itertools.count(1))
        settings = {
            "threads": self.threads,
            "memory_limit": f"{memory_bytes(memory) if memory else engine_memory(memory_bytes(DEFAULT_MEMORY))[0]}B",
            "temp_directory": str(self._folder.path),
            "preserve_insertion_order": False,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with self._folder.removed_on_failure():
            self._backend = guarded(lambda: ibis.duckdb.connect(**settings), self._explain_start, "starting")
        # DuckDB would draw its own progress bar on stdout, between the results. In a notebook without ipywidgets it
        # cannot draw one and refuses this setting.
        with suppress(duckdb.InvalidInputException):
            self._backend.con.execute("SET enable_progress_bar = false")

    def table(self, source: BatchSource, on_bytes: OnBytes | None = None) -> ir.Table:
        """A table that reads the source anew each time it is used, in bounded memory."""
        # Fetching a result needs these modules: they are loaded before anything is paid.
        for module in ("ibis.expr.types.groupby", "ibis.formats.pyarrow", "pyarrow_hotfix"):
            with suppress(ImportError):  # not every version of Ibis has all of them
                import_module(module)
        name = next(self._names)
        stream = self._streams[name] = _Stream(source, self.threads, on_bytes)
        self._run(lambda: self._backend.con.register(name, stream), "opening the log")
        return self._run(lambda: self._backend.table(name), "opening the log")

    def code_counts(self, table: ir.Table) -> Counter[int]:
        """Number of rows by code; a table that was read to its end has been counted already."""
        stream = self._streams.get(table.get_name())
        if stream is None or stream.code_counts is None:
            counts = self.fetch(table.group_by("code").agg(rows=table.count()))
            if stream is None or stream.code_counts is None:
                return Counter(dict(zip(counts["code"].to_pylist(), counts["rows"].to_pylist(), strict=True)))
        return stream.code_counts

    def stage(self, table: ir.Table) -> ir.Table:
        """Keep the table in DuckDB's own temporary space."""
        name = next(self._names)
        return self._run(lambda: self._backend.create_table(name, table, temp=True), "staging a table")

    def settle(self, table: ir.Table) -> ir.Table:
        """The table, staged: DuckDB computes it at once."""
        return self.stage(table)

    def upload(self, table: pa.Table) -> ir.Table:
        """Keep the table in DuckDB's own temporary space."""
        name = next(self._names)
        return self._run(lambda: self._backend.create_table(name, table, temp=True), "uploading a table")

    def mapped(self, table: ir.Table, work: Work, schema: pa.Schema, together: str | None = None) -> ir.Table:
        """The rows that `work` makes of the table, computed at once in this process; they must fit into memory."""
        rows = self.stream(table if together is None else table.order_by(together))
        return self.upload(pa.Table.from_batches(work(rows), schema))

    def fetch(self, table: ir.Table) -> pa.Table:
        """The whole result."""
        # As `to_pyarrow` of Ibis 12 does it, but for null columns: its converter would import pandas.
        rows = self._run(lambda: self._backend._to_duckdb_relation(table).to_arrow_table(), "computing a result")
        return self._run(lambda: table.__pyarrow_result__(rows), "computing a result")

    def stream(self, table: ir.Table) -> Iterator[pa.RecordBatch]:
        """The result in batches."""
        # Not through Ibis 12, whose batches come from a call that DuckDB 2 no longer has.
        query = self._run(lambda: self._backend.compile(table), "computing a result")
        reader = self._run(lambda: self._backend.con.sql(query).to_arrow_reader(_BATCH_ROWS), "computing a result")
        try:
            while (batch := self._run(lambda: next(reader, None), "computing a result")) is not None:
                yield batch
        finally:
            reader.close()  # one that stays open keeps the connection from other work

    def close(self) -> None:
        """Close the database and remove what it spilled."""
        self._closed = True
        self._backend.disconnect()
        self._streams.clear()
        self._folder.remove()

    def _run(self, work: Callable[[], Result], doing: str) -> Result:
        if self._closed:
            raise ParameterError(CLOSED)
        for stream in self._streams.values():
            stream.failure = None
        return guarded(work, self._explain, doing)

    def _explain(self, error: Exception) -> BaseException | None:
        """The error that a stream raised while DuckDB read it, which DuckDB reports as an error of its own."""
        # DuckDB reports an interrupt in two ways, by what it was doing.
        if type(error).__name__ == "InterruptException" or str(error) == "Query interrupted":
            return KeyboardInterrupt()
        failures = [stream.failure for stream in self._streams.values() if stream.failure is not None]
        return failures[0] if failures else None

    @staticmethod
    def _explain_start(error: Exception) -> QuerycloakError:
        kind = type(error).__name__
        return ParameterError.of("DuckDB does not accept its settings ({kind}): check {memory:3GB}", kind=kind)


class _Stream:
    """A source as DuckDB reads it: an Arrow stream, fresh for every scan, parsed by a pool of threads."""

    def __init__(self, source: BatchSource, threads: int, on_bytes: OnBytes | None) -> None:
        self._source, self._threads, self._on_bytes = source, threads, on_bytes
        self.code_counts: Counter[int] | None = None
        self.failure: BaseException | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        # DuckDB also asks for a stream when it only wants the schema: nothing is read before the first batch.
        reader = pa.RecordBatchReader.from_batches(self._source.schema, self._batches())
        return reader.__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        counts: Counter[int] = Counter()
        try:
            for batch in self._parsed():
                codes = batch.column("code").to_numpy(zero_copy_only=False)
                values, numbers = np.unique(codes, return_counts=True) if codes.any() else ([0], [len(codes)])
                counts.update(dict(zip(map(int, values), map(int, numbers), strict=True)))
                yield batch
        except (QuerycloakError, KeyboardInterrupt) as error:
            self.failure = error
            raise
        self.code_counts = +counts

    def _parsed(self) -> Iterator[pa.RecordBatch]:
        waiting: deque[Future[pa.RecordBatch]] = deque()
        pool = ThreadPoolExecutor(self._threads)
        try:
            for block in self._blocks():
                waiting.append(pool.submit(self._source.parse, block))
                if len(waiting) > 2 * self._threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def _blocks(self) -> Iterator[Any]:
        for part in self._source.parts(None):
            for block in self._source.blocks(part):
                if self._on_bytes is not None:
                    self._on_bytes(getattr(block, "size", 0))
                yield block
