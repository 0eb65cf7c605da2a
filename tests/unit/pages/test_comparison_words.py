"""What a comparison's page says follows from the figures, whatever they are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.comparison.comparison_summary import Summary, summary_of
from querycloak.comparison.comparison_views import JUDGED
from querycloak.pages.budget_curves import curves
from querycloak.pages.comparison_pictures import Box, attacks_told, label_places, missing_in_tradeoff, tradeoff
from querycloak.pages.comparison_words import choices, for_one_person, headline, said
from tests.canned_comparison import canned


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summary_of(canned(Path()))


def without(summary: Summary, *promises: str) -> Summary:
    """The same comparison without releases of these promises."""
    return replace(summary, releases=tuple(each for each in summary.releases if each.promise not in promises))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_the_headline_names_the_best_of_both_kinds_with_their_figures(summary: Summary) -> None:
    assert plain(headline(summary)) == (
        "With a guarantee, clicks (ε = 8) keeps 31 % of query completion at a measured risk of 3.0 %; without one, "
        "affinity as published (k = 5) keeps 64 % at a risk of 73 %."
    )


def test_the_headline_of_other_results_is_another(summary: Summary) -> None:
    assert plain(headline(without(summary, "rule", "step"))) == (
        "With a guarantee, clicks (ε = 8) keeps 31 % of query completion at a measured risk of 3.0 %."
    )
    assert plain(headline(without(summary, "user", "asked"))) == (
        "No release with a guarantee for a user keeps anything of query completion on this log; without one, affinity "
        "as published (k = 5) keeps 64 % of query completion at a risk of 73 %."
    )


def test_the_picture_is_about_the_task_that_most_can_do(summary: Summary) -> None:
    assert summary.main_task == JUDGED[0]
    assert [each.name for each in missing_in_tradeoff(summary)] == ["semantic-e8"]
    told = tradeoff(summary).description
    assert plain(told).startswith("the log itself: 100 % kept, risk 100 %; clicks, ε = 1: 12 % kept, risk 1.0 %")


def test_attacks_that_nobody_could_run_are_not_shown(summary: Summary) -> None:
    assert "linkage-periods" not in attacks_told(summary)
    assert "singling-out" in attacks_told(summary)


def test_one_budget_has_no_curve(summary: Summary) -> None:
    assert [each.name for each in curves(summary)] == ["budgets", "volumes"]
    one = replace(summary, releases=tuple(each for each in summary.releases if each.epsilon == 8.0))
    assert curves(one) == []


def test_what_it_means_is_said_once_for_each_promise(summary: Summary) -> None:
    parts = list(for_one_person(summary))
    assert 5 <= len(parts) == len({part.promise for part in parts}) < len(summary.made)
    together = next(part for part in parts if "clicks (ε\u00a0=\u00a08)" in part.title)
    assert plain(together.title) == "clicks (ε = 8) and sessions (ε = 8)"
    assert len(together.measured) == 2
    assert sum(len(part.measured) for part in parts) == len(summary.made)


def test_what_to_choose_is_what_keeps_most_and_a_rule_only_if_it_keeps_more(summary: Summary) -> None:
    found = {each.task: each for each in choices(summary)}
    take, beside = found["completion"].take, found["completion"].beside
    assert take is not None
    assert beside is not None
    assert (take.name, beside.name) == ("clicks-e8", "affinity-k5-paper")
    assert found["profiles"].beside is None  # all keep the same
    nobody = next(each for each in choices(without(summary, "user", "asked")) if each.task == "completion")
    assert nobody.take is None


def test_a_release_within_a_sentence(summary: Summary) -> None:
    assert plain(said(summary.releases[0])) == "clicks (ε = 1)"
    assert said(summary.releases[7]).startswith("a-name-that-somebody")


@given(st.lists(st.tuples(st.floats(0, 300), st.floats(0, 200)), min_size=1, max_size=7))
def test_labels_keep_apart_where_there_is_room(points: list[tuple[float, float]]) -> None:
    """Short labels of few points in a wide picture never cover each other."""
    spread = [(40 + 80 * place, y) for place, (_, y) in enumerate(points)]
    places = label_places(spread, ["abcde"] * len(spread), 700, 220)
    boxes = [Box(each.x, each.y - 7, each.x + 5 * 6.4, each.y + 7) for each in places]
    for number, box in enumerate(boxes):
        assert all(box.overlap(other) == 0 for other in boxes[number + 1 :])
        assert box.left >= 0
        assert box.right <= 700


def test_labels_of_points_in_one_place_are_led_away() -> None:
    places = label_places([(50.0, 50.0)] * 4, ["one", "two", "three", "four"], 300, 300)
    assert len({(each.x, each.y) for each in places}) == 4
