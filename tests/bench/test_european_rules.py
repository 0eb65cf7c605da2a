"""The study of the European rules: its releases, its thresholds, and the page that is made of its figures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from bench.european_rules import SENSITIVE, scaled_numbers, study_releases
from bench.query_bands import BANDS, RESAMPLES, PreparedBands, band_of, perplexity
from scripts.make_european_page import PAGE, SIZES, TABLE, page_with_tables, read

import querycloak as qc
from querycloak.comparison.comparison_plan import usual_releases
from querycloak.comparison.comparison_summary import promise_of
from querycloak.evaluation.task import CaseScores
from querycloak.evaluation.tasks.click_model import PERPLEXITY
from querycloak.methods.eu_records.european_rules import NUMBERS, RULES


def test_thresholds_are_scaled_to_the_log_and_stay_thresholds() -> None:
    assert scaled_numbers(3_000, 3_000_000) == {"min_term_users": 2, "min_group_users": 2}
    assert scaled_numbers(300_000, 3_000_000) == {"min_term_users": 5, "min_group_users": 100}


@pytest.mark.parametrize("attributes", [(), ("country", "device")])
def test_rules_and_guarantees_stand_in_one_study(attributes: tuple[str, ...]) -> None:
    releases = dict(study_releases(attributes, scaled_numbers(1_000, 1_000_000)))
    kinds = {name: method.proven().kind for name, method in releases.items()}
    assert {name for name, kind in kinds.items() if kind == "syntactic"} == {
        "dma-2024", "dma-2026", "dma-2026, scaled", "ddg-2026", "bare records",
    }  # fmt: skip
    assert sum(kind == "approximate-dp" for kind in kinds.values()) == 12
    assert qc.EuRecords(preset="dma-2026").numbers["min_group_users"] == 1_000


def test_owners_are_warned_of_what_is_assumed() -> None:
    for method in (qc.KAnonymity(preset="dma-2024"), qc.EuRecords(preset="dma-2026"), qc.EuRecords(preset="ddg-2026")):
        assert any("assumed by us" in str(each) for each in method.cautions())
    assert not qc.KAnonymity(preset="dma").cautions()


def test_every_assumed_number_of_the_decision_is_varied() -> None:
    varied = {option for preset, option, _ in SENSITIVE if preset == "dma-2026"}
    assert set(RULES["dma-2026"].assumed) <= varied
    assert varied <= set(NUMBERS)


def test_the_page_has_the_figures_of_the_table() -> None:
    assert page_with_tables(PAGE.read_text(), read(TABLE), [read(path) for path in SIZES]) == PAGE.read_text()


def test_head_torso_and_tail_are_shares_of_the_log_and_cover_all_cases() -> None:
    assert band_of(np.array([0, 1, 2, 17, 18]), 18_000).tolist() == [2, 2, 1, 1, 0]
    assert band_of(np.array([2, 3]), 100).tolist() == [1, 0]
    scores = CaseScores(PERPLEXITY, np.array([1.0, 0.0, np.nan, 1.0]), np.array([0, 0, 1, 1]))

    class Scored:
        def scores(self, subject: Any) -> list[CaseScores]:
            return [scores]

    subject: Any = None
    whole, *parts = PreparedBands(Scored(), np.array([0, 1, 2, 2])).scores(subject)
    assert whole is scores
    assert [each.slice for each in parts] == list(BANDS)
    assert [each.users.tolist() for each in parts if isinstance(each, CaseScores)] == [[0], [0], [1, 1]]


def test_perplexity_of_bands_is_the_tasks_and_lies_in_its_interval() -> None:
    random = np.random.default_rng(RESAMPLES)
    query, rank = random.integers(30, size=400), random.integers(10, size=400)
    views, chances = random.integers(1, 5, size=400).astype(float), random.uniform(0.1, 0.6, size=400)
    clicks = random.binomial(views.astype(int), chances).astype(float)
    bits = -(clicks * np.log2(chances) + (views - clicks) * np.log2(1 - chances))
    by_rank = [PERPLEXITY(clicks[rank == r], chances[rank == r], views[rank == r]) for r in range(10)]
    value, low, high = perplexity(query, rank, bits, views)
    assert value == pytest.approx(np.mean(by_rank))
    assert low < value < high


def test_the_rules_stand_in_the_demo_and_are_called_rules() -> None:
    planned = {each.name: each.made() for each in usual_releases() if each.method in ("eu-records", "k-anonymity")}
    assert {"eu-records-dma-2026", "eu-records-ddg-2026", "k-anonymity-dma"} <= set(planned)
    for method in planned.values():
        proven = method.proven()
        assert promise_of({"failed": False, "proven": {"kind": proven.kind, "neighbours": proven.neighbours}}) == "rule"
