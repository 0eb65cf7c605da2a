"""No attribute takes the name of a column that counting adds to tables with keys (by_attributes.py)."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.choices import RESERVED, Choices, could_be_attribute
from querycloak.logs.searchlog import read
from querycloak.methods.keys import by_attributes
from querycloak.privacy.sampling.randomness import Randomness

METHODS = Path(qc.__file__).parent / "methods"
ADDING = {"mutate", "agg", "aggregate", "select"}
WITHOUT_KEYS = {
    "before": "views of users by moment",
    "digits": "distinct texts",
    "keys": "numbers of keys",
    "left": "sequences, which have no attributes",
    "plain": "distinct texts",
    "text": "distinct texts",
    "unknown": "distinct texts",
    "word": "distinct texts",
}
"""Columns of tables that hold no key with attributes."""


def added() -> Iterator[str]:
    """Names that the modules of `queries`, `clicks` and `phrases` give to columns."""
    for module in (*METHODS.glob("keys/*.py"), *METHODS.glob("phrases/*.py"), METHODS / "clicked.py"):
        for node in ast.walk(ast.parse(module.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ADDING:
                    yield from (each.arg for each in node.keywords if each.arg)
                if node.func.attr == "append_column" and isinstance(node.args[0], ast.Constant):
                    yield str(node.args[0].value)


def test_every_column_that_counting_adds_is_refused_as_an_attribute() -> None:
    refused = RESERVED | by_attributes._OF_COUNTING | qc.Phrases.taken_names
    assert {name for name in added() if could_be_attribute(name)} - refused == set(WITHOUT_KEYS)


@pytest.mark.parametrize("name", ["digest", "key_place", "clamped", "given", "scored", "so_far", "wanted"])
def test_such_a_name_is_refused_with_the_way_out(name: str) -> None:
    with pytest.raises(ParameterError, match=rf"by must be other names than .*, got '{name}'; give a column another"):
        qc.Queries(epsilon=8, delta=1e-4, by=name)


@pytest.mark.parametrize("beside", ["country_code", "country_part", "country_value"])
@pytest.mark.parametrize("counted", [False, True], ids=["only read", "counted"])
def test_an_attribute_may_begin_like_another(
    duckdb_engine: Engine, tmp_path: Path, beside: str, *, counted: bool
) -> None:
    users = [f"u{number}" for number in range(60)]
    columns = {"user": users, "time": [datetime(2024, 1, 10)] * 60, "query": ["a"] * 60}
    pq.write_table(pa.table({**columns, "country": ["fr"] * 60, beside: ["x"] * 60}), tmp_path / "log.parquet")
    by = f"country,{beside}" if counted else "country"
    method = qc.Queries(epsilon=40, delta=1e-3, max_keys_per_user=1, by=by, domain_of="country=fr;de")
    choices = Choices(attributes=("country", beside))
    log = read(tmp_path / "log.parquet", engine=duckdb_engine, choices=choices)
    released = method.release(log, randomness=Randomness(seed=1))["queries"].to_pylist()
    (row,) = [row for row in released if row["country"] == "fr"]
    assert (row["query"], row.get(beside, "x")) == ("a", "x")
    assert abs(row["count"] - 60) < 10
