"""The tables of docs/synthetic-release.md come from its files of figures."""

from __future__ import annotations

import pytest
from scripts.make_synthetic_release_page import (
    BLOCK,
    JUDGED,
    OF_SHARES,
    PAGE,
    SHARES,
    SIZES,
    TUNING,
    Row,
    over_logs,
    page_with_tables,
    points_of_shares,
    points_of_sizes,
    read,
)


def test_the_tables_of_the_page_are_those_of_the_files() -> None:
    page = PAGE.read_text()
    sizes = {users: figures for users, path in SIZES.items() if (figures := read(path))}
    assert {match[2] for match in BLOCK.finditer(page)} == {"shapes", "tasks", "others", "tuning", "judged"}
    assert len(JUDGED) > 1
    assert page_with_tables(page, sizes, read(TUNING), [read(path) for path in JUDGED]) == page


def test_every_division_measured_is_in_its_picture() -> None:
    tuning = read(TUNING)
    drawn = points_of_shares(tuning)
    splits = {"before", "words", "queries", "clicks", "no hosts", "shapes"}
    assert {point["line"] for point in drawn} == splits
    assert {point["figure"] for point in drawn} == set(OF_SHARES)
    assert all(f">{name}</text>" in SHARES.read_text() for name in splits)
    assert {point["value"] for point in drawn} <= {float(row["value"]) for row in tuning.values() if row["value"]}


def test_sizes_are_drawn_by_users_and_epsilon() -> None:
    row: Row = {"part": "shapes", "release": "", "figure": "rank", "value": ".25", "low": "", "high": ""}
    sizes = {users: {("synthetic, epsilon 3", "rank"): row, ("original", "rank"): row} for users in (1_000, 5_000)}
    assert points_of_sizes(sizes) == [
        {"at": users, "line": "epsilon 3", "figure": "rank", "value": 0.25} for users in sizes
    ]


def test_a_figure_that_was_not_measured_is_a_dash() -> None:
    row: Row = {"part": "shapes", "release": "synthetic, epsilon 1", "figure": "rank", "value": ".25", "low": "",
                "high": ""}  # fmt: skip
    figures = {1_000: {("synthetic, epsilon 1", "rank"): row}}
    page = "<!-- made-up shapes -->\nold\n<!-- end -->"
    made = page_with_tables(page, figures, {}, [])
    assert "| 1,000 | synthetic, epsilon 1 | - | - | - | - | .250 | - |" in made
    assert "old" not in made


def test_figures_over_logs_are_means_with_their_range() -> None:
    logs = [
        {("before, epsilon 1", "rank"): Row(part="shapes", release="", figure="rank", value=value, low="", high="")}
        for value in (".25", ".5", ".3")
    ]
    (row,) = over_logs(logs).values()
    assert [float(row[name]) for name in ("value", "low", "high")] == [pytest.approx(0.35), 0.25, 0.5]
