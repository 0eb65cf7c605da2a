"""What a card lists as unprotected is what its proof note lists, phrase for phrase; and accounts do what it says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import querycloak
from querycloak import (
    Affinity,
    Clicks,
    EuRecords,
    Generalize,
    KAnonymity,
    Optimal,
    Phrases,
    Queries,
    QueryPool,
    Semantic,
    Sessions,
    Synthetic,
)
from querycloak.contract import small_log
from querycloak.methods.method import Method
from querycloak.methods.registry import METHODS
from querycloak.methods.unprotected import BAD_ROWS, CHOSEN_ON_LOG, with_unprotected
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.weighted import GRID
from querycloak.privacy.sampling.noise import Gaussian, Laplace
from tests.conftest import FIXTURES

METHODS_FOLDER = Path(querycloak.__file__).parent / "methods"
BUDGET: dict[str, Any] = {"epsilon": 8.0, "delta": 2.25e-7}
# Of each method as many values as it takes to see everything that its card can list.
NOTES: dict[str, tuple[str, list[Method]]] = {
    "queries": (
        "queries/queries.md",
        [Queries(**BUDGET), Queries(**BUDGET, selection="multi-round"), Queries(**BUDGET, selection="gaussian")],
    ),
    "clicks": (
        "clicks/clicks.md",
        [
            Clicks(**BUDGET),
            Clicks(**BUDGET, selection="multi-round"),
            Clicks(**BUDGET, selection="gaussian"),
            Clicks(**BUDGET, variant="paper"),
        ],
    ),
    "sessions": (
        "sessions/sessions.md",
        [
            Sessions(**BUDGET),
            Sessions(**BUDGET, selection="multi-round"),
            Sessions(**BUDGET, selection="laplace"),
            Sessions(**BUDGET, variant="paper"),
        ],
    ),
    "phrases": (
        "phrases/phrases.md",
        [Phrases(**BUDGET), Phrases(**BUDGET, selection="multi-round"), Phrases(**BUDGET, selection="laplace")],
    ),
    "synthetic": ("synthetic/synthetic.md", [Synthetic(**BUDGET)]),
    "query-pool": (
        "query_pool/query_pool.md",
        [
            QueryPool(epsilon=1.0),
            QueryPool(epsilon=1.0, urls=str(FIXTURES / "urls.txt")),
            QueryPool(epsilon=1.0, delta=1e-6, off_pool=True),
            QueryPool(epsilon=1.0, delta=1e-6, clicks="threshold"),
            QueryPool(epsilon=1.0, variant="paper"),
        ],
    ),
    "optimal": ("optimal/optimal.md", [Optimal(**BUDGET), Optimal(**BUDGET, variant="paper")]),
    "semantic": (
        "semantic/semantic.md",
        [
            Semantic(epsilon=1.0, criterion="hbdp", max_queries=4, domain="sport"),
            Semantic(epsilon=1.0, domain="topics", repeats="reuse", budget_per="query", variant="paper"),
            Semantic(epsilon=1.0, delta=1e-6, max_queries=3, variant="log"),
            *(Semantic(epsilon=1.0, times=times, max_queries=3) for times in ("drop", "month", "day", "hour", "keep")),
        ],
    ),
    "affinity": ("affinity/affinity.md", [Affinity(min_users=10), Affinity(min_users=3, keep_time=True)]),
    "generalize": ("generalize/generalize.md", [Generalize(min_users=10)]),
    "k-anonymity": (
        "k_anonymity/k_anonymity.md",
        [
            *(KAnonymity(min_users=5, keys=keys) for keys in ("queries", "clicks", "log")),
            KAnonymity(preset="dma"),
            KAnonymity(preset="dma-2024"),
        ],
    ),
    "eu-records": ("eu_records/eu_records.md", [EuRecords(preset="dma-2026"), EuRecords(preset="ddg-2026")]),
}


def listed_in(note: str) -> list[str]:
    """The phrases in bold under Unprotected, where nothing stands but a list of them."""
    text = (METHODS_FOLDER / note).read_text().split("\n## Unprotected\n")[1].split("\n## ")[0]
    items = re.split(r"\n(?=- )", text.strip())
    for item in items:
        assert re.match(r"- .*\*\*", item), f"{note}: {item!r} names nothing that a card could list"
        assert "\n\n" not in item, f"{note}: {item!r} is more than an item"
    return re.findall(r"\*\*(.+?)\*\*", text)


def test_every_method_has_a_note() -> None:
    assert list(NOTES) == list(METHODS)


@pytest.mark.parametrize("name", NOTES)
def test_cards_and_notes_list_the_same(name: str) -> None:
    note, methods = NOTES[name]
    phrases = listed_in(note)
    on_cards = {text for method in methods for text in with_unprotected(method.proven(), BAD_ROWS).unprotected}
    for text in on_cards:
        assert [p for p in phrases if text.startswith(p)], f"{note} does not list what the card does: {text}"
    for phrase in phrases:
        assert [text for text in on_cards if text.startswith(phrase)], f"no card lists what {note} does: {phrase}"


def accounts_said(method: Method) -> int:
    (said,) = [text for text in method.proven().unprotected if text.startswith("what several accounts of one person")]
    found = re.search(r": ([\d,]+) bring out one", said)
    assert found, said
    return int(found.group(1).replace(",", ""))


@pytest.mark.parametrize(
    "method",
    [
        Clicks(noise=0.125, threshold=2, max_keys_per_user=1),
        Clicks(**BUDGET, selection="gaussian", max_keys_per_user=32),
        Clicks(**BUDGET, selection="weighted"),
        Clicks(noise=1, threshold=19, max_keys_per_user=4, variant="paper"),
    ],
    ids=["laplace", "gaussian", "weighted", "paper"],
)
def test_that_number_of_accounts_brings_anything_out_and_one_fewer_does_not(method: Clicks) -> None:
    plan, number = method.plans["clicks"], accounts_said(method)
    one = GRID if not isinstance(plan, HistogramPlan) else plan.per_user if method.variant == "paper" else 1
    assert isinstance(plan.noise, Laplace | Gaussian)
    assert plan.noise.tail(plan.threshold + 1 - number * one).down() > 0.5
    assert plan.noise.tail(plan.threshold + 1 - (number - 1) * one).up() < 0.5


def test_where_thresholds_decide_the_lowest_counts() -> None:
    split = Sessions(**BUDGET, selection="gaussian", split="clicks=3,sessions=1")
    assert accounts_said(split) == min(plan.enough_users for plan in split.plans.values())
    assert accounts_said(Optimal(**BUDGET)) == int(Optimal(**BUDGET).parameters()["threshold"]) + 1
    rounds = QueryPool(epsilon=1.0, delta=1e-6, off_pool=True, clicks="none", selection="multi-round")
    assert accounts_said(rounds) == int(rounds.parameters()["outside"]["queries"]["threshold"]) + 1
    pool = QueryPool(epsilon=1.0, delta=1e-6, off_pool=True)
    assert accounts_said(pool) == pool.parameters()["threshold"]  # most ties come out
    # A pair of 500 users with equal counts lets each appear with a chance of 1/500.
    assert accounts_said(Optimal(epsilon=8.0, delta=0.002, variant="paper")) == 500
    inside = QueryPool(epsilon=1.0)
    assert accounts_said(inside) == inside.parameters()["threshold"] + 1


@pytest.mark.parametrize("method", [Queries(**BUDGET), Queries(**BUDGET, selection="laplace")], ids=["auto", "fixed"])
def test_circumstances_stay_on_the_card_whatever_the_draw_chooses(method: Queries, tmp_path: Path) -> None:
    (tmp_path / "log.tsv").write_text(small_log())
    with querycloak.read(tmp_path / "log.tsv") as log:
        release = method.release(log, unprotected=["a plan that was changed"], chosen_on_log=True)
    assert {"a plan that was changed", CHOSEN_ON_LOG} <= set(release.proven.unprotected)
