"""Figures that a page for people states are what the code computes."""

from __future__ import annotations

import math
import re
from pathlib import Path

import querycloak as qc
from querycloak.methods.semantic.shares import share_of
from querycloak.privacy.explanation import group_delta

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return re.sub(r"\s+", " ", (DOCS / name).read_text("utf-8"))


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
