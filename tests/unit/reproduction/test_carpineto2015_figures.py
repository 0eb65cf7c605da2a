"""Carpineto and Romano (2015): laws of Figures 5 to 7 and Table 4 on a synthetic log; other tables counted by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from querycloak.engines import Engine
from querycloak.logs.searchlog import read
from querycloak.reproduction.carpineto2015_exhibits import figure_5, figure_6, figure_7
from querycloak.reproduction.carpineto2015_figures import AffinityFigures, affinity_figures, affinity_tables
from querycloak.reproduction.carpineto2015_printed import (
    DISTINCT,
    SECTION_3_2,
    SECTION_5,
    TABLE_1,
    TABLE_2,
    section_3_2,
    section_5,
)
from querycloak.reproduction.workbench import Workbench
from querycloak.synthetic.log_writer import synthesize
from tests.evaluated import Asked, write_rows


@pytest.fixture(scope="module")
def figures(tmp_path_factory: pytest.TempPathFactory) -> AffinityFigures:
    path = tmp_path_factory.mktemp("figures") / "log.tsv"
    synthesize(path, 1200, workers=1)
    sensitive = pq.read_table(Path(f"{path}.truth") / "sensitive.parquet")
    with read(path) as log:
        return affinity_figures(log, sensitive=sensitive, concept_users=4)


def test_lower_theta_releases_more_and_plain_k_anonymity_least(figures: AffinityFigures) -> None:
    """From k = 2 on, whatever k users asked is safe and protects itself; a lower theta only adds edges."""
    assert figures.ks[0] == 1
    equal, high, low = (figures.figure_5a[name] for name in ("EQ", "AFF 0.9", "AFF 0.8"))
    assert all(a <= b <= c for a, b, c in zip(equal[1:], high[1:], low[1:], strict=True))
    assert high[1] > 1.5 * equal[1]
    for curve in (*figures.figure_5a.values(), *figures.figure_5b.values(), *figures.sensitive_released.values()):
        assert curve == sorted(curve, reverse=True)
    assert equal[0] == 1


def test_ncp_grows_with_k_and_is_a_share(figures: AffinityFigures) -> None:
    assert set(figures.figure_7) == {"EQ", "AFF 0.9", "AFF 0.8", "WNGEN"}
    for name, curve in figures.figure_7.items():
        assert all(0 <= value <= 1 for value in curve)
        if name != "WNGEN":
            assert curve == sorted(curve)
    # Splitting further never makes a concept more general, so WNGEN loses more as k grows, too.
    assert figures.figure_7["WNGEN"][1] <= figures.figure_7["WNGEN"][-1]


def test_f_and_table_4_use_the_labels(figures: AffinityFigures) -> None:
    assert set(figures.figure_6) == {"beta 1", "beta 0.1"}
    for curves in figures.figure_6.values():
        assert set(curves) == {"EQ", "AFF 0.9", "AFF 0.8"}
        assert all(0 <= value <= 1 for curve in curves.values() for value in curve)
    assert figures.table_4
    for row in figures.table_4:
        assert max(row["EQ"], row["AFF 0.9"], row["AFF 0.8"]) >= 2
        assert row["AFF 0.9"] <= row["AFF 0.8"]
    said = json.loads(json.dumps(figures.to_json()))
    assert said["private"] is True
    kinds = figures.queries
    assert kinds["distinct"] == kinds["expandable"] + kinds["without concepts"] + kinds["with a word of too few users"]
    assert 0 < kinds["vertices"] < kinds["expandable"] < kinds["expandable, searches"]
    assert kinds["of the user"] > 0


def test_without_labels_there_is_no_figure_6(tmp_path: Path) -> None:
    synthesize(tmp_path / "log.tsv", 60, workers=1, truth=False)
    with read(tmp_path / "log.tsv") as log:
        made = affinity_figures(log, thetas=(0.9,), ks=(1, 2, 5), concept_users=3)
    assert (made.figure_5b, made.figure_6, made.table_4, made.sensitive_released) == ({}, {}, [], {})
    assert list(made.figure_5a) == ["EQ", "AFF 0.9"]


# Three users; "hot dog stand" is asked by all, so its n-grams are frequent where two users are needed.
ROWS: list[Asked] = [
    ("a", 1, "hot dog stand", None, None),
    ("a", 2, "hot dog stand", None, None),
    ("b", 1, "hot dog stand", None, None),
    ("c", 1, "hot dog stand", None, None),
    ("a", 3, "qwzx", None, None),
    ("b", 2, "red tulip", None, None),
    ("c", 2, "one two three four five six", None, None),
]


@pytest.fixture
def tables(duckdb_engine: Engine, tmp_path: Path) -> dict[str, object]:
    return affinity_tables(read(write_rows(tmp_path / "log.parquet", ROWS), engine=duckdb_engine), concept_users=2)


def test_lengths_count_distinct_queries_and_searches(tables: dict[str, object]) -> None:
    assert tables["table_1"] == [
        {"words": 1, "queries": 1, "searches": 1},
        {"words": 2, "queries": 1, "searches": 1},
        {"words": 3, "queries": 1, "searches": 4},
        {"words": 5, "queries": 1, "searches": 1},  # six words are five or more
    ]


def test_n_grams_are_counted_unique_with_repetitions_and_frequent(tables: dict[str, object]) -> None:
    assert tables["users"] == 3
    found = [tuple(row.values()) for row in tables["table_2"]]  # type: ignore[attr-defined]
    # Words: 3 + 1 + 2 + 6 distinct, 4 x 3 + 1 + 2 + 6 in all; pairs: 2 + 1 + 5, 4 x 2 + 1 + 5; triples: 1 + 4, 4 + 4.
    assert found == [(1, 12, 21, 3, 12), (2, 8, 14, 2, 8), (3, 5, 8, 1, 4)]


def test_scores_are_mutual_information(tables: dict[str, object]) -> None:
    """Equation 2: log2(P_xy / (P_x P_y) + 1), P the share among n-grams of that length."""
    score = math.log2((4 / 14) / ((4 / 21) * (4 / 21)) + 1)
    bigrams = tables["table_3"]["bigrams"]  # type: ignore[index]
    assert [row["words"] for row in bigrams] == ["dog stand", "hot dog"]
    assert bigrams[0]["score"] == pytest.approx(score, abs=1e-3)
    assert [row["words"] for row in tables["table_3"]["trigrams"]] == ["hot dog stand"]  # type: ignore[index]


def test_every_query_has_one_place_in_the_partition(tables: dict[str, object]) -> None:
    rows = {row["concept"]: row["queries"] for row in tables["table_5"]}  # type: ignore[attr-defined]
    assert sum(rows.values()) == 4
    assert rows["entity"] == 1  # qwzx is no word
    assert {"physical entity", "abstraction", "object", "psychological feature"} <= set(rows)
    assert rows["physical entity"] == rows["abstraction"] == 0


def test_words_of_examples_are_counted_whole(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Section 5: searches with the word, users of the query, users of a word; visas and revisa are other words."""
    rows: list[Asked] = [
        ("a", 1, "visa", None, None),
        ("a", 2, "visa", None, None),
        ("b", 1, "visa card", None, None),
        ("b", 2, "visas", None, None),
        ("c", 1, "nokia 2651 case", None, None),
        ("c", 2, "2651", None, None),
    ]
    log = read(write_rows(tmp_path / "log.parquet", rows), engine=duckdb_engine)
    assert affinity_tables(log, concept_users=2)["section_5"] == dict(zip(SECTION_5, (3, 1, 1), strict=True))


def bench(people: int | None) -> Workbench:
    return Workbench(None, None, True, people)  # type: ignore[arg-type]


def test_section_3_2_is_judged_on_the_log_given_alone() -> None:
    alone = DISTINCT - SECTION_3_2["without concepts"] - SECTION_3_2["expandable"]
    printed = {**SECTION_3_2, "distinct": DISTINCT, "with a word of too few users": alone}
    made = section_3_2(bench(None), printed)
    assert made.verdict == "agrees"
    assert "50% of our 10,154,742 distinct queries are expanded, 50% in the paper" in made.statement
    assert "21% have a concept and a word of one user, 21% in the paper" in made.statement
    assert "The printed number of concepts is the sum" in made.statement
    assert section_3_2(bench(None), {**printed, "concepts": 61_000}).verdict == "agrees in part"
    assert section_3_2(bench(None), {name: 3 * count for name, count in printed.items()}).verdict == "differs"
    assert section_3_2(bench(20_000), printed).verdict == "not comparable"


def test_section_5_compares_k_at_the_same_share() -> None:
    figures = {"ks": (1, 2, 3, 80, 100), "figure_5a": {"EQ": [1, 0.2, 0.1, 0, 0], "AFF 0.9": [1, 0.3, 0.2, 0.1, 0]}}
    assert section_5(bench(None), figures, SECTION_5).verdict == "agrees"
    assert section_5(bench(None), figures, dict.fromkeys(SECTION_5, 0)).verdict == "agrees in part"
    turned = {**figures, "figure_5a": {"EQ": figures["figure_5a"]["AFF 0.9"], "AFF 0.9": figures["figure_5a"]["EQ"]}}  # type: ignore[index]
    assert section_5(bench(20_000), turned, SECTION_5).verdict == "differs"
    assert "3 by affinity, which is not higher" in section_5(bench(20_000), turned, SECTION_5).statement


def test_printed_n_grams_follow_from_printed_lengths() -> None:
    """Tables 1 and 2: a query of n words has n - 1 pairs, and n - 2 triples if it has two words or more."""
    searches = [count for _, count in TABLE_1.values()]
    words, pairs, triples = (TABLE_2[length][1] for length in (1, 2, 3))
    assert pairs == words - sum(searches)
    assert triples == pairs - sum(searches[1:])
    assert sum(each[2] for each in TABLE_2.values()) == SECTION_3_2["concepts"]


def test_f_at_every_k_says_where_equality_is_ahead(figures: AffinityFigures) -> None:
    """At k = 1 equality releases all, so F_1 is higher than affinity's; a claim that failed at a k does not hold."""
    made = {**figures.to_json(), "labelled": True}
    exhibit = figure_6(bench(1200), made)
    assert "AFF above EQ at every k from 2 on, beta 1" in exhibit.statement
    assert "At k = 1 equality releases all and is ahead" in exhibit.statement
    worse = {beta: {**curves, "AFF 0.9": curves["EQ"]} for beta, curves in figures.figure_6.items()}
    assert figure_6(bench(1200), {**made, "figure_6": worse}).verdict == "agrees in part"
    few = {**made, "figure_5b": {name: [0.5] * len(figures.ks) for name in figures.figure_5a}}
    few["queries"] = {**figures.queries, "of the user": 20}
    assert figure_5(bench(1200), few)[1].verdict == "cannot tell"
    few["queries"] = {**figures.queries, "of the user": 224}
    assert figure_5(bench(1200), few)[1].verdict == "agrees"  # closer than over all queries


def test_a_generalisation_that_loses_more_than_equality_is_seen(figures: AffinityFigures) -> None:
    """Section 4.4.2: WNGEN is below equality at all k, and nearly stable."""
    made = figures.to_json()
    stable = {**made["figure_7"], "WNGEN": [0.71] * len(figures.ks)}
    right = figure_7(bench(1200), {**made, "figure_7": stable}).statement.partition(" Does not hold: ")[0]
    assert "WNGEN's loss is nearly stable" in right
    worse = {**made["figure_7"], "WNGEN": [min(1.0, 0.5 + 0.2 * place) for place in range(len(figures.ks))]}
    wrong = figure_7(bench(1200), {**made, "figure_7": worse}).statement.partition("Does not hold: ")[2]
    assert "WNGEN loses no more than equality" in wrong
    assert "WNGEN's loss is nearly stable" in wrong
