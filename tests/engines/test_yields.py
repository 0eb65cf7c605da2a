"""The yield of selections: figures that can be told beforehand, on logs where noise hardly matters."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from bench.selection_yields import STANDARD_BUDGETS, TRIED, Yield, paper_budget, yields

from querycloak.engines import Engine
from querycloak.logs.searchlog import read
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import Row, aol, write


def one_pair_each() -> list[Row]:
    """Pair i has i users of its own, one click each: 30, 29, ..., 1."""
    return [
        (f"u{pair}-{user}", "12:00:00", f"query {pair}", "1", f"http://{pair}.example/")
        for pair in range(1, 31)
        for user in range(pair)
    ]


def test_figures_of_a_log_without_surprises(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read(write(tmp_path / "log.tsv", aol(one_pair_each())), engine=duckdb_engine)
    seen: list[Yield] = []
    found = yields(
        log,
        budgets=[(200.0, 1e-6)],
        tables=["clicks"],
        tried=["laplace"],
        randomness=Randomness(seed=1),
        on_row=seen.append,
    ).to_pylist()
    assert [row["selection"] for row in found] == ["paper", "laplace"] == [row.selection for row in seen]
    paper, laplace = found
    # One draw of scale 1/200 and the threshold 1: whatever two users share comes out, with its own number.
    assert (laplace["keys"], laplace["median_error"], laplace["median_relative_error"]) == (29, 0, 0)
    assert laplace["volume"] == pytest.approx((465 - 1) / 465)
    assert paper["factor"] is None
    assert laplace["factor"] == 29 / paper["keys"]


def test_every_selection_of_both_tables(tmp_path: Path, duckdb_engine: Engine) -> None:
    rows = [
        (f"u{user}", f"12:{place:02}:00", f"query {(user + place) % 4}", "1", "http://x.example/")
        for user in range(300)
        for place in range(3)
    ]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=duckdb_engine)
    found = yields(log, budgets=[(20.0, 1e-4)], randomness=Randomness(seed=2)).to_pylist()
    assert [row["selection"] for row in found] == ["paper", *TRIED] * 2
    assert {row["table"] for row in found} == {"clicks", "sessions"}
    assert all(row["keys"] == 4 for row in found if row["table"] == "clicks")
    assert all(row["keys"] >= 4 for row in found if row["table"] == "sessions" and row["selection"] != "paper")
    assert all(0 < row["volume"] <= 1 for row in found if row["keys"])


def test_the_budgets_that_are_compared() -> None:
    """The paper's run: b = 1, K = 20, four keys: proven (8, 3.03e-8) with integer noise (histogram.md, claim 5)."""
    for table in ("clicks", "sessions"):
        epsilon, delta = paper_budget(table)
        assert (epsilon, f"{delta:.2e}") == (8.0, "3.03e-08")
    assert ((1.0, 1e-6), (3.0, math.exp(-10)), (8.0, 2.25e-7)) == STANDARD_BUDGETS


def test_nothing_released_has_no_error(tmp_path: Path, duckdb_engine: Engine) -> None:
    log = read(write(tmp_path / "log.tsv", aol(one_pair_each()[:3])), engine=duckdb_engine)
    row = yields(log, budgets=[(1.0, 1e-6)], tables=["clicks"], tried=["weighted"]).to_pylist()[1]
    assert (row["keys"], row["volume"], row["factor"]) == (0, 0, None)
    assert math.isnan(row["median_error"])
