"""`--counts none`: keys without counts by every selection, more of them, and everything that reads such a release."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.audits.guarantees import method_runs  # noqa: F401 (it registers methods)
from querycloak.audits.guarantees.method_audit import audit_method
from querycloak.audits.guarantees.runs import draw_runs
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.sampling.randomness import Randomness
from tests.evaluated import Asked, open_rows, some_rows, write_rows
from tests.unit.privacy.privacy_oracles import surprising

BUDGET: dict[str, Any] = {"epsilon": 8, "delta": 1e-3, "counts": "none"}


def shared(sizes: list[int]) -> list[Asked]:
    """One query for each size, asked by this many users; one query per user."""
    users = iter(range(10**6))
    return [(f"u{next(users)}", 0, f"query {k}", "http://x/", 1) for k, size in enumerate(sizes) for _ in range(size)]


@pytest.mark.parametrize("selection", ["laplace", "weighted", "multi-round", None])
def test_keys_alone_come_out_in_order(selection: Any, duckdb_engine: Engine, tmp_path: Path) -> None:
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", shared([40, 30, 1, 1, 25]))
    release = qc.Clicks(**BUDGET, selection=selection).release(log, randomness=Randomness(seed=1))
    table = release.table("clicks")
    assert table.column_names == ["query", "url"]
    assert table["query"].to_pylist() == ["query 0", "query 1", "query 4"]
    assert (release.counts, release.parameters["counts"]) == ("none", "none")
    assert release.reach["clicks"].margin95 is None
    assert release.reach["clicks"].counts.startswith("there is no count")
    release.save(tmp_path / "out")
    assert qc.verify(tmp_path / "out").problems == ()
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert list(card["tables"]["clicks"]["columns"]) == ["query", "url"]
    assert card["tables"]["clicks"]["order"] == "by key"
    assert "## How to read the counts" not in (tmp_path / "out" / "README.md").read_text()


def test_chances_are_those_of_the_plan(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Keys of 1 to 6 users, 4,000 runs of each."""
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", shared([1, 1, 2, 3, 4, 5, 6, 6]))
    method = qc.Queries(epsilon=1.5, delta=0.02, counts="none", selection="laplace")
    plan = method.plans["queries"]
    assert isinstance(plan, KeysOnlyPlan)
    runs = 4_000
    counted = method.count(log)
    drawn = draw_runs(counted, Randomness(seed=2), runs).tables["queries"]
    assert drawn.column_names == ["run", "query"]
    names = drawn["query"].to_pylist()
    for key, users in enumerate([1, 1, 2, 3, 4, 5, 6, 6]):
        chance = plan.chances.passes(users)
        assert not surprising(names.count(f"query {key}"), runs, chance), users
    assert surprising(names.count("query 3"), runs, plan.chances.passes(2))  # it has power


def test_more_come_out_than_with_counts() -> None:
    """The counting share costs 13 to 17 % of keys; thresholds say where that comes from."""
    both: list[Any] = ["noisy", "none"]
    selections: list[Any] = ["weighted", "multi-round"]
    for selection in selections:
        with_counts, without = (
            qc.Clicks(epsilon=1, delta=1e-6, selection=selection, counts=counts).plans["clicks"] for counts in both
        )
        assert isinstance(without, WeightedPlan)
        assert without.counting is None
        assert 0.78 * with_counts.threshold < without.threshold < 0.92 * with_counts.threshold
        assert without.draw().squared_loss <= with_counts.draw().squared_loss * (1 + 1e-3)  # type: ignore[attr-defined]
        assert without.delta <= 1e-6
    tie_probability, optimum = (
        qc.Clicks(epsilon=1, delta=1e-6, selection="laplace", counts=counts).reach()["clicks"].users95
        for counts in both
    )
    assert tie_probability is not None
    assert optimum is not None
    assert optimum.high <= tie_probability.high


def test_auto_and_sessions_have_it_too(duckdb_engine: Engine, tmp_path: Path) -> None:
    alternatives = qc.Clicks(epsilon=8, delta=1e-6, counts="none").plan.alternatives
    assert [plan.counts for plans in alternatives for plan in plans.values()] == ["none"] * 3
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", some_rows(3, 60))
    laws: list[Any] = ["laplace", "multi-round"]
    for selection in laws:
        method = qc.Sessions(epsilon=30, delta=1e-2, counts="none", selection=selection)
        release = method.release(log, randomness=Randomness(seed=1))
        assert release.table("sessions").column_names == ["queries"]
        assert release.table("clicks").column_names == ["query", "url"]
        epsilon, delta = method.proven().numbers
        assert epsilon <= 30
        assert delta <= 1e-2
        drawn = [each.to_json() for each in method.draws()]
        assert sum(each.get("epsilon", 0) for each in drawn) <= 30.0001


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 1, "threshold": 9}, "counts='none' is for a budget"),
        ({"epsilon": 1, "delta": 1e-6, "two_draws": True}, "counts='none' is for a budget"),
        ({"epsilon": 1, "delta": 1e-6, "variant": "paper"}, "counts='none' is for a budget"),
        ({"epsilon": 1, "delta": 1e-6, "selection": "gaussian"}, "decides by the count that it publishes"),
    ],
)
def test_what_does_not_go_without_counts(options: dict[str, Any], message: str) -> None:
    for method in (qc.Clicks, qc.Sessions):
        with pytest.raises(ParameterError, match=message):
            method(**options, counts="none")


@pytest.mark.slow
def test_tasks_and_audits_read_keys_alone(duckdb_engine: Engine, tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.parquet", some_rows(4, 60))
    test = write_rows(tmp_path / "test.parquet", some_rows(5, 30, first=100))
    method = qc.Queries(epsilon=8, delta=1e-2, selection="laplace", counts="none")
    release = method.release(qc.read(train, engine=duckdb_engine), randomness=Randomness(seed=1))
    release.save(tmp_path / "keys")
    found = qc.evaluate(train, test, [tmp_path / "keys"], tasks=["completion", "counts"]).table.to_pylist()
    mine = [row for row in found if row["release"] == "keys"]
    assert any(row["measure"] == "Success@10" and row["value"] > 0 for row in mine if row["slice"] is None)
    told = {row["measure"]: row for row in mine if row["task"] == "counts"}
    assert told["bias"]["value"] is None
    assert told["bias"]["why"] == "its keys came out without counts"
    bare = qc.Queries(epsilon=1.5, delta=0.02, counts="none", selection="laplace")
    audited = audit_method(bare, runs=300, neighbours=["own", "threshold"])
    assert audited.holds
    assert not any(each.refuted for each in audited.exact)
