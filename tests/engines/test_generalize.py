"""Generalisation on both engines: what comes out are concepts of k users, never queries."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.searchlog import read
from querycloak.methods.distinct_queries import uses_of
from querycloak.methods.generalize.clusters import generalise, renamings
from querycloak.methods.generalize.method import Generalize
from querycloak.text.wordnet import wordnet
from tests.logs import Row, aol, write

ASKED = {
    "asthma inhalers": 4,
    "arthritis": 4,
    "gout": 1,
    "zzqx": 9,
    "dachshund puppies": 2,
    "poodle": 2,
}


def rows() -> list[Row]:
    users = iter(range(100))
    return [(f"u{next(users)}", "12:00:00", query, "", "") for query, count in ASKED.items() for _ in range(count)]


@pytest.mark.same_on_spark
def test_concepts_of_k_users_come_out(engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", aol(rows())), engine=engine)
    table = Generalize(min_users=4).release(log).table("log")
    found = Counter(table["query"].to_pylist())
    taxonomy = wordnet()
    assert all(count >= 4 for count in found.values())
    assert all(len(taxonomy.concepts(label)) for label in found)
    assert "entity" not in found
    assert "zzqx" not in found
    assert "gout" not in found  # one user's: it comes out as something above, or not at all
    assert not set(table["user"].to_pylist()) & {f"u{i}" for i in range(100)}
    fine = Counter(Generalize(min_users=2).release(log).table("log")["query"].to_pylist())
    assert sum(fine.values()) == 13
    assert fine["arthritis"] + fine.get("joint disease", 0) + fine.get("disease", 0) >= 4


@pytest.mark.parametrize("least", [2, 5, 9])
def test_executors_find_what_one_machine_finds(least: int, duckdb_engine: Engine, tmp_path: Path) -> None:
    """Users of several concepts, and concepts that stand only with what is handed up to them."""
    queries = ["dog", "poodle", "dachshund", "cat", "siamese cat", "horse", "gout", "arthritis", "disease", "zzqx", ""]
    random = np.random.default_rng(4)
    searches: list[Row] = [
        (f"u{random.integers(0, 14)}", "12:00:00", queries[random.zipf(1.4) % len(queries)], "", "") for _ in range(120)
    ]
    log = read(write(tmp_path / "log.tsv", aol(searches)), engine=duckdb_engine)
    uses, taxonomy = uses_of(log), wordnet()
    found = generalise(duckdb_engine, uses, taxonomy)
    becomes = found.becomes(least)
    expected = {
        query: taxonomy.shown(concept)
        for query, concept in zip(found.queries.to_pylist(), becomes.tolist(), strict=True)
        if concept not in (-1, taxonomy.root)
    }
    table = duckdb_engine.fetch(renamings(duckdb_engine, uses, taxonomy, least)).to_pydict()
    assert dict(zip(table["query"], table["concept"], strict=True)) == expected
    assert len(set(expected.values())) > 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "min_users must be given"),
        ({"min_users": 1}, "min_users must be at least 2, got 1"),
        ({"min_users": 5, "variant": "paper"}, "variant must be one of default, got 'paper'"),
    ],
)
def test_generalize_refuses_what_makes_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Generalize(**options)  # type: ignore[arg-type]
