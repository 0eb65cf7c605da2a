"""An engine that compiles each shape of expression once gives what DuckDB gives."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pytest

from querycloak.engines import Engine
from querycloak.engines.duckdb import DuckDBEngine
from querycloak.engines.repeated_statements import RepeatedStatements

Expression = Callable[[ir.Table, ir.Table], ir.Table]
EXPRESSIONS: dict[str, Expression] = {
    "sum": lambda one, _: one.group_by("user").agg(n=one.count(), total=one.number.sum().cast("int64")),
    "another literal": lambda one, _: one.filter(one.number > 2).select("user", twice=one.number * 2),
    "a smaller literal": lambda one, _: one.filter(one.number > 1).select("user", twice=one.number * 2),
    "both": lambda one, other: one.semi_join(other, "user"),
    "itself": lambda one, _: one.semi_join(one.filter(one.number > 2), "user"),
    "other way round": lambda one, other: other.semi_join(one, "user"),
    "window": lambda one, _: one.mutate(
        place=ibis.row_number().over(ibis.window(group_by=one.user, order_by=one.number))
    ),
    "view": lambda one, _: one.inner_join(one.view(), "user"),
    "union": lambda one, other: one.union(other),
}
LOGS = [
    ([("a", 1), ("a", 3), ("b", 2)], [("a", 5)]),
    ([("c", 2), ("c", 2), ("d", 9), ("e", 1)], [("d", 1), ("x", 4)]),
    ([("a", 7)], [("b", 7), ("a", 2)]),
]


@pytest.fixture
def repeated() -> Iterator[RepeatedStatements]:
    engine = RepeatedStatements()
    yield engine
    engine.close()


def rows(engine: Engine, expression: Expression, one: ir.Table, other: ir.Table, *, staged: bool) -> list[str]:
    table = expression(one, other)
    result = engine.fetch(engine.stage(table) if staged else table)
    return [str(result.schema), *sorted(map(str, result.to_pylist()))]


def table(engine: Engine, values: list[tuple[str, int]]) -> ir.Table:
    users, numbers = zip(*values, strict=True)
    return engine.upload(pa.table({"user": pa.array(users), "number": pa.array(numbers, pa.int64())}))


@pytest.mark.parametrize("staged", [False, True])
def test_results_are_those_of_duckdb(repeated: RepeatedStatements, duckdb_engine: DuckDBEngine, staged: bool) -> None:
    for log in LOGS:
        mine, theirs = ([table(engine, part) for part in log] for engine in (repeated, duckdb_engine))
        for name, expression in EXPRESSIONS.items():
            results = [
                rows(engine, expression, *tables, staged=staged)
                for engine, tables in ((repeated, mine), (duckdb_engine, theirs))
            ]
            assert results[0] == results[1], name


def test_an_expression_over_other_tables_is_not_compiled_again(
    repeated: RepeatedStatements, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[object] = []
    backend = vars(repeated)["_backend"]
    compile_once = backend.compile

    def counted(*given: Any, **more: Any) -> Any:
        compiled.append(given)
        return compile_once(*given, **more)

    monkeypatch.setattr(backend, "compile", counted)
    for log in LOGS:
        one, other = (table(repeated, part) for part in log)
        for expression in (EXPRESSIONS["sum"], EXPRESSIONS["both"], EXPRESSIONS["itself"]):
            repeated.fetch(expression(one, other))
    assert len(compiled) == 3
