"""Carpineto and Romano (2015): laws of Figures 5 to 7 and Table 4 on a synthetic log; other tables counted by hand."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from querycloak.engines import Engine
from querycloak.logs.searchlog import read
from querycloak.reproduction.carpineto2015_figures import AffinityFigures, affinity_figures, affinity_tables
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
    assert 0 < kinds["vertices"] < kinds["expandable"]


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
