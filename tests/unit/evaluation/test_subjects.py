"""The baseline `no-data`: what a rule without any log reaches, by hand and against loops."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import querycloak as qc
from querycloak.engines import Engine
from querycloak.evaluation.evaluation import Evaluation
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.subjects import NO_USERS, NOT_OF_USERS, NOTHING, UNKNOWN, with_guesses, without_a_word
from querycloak.evaluation.task import TASKS
from querycloak.logs.choices import Choices
from querycloak.text.english import public_phrases
from tests.evaluated import Asked, open_rows, write_rows

TRAIN: list[Asked] = [
    ("a", 0, "blorptex", "http://www.blorptex.com", 1),
    ("b", 0, "blorptex", "http://www.blorptex.com", 1),
    ("c", 0, "the", None, None),
]
# Sessions: red big car > big car > car; the; blorptex tools.
TEST: list[Asked] = [
    ("x", 0, "red big car", None, None),
    ("x", 60, "big car", None, None),
    ("x", 120, "car", None, None),
    ("y", 0, "blorptex tools", "http://www.blorptextools.com", 1),
    ("y", 10_000, "blorptex tools", "http://other.org", 2),
    ("z", 0, "the", None, None),
]


@pytest.fixture(scope="module")
def evaluated(duckdb_engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Evaluation:
    folder = tmp_path_factory.mktemp("sides")
    train = open_rows(duckdb_engine, folder / "train.parquet", TRAIN)
    return qc.evaluate(train, open_rows(duckdb_engine, folder / "test.parquet", TEST), [])


def row(evaluated: Evaluation, task: str, measure: str, part: str | None = None, reading: str = "all") -> Row:
    wanted = ("no-data", task, measure, part, reading)
    [only] = [
        each for each in evaluated.rows if (each.release, each.task, each.measure, each.slice, each.reading) == wanted
    ]
    return only


def test_every_task_has_rows_without_data(evaluated: Evaluation) -> None:
    own = [each for each in evaluated.rows if each.release == "no-data"]
    assert list(dict.fromkeys(each.task for each in own)) == list(TASKS)
    assert all(each.digest is None for each in own)
    assert all((each.value is None) == (each.why is not None) for each in own)


def test_a_word_less_is_a_suggestion(evaluated: Evaluation) -> None:
    """Prefixes end in `red big car` (true: big car, car) and `big car` (true: car)."""
    recall = row(evaluated, "suggestion", "R@5")
    assert recall.value == pytest.approx((1 / 2 + 1) / 2)
    assert (recall.cases, recall.answered) == (1, 1)
    assert row(evaluated, "suggestion", "P@5").value == pytest.approx(1 / 5)


def test_an_address_made_from_the_query_is_found(evaluated: Evaluation) -> None:
    for task in ("retrieval-walk", "retrieval-feedback"):
        assert row(evaluated, task, "P@5").value == pytest.approx(1 / 10)  # one of two searches, first of five
        assert row(evaluated, task, "nDCG@10").value == pytest.approx(1 / 2)
        assert row(evaluated, task, "nDCG@10").answered == 2
    assert row(evaluated, "ranking", "tau-b").why is not None  # both urls were clicked once


def test_an_address_that_was_typed_stays_one(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", TRAIN)
    typed = ["new york times", "www.some.org", "http://www.some.org", "some.net", "v1.0 manual", "www.some"]
    table = with_guesses(pa.table({"query": typed, "count": [1] * len(typed)}), log)
    names = ["newyorktimes.com", "some.org", "some.org", "some.net", "v1.0manual.com", "some.com"]
    assert table["url"].to_pylist() == [f"http://www.{name}" for name in names]


def test_public_phrases_complete_what_is_typed(evaluated: Evaluation) -> None:
    """`the` is the most frequent of all that begin with one letter of it or two; the longer ones are no phrases."""
    phrases = {each["phrase"]: each["count"] for each in public_phrases().to_pylist()}
    asked = ["red big car", "big car", "car", "blorptex tools", "the"]
    assert [each in phrases for each in asked] == [False, False, True, False, True]
    one = row(evaluated, "completion", "RR@10")
    assert one.cases == 5
    assert one.value is not None
    assert one.value >= 1 / 5


def test_tables_of_public_phrases_beside_train(evaluated: Evaluation) -> None:
    assert row(evaluated, "counts", "key_share", "table=queries").value == pytest.approx(1 / 2)  # the, not blorptex
    assert row(evaluated, "counts", "mean_relative_error", "table=queries").why == NOT_OF_USERS
    assert row(evaluated, "loss", "share_released").value == pytest.approx(1 / 2)
    assert row(evaluated, "pairs", "recall", "support=0.002").value == 0
    assert row(evaluated, "pairs", "size").why == NOT_OF_USERS
    assert row(evaluated, "profiles", "profile_loss", "topics=4").why == NO_USERS
    assert row(evaluated, "profiles", "pooled_loss", "topics=4").value is not None


def test_hosts_without_a_scheme_are_guessed_without_one(duckdb_engine: Engine, tmp_path: Path) -> None:
    train, test = (
        qc.read(write_rows(tmp_path / name, rows), engine=duckdb_engine, choices=Choices(keep_url="host"))
        for name, rows in (("train.parquet", TRAIN), ("test.parquet", TEST))
    )
    hosts = qc.evaluate(train, test, [], ["retrieval-walk"])
    assert row(hosts, "retrieval-walk", "nDCG@10").value == pytest.approx(1 / 2)


def slow_without_a_word(query: str, texts: list[str], most: int) -> list[int]:
    words = query.split(" ")
    numbers: list[int] = []
    for place in range(min(most, len(words)) if len(words) > 1 else 0):
        at = len(words) - 1 - place
        text = " ".join(words[:at] + words[at + 1 :])
        number = texts.index(text) if text in texts else UNKNOWN
        numbers.append(UNKNOWN if number in numbers else number)
    return numbers + [NOTHING] * (most - len(numbers))


@given(st.lists(st.lists(st.sampled_from(["a", "b", "cc", "é"]), min_size=1, max_size=7).map(" ".join), max_size=6))
def test_words_are_dropped_as_by_a_loop(queries: list[str]) -> None:
    texts = ["a", "a b", "b", "b a", "cc", "cc a", "é", *queries]
    texts = sorted(set(texts))
    fast = without_a_word(pa.array(queries, pa.large_string()), pa.array(texts, pa.large_string()), 5)
    assert fast.dtype == np.int32
    assert fast.tolist() == [slow_without_a_word(query, texts, 5) for query in queries]
