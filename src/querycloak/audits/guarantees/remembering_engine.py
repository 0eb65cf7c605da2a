"""An engine for tests of guarantees, which look at the same small log many times."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar

import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.engines.repeated_statements import RepeatedStatements

Result = TypeVar("Result")


def once(engine: Engine, what: Hashable, computed: Callable[[], Result]) -> Result:
    """A result that an engine with a memory computes once; the name must tell all that the result depends on."""
    return engine.remembered(what, computed) if isinstance(engine, RememberingEngine) else computed()


class RememberingEngine(RepeatedStatements):
    """An engine that computes an expression once while it remembers: pasts differ in few of a method's rounds.

    Equal expressions over the same kept tables have equal results, and nothing changes a table that is kept.
    """

    def __init__(self) -> None:
        super().__init__()
        self._remembers = False
        self._staged: dict[object, ir.Table] = {}
        self._fetched: dict[object, pa.Table] = {}
        self._uploaded: dict[bytes, ir.Table] = {}
        self._results: dict[Hashable, Any] = {}

    @contextlib.contextmanager
    def remembering(self) -> Iterator[None]:
        """Within this block, results are kept and used again, also in later blocks."""
        self._remembers = True
        try:
            yield
        finally:
            self._remembers = False

    def remembered(self, what: Hashable, computed: Callable[[], Result]) -> Result:
        """The result computed before under this name."""
        if what not in self._results:
            self._results[what] = computed()
        result: Result = self._results[what]
        return result

    def stage(self, table: ir.Table) -> ir.Table:
        """Keep the table; the one kept before, if it is the same."""
        if not self._remembers:
            return super().stage(table)
        if table.op() not in self._staged:
            self._staged[table.op()] = super().stage(table)
        return self._staged[table.op()]

    def upload(self, table: pa.Table) -> ir.Table:
        """Keep the rows; the table kept before, if it has the same rows."""
        if not self._remembers:
            return super().upload(table)
        content = _bytes(table)
        if content not in self._uploaded:
            self._uploaded[content] = super().upload(table)
        return self._uploaded[content]

    def fetch(self, table: ir.Table) -> pa.Table:
        """The whole result; the one computed before, if it is of the same expression."""
        if not self._remembers:
            return super().fetch(table)
        if table.op() not in self._fetched:
            self._fetched[table.op()] = super().fetch(table)
        return self._fetched[table.op()]


def _bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table.combine_chunks())
    return bytes(sink.getvalue().to_pybytes())
