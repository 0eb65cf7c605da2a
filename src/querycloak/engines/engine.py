"""Interface of engines: sources of Arrow batches become lazy tables, and tables become results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Protocol, TypeVar, cast

import ibis.expr.types as ir
import pyarrow as pa

from querycloak.errors import EngineError, QuerycloakError, ResourceError
from querycloak.memory_limits import require_addresses
from querycloak.privacy.parameters import natural, of_kind, refusal, refuse

Result = TypeVar("Result")
ENGINES = "duckdb, spark, spark://host:port or sc://host:port"
CLOSED = "the log is closed already: compute and save what you need of it before its `with` block ends"
OnBytes = Callable[[int], None]
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""Work of executors on batches of rows: a value that can be sent to them."""


class BatchSource(Protocol):
    """Rows that can be read again and again, in parts that are divided among workers.

    The last column, `code`, tells what became of a row; 0 is kept.
    """

    @property
    def schema(self) -> pa.Schema:
        """The columns of every batch."""
        ...

    def parts(self, size: int | None) -> list[Any]:
        """Pieces of about `size` stored bytes that can be read apart; whole files without a size."""
        ...

    def blocks(self, part: Any) -> Iterator[Any]:
        """The raw blocks of a part, one after another."""
        ...

    def parse(self, block: Any) -> pa.RecordBatch:
        """The rows of a block."""
        ...


class Engine(Protocol):
    """Interface of DuckDB and Spark: all that other code uses of an engine."""

    name: str
    threads: int  # for compiled work beside the engine, too

    def table(self, source: BatchSource, on_bytes: OnBytes | None = None) -> ir.Table:
        """A lazy table of the source's rows."""
        ...

    def code_counts(self, table: ir.Table) -> Counter[int]:
        """Number of rows of a source's table by code; it may read the table once more."""
        ...

    def stage(self, table: ir.Table) -> ir.Table:
        """The table, computed once and kept in the engine's private space."""
        ...

    def settle(self, table: ir.Table) -> ir.Table:
        """The table, computed now without a record of how: repeated rounds would make ever longer queries."""
        ...

    def upload(self, table: pa.Table) -> ir.Table:
        """A small table of this process, kept in the engine's private space."""
        ...

    def mapped(self, table: ir.Table, work: Work, schema: pa.Schema, together: str | None = None) -> ir.Table:
        """Result of the work on a table, computed at its rows: stage it if it is used twice.

        Rows that are equal in the column `together` come to the same call of `work`, in ascending order.
        """
        ...

    def fetch(self, table: ir.Table) -> pa.Table:
        """A small result."""
        ...

    def stream(self, table: ir.Table) -> Iterator[pa.RecordBatch]:
        """A result of any size, batch after batch."""
        ...

    def close(self) -> None:
        """End the engine and remove its private space."""
        ...


def connect(engine: str = "duckdb", *, threads: int | None = None, memory: str | None = None) -> Engine:
    """Start an engine: `duckdb`, `spark` (on this machine), `spark://host:port` or `sc://host:port`.

    Other masters of Spark (`local[N]`, `yarn`, `k8s://...`) are passed on to it. threads: None for all cores.
    memory: an amount such as 3GB; None for the engine's default.
    """
    require_addresses()
    if threads is not None:
        natural("threads", threads, "leave it out to use all cores")
    if memory is not None:
        memory_bytes(memory)
    if not isinstance(engine, str):
        refuse("engine", ENGINES, engine and type(engine).__name__, "leave it out for duckdb, which needs nothing else")
    if engine == "duckdb":
        from querycloak.engines.duckdb import DuckDBEngine

        return DuckDBEngine(threads=threads, memory=memory)
    if engine == "spark" or engine.startswith(("spark://", "sc://", "local[", "yarn", "k8s://")):
        from querycloak.engines.spark import SparkEngine

        return SparkEngine("local" if engine == "spark" else engine, threads=threads, memory=memory)
    raise refusal("engine", ENGINES, engine, "leave it out for duckdb, which needs nothing else")


def engine_of(engine: Engine | str) -> Engine:
    """The engine of this name, or the one given."""
    if not isinstance(engine, str) and hasattr(engine, "code_counts"):
        return engine
    return connect(cast("str", engine))


def guarded(work: Callable[[], Result], explain: Callable[[Exception], BaseException | None], doing: str) -> Result:
    """Result of the work; an engine's own message is never shown, because it may quote the log."""
    problem: BaseException
    try:
        return work()
    except QuerycloakError:
        raise
    except Exception as error:  # broad: any error of an engine may quote the log, and must not get out
        unforeseen = EngineError(f"the engine failed while {doing} ({type(error).__name__})")
        problem = explain(error) or _shortage(error) or unforeseen
    # Raised here and not inside the handler, and without its cause and context: both hold the engine's words.
    problem.__cause__ = problem.__context__ = None
    raise problem.with_traceback(None)


def _shortage(error: Exception) -> QuerycloakError | None:
    words = str(error).lower()
    if "no space left" in words or "disk full" in words or "max_temp_directory_size" in words:
        return ResourceError("the disk is full: free some room, or set QUERYCLOAK_TMP to a folder with more")
    if isinstance(error, MemoryError) or "out of memory" in words or "outofmemory" in words:
        return ResourceError.of(
            "memory ran out: give the engine more with {memory}, or QUERYCLOAK_TMP more room to spill"
        )
    return None


_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b?)", re.IGNORECASE)


_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


_WAY_OUT = "such as 3GB or 500MB"


def memory_bytes(memory: str) -> int:
    """The bytes of an amount: GB are of 1000 each, GiB and Java's g of 1024."""
    of_kind("memory", memory, str, "an amount", _WAY_OUT)
    amount = _AMOUNT.fullmatch(memory.strip())
    if amount is None:
        refuse("memory", "an amount", memory, _WAY_OUT)
    number, letter, binary, unit = amount.groups()
    base = 1000 if unit and not binary else 1024
    size = int(float(number) * base ** _POWERS[letter.lower()])
    if size < 1:
        refuse("memory", "an amount above 0", memory, _WAY_OUT)
    return size
