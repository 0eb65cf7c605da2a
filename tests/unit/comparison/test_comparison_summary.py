"""A comparison's best releases go by trade-off: the share kept times 1 - risk."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from querycloak.comparison.comparison_summary import ReleaseSummary, Summary, summary_of
from querycloak.comparison.comparison_views import JUDGED, TASK_VIEWS
from tests.canned_comparison import canned


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summary_of(canned(Path()))


def without(summary: Summary, *promises: str) -> Summary:
    """The same comparison without releases of these promises."""
    return replace(summary, releases=tuple(each for each in summary.releases if each.promise not in promises))


def empty(release: ReleaseSummary) -> ReleaseSummary:
    """The same release, had no row come out."""
    tables = {name: {**table, "rows": 0, "examples": []} for name, table in release.tables.items()}
    return replace(release, facts={**release.facts, "examples": tables})


def with_figures(release: ReleaseSummary, share: float, risk: float) -> ReleaseSummary:
    """The same release with this share of every task and this risk of every attack."""
    return replace(
        release,
        tasks={name: replace(kept, share=share, low=share, high=share) for name, kept in release.tasks.items()},
        attacks={
            name: replace(gained, risk=risk, low=risk, high=risk)
            for name, gained in release.attacks.items()
            if gained.risk is not None
        },
    )


def test_the_task_is_one_that_most_can_do(summary: Summary) -> None:
    assert summary.main_task == JUDGED[0]


def test_a_shop_is_not_advised_to_release_everything(summary: Summary) -> None:
    """Kept 98 % at a risk of 99 % loses against 93 % at 7.6 %, for every need."""
    all_out = with_figures(summary.releases[1], 0.98, 0.99)
    sound = with_figures(summary.releases[3], 0.93, 0.076)
    shop = replace(summary, releases=(all_out, sound))
    assert [each.take for each in shop.choices()] == [sound] * len(TASK_VIEWS)
    assert shop.best(shop.main_task, "user") == sound


def test_a_rule_is_named_only_if_its_trade_off_is_better(summary: Summary) -> None:
    choices = {each.task: each for each in summary.choices()}
    take = choices["completion"].take
    assert take is not None
    assert (take.name, choices["completion"].rule) == ("clicks-e8", None)  # affinity keeps more, at a risk of 73 %
    better = with_figures(summary.releases[6], 0.9, 0.1)
    rule = next(replace(summary, releases=(*summary.releases, better)).choices()).rule
    assert rule == better
    nobody = next(each for each in without(summary, "user", "asked").choices() if each.task == "completion")
    assert nobody.take is None


def test_an_empty_release_has_no_risk_and_is_never_taken(summary: Summary) -> None:
    nothing = empty(summary.releases[1])
    assert nothing.is_empty
    assert nothing.worst is None
    assert not summary.releases[1].is_empty


def test_a_share_above_what_the_log_gives_counts_as_100_percent(summary: Summary) -> None:
    release = with_figures(summary.releases[1], 1.4, 0.0)
    assert release.trade_off("completion") == 1.0
    wide = {name: replace(kept, low=0.1, high=2.7) for name, kept in release.tasks.items()}
    assert replace(release, tasks=wide).trade_off("completion") == 0.0


def test_a_release_within_a_sentence(summary: Summary) -> None:
    assert summary.releases[0].in_sentence.replace("\u00a0", " ") == "clicks (ε = 1)"
    assert summary.releases[7].in_sentence.startswith("a-name-that-somebody")


def test_shares_say_what_they_add_to_no_data(summary: Summary) -> None:
    """Completion: no data reaches 20 % of the log, clicks at epsilon 8 keep 31 %, at epsilon 1 they keep 12 %."""
    by_name = {each.name: each.tasks["completion"] for each in (*summary.baselines, *summary.releases) if each.tasks}
    assert by_name["no-data"].share == pytest.approx(0.2)
    assert by_name["no-data"].added is None
    assert by_name["clicks-e8"].added == pytest.approx(0.31 - 0.2)
    assert by_name["clicks-e1"].added == pytest.approx(0.12 - 0.2)
    assert by_name["semantic-e8"].added is None
    assert by_name["clicks-e8"].coverage == pytest.approx(0.6)
    assert summary.releases[1].tasks["loss"].coverage is None


def test_an_attack_whose_interval_is_as_wide_as_the_axis_is_no_finding(summary: Summary) -> None:
    release = summary.releases[1]
    unsure = {name: replace(gained, risk=0.5, low=0.0, high=1.0) for name, gained in release.attacks.items()}
    assert replace(release, attacks=unsure).worst is None
    assert replace(release, attacks=unsure).trade_off(summary.main_task) == 0
    sure = next(name for name, gained in release.attacks.items() if gained.is_finding and release.fits(name))
    worst = replace(release, attacks={**unsure, sure: release.attacks[sure]}).worst
    assert worst is not None
    assert worst.attack == release.attacks[sure].attack
