"""`--count-of clicks`: users decide, clicks are counted afterwards within their bounds (histogram.md, claim 9)."""

from __future__ import annotations

import random
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

import querycloak as qc
from querycloak.audits.guarantees.method_audit import audit_method
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.methods.keys.contribution_bounding import bounded_clicks, first_keys, once_per_key
from querycloak.privacy.calibration.gaussian import squared_loss
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.table_plan import Times
from querycloak.privacy.calibration.weighted import GRID, WeightedPlan
from querycloak.privacy.sampling.exact import stated
from querycloak.privacy.sampling.randomness import Randomness
from tests.evaluated import Asked, open_rows

BUDGET: dict[str, Any] = {"epsilon": 8, "delta": 1e-3, "count_of": "clicks"}


def clicked(seed: int, users: int) -> list[Asked]:
    draw = random.Random(seed)
    return [
        (f"u{user}", draw.randrange(50), draw.choice("abcd"), f"http://{draw.choice('xy')}/", 1)
        for user in range(users)
        for _ in range(draw.randrange(1, 12))
    ]


def by_hand(rows: list[Asked], chosen: set[tuple[str, str]], most: Times) -> Counter[tuple[str, str]]:
    """Clicks by plain loops: keys in order of their first click, each up to its bound, until the user's is used up."""
    found: Counter[tuple[str, str]] = Counter()
    for user in {row[0] for row in rows}:
        mine = [(second, query, str(url)) for who, second, query, url, _ in rows if who == user]
        first: dict[tuple[str, str], int] = {}
        for second, query, url in sorted(mine):
            first.setdefault((query, url), second)
        left = most.per_user
        for key in sorted(first, key=lambda key: (first[key], key)):
            if key in chosen:
                given = min(most.per_key, left, sum((query, url) == key for _, query, url in mine))
                found[key] += given
                left -= given
    return found


@pytest.mark.parametrize("most", [Times(1, 1), Times(2, 3), Times(4, 16), Times(100, 5)])
def test_clicks_within_their_bounds(most: Times, duckdb_engine: Engine, tmp_path: Path) -> None:
    rows = clicked(1, 30)
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows)
    held = duckdb_engine.stage(once_per_key(log.clicks, ("query", "url"), with_times=True))
    all_keys = duckdb_engine.fetch(first_keys(held, ("query", "url"), 100).select("query", "url").distinct())
    chosen = all_keys.sort_by([("query", "ascending"), ("url", "ascending")]).slice(1, 5)
    found = bounded_clicks(duckdb_engine, held, chosen, ("query", "url"), most).to_pylist()
    wanted = by_hand(rows, {(row["query"], row["url"]) for row in chosen.to_pylist()}, most)
    assert {(row["query"], row["url"]): row["n"] for row in found} == dict(wanted)
    # One user alone: L1 and the squares stay within what the proof states.
    for user in range(30):
        mine = by_hand([row for row in rows if row[0] == f"u{user}"], set(wanted), most)
        assert sum(mine.values()) <= most.per_user
        assert sum(number**2 for number in mine.values()) <= most.squared


def test_many_clicks_of_one_user_bring_nothing_out(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Clicks never enter the threshold."""
    rows: list[Asked] = [("one", second, "rare", "http://rare/", 1) for second in range(500)]
    rows += [(f"u{user}", second, "usual", "http://usual/", 1) for user in range(60) for second in range(3)]
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows)
    for selection in ("laplace", "weighted", "multi-round", None):
        options: dict[str, Any] = {**BUDGET, "selection": selection}
        release = qc.Clicks(**options).release(log, randomness=Randomness(seed=1))
        (row,) = release.table("clicks").to_pylist()
        assert row["query"] == "usual"
        assert abs(row["count"] - 180) < 60
        assert release.parameters["count_of"] == "clicks"
        assert release.reach["clicks"].counts.startswith("clicks on the result for the query; of each user at most 4")


def test_what_is_paid_for() -> None:
    laplace = qc.Clicks(epsilon=8, delta=1e-6, count_of="clicks", selection="laplace").plans["clicks"]
    assert isinstance(laplace, HistogramPlan)
    assert laplace.published_noise is not None
    # One key of a user: at most four clicks, a fifth of epsilon; the rest decides.
    assert laplace.times == Times(4, 4)
    spent = Fraction(1) / Fraction(laplace.noise.size) + Fraction(4) / Fraction(laplace.published_noise.size)
    assert spent <= stated(8.0)
    assert laplace.published_noise.size == pytest.approx(4 / 1.6)
    assert laplace.epsilon <= 8
    assert laplace.delta <= 1e-6
    assert laplace.draw().to_json()["kind"] == "any"
    rounds = qc.Clicks(epsilon=8, delta=1e-6, count_of="clicks", selection="multi-round", clicks_per_key=3).plans[
        "clicks"
    ]
    users = qc.Clicks(epsilon=8, delta=1e-6, selection="multi-round").plans["clicks"]
    assert isinstance(rounds, WeightedPlan)
    assert isinstance(users, WeightedPlan)
    assert rounds.counting is not None
    assert rounds.times == Times(3, 16)
    # The same rounds decide; counting is for a change of squared length 3 x 16 in place of 16.
    assert (rounds.threshold, rounds.noise) == (users.threshold, users.noise)
    weighed = sum(squared_loss(noise, GRID**2) for noise in (rounds.noise, *(each.noise for each in rounds.scouts)))
    total = weighed + squared_loss(rounds.counting, 48)
    assert rounds.draw().squared_loss == pytest.approx(total, rel=1e-9)
    assert rounds.delta <= 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"noise": 1, "threshold": 9}, "count_of='clicks' is for a budget"),
        ({"epsilon": 1, "delta": 1e-6, "two_draws": True}, "count_of='clicks' is for a budget"),
        ({"epsilon": 1, "delta": 1e-6, "counts": "none"}, "count_of='clicks' is for a budget"),
        ({"epsilon": 1, "delta": 1e-6, "variant": "paper"}, "count_of='clicks' is for a budget"),
        ({"epsilon": 1, "delta": 1e-6, "selection": "gaussian"}, "count_of='clicks' goes with selection='laplace'"),
        ({"epsilon": 1, "delta": 1e-6, "clicks_per_key": 0}, "clicks_per_key must be at least 1"),
        ({"epsilon": 1, "delta": 1e-6, "clicks_per_user": 0}, "clicks_per_user must be at least 1"),
    ],
)
def test_what_does_not_go_with_clicks(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        qc.Clicks(**options, count_of="clicks")


def test_bounds_of_clicks_without_clicks() -> None:
    with pytest.raises(ParameterError, match="clicks_per_key must be left out without count_of='clicks', got 3"):
        qc.Clicks(epsilon=1, delta=1e-6, clicks_per_key=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("selection", "neighbours"),
    [
        ("laplace", ["own", "repeats"]),
        ("multi-round", ["repeats"]),
        ("multi-round", ["own"]),
    ],
)
def test_the_audit_of_its_method(selection: Any, neighbours: list[str]) -> None:
    method = qc.Clicks(epsilon=3, delta=0.01, selection=selection, count_of="clicks", clicks_per_user=6)
    found = audit_method(method, runs=100, neighbours=neighbours)
    assert found.holds
    assert not any(each.refuted for each in found.exact)
    assert any(each.step.endswith("clicks") for each in found.exact)
