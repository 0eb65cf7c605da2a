"""Tables 1, 2, 3 and 5 of Carpineto and Romano on logs that one can count by hand."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from querycloak.engines import Engine
from querycloak.logs.searchlog import read
from querycloak.reproduction.affinity_tables import affinity_tables
from tests.evaluated import Asked, write_rows

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
