"""Task language: bits by the model itself, what can be spelled, the original's model without its other n-grams."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.evaluation.evaluation import evaluate
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import Logs
from querycloak.evaluation.tasks.completion import PreparedCompletion
from querycloak.evaluation.tasks.language import Language
from querycloak.language.character_model import character_bits
from querycloak.language.word_model import contexts_of
from querycloak.logs.searchlog import SearchLog
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release_model import model_of, model_of_phrases, model_of_queries
from querycloak.releases.row_kinds import RowKind
from querycloak.text.word_boundaries import words_of
from tests.evaluated import Asked, open_rows

TRAINED = ["cheap flights", "cheap hotels", "flights to rome", "hotels in rome", "weather", "weather rome"]
TESTED = ["cheap flights to rome", "weather", "hotels in paris", "xyzzy"]


def log_of(engine: Engine, path: Path, users: int, queries: list[str], name: str) -> SearchLog:
    rows: list[Asked] = [
        (f"{name}{user}", 60 * place, query, None, None) for user in range(users) for place, query in enumerate(queries)
    ]
    return open_rows(engine, path, rows)


@pytest.fixture
def logs(duckdb_engine: Engine, tmp_path: Path) -> Logs:
    train = log_of(duckdb_engine, tmp_path / "train.parquet", 60, TRAINED, "a")
    test = log_of(duckdb_engine, tmp_path / "test.parquet", 3, TESTED, "b")
    return Logs(train, test)


def test_figures_are_those_of_the_releases_model(logs: Logs, tmp_path: Path) -> None:
    release = qc.Phrases(epsilon=30, delta=1e-3, selection="gaussian", max_keys_per_user=40).release(
        logs.train, randomness=Randomness(seed=1)
    )
    release.save(tmp_path / "phrases")
    qc.Queries(epsilon=30, delta=1e-3, selection="gaussian", max_keys_per_user=40).release(
        logs.train, randomness=Randomness(seed=1)
    ).save(tmp_path / "queries")
    results = evaluate(logs.train, logs.test, [tmp_path / "phrases", tmp_path / "queries"], tasks=["language"])
    values = {
        (row.release, row.measure): row.value or 0.0
        for row in results.rows
        if row.slice is None and row.reading == "all"
    }
    model = model_of(release)
    bits = np.array([model.bits(query) for query in TESTED])
    assert values["phrases", "bits_per_query"] == pytest.approx(bits.mean())
    assert values["phrases", "bits_per_character"] == pytest.approx(bits.sum() / sum(len(q) + 1 for q in TESTED))
    assert values["phrases", "expressible"] == pytest.approx(2 / 4)
    assert values["queries", "expressible"] == pytest.approx(2 / 4)
    assert values["no-data", "expressible"] == 0
    assert values["no-data", "bits_per_query"] == pytest.approx(np.mean([character_bits(q) for q in TESTED]))
    assert values["original", "bits_per_query"] < values["no-data", "bits_per_query"]


def test_bits_do_not_depend_on_other_n_grams() -> None:
    counts = {query: 10.0 + place for place, query in enumerate(TRAINED)}
    whole, cut = model_of_queries(counts), model_of_queries(counts, contexts_of(map(words_of, TESTED), 3))
    assert len(cut.grams) < len(whole.grams)
    assert [cut.bits(query) for query in TESTED] == pytest.approx([whole.bits(query) for query in TESTED])


def test_a_sample_of_many_cases_is_the_same_each_time(logs: Logs) -> None:
    task = Language(most_cases=5)
    first, second = (list(task.prepare(logs).scores(_Phrases())) for _ in range(2))
    assert [scores.scores.tolist() for scores in first] == [scores.scores.tolist() for scores in second]
    assert first[0].scores.size == 5


class _Phrases:
    name, digest, kinds, method, variant = "phrases", None, ("phrases",), "phrases", "default"
    columns: ClassVar[dict[str, tuple[str, ...]]] = {}
    parameters: ClassVar[dict[str, Any]] = {}
    rows = RowKind.ASKED

    def table(self, kind: str) -> pa.Table:
        assert kind == "phrases"
        return pa.table({"phrase": ["rome"], "words": [1], "begins": [False], "ends": [False], "count": [5]})


def test_completions_of_a_release_with_words_are_those_of_its_model(logs: Logs) -> None:
    rows = {"phrase": ["hotels", "in", "paris"], "words": [1] * 3, "begins": [False] * 3, "ends": [False] * 3}
    release = Target("phrases", {"phrases": pa.table({**rows, "count": [9, 8, 7]})})
    prepared = PreparedCompletion(Logs(logs.train, logs.test, (release,)).graphs, seed=2)
    success = next(each for each in prepared.scores(release) if each.measure.name == "Success@10")
    model = model_of_phrases(release.table("phrases").to_batches(), {})
    queries = prepared.case_queries().to_pylist()
    typed = [query[:letters] for query, letters in zip(queries, prepared._length, strict=True)]
    lists = [[each.query for each in model.complete(prefix)] for prefix in typed]
    assert np.nan_to_num(success.scores).tolist() == [q in some for q, some in zip(queries, lists, strict=True)]
    assert any(each.source == "public" for prefix in typed for each in model.complete(prefix))
    assert np.nanmax(success.scores) == 1


def test_a_release_of_words_without_marks_spells_queries() -> None:
    no = [False] * 3
    rows = {"phrase": ["cheap", "flights", "the"], "begins": no, "ends": no, "count": [50, 10, 1]}
    model = model_of_phrases(pa.table(rows).to_batches(), {})
    assert model.bits("cheap flights") < character_bits("cheap flights")
    assert model.ranked(10)[:4] == ["cheap", "flights", "cheap flights", "flights cheap"]
    odd = [query.split() for query in model.ranked(10)]
    assert all(len(set(words)) == len(words) and words[-1] != "the" for words in odd)


def test_probable_queries_come_from_words_and_from_whole_queries() -> None:
    rows = [
        ("cheap", False, False, 50), ("flights", False, False, 50), ("rome", False, False, 9),
        ("cheap", True, False, 40),
        ("flights", False, True, 30), ("cheap flights", False, False, 30), ("rome", True, True, 5),
    ]  # fmt: skip
    columns = dict(zip(("phrase", "begins", "ends", "count"), map(list, zip(*rows, strict=True)), strict=True))
    model = model_of_phrases(pa.table(columns).to_batches(), {})
    assert set(model.whole) == {"rome"}
    assert model.ranked(50)[:4] == ["rome", "cheap", "flights", "cheap flights"]
    spelled = model.ranked(50)[3:8]
    assert spelled == sorted(spelled, key=model.probability, reverse=True)
    assert model.complete("cheap fl")[0].query == "cheap flights"
