"""DuckDB for tests that ask the same of many small logs: Ibis compiles each shape of expression once."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import ibis.expr.operations as ops
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines.duckdb import DuckDBEngine
from querycloak.errors import EngineError
from querycloak.memory_limits import require_addresses

_UPLOADED = "querycloak_uploaded"


class RepeatedStatements(DuckDBEngine):
    """Statements are kept by shape: the expression with numbers in the place of its tables' names."""

    def __init__(self) -> None:
        require_addresses()
        super().__init__()
        self._queries: dict[Hashable, tuple[_Statement, pa.Schema]] = {}
        self._tables: dict[Hashable, tuple[_Statement, ops.DatabaseTable]] = {}

    def fetch(self, table: ir.Table) -> pa.Table:
        """The whole result."""
        shape = _Shape.of(table.op())
        if shape is None:
            return super().fetch(table)
        if shape.key not in self._queries:
            query = self._run(lambda: self._backend.compile(table), "computing a result")
            self._queries[shape.key] = _Statement.of(query, shape.names), table.schema().to_pyarrow()
        statement, schema = self._queries[shape.key]
        query = statement.about(shape.names)
        result: pa.Table = self._run(lambda: self._backend.con.sql(query).to_arrow_table(), "computing a result")
        return result.rename_columns(schema.names).cast(schema)

    def stage(self, table: ir.Table) -> ir.Table:
        """Keep the table in DuckDB's own temporary space."""
        shape = _Shape.of(table.op())
        if shape is None:
            return super().stage(table)
        if shape.key not in self._tables:
            kept = super().stage(table)
            query = self._run(lambda: self._backend.compile(table), "staging a table")
            self._tables[shape.key] = _Statement.of(query, shape.names), kept.op()
            return kept
        statement, first = self._tables[shape.key]
        return self._like(first, f"({statement.about(shape.names)})")

    def upload(self, table: pa.Table) -> ir.Table:
        """Keep the table in DuckDB's own temporary space."""
        key = ("uploaded", table.schema)
        if key not in self._tables:
            kept = super().upload(table)
            self._tables[key] = _Statement(()), kept.op()
            return kept
        self._run(lambda: self._backend.con.register(_UPLOADED, table), "uploading a table")
        try:
            return self._like(self._tables[key][1], _UPLOADED)
        finally:
            self._run(lambda: self._backend.con.unregister(_UPLOADED), "uploading a table")

    def _like(self, first: ops.DatabaseTable, rows: str) -> ir.Table:
        """A table of these rows with the columns of another."""
        name = next(self._names)
        created = f'CREATE TEMP TABLE "{name}" AS FROM "{first.name}" LIMIT 0'
        statement = f'{created}; INSERT INTO "{name}" BY NAME SELECT * FROM {rows}'
        self._run(lambda: self._backend.con.execute(statement).fetchall(), "staging a table")
        return first.copy(name=name).to_expr()


@dataclass(frozen=True)
class _Statement:
    """SQL cut where names of tables stand: texts, and between them numbers of tables."""

    parts: tuple[str | int, ...]

    @classmethod
    def of(cls, query: str, names: Mapping[str, int]) -> _Statement:
        if not names:
            return cls((query,))
        cut = re.split("(" + "|".join(f'"{re.escape(name)}"' for name in names) + ")", query)
        if {part[1:-1] for part in cut[1::2]} != set(names):
            raise EngineError("a statement does not name its tables as expected; this is a bug in querycloak")
        return cls(tuple(names[part[1:-1]] if at % 2 else part for at, part in enumerate(cut)))

    def about(self, names: Mapping[str, int]) -> str:
        """The statement for these tables."""
        quoted = [f'"{name}"' for name in names]
        return "".join(part if isinstance(part, str) else quoted[part] for part in self.parts)


@dataclass(frozen=True)
class _Shape:
    """An expression without the names of its tables, and these names in the order in which they first occur."""

    key: Hashable
    names: Mapping[str, int]

    @classmethod
    def of(cls, expression: ops.Node) -> _Shape | None:
        """The shape; None for expressions with leaves other than tables: views of themselves, functions."""
        names: dict[str, int] = {}
        places: dict[int, int] = {}
        nodes: list[Hashable] = []
        try:
            _visited(expression, names, places, nodes)
            hash(tuple(nodes))
        except (_NotShapedError, TypeError):  # a value that is not hashable
            return None
        return cls(tuple(nodes), names)


class _NotShapedError(Exception):
    pass


def _visited(value: Any, names: dict[str, int], places: dict[int, int], nodes: list[Hashable]) -> Hashable:
    """The value, with numbers for the nodes in it; each node is listed once, after those it is made of."""
    if isinstance(value, ops.Node):
        if id(value) not in places:
            if isinstance(value, (ops.SelfReference, ops.InMemoryTable, ops.ScalarUDF, ops.AggUDF)):
                raise _NotShapedError
            if isinstance(value, ops.DatabaseTable):
                number = names.setdefault(value.name, len(names))
                node: Hashable = (ops.DatabaseTable, number, value.schema, value.namespace)
            else:
                node = (type(value), *(_visited(each, names, places, nodes) for each in value.__args__))
            nodes.append(node)
            places[id(value)] = len(nodes)
        return ops.Node, places[id(value)]
    if isinstance(value, tuple):
        return tuple(_visited(each, names, places, nodes) for each in value)
    if isinstance(value, Mapping):
        return tuple((name, _visited(each, names, places, nodes)) for name, each in value.items())
    return type(value), value
