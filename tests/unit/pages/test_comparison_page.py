"""Sentences of a comparison's page follow from the figures, whatever they are."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from querycloak.comparison.comparison_summary import Summary, summary_of
from querycloak.comparison.comparison_views import ATTACK_VIEWS
from querycloak.methods.eu_records.method import EuRecords
from querycloak.pages.comparison_page import comparison_page, headline, stated_guarantees
from querycloak.pages.comparison_pictures import attacks_picture, tasks_picture, tradeoff
from querycloak.pages.layout import environment
from tests.canned_comparison import canned
from tests.unit.comparison.test_comparison_summary import empty, without


@pytest.fixture(scope="module")
def summary() -> Summary:
    return summary_of(canned(Path()))


def plain(text: str) -> str:
    return html.unescape(str(text)).replace("\u00a0", " ")


LINKED = "of having one's records linked by somebody who learnt from other people's"
SINGLED = "of being singled out by somebody who knows five of one's searches"


def test_the_headline_names_the_best_trade_offs_with_the_attacker_beside_each_risk(summary: Summary) -> None:
    assert plain(headline(summary)) == (
        "With a guarantee, clicks (ε = 8) has the best trade-off: it keeps 31 % of query completion (a rule without "
        f"data: 20 %) at a measured risk of 3.0 % {LINKED}; without one, affinity as published (k = 5) keeps 64 % at a "
        f"risk of 73 % {SINGLED}."
    )


def test_the_headline_of_other_results_is_another(summary: Summary) -> None:
    assert plain(headline(without(summary, "rule", "step"))).endswith(f"at a measured risk of 3.0 % {LINKED}.")
    assert plain(headline(without(summary, "user", "asked"))) == (
        "No release with a guarantee for a user keeps anything of query completion on this log; without one, affinity "
        f"as published (k = 5) keeps 64 % of query completion at a risk of 73 % {SINGLED}."
    )


def test_the_headline_names_an_attacker_once(summary: Summary) -> None:
    (clicks,) = [each for each in summary.releases if each.name == "clicks-e8"]
    words = environment().get_template("comparison_words.html").module
    text = words.at_risk(clicks, ATTACK_VIEWS, "a risk", clicks)  # type: ignore[attr-defined]
    assert plain(text) == " at a risk of 3.0 %"


def test_the_meaning_is_explained_once_for_each_promise(summary: Summary) -> None:
    parts = list(stated_guarantees(summary))
    assert 5 <= len(parts) == len({part.promise for part in parts}) < len(summary.made)
    assert ["clicks-e8", "sessions-e8"] in [[each.name for each in part.releases] for part in parts]
    assert sum(len(part.releases) for part in parts) == len(summary.made)


def test_an_empty_release_has_no_risk_figure(summary: Summary) -> None:
    nothing = empty(summary.releases[0])
    words = environment().get_template("comparison_words.html").module
    text = words.measured(nothing, ATTACK_VIEWS)  # type: ignore[attr-defined]
    assert plain(text) == "clicks (ε = 1): no row came out, so there is nothing to attack."


def test_parts_of_the_page_fold() -> None:
    page = comparison_page(canned(Path()))
    assert page.count('<details class="part"') == page.count("</details></section>") == page.count("<section id=") == 7


def test_a_share_beyond_what_can_be_known_is_no_finding(summary: Summary) -> None:
    kept = summary.releases[1].tasks["completion"]
    assert kept.is_finding
    assert not replace(kept, share=1.4, low=0.2, high=2.9).is_finding


def test_the_page_shows_no_data_and_what_releases_add_to_it(summary: Summary) -> None:
    page = plain(comparison_page(canned(Path())))
    assert page.count('<tr><th scope="row">no data</th>') == 1  # in the table of tasks, not in that of attacks
    assert "answers 60 %, adds +11 %" in page
    assert "answers 60 %, adds \u22128.0 %" in page
    assert "a rule without data: 20 %" in plain(tradeoff(summary).description)
    assert "no data 20 %" in plain(tasks_picture(summary).description)
    assert "no data" not in attacks_picture(summary).description


def test_a_comparison_without_rows_of_no_data_has_a_page() -> None:
    comparison = canned(Path())
    rows = [row for row in comparison.evaluation.to_pylist() if row["release"] != "no-data"]
    older = replace(comparison, evaluation=pa.Table.from_pylist(rows, comparison.evaluation.schema))
    page = plain(comparison_page(older))
    assert '<th scope="row">no data</th>' not in page
    assert "a rule without data" not in page
    assert "a rule without any log" not in page


def test_assumed_numbers_of_a_rule_stand_on_its_card() -> None:
    comparison = canned(Path())
    assert "Assumed by us" not in comparison_page(comparison)
    rule = next(each for each in comparison.about["releases"] if each["method"] == "affinity")
    rule["parameters"] = {**rule["parameters"], **EuRecords(preset="dma-2026").parameters()}
    page = plain(comparison_page(comparison))
    assert "Assumed by us" in page
    assert "min_term_users 50, max_words 10, max_digits 8, mini_session 5, gap_minutes 30, times day: no source" in page
