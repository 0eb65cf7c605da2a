"""What a card says that several accounts of one person bring out, measured (privacy/calibration/poisoning.md)."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from querycloak.engines import Engine
from querycloak.logs.searchlog import read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.query_pool.method import QueryPool
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import Row, aol, write

BUDGET: dict[str, Any] = {"epsilon": 4.0, "delta": 1e-6}


def said(method: Any) -> tuple[int, int, int]:
    """How many accounts bring out one text, and how many bring out how many, as the card says it."""
    (text,) = [each for each in method.proven().unprotected if "accounts of one person" in each]
    numbers = [int(number.replace(",", "")) for number in re.findall(r"\d[\d,]*", text)]
    one, accounts, texts = numbers if len(numbers) == 3 else (numbers[0], numbers[0], 1)
    return one, accounts, texts


def accounts_asking(accounts: int, texts: int) -> list[Row]:
    """All of them ask and click the same texts, which nobody else does."""
    return [
        (f"sybil{account}", f"12:{text // 60:02}:{text % 60:02}", f"secret {text}", "1", "http://x.example/")
        for account in range(accounts)
        for text in range(texts)
    ]


def share_out(method: Any, rows: list[Row], folder: Path, engine: Engine, texts: int, runs: int) -> float:
    log = read(write(folder / "log.tsv", aol(rows)), engine=engine)
    out = 0
    for run in range(runs):
        release = method.release(log, randomness=Randomness(seed=run))
        kind = next(iter(release.tables))
        out += release.table(kind).num_rows
    return out / (texts * runs)


@pytest.mark.parametrize(
    ("method", "low", "high"),
    [
        (Clicks(noise=1, threshold=9, max_keys_per_user=4), 0.5, 0.9),
        (Clicks(**BUDGET, selection="gaussian", max_keys_per_user=32), 0.4, 0.7),
        (Clicks(**BUDGET, selection="weighted", max_keys_per_user=64), 0.4, 0.7),
        # Scouts lose a few and move weight among the others: near one half all the same.
        (Clicks(**BUDGET, selection="multi-round", max_keys_per_user=64), 0.3, 0.7),
    ],
    ids=["laplace", "gaussian", "weighted", "multi-round"],
)
def test_accounts_bring_out_as_many_texts_as_the_card_says(
    method: Clicks, low: float, high: float, duckdb_engine: Engine, tmp_path: Path
) -> None:
    _, accounts, texts = said(method)
    assert texts == method.plans["clicks"].per_user
    share = share_out(method, accounts_asking(accounts, texts), tmp_path, duckdb_engine, texts, runs=3)
    assert low <= share <= high
    fewer = max(1, accounts // 2)
    assert share_out(method, accounts_asking(fewer, texts), tmp_path, duckdb_engine, texts, runs=2) < low / 2


def test_one_text_needs_fewer_accounts_by_weights_and_as_many_by_one_draw() -> None:
    one, many, texts = said(Clicks(**BUDGET, selection="weighted"))
    assert texts == 256
    assert 14 * one <= many <= 17 * one  # the root of 256 is 16; one account more than needed at most
    one, many, texts = said(Clicks(**BUDGET, selection="gaussian"))
    assert (one, texts) == (many, 32)


@pytest.mark.parametrize("texts", [1, 2, 7, 64, 65, 200])
def test_beyond_the_bound_accounts_work_in_groups(texts: int) -> None:
    for selection in ("gaussian", "weighted"):
        plan = Clicks(**BUDGET, selection=selection, max_keys_per_user=64).plans["clicks"]
        groups, rest = divmod(texts, 64)
        assert plan.accounts_for(texts) == groups * plan.accounts_for(64) + (plan.accounts_for(rest) if rest else 0)


def test_methods_that_had_no_number_have_one(duckdb_engine: Engine, tmp_path: Path) -> None:
    assert said(KAnonymity(min_users=7))[0] == 7
    rule = KAnonymity(min_users=7, keys="queries")
    assert share_out(rule, accounts_asking(7, 30), tmp_path, duckdb_engine, 30, runs=1) == 1.0
    assert share_out(rule, accounts_asking(6, 30), tmp_path, duckdb_engine, 30, runs=1) == 0.0
    pool = QueryPool(epsilon=4)
    one, many, texts = said(pool)
    assert one == many == pool.thresholds["queries"] + 1
    assert texts == pool.bounds["queries"]
    assert said(Optimal(epsilon=8.0, delta=1e-6))[2] == 256
    one, many, texts = said(Clicks(**BUDGET, max_keys_per_user="auto"))
    assert one <= 6
    assert (texts, many > 100) == (256, True)
