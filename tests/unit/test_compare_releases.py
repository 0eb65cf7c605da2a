"""Two cards are the same release if nothing but sentences, dates and versions differs."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from scripts.compare_releases import differences, summary

CARD: dict[str, Any] = {
    "published": "2026-01-01",
    "counts": "weighed",
    "proven": {"epsilon": 1.0, "because": "each user counts once"},
    "tables": {"clicks": {"rows": 3, "reach": {"counts": "users who clicked", "margin95": 3, "notes": ["low"]}}},
    "checksums": {"clicks.tsv": "aa", "README.md": "bb"},
}


def changed(path: str, value: object) -> dict[str, Any]:
    card = deepcopy(CARD)
    *parents, last = path.split("/")
    part = card
    for each in parents:
        part = part[each]
    part[last] = value
    return card


@pytest.mark.parametrize(
    "path",
    [
        "published",
        "proven/because",
        "tables/clicks/reach/counts",
        "tables/clicks/reach/notes",
        "checksums/README.md",
    ],
)
def test_sentences_and_dates_may_differ(path: str) -> None:
    assert differences(CARD, changed(path, "other words")) == []


@pytest.mark.parametrize(
    "path", ["counts", "proven/epsilon", "tables/clicks/rows", "tables/clicks/reach/margin95", "checksums/clicks.tsv"]
)
def test_numbers_and_kinds_may_not(path: str) -> None:
    where = "." + path.replace("/", ".")
    assert [line.partition(":")[0] for line in differences(CARD, changed(path, 99))] == [where]


def test_a_key_of_one_side_only_is_told() -> None:
    assert differences(CARD, changed("proven/k", 5)) == [".proven.k: only in the new"]


def test_tables_and_cards_are_counted_apart() -> None:
    found = ["clicks: card .options: only in the new", "pool: card .options: only in the new", "pool: a.tsv differs"]
    assert summary(found, 5).splitlines() == [
        "card .options: only in the new (2): clicks, pool",
        "a.tsv differs (1): pool",
        "tables are the same bytes in 4 of 5 releases",
        "cards have the same keys and numbers in 3 of 5 releases",
    ]
    assert summary([], 5).splitlines()[0] == "tables are the same bytes in 5 of 5 releases"
