"""Figures that a page for people states are what the code computes."""

from __future__ import annotations

import csv
import math
import re
from pathlib import Path

import pytest

import querycloak as qc
from querycloak.methods.semantic.choice import share_of
from querycloak.privacy.explanation import group_delta

DOCS = Path(__file__).parents[2] / "docs"
NOTES = DOCS.parent / "src" / "querycloak"


def page(name: str, folder: Path = DOCS) -> str:
    return re.sub(r"\s+", " ", (folder / name).read_text("utf-8"))


def numbers(text: str) -> set[str]:
    """Numbers of a text, without those in names such as carpineto2015."""
    return set(re.findall(r"(?<![\w.])\d[\d,]*\d(?:\.\d+)?|(?<![\w.])\d(?:\.\d+)?|(?<!\w)\.\d+", text))


def test_twelve_releases_composed() -> None:
    said = re.search(
        r"Twelve releases of `clicks --selection multi-round` at epsilon 1 and delta 1e-6 come to "
        r"epsilon (\S+) at delta (\S+), where the sum is 12 at 1.2e-5",
        page("privacy.md"),
    )
    assert said is not None
    rounds = qc.Clicks(epsilon=1, delta=1e-6, selection="multi-round").composition(12)
    assert rounds.epsilon is not None
    assert rounds.epsilon <= float(said[1]) <= rounds.epsilon + 0.01
    assert rounds.delta <= float(said[2])
    auto = qc.Clicks(epsilon=1, delta=1e-6).composition(12)
    assert auto.epsilon is not None
    assert 11 < auto.epsilon < auto.epsilon_sum == 12
    assert "the figure is hardly below the sum" in page("privacy.md")


def test_beliefs_and_groups() -> None:
    text = page("privacy.md")
    for epsilon, said in ((1, "73.2 %"), (4, "98.3 %"), (8, "99.97 %")):
        assert f"{said}" in text
        most = 100 / (1 + math.exp(-epsilon))
        assert 0 <= float(said[:-2]) - most < 0.1
    assert "about 11 times at epsilon 1, about 9 million times at epsilon 8" in text
    assert round(group_delta(3, 1, 1e-9) / 1e-9) == 11
    assert round(group_delta(3, 8, 1e-12) / 1e-12 / 1e6) == 9
    assert group_delta(3, 8, 2e-7) >= 1


def test_shares_of_a_draw() -> None:
    text = page("semantic.md")
    assert "1.9 times as large for 100 queries at (10, 1e-6), no larger for one query" in text
    assert round(share_of(10.0, 1e-6, 100) / 0.1, 1) == 1.9
    assert share_of(10.0, 1e-6, 1) < 10
    assert "at epsilon 8 it has a chance of 3.5 %" in text
    assert round(100 * math.exp(8) / (math.exp(8) + 82_114), 1) == 3.5


def test_the_page_of_internet_scale_is_what_its_script_writes() -> None:
    from scripts.make_internet_scale_page import PAGE, page_with_tables, runs

    (made,), (stands,) = (
        re.findall("<!-- table shuffled -->.*?<!-- end -->", text, re.DOTALL)
        for text in (page_with_tables(PAGE.read_text()), PAGE.read_text())
    )
    assert made == stands
    assert len(runs()) == 9
    for each in runs().values():  # the formula: bytes in proportion to rows
        assert abs(each.foretold("shuffled_bytes") / each.numbers("shuffled_bytes")[-1] - 1) < 0.1, each.method


def test_few_people_may_be_enough_at_a_large_epsilon() -> None:
    text = page("methods.md")
    assert "cannot come out" not in text[text.index("**Differential privacy for a user**") :]
    assert "at (8, 2.25e-7) three users can be enough" in text
    assert "Laplace noise needs three users for a key at (8, 2.25e-7), and rounds need seven" in page("selection.md")
    laplace = qc.Clicks(epsilon=8, delta=2.25e-7, selection="laplace", max_keys_per_user=1)
    rounds = qc.Clicks(epsilon=8, delta=2.25e-7, selection="multi-round")
    assert [each.plans["clicks"].enough_users for each in (laplace, rounds)] == [3, 7]


@pytest.mark.parametrize("options", [{"clicks": "threshold"}, {"off_pool": True}], ids=["clicks", "off-pool"])
def test_a_pool_has_epsilon_alone_without_thresholds(options: dict[str, object]) -> None:
    assert qc.QueryPool(epsilon=1).proven().numbers == (1.0, 0.0)
    assert 0 < qc.QueryPool(epsilon=1, delta=1e-6, **options).proven().numbers[1] <= 1e-6  # type: ignore[arg-type]
    for text, when in (
        (page("methods.md"), "`--off-pool` the guarantee is epsilon alone; with them it has a delta"),
        (page("commands.md"), "epsilon alone; `--off-pool` and `--clicks threshold` need a delta"),
        (page("methods/query_pool/query_pool.md", NOTES), "with epsilon alone unless a threshold is used"),
    ):
        assert when in text
        # Said nowhere without the condition.
        conditions = re.findall("epsilon alone(?:; with them|; `--off-pool`| unless)", text)
        assert text.count("epsilon alone") == len(conditions)


def test_a_filter_of_gaussian_dp_is_not_denied() -> None:
    text = page("privacy/accounting/composition.md", NOTES)
    assert "by sums only" not in text
    assert "arXiv 2210.17520" in text
    assert "or, with `gaussian` accounting, with the sum of mu^2 (filter.md)" in text


def test_figures_of_papers_are_those_of_their_page() -> None:
    papers = numbers(page("papers.md"))
    affinity, optimal = page("affinity.md"), page("optimal.md")
    assert numbers(affinity[affinity.index("## Beside the paper") : affinity.index("## Size")]) <= papers
    of_largest = re.search(r"has between (\d+) and (\d+) rows; the paper's way.*?keeps (\d+)", optimal)
    assert of_largest is not None
    assert set(of_largest.groups()) <= papers
    assert "Before pairs were selected by rounds" not in optimal  # measured with code that is gone


def test_own_names_that_come_out_are_those_of_the_attacks() -> None:
    share = re.search(r"with k = w = 5, (\d+) % of people's own names come out", page("affinity.md"))
    assert share is not None
    with (DOCS / "tables" / "attacks-standard.csv").open(encoding="utf-8") as rows:
        (row,) = (
            each
            for each in csv.DictReader(rows)
            if (each["release"], each["attack"], each["setting"]) == ("affinity, w k", "secrets", "own name")
        )
    assert round(100 * float(row["risk"])) == int(share[1])
    assert numbers("In 32 % of these names each word has ten users, in 0.7 % fifty.").isdisjoint(
        numbers(page("affinity.md").split("**A larger log needs a larger w.**")[1].split("## ")[0])
    )
