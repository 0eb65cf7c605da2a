"""Three readings, means over cases and over users, intervals and tests: by hand, and against plain resampling."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy.stats import ttest_rel

from querycloak.evaluation.aggregations import (
    NO_ANSWER,
    NO_CASES,
    RESAMPLES,
    SEED,
    RowLabel,
    intervals,
    p_value,
    rows_of,
)
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.rank_measures import RANK_MEASURES
from querycloak.evaluation.task import CaseScores

NAN = float("nan")
ABOUT = RowLabel("mine", None, "task")


def case_scores(values: ArrayLike, users: ArrayLike, **more: object) -> CaseScores:
    return CaseScores(RANK_MEASURES["P@5"], np.asarray(values, float), np.asarray(users, np.int64), **more)  # type: ignore[arg-type]


def rows(ours: CaseScores, theirs: CaseScores, users: int = 3) -> dict[tuple[str | None, str], Row]:
    return {(row.slice, row.reading): row for row in rows_of(ABOUT, [ours], [theirs], users)}


def interval(row: Row) -> list[float | None]:
    return [row.low, row.high]


def test_by_hand() -> None:
    """User 0 has cases .2, unanswered and .4, user 1 has .6; the original has .1, .5, .3, .2."""
    users = [0, 0, 0, 1]
    found = rows(case_scores([0.2, NAN, 0.4, 0.6], users), case_scores([0.1, 0.5, 0.3, 0.2], users))
    assert found[None, "answered"].value == pytest.approx(1.2 / 3)
    assert found[None, "all"].value == pytest.approx(1.2 / 4)
    assert found[None, "common"].value == pytest.approx(0.6 / 3)
    assert found[None, "common"].difference == pytest.approx(0.2)
    assert found["difference", "common"].value == pytest.approx(0.2)
    assert found["over=users", "answered"].value == pytest.approx((0.3 + 0.6) / 2)
    assert found["over=users", "all"].value == pytest.approx((0.2 + 0.6) / 2)
    assert found["over=users", "common"].value == pytest.approx((0.2 + 0.2) / 2)
    assert found["over=users", "common"].difference == pytest.approx((0.1 + 0.4) / 2)
    assert all((row.cases, row.answered) == (4, 3) for row in found.values())
    assert found[None, "answered"].difference is None
    expected = ttest_rel([0.3, 0.6], [0.2, 0.2]).pvalue
    assert found[None, "common"].p_value == found["over=users", "common"].p_value == pytest.approx(expected)


def test_a_unit_is_answered_if_one_of_its_scores_is() -> None:
    ours = case_scores([0.2, NAN, NAN, NAN], [0, 0, 1, 1], units=np.array([5, 5, 7, 8]))
    found = rows(ours, case_scores([0, 0, 0, 0], [0, 0, 1, 1]))
    assert (found[None, "all"].cases, found[None, "all"].answered) == (3, 1)
    assert found[None, "all"].value == pytest.approx(0.05)


def test_pooled_cases_have_weights_and_no_users() -> None:
    ours = case_scores([0.2, 0.8], [0, 1], slice="weight=clicks", weights=np.array([3.0, 1.0]), pooled=True)
    found = rows(ours, case_scores([0.0, 0.4], [0, 1]), 99)
    assert found["weight=clicks", "answered"].value == pytest.approx((0.6 + 0.8) / 4)
    assert found["weight=clicks,difference", "common"].value == pytest.approx((0.6 + 0.4) / 4)
    assert not [part for part, _ in found if part and "users" in part]


def test_no_hits_in_n_users_is_up_to_three_in_n() -> None:
    users = np.arange(10)
    found = rows(case_scores(np.zeros(10), users), case_scores(np.zeros(10), users), 10)
    assert interval(found[None, "answered"]) == pytest.approx([0.0, 0.3])
    assert interval(found["difference", "common"]) == pytest.approx([-0.3, 0.3])
    assert found[None, "common"].p_value == 1.0
    few = rows(case_scores([0.0], [0]), case_scores([0.0], [0]), 1)
    assert (few[None, "all"].low, few[None, "all"].high) == (0.0, 1.0)


def test_hits_everywhere_is_down_to_one_less_three_in_n() -> None:
    users = np.arange(10)
    found = rows(case_scores(np.ones(10), users), case_scores(np.zeros(10), users), 10)
    assert interval(found[None, "answered"]) == pytest.approx([0.7, 1.0])


def test_without_answers_or_cases_there_is_a_reason() -> None:
    found = rows(case_scores([NAN, NAN], [0, 1]), case_scores([0.5, 0.5], [0, 1]))
    assert (found[None, "answered"].value, found[None, "answered"].why) == (None, NO_ANSWER)
    assert found[None, "all"].value == 0.0
    assert found[None, "all"].why is None
    nothing = rows(case_scores([], []), case_scores([], []))
    assert {(row.value, row.why) for row in nothing.values()} == {(None, NO_CASES)}
    pooled = case_scores([], [], pooled=True)
    assert {(row.value, row.why) for row in rows(pooled, pooled).values()} == {(None, NO_CASES)}


@given(st.lists(st.tuples(st.integers(0, 6), st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
def test_the_mean_lies_in_its_interval_and_the_original_differs_from_itself_by_nothing(
    given: list[tuple[int, float, float]],
) -> None:
    users, ours, theirs = (np.array(column) for column in zip(*given, strict=True))
    found = rows(case_scores(ours, users), case_scores(theirs, users), 7)
    same = rows(case_scores(ours, users), case_scores(ours, users), 7)
    assert same["difference", "common"].value == 0
    for row in found.values():
        assert row.value is not None
        assert row.low is None or row.high is None or row.low <= row.high


def test_intervals_are_those_of_plain_resampling() -> None:
    generator = np.random.default_rng(8)
    sums, numbers = generator.random(40), generator.integers(0, 4, 40).astype(float)
    (low, high), (other_low, _) = intervals([sums, numbers], [numbers, np.ones(40)])
    drawing = np.random.default_rng(SEED)
    means, others = [], []
    for _ in range(RESAMPLES):
        drawn = drawing.integers(40, size=40)
        means.append(sums[drawn].sum() / numbers[drawn].sum())
        others.append(numbers[drawn].mean())
    assert (low, high) == pytest.approx(tuple(np.quantile(means, [0.025, 0.975])), rel=1e-5)
    assert other_low == pytest.approx(np.quantile(others, 0.025), rel=1e-5)


def test_an_interval_covers_as_often_as_it_says() -> None:
    """Of 300 logs of 60 users with 1 to 9 cases each, about 95 % of intervals hold the true mean."""
    generator = np.random.default_rng(5)
    covered = 0
    for _ in range(300):
        cases = generator.integers(1, 10, 60)
        own = np.clip(generator.normal(0.3, 0.1, 60), 0, 1)  # users differ, so cases of one user are alike
        hits = generator.binomial(cases, own).astype(float)
        [(low, high)] = intervals([hits], [cases.astype(float)])
        covered += low <= 0.3 <= high
    assert 265 <= covered <= 298


def test_users_drawn_from_all_of_test_even_those_without_a_case() -> None:
    found = rows(case_scores([0.0, 1.0], [0, 1]), case_scores([0.0, 0.0], [0, 1]), 50)
    assert found[None, "answered"].low == 0.0
    assert found[None, "answered"].high == 1.0


def test_p_values() -> None:
    assert p_value(np.array([0.5])) is None
    assert p_value(np.zeros(5)) == 1.0
    one, other = np.array([0.1, 0.5, 0.2, 0.9]), np.array([0.0, 0.4, 0.3, 0.1])
    assert p_value(one - other) == pytest.approx(ttest_rel(one, other).pvalue)
