"""Method queries: what it counts on logs with clicks and without; its reach, its accounts, beside sessions."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.audits.guarantees.method_audit import audit_method
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.evaluation.evaluation import evaluate
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.keys.thresholded import KeyCounts
from querycloak.privacy.sampling.randomness import Randomness
from tests.evaluated import Asked, open_rows, some_rows, write_rows

BUDGET: dict[str, Any] = {"epsilon": 4, "delta": 1e-3}


def asked_by_hand(rows: list[Asked], most: int) -> Counter[str]:
    """Users of each query, of each user the first ones in time and text."""
    mine: dict[str, dict[str, int]] = {}
    for user, second, query, _, _ in rows:
        seen = mine.setdefault(user, {})
        seen[query] = min(seen.get(query, second), second)
    kept = (sorted(seen, key=lambda query: (seen[query], query))[:most] for seen in mine.values())
    return Counter(query for queries in kept for query in queries)


@pytest.mark.parametrize("per_user", [1, 2, 5])
def test_it_counts_users_of_queries_whether_anything_was_clicked_or_not(
    per_user: int, duckdb_engine: Engine, tmp_path: Path
) -> None:
    rows = some_rows(1, 40)
    assert any(row[3] is None for row in rows)
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows)
    method = qc.Queries(noise=0.01, threshold=1, max_keys_per_user=per_user)
    released = method.release(log, randomness=Randomness(seed=1)).table("queries")
    counts = dict(zip(released["query"].to_pylist(), released["count"].to_pylist(), strict=True))
    assert counts == {query: users for query, users in asked_by_hand(rows, per_user).items() if users > 1}


def test_clicks_and_ranks_change_nothing(duckdb_engine: Engine, tmp_path: Path) -> None:
    rows = some_rows(2, 30)
    bare: list[Asked] = [(user, second, query, None, None) for user, second, query, _, _ in rows]
    tables = []
    for name, log_rows in (("clicked", rows), ("bare", bare)):
        log = open_rows(duckdb_engine, tmp_path / f"{name}.parquet", log_rows)
        held = qc.Queries(**BUDGET).contributions(log)["queries"]
        tables.append(KeyCounts.of(duckdb_engine, held, ("query",)).numbers())
    assert tables[0] == tables[1]


def excite(path: Path, engine: Engine, users: int = 40) -> SearchLog:
    path.write_text("".join(f"u{user}\t9709161054{user % 60:02}\tweather\n" for user in range(users)))
    return read(path, log_format="excite", engine=engine)


def test_a_log_that_can_hold_no_clicks(duckdb_engine: Engine, tmp_path: Path) -> None:
    release = qc.Queries(epsilon=8, delta=1e-6, max_keys_per_user=1).release(
        excite(tmp_path / "log.tsv", duckdb_engine)
    )
    assert release.table("queries")["query"].to_pylist() == ["weather"]
    release.save(tmp_path / "out")
    assert qc.verify(tmp_path / "out").problems == ()
    told = release.reach["queries"]
    assert told.counts.startswith("users who asked the query; each user counts for the first one only; plus")
    assert told.users50 is not None
    (accounts,) = [each for each in release.proven.unprotected if each.startswith("what several accounts")]
    assert f": {told.users50.low} bring out one text" in accounts


def test_beside_sequences(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", some_rows(3, 60))
    for tables, per_user in (("queries,sessions", 4), (" sessions,queries , clicks", 4), ("sessions", None)):
        method = qc.Sessions(epsilon=30, delta=1e-2, max_keys_per_user=per_user, sessions_per_user=1, tables=tables)
        release = method.release(log, randomness=Randomness(seed=1))
        assert set(release.tables) == {name.strip() for name in tables.split(",")}
        assert release.parameters["per_user"] == per_user
    assert release.table("sessions").equals(
        qc.Sessions(epsilon=30, delta=1e-2, sessions_per_user=1, no_clicks=True)
        .release(log, randomness=Randomness(seed=1))
        .table("sessions")
    )


def test_the_budget_is_shared_among_three_tables() -> None:
    split = "queries=1,clicks=1,sessions=2"
    three = qc.Sessions(epsilon=8, delta=1e-6, tables="queries,clicks,sessions", split=split, selection="multi-round")
    assert set(three.plans) == {"queries", "clicks", "sessions"}
    epsilon, delta = three.proven().numbers
    assert epsilon <= 8
    assert delta <= 1e-6
    one = qc.Sessions(noise=1, threshold=40, tables="queries,clicks,sessions", max_keys_per_user=2, sessions_per_user=1)
    # Two keys of queries, two of clicks, and one sequence of two queries.
    assert one.proven().numbers[0] == 5


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"tables": "queries"},
            "tables must be sessions, and some of queries, clicks, sessions, reformulations, got 'queries'",
        ),
        ({"tables": "sessions,urls"}, "tables must be sessions, and some of"),
        ({"tables": "sessions,sessions"}, "tables must be sessions, and some of"),
        ({"tables": "sessions", "no_clicks": True}, "tables must be left out with no_clicks"),
        (
            {"tables": "sessions", "max_keys_per_user": 3},
            "max_keys_per_user must be left out with tables='sessions': it bounds clicks",
        ),
        ({"no_clicks": True, "split": "clicks=1,sessions=1"}, "split must be left out with no_clicks"),
        ({"tables": "queries,sessions", "split": "clicks=1,sessions=1"}, "split must be a part for each of queries"),
        ({"tables": "queries,sessions", "variant": "paper"}, "the paper variant has Laplace noise, two draws"),
    ],
)
def test_tables_that_sessions_does_not_have(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        qc.Sessions(epsilon=8, delta=1e-6, **given)


def test_it_has_no_paper_variant() -> None:
    with pytest.raises(ParameterError, match="variant must be one of default, got 'paper'"):
        qc.Queries(**BUDGET, variant="paper")


def test_tasks_that_it_serves(duckdb_engine: Engine, tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.parquet", some_rows(4, 60))
    test = write_rows(tmp_path / "test.parquet", some_rows(5, 30, first=100))
    method = qc.Queries(epsilon=8, delta=1e-2, selection="laplace", max_keys_per_user=2)
    method.release(read(train, engine=duckdb_engine), randomness=Randomness(seed=1)).save(tmp_path / "released")
    found = evaluate(train, test, [tmp_path / "released"], tasks=["completion", "counts"])
    told = {
        row["measure"]: row["value"]
        for row in found.table.to_pylist()
        if row["release"] == "released" and row["slice"] in (None, "table=queries")
    }
    assert told["Success@10"] > 0
    assert told["key_share"] > 0
    assert told["error_of_noise"] is not None
    assert told["error_of_bounding"] is not None


@pytest.mark.slow
def test_the_audit_of_its_method() -> None:
    found = audit_method(qc.Queries(noise=1, threshold=5, max_keys_per_user=1), runs=500, neighbours=["own", "shared"])
    assert found.holds
    assert found.exact
    assert not any(each.refuted for each in found.exact)
