"""The pictures of a comparison: which points and labels they have, and where labels stand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from querycloak.comparison.comparison_summary import Summary, summary_of
from querycloak.pages.comparison_page import curves
from querycloak.pages.comparison_pictures import (
    LETTER,
    Box,
    attacks_run,
    free_right,
    label_places,
    missing_in_tradeoff,
    tradeoff,
)
from tests.canned_comparison import canned


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summary_of(canned(Path()))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_the_picture_is_about_the_task_that_most_can_do(summary: Summary) -> None:
    assert [each.name for each in missing_in_tradeoff(summary)] == ["semantic-e8"]
    text = tradeoff(summary).description
    assert plain(text).startswith("the log itself: 100 % kept, risk 100 %; clicks, ε = 1: 12 % kept, risk 1.0 %")


def test_attacks_that_nobody_could_run_are_not_shown(summary: Summary) -> None:
    assert "linkage-periods" not in attacks_run(summary)
    assert "singling-out" in attacks_run(summary)


def test_one_budget_has_no_curve(summary: Summary) -> None:
    assert [each.name for each in curves(summary)] == ["budgets", "volumes"]
    one = replace(summary, releases=tuple(each for each in summary.releases if each.epsilon == 8.0))
    assert curves(one) == []


def test_a_share_with_an_interval_as_wide_as_the_axis_has_no_point(summary: Summary) -> None:
    unclear = replace(summary.releases[1].tasks["completion"], share=1.4, low=0.2, high=2.9)
    release = replace(summary.releases[1], tasks={**summary.releases[1].tasks, "completion": unclear})
    other = replace(summary, releases=(release,))
    assert missing_in_tradeoff(other) == [release]
    assert "140" not in tradeoff(other).description


def boxes_of(points: list[tuple[float, float]], labels: list[str], width: float, height: float) -> list[Box]:
    places = label_places(points, labels, width, height)
    return [
        Box(each.x, each.y - 7, each.x + len(label) * LETTER, each.y + 7)
        for each, label in zip(places, labels, strict=True)
    ]


def assert_apart(boxes: list[Box], width: float) -> None:
    for number, box in enumerate(boxes):
        assert all(box.overlap(other) == 0 for other in boxes[number + 1 :])
        assert box.left >= -1e-6
        assert box.right <= width + 1e-6


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), min_size=1, max_size=7))
def test_labels_keep_apart_where_there_is_room(points: list[tuple[float, float]]) -> None:
    """Short labels of few points in a wide picture never cover each other."""
    spread = [(40.0 + 80 * place, y) for place, (_, y) in enumerate(points)]
    assert_apart(boxes_of(spread, ["abcde"] * len(spread), 700, 220), 700)


@pytest.mark.parametrize(("width", "height", "letters"), [(870.0, 430.0, 24), (268.0, 340.0, 20)])
@example(
    points=[
        (0, 0),
        (0, 0),
        (0, 0),
        (0, 0.25),
        (0, 0.125),
        (0, 0.15625),
        (0, 0.0625),
        (0, 0.03125),
        (0, 0.046875),
        (0, 0.0546875),
        (0, 0.0234375),
        (0.03125, 0.015625),
    ]
)
@given(st.lists(st.tuples(st.floats(0, 0.05), st.floats(0, 0.3)), min_size=12, max_size=12))
def test_labels_of_a_crowd_keep_apart_on_a_screen_and_on_a_phone(
    width: float, height: float, letters: int, points: list[tuple[float, float]]
) -> None:
    """Twelve releases with a guarantee: little risk, less than a third kept."""
    crowd = [(width * risk, height * (1 - kept)) for risk, kept in points]
    assert_apart(boxes_of(crowd, ["a" * letters] * len(crowd), width, height), width)


def test_labels_of_points_in_one_place_are_led_away() -> None:
    places = label_places([(50.0, 50.0)] * 4, ["one", "two", "three", "four"], 300, 300)
    assert len({(each.x, each.y) for each in places}) == 4


def test_words_of_a_line_end_left_of_what_stands_on_it() -> None:
    assert free_right([(10.0, 90.0)], [], 300.0, 100.0) == 300.0
    end = free_right([(290.0, 95.0)], [Box(250.0, 94.0, 300.0, 96.0)], 300.0, 100.0)
    assert end <= 250.0
