"""docs/selection.md is what the command makes of the stored results."""

from __future__ import annotations

import math
import re

import pytest
from scripts import make_selection_page as maker

from querycloak.methods.sessions.method import Sessions


def test_the_page_is_what_the_stored_results_render_to() -> None:
    page = maker.PAGE.read_text()
    assert maker.page_with_tables(page) == page
    assert len(maker.BLOCK.findall(page)) >= 7


def test_cells_say_what_the_row_says() -> None:
    row = {
        "keys": "1234",
        "factor": "2.46",
        "volume": "0.0567",
        "median_error": "6.5",
        "median_relative_error": "0.184",
    }
    assert maker._yield_cell(row) == "1,234 (2.5 x); 5.67%; 6.5 (18%)"
    assert maker._yield_cell({**row, "keys": "0"}) == "0"
    assert maker._yield_cell({**row, "factor": "", "median_error": "nan"}) == "1,234"


def test_cells_of_the_field_have_two_standard_errors() -> None:
    row = {"epsilon": "1.0", "delta": "1e-06", "algorithm": "limit", "keys": "40.0", "volume": "0.1"}
    assert maker._field_cells([row])({**row, "error": "1.24", "volume_error": "0.00012"}) == "40 ± 2.5; 10.00% ± 0.02"
    assert maker._field_cells([row])({**row, "error": "12", "volume_error": ""}) == "40 ± 24; 10.00%"
    assert maker._field_cells([row])(row) == "40; 10.00%"


def test_the_best_is_bold_and_the_limit_is_not() -> None:
    budget = {"epsilon": "1.0", "delta": "1e-06", "volume": "0.1"}
    rows = [
        {**budget, "algorithm": "MAD", "keys": "10.0"},
        {**budget, "algorithm": "multi-round", "keys": "30.0"},
        {**budget, "algorithm": "limit", "keys": "40.0"},
    ]
    cell = maker._field_cells(rows)
    assert [cell(row) for row in rows] == ["10 (25%); 10.00%", "**30** (75%); 10.00%", "40; 10.00%"]


@pytest.mark.parametrize(
    ("budget", "words"), [((1.0, 1e-6), "(1, 1e-6)"), ((8.0, 3.03e-8), "paper's own: (8, 3.03e-8)")]
)
def test_budgets_as_they_are_read(budget: tuple[float, float], words: str) -> None:
    assert maker._budget_words(budget) == words


def test_rows_that_one_user_alone_has_by_the_plan_of_the_page() -> None:
    plan = Sessions(epsilon=3, delta=math.exp(-10), selection="multi-round", no_clicks=True).plans["sessions"]
    stated = re.search(
        r"at most ([\d.]+) rows of sessions are expected that one user alone has", maker.PAGE.read_text()
    )
    assert stated
    assert float(stated.group(1)) == math.ceil(plan.rows_of_one_user * 100_000 * 100) / 100
