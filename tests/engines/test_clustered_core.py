"""What passes, found as on a cluster: the definition's, with blocks cut and peeling by rounds as on large logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.affinity.clustered_core import Rule, passed_queries
from querycloak.methods.affinity.cores import degrees_at, expand_log
from querycloak.methods.distinct_queries import uses_of
from querycloak.synthetic.log_writer import PRESETS, synthesize
from tests.engines.test_affinity import log_of, random_searches
from tests.unit.methods.affinity import oracles

SMALL_BLOCKS, NOTHING_HERE = {"most_in_block": 4}, {"most_peeled_here": 0}


def passed(log: SearchLog, rule: Rule) -> list[str]:
    found: list[str] = log.engine.fetch(passed_queries(log, uses_of(log), rule))["query"].to_pylist()
    return sorted(found)


@pytest.mark.same_on_spark
@pytest.mark.parametrize(
    ("seed", "theta", "least", "word_users", "k"),
    [(1, 900_000, 2, 2, 4), (2, 800_000, 3, 2, 5), (3, 700_000, 4, 3, 6), (4, 1_000_000, 3, 6, 3)],
)
@pytest.mark.parametrize("bounds", [{}, SMALL_BLOCKS, {**SMALL_BLOCKS, **NOTHING_HERE}], ids=["usual", "cut", "rounds"])
def test_what_passes_is_the_definition_s(
    seed: int, theta: int, least: int, word_users: int, k: int, bounds: dict[str, int], engine: Engine, tmp_path: Path
) -> None:
    searches = random_searches(seed, 220)
    log = log_of(searches, tmp_path, engine)
    degrees = oracles.query_degrees(searches, theta, least, word_users, k)
    true = sorted(query for query, degree in degrees.items() if degree >= k)
    assert passed(log, Rule(least, word_users, theta, k, **bounds)) == true
    assert 0 < len(true) < len(degrees)


@pytest.mark.parametrize("bounds", [{}, NOTHING_HERE], ids=["usual", "rounds"])
def test_peeling_goes_on_as_long_as_it_removes(bounds: dict[str, int], duckdb_engine: Engine, tmp_path: Path) -> None:
    """A chain of queries, each of one user and alike to the next two: every round takes its ends away."""
    words = [f"w{i:02}" for i in range(24)]
    queries = [" ".join(words[i : i + 12]) for i in range(12)]
    searches = [(f"u{i}", query) for i, query in enumerate(queries)]
    searches += [(f"v{i}{j}", word) for i in range(3) for j, word in enumerate(words)]
    log = log_of(searches, tmp_path, duckdb_engine)
    degrees = oracles.query_degrees(searches, 700_000, 3, 2, 9)
    for k in range(3, 8):
        true = sorted(query for query, degree in degrees.items() if degree >= k)
        assert passed(log, Rule(3, 2, 700_000, k, **bounds)) == true


@pytest.mark.same_on_spark
def test_blanks_and_empty_queries_are_as_on_one_machine(engine: Engine, tmp_path: Path) -> None:
    searches = [(f"u{i}", f" cell   phone{' ' * (i % 3)}") for i in range(6)] + [(f"u{i}", " ") for i in range(4)]
    searches += [("u1", "cell  phone rare"), ("u2", "cell"), ("u3", "phone")]
    log = log_of(searches, tmp_path, engine, normalise=False)
    expansion = expand_log(log, uses_of(log), 3, 2)
    degrees = degrees_at(expansion, 900_000, 4)
    true = [query for query, n in zip(expansion.expanded.queries.to_pylist(), degrees, strict=True) if n >= 4]
    assert passed(log, Rule(3, 2, 900_000, 4)) == sorted(true)
    assert true


@pytest.mark.slow
@pytest.mark.parametrize("k", [5, 10])
def test_the_standard_log_passes_as_on_one_machine(
    k: int, duckdb_engine: Engine, spark_engine: Engine, tmp_path: Path
) -> None:
    path, standard = tmp_path / "standard.tsv", PRESETS["standard"]
    synthesize(path, standard.users, seed=standard.seed, truth=False)
    there = passed(read(path, engine=spark_engine), Rule(0.0001, k, 900_000, k))
    log = read(path, engine=duckdb_engine)
    expansion = expand_log(log, uses_of(log), 0.0001, k)
    degrees = degrees_at(expansion, 900_000, k)
    true = [query for query, n in zip(expansion.expanded.queries.to_pylist(), degrees, strict=True) if n >= k]
    assert there == sorted(true)
    assert len(true) > 10_000
