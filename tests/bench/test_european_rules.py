"""The study of the European rules: its releases, its thresholds, and the page that is made of its figures."""

from __future__ import annotations

import csv

import pytest
from bench.european_rules import SENSITIVE, scaled_numbers, study_releases
from scripts.make_european_page import PAGE, TABLE, page_with_tables

import querycloak as qc
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
    assert sum(kind == "approximate-dp" for kind in kinds.values()) == 9
    assert qc.EuRecords(preset="dma-2026").numbers["min_group_users"] == 1_000


def test_every_assumed_number_of_the_decision_is_varied() -> None:
    varied = {option for preset, option, _ in SENSITIVE if preset == "dma-2026"}
    assert set(RULES["dma-2026"].assumed) <= varied
    assert varied <= set(NUMBERS)


def test_the_page_has_the_figures_of_the_table() -> None:
    with TABLE.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert page_with_tables(PAGE.read_text(), rows) == PAGE.read_text()
