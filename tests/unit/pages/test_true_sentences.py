"""Sentences of cards, datasheets and pages to sign that were read beside the proof notes and found untrue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.pages.hazards import GUARDED, OPEN, hazards_of
from querycloak.pages.officer_answers import beside_deployments, criteria_of, risks_of
from querycloak.pages.signing_report import headline, report
from querycloak.privacy.calibration.accuracy import Range, TableAccuracy
from querycloak.privacy.explanation import caught_at_most, explain
from querycloak.releases.loading import load_card
from tests.unit.releases.making import CLICKS, LOG, QUERIES, SAMPLING, SESSIONS, SYNTACTIC, a_release

UNCOUNTED = {"queries": QUERIES.drop_columns(["count"])}
MARGIN = {"queries": TableAccuracy("users", Range(3, 3))}
TOPICS = qc.Semantic(epsilon=1, max_queries=2, domain="topics", times="day").proven()
ASKED = qc.Semantic(epsilon=1, max_queries=2).proven()


def hazard(number: int, **fields: Any) -> tuple[str, str]:
    answer = hazards_of(a_release(**fields))[number - 1]
    return answer.answer, answer.reason


def page_of(folder: Path, **fields: Any) -> str:
    a_release(**fields).save(folder / "out")
    return report(folder / "out", folder / "report").private.read_text()


def readme_of(folder: Path, **fields: Any) -> str:
    a_release(**fields).save(folder)
    return (folder / "README.md").read_text()


def test_without_a_limit_no_hazard_about_it_is_guarded() -> None:
    """Units and repeats were said to be guarded by a limit that a rule does not have."""
    for proven in (SYNTACTIC, SAMPLING):
        assert [hazard(number, proven=proven)[0] for number in (3, 4, 18)] == [OPEN] * 3
    assert hazard(9, proven=SYNTACTIC, counts="exact")[1].startswith("querycloak is one implementation. The method")
    assert "No noise is added" in hazard(21, proven=SYNTACTIC, counts="none")[1]
    assert "No noise is added" in hazard(11, proven=SYNTACTIC, counts="exact")[1]


def test_a_rule_about_words_does_not_speak_of_users_of_a_row() -> None:
    assert hazard(10, proven=SYNTACTIC, counts="none", rows="records", tables={"log": LOG}) == (
        OPEN,
        "What people ask in words that few others use is missing. What one person asks in common words comes out.",
    )
    accuracy = qc.EuRecords(preset="ddg-2026").reach()["log"]
    assert accuracy.users50 is None
    assert "also if one person alone asked the query" in accuracy.notes[0]
    assert "fewer than 1 users" not in qc.EuRecords(preset="ddg-2026").proven().because


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"counts": "cells"}, "near the threshold or cut are too high on average"),
        ({"counts": "weighed"}, "right on average except for bounding and for clamping below 1."),
        ({"counts": "weighed", "parameters": {"sequences": "released"}}, "near their cut are too high on average"),
        ({"counts": "synthetic"}, "before totals are bounded and fitted to each other"),
        ({"counts": "fresh-draw", "parameters": {"count_of": "clicks"}}, "clamping below 1"),
    ],
)
def test_bias_of_counts_is_that_of_the_datasheet(fields: dict[str, Any], words: str) -> None:
    assert words in hazard(12, reach=MARGIN, **fields)[1]


def test_keys_beyond_public_lists_are_named_on_the_page() -> None:
    parameters = {"off_pool": True, "clicks": "threshold"}
    answer = hazard(14, counts="public-keys", parameters=parameters)
    assert answer[0] == GUARDED
    assert answer[1].startswith("Rows of queries outside the pool and clicks come from the log")
    assert hazard(14, counts="public-keys")[1].startswith("Every row comes from public lists")
    assert hazard(14, counts="synthetic")[1].startswith("Rows are made up from noisy counts")


def test_a_made_up_log_is_drawn_from_a_model() -> None:
    assert "drawn from a model" in hazard(15, counts="synthetic", rows="composed", tables={"log": LOG})[1]
    assert hazard(15)[1] == "No model is trained or released."
    seeded = hazard(15, counts="synthetic", rows="composed", tables={"log": LOG}, seeded=True)
    assert seeded == hazard(16, counts="synthetic", rows="composed", tables={"log": LOG}, seeded=True)
    assert seeded[0] == OPEN


def test_the_topic_and_the_day_of_searches_come_out_exactly() -> None:
    release = a_release(proven=TOPICS, rows="replaced", counts="none", tables={"log": LOG.drop_columns(["count"])})
    for fact in ("they are in the log", "how often they searched (up to 2)", "topic of each search", "day of every"):
        assert fact in headline(release).partition("; ")[2]
    assert "the topic of each search" in hazards_of(release)[2].reason
    assert "or for quite others of the same topics" in explain(TOPICS)
    assert "of the same topics" not in explain(ASKED)
    assert beside_deployments(release) is None  # their unit is another one
    assert beside_deployments(a_release()) is not None


@pytest.mark.parametrize(
    ("fields", "filtered", "words"),
    [
        ({}, True, "noise and threshold decide what comes out, and a filter looks for patterns"),
        ({}, False, "noise and threshold decide what comes out; no filter looked for patterns"),
        ({"counts": "public-keys"}, True, "nothing but texts of public lists can come out, and a filter"),
        ({"proven": ASKED, "rows": "replaced", "tables": {"log": LOG}}, True, "every text is a label"),
        ({"proven": ASKED, "rows": "randomised", "tables": {"log": LOG}}, True, "noise and threshold decide"),
        ({"proven": SYNTACTIC}, True, "the method's rule, and a filter"),
    ],
)
def test_measures_against_a_text_are_those_of_the_release(fields: dict[str, Any], filtered: bool, words: str) -> None:
    risks = risks_of(a_release(**fields), criteria_of([]), filtered=filtered)
    assert next(each.measure for each in risks if each.risk.startswith("A text")).startswith(words)


def test_the_page_claims_no_attack_and_no_limit_that_is_not_there(tmp_path: Path) -> None:
    for name in ("limited", "rule", "seeded"):
        (tmp_path / name).mkdir()
    limited = page_of(tmp_path / "limited")
    assert "holds for everybody in the log, whatever else an attacker knows; no attack is stated here." in limited
    assert "no row is theirs beyond that limit" in limited
    assert "Why the guarantee holds: " in limited
    assert "(epsilon 1.68, delta 0, user and day)" in limited
    rule = page_of(tmp_path / "rule", proven=SYNTACTIC, counts="exact")
    assert "no limit holds for one person, and no attack is stated here." in rule
    assert "make it again without the person and withdraw this one" in rule
    assert "The rule: five users ask it." in rule
    seeded = page_of(tmp_path / "seeded", seeded=True)
    assert "no limit holds for one person" in seeded
    assert "none: the noise came from a seed" in seeded


def test_the_curve_of_a_card_is_the_smaller_of_both_bounds(tmp_path: Path) -> None:
    """A large squared loss said 97 % where epsilon and delta allow 55 %."""
    cost = {"squared_loss": 17.3, "own_keys": 0.0, "exceptions": 1e-5, "additive_delta": 1e-5}
    a_release(gaussian_dp=cost).save(tmp_path / "wide")
    a_release(gaussian_dp={**cost, "squared_loss": 0.25}).save(tmp_path / "narrow")
    wide, narrow = (dict(map(tuple, load_card(tmp_path / name)["trade_off"])) for name in ("wide", "narrow"))
    assert wide[0.01] == pytest.approx(caught_at_most(0.01, 2.0, 1e-7), abs=2e-6)
    assert narrow[0.01] == pytest.approx(0.0339, abs=1e-3)  # Phi(Phi^-1(0.01) + 0.5)


def test_who_appears_is_said_only_where_rows_are_drawn(tmp_path: Path) -> None:
    chance = "is the chance that a user of the log appears"
    assert chance in readme_of(tmp_path / "drawn", proven=SAMPLING)
    paper = qc.Semantic(epsilon=8, variant="paper").proven()
    assert chance not in readme_of(tmp_path / "rebuilt", proven=paper, counts="none", rows="rebuilt", tables=UNCOUNTED)


def test_pairs_of_released_queries_are_read_as_such(tmp_path: Path) -> None:
    tables = {"clicks": CLICKS, "sessions": SESSIONS}
    words = "their counts near the cut are too high on average"
    released = {"parameters": {"sequences": "released"}, "counts": "weighed", "tables": tables}
    assert words in readme_of(tmp_path / "released", **released)
    assert words not in readme_of(tmp_path / "selected", counts="weighed", tables=tables)


def test_tables_of_views_and_cells_say_how_they_were_made(tmp_path: Path) -> None:
    """Their numbers stand in columns of other names than `count`."""
    cells = pa.table({"country": ["fr"], "searches": pa.array([4]), "users": pa.array([3])})
    text = readme_of(tmp_path / "cells", counts="cells", tables={"cells": cells})
    assert "all cells are here" in text
    assert "Keys were selected first" not in text


def test_limits_of_use_are_those_of_the_rows(tmp_path: Path) -> None:
    rare, volumes = "Rare queries: what few people asked is missing", "Absolute volumes: what one person adds"
    counted = readme_of(tmp_path / "counted")
    assert rare in counted
    assert volumes in counted
    log = {"log": LOG.drop_columns(["count"])}
    records = readme_of(tmp_path / "records", proven=SYNTACTIC, counts="none", rows="records", tables=UNCOUNTED)
    assert rare not in records
    assert volumes not in records
    reused = readme_of(tmp_path / "reused", proven=ASKED, counts="none", rows="replaced", tables=log)
    assert volumes not in reused
    bounded = {"max_queries": 2}
    assert volumes in readme_of(
        tmp_path / "some", proven=ASKED, counts="none", rows="replaced", tables=log, parameters=bounded
    )


def test_levels_of_phrases_add_up_their_rows_of_one_person() -> None:
    """Each level has a part of delta, and the sentence is about the table."""
    method = qc.Phrases(epsilon=4, delta=1e-5, selection="multi-round")
    (sentence,) = [each for each in method.reach()["phrases"].notes if each.startswith("Rows that only one person has")]
    all_levels = 1e6 * sum(plan.rows_of_one_user for plan in method.plans.values())
    assert float(sentence.split("at most ")[1].split()[0]) == pytest.approx(all_levels, rel=0.01)


def test_a_clamped_count_is_said_to_be_null() -> None:
    for method in (
        qc.Clicks(epsilon=1, delta=1e-6, selection="weighted"),
        qc.Clicks(epsilon=1, delta=1e-6, count_of="clicks"),
    ):
        assert method.reach()["clicks"].counts.endswith("and null if that is below 1")


def test_spurious_rows_are_not_denied_where_every_row_is_listed() -> None:
    method = qc.Clicks(epsilon=4, delta=1e-5, views=True)
    accuracy = method.reach()
    assert accuracy["positions"].spurious is None
    assert "Ranks 1 to 20 are listed" in accuracy["positions"].notes[0]
    assert "its margin is 1.42 times" in accuracy["positions"].notes[1]
    assert any(note.startswith("A user with more than 64 cells") for note in accuracy["clicks"].notes)


def test_what_was_done_to_the_log_is_what_the_tables_show(tmp_path: Path) -> None:
    """Cells were said to lack what too few people asked, and so were pairs that one person alone brings out."""
    cells = {"cells": pa.table({"country": ["de"], "searches": pa.array([3]), "users": pa.array([2])})}
    text = readme_of(tmp_path / "cells", tables=cells)
    assert "numbers of searches and users by attribute, with noise, and no query" in text
    assert "Queries: no table has any." in text
    assert "Rare queries" not in text
    claimed = qc.QueryPool(variant="paper", epsilon=1).claimed()
    text = readme_of(tmp_path / "pool", proven=SYNTACTIC, claimed=claimed)
    assert "what one person alone did with a query that is here can come out" in text
    text = readme_of(tmp_path / "noised", rows="noised", tables={"log": LOG})
    assert "concepts with noisy numbers stand in their place" in text
    assert "all rows under it are one person's" in text
    assert "of nobody in the log" in readme_of(tmp_path / "made up", rows="made-up", tables={"log": LOG})
