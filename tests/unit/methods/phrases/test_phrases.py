"""Method phrases: keys and levels by hand, candidates, counts, what comes out of odd logs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import querycloak as qc
from querycloak.cli.demo_command import _completed
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.language.word_model import BEGIN, END
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.phrases.counted_levels import CountedLevels, consistent
from querycloak.methods.phrases.levels import MOST_WORDS, candidates, level_of
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.text.word_boundaries import words_of
from tests.commands import in_process
from tests.evaluated import Asked, open_rows

EXACT: dict[str, Any] = {"noise": 0.01, "threshold": 1, "max_keys_per_user": 1000}
Key = tuple[str, bool, bool]


def rows_of(queries: dict[str, list[str]]) -> list[Asked]:
    return [(user, place, query, None, None) for user, asked in queries.items() for place, query in enumerate(asked)]


def keys_by_hand(queries: dict[str, list[str]], longest: int) -> Counter[Key]:
    """Users of each key: every run of words, with each mark that it may have."""
    users: Counter[Key] = Counter()
    for asked in queries.values():
        mine: set[Key] = set()
        for words in map(words_of, asked):
            for length in range(1, longest + 1):
                for start in range(len(words) - length + 1):
                    phrase = " ".join(words[start : start + length])
                    begins = (False, True) if start == 0 else (False,)
                    ends = (False, True) if start + length == len(words) else (False,)
                    mine |= {(phrase, begin, end) for begin in begins for end in ends}
        users.update(mine)
    return users


def counts_of(table: pa.Table) -> dict[Key, int]:
    return {(row["phrase"], row["begins"], row["ends"]): row["count"] for row in table.to_pylist()}


QUERIES = {
    "u1": ["tiger woods", "Tiger Woods!", "new york city hotels", "weather"],
    "u2": ["tiger woods", "york city", "weather"],
    "u3": ["woods tiger woods", "new york city", "don't stop", "???"],
    "u4": ["new york city hotels", "don't stop", "東京 hotel", "tiger"],
    "u5": ["東京", "3.14 pi", " ".join(["tiger"] * (MOST_WORDS + 1))],
}


@pytest.mark.parametrize("longest", [1, 2, 3, 5])
def test_with_hardly_any_noise_counts_are_those_of_the_definition(
    longest: int, duckdb_engine: Engine, tmp_path: Path
) -> None:
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows_of(QUERIES))
    table = qc.Phrases(**EXACT, longest=longest).release(log, randomness=Randomness(seed=1)).table("phrases")
    asked = {user: [query for query in queries if len(query) < 100] for user, queries in QUERIES.items()}
    lowered = {user: [query.lower() for query in queries] for user, queries in asked.items()}
    expected = {key: users for key, users in keys_by_hand(lowered, longest).items() if users > 1}
    assert counts_of(table) == expected
    assert ("tiger woods", True, True) in expected or longest == 1
    assert table["words"].to_pylist() == [len(phrase.split(" ")) for phrase in table["phrase"].to_pylist()]


@pytest.mark.parametrize(
    ("words", "marks", "longest", "level"),
    [(1, 0, 3, 1), (1, 1, 3, 2), (1, 2, 3, 2), (2, 0, 3, 2), (2, 1, 3, 3), (3, 0, 3, 3), (3, 2, 3, 3), (1, 1, 1, 2)],
)
def test_levels(words: int, marks: int, longest: int, level: int) -> None:
    assert level_of(words, marks, longest) == level


def windows(key: str, length: int) -> list[str]:
    tokens = key.split(" ")
    runs = [" ".join(tokens[at : at + length]) for at in range(len(tokens) - length + 1)]
    return [run for run in runs if run not in (BEGIN, END)]


TEXTS = st.lists(st.lists(st.sampled_from("abc"), min_size=1, max_size=5), min_size=1, max_size=6)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TEXTS, st.integers(1, 4), st.randoms(use_true_random=False))
def test_candidates_are_keys_all_of_whose_runs_came_out(
    duckdb_engine: Engine, queries: list[list[str]], longest: int, random: Any
) -> None:
    texts = sorted({f"{BEGIN} {' '.join(words)} {END}" for words in queries})
    table = duckdb_engine.upload(pa.table({"tokens": texts}))
    level = random.randint(2, max(2, longest))
    every = {row["phrase"] for row in duckdb_engine.fetch(candidates(table, level - 1, longest, None)).to_pylist()}
    before = sorted(key for key in every if random.random() < 0.7)
    below = duckdb_engine.upload(pa.table({"phrase": pa.array(before, pa.string())}))
    fetched = duckdb_engine.fetch(candidates(table, level, longest, below)).to_pylist()
    expected = set()
    for text in texts:
        tokens = text.split(" ")
        for start in range(len(tokens)):
            for end in range(start + 1, len(tokens) + 1):
                run = tokens[start:end]
                marks = (run[0] == BEGIN) + (run[-1] == END)
                if 1 <= len(run) - marks <= longest and level_of(len(run) - marks, marks, longest) == level:
                    key = " ".join(run)
                    if set(windows(key, level - 1)) <= set(before):
                        expected.add((text, key))
    assert {(row["tokens"], row["phrase"]) for row in fetched} == expected
    assert len(fetched) == len(expected)


def test_counts_of_longer_phrases_are_at_most_those_within() -> None:
    keys = pa.table(
        {
            "phrase": ["a", "b", f"{BEGIN} a", "a b", f"{BEGIN} a b", "c b", "a b c"],
            "count": pa.array([5, 9, 8, 7, 6, 20, None], pa.int64()),
        }
    )
    counts = {row["phrase"]: row["count"] for row in consistent(keys).to_pylist()}
    assert counts == {"a": 5, "b": 9, f"{BEGIN} a": 5, "a b": 5, f"{BEGIN} a b": 5, "c b": 9, "a b c": None}
    twice = pa.table({"run": [0, 1, 1], "phrase": ["a", "a", "a b"], "count": [1, 5, 4]})
    assert consistent(twice, ["run"])["count"].to_pylist() == [1, 5, 4]
    assert consistent(keys.drop_columns(["count"])).column_names == ["phrase"]


def test_whole_queries_come_from_the_same_budget(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows_of({f"u{n}": ["tiger woods"] for n in range(80)}))
    alone, both = (qc.Phrases(epsilon=8, delta=1e-4, max_keys_per_user=4, queries=on) for on in (False, True))
    assert both.proven().numbers[0] <= 8
    assert both.plans["level-1"].threshold > alone.plans["level-1"].threshold
    release = both.release(log, randomness=Randomness(seed=3))
    assert list(release.tables) == ["phrases", "queries"]
    assert release.table("queries")["query"].to_pylist() == ["tiger woods"]
    assert ("tiger woods", True, True) in counts_of(release.table("phrases"))
    release.save(tmp_path / "out")
    assert qc.verify(tmp_path / "out").problems == ()
    assert qc.load(tmp_path / "out").model().complete("tig")[0].query == "tiger woods"


def test_a_prefix_that_no_released_query_has_is_completed(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Everybody asks for flights to another town: no such query comes out, but its first words do."""
    asked = {f"u{n}": ["cheap hotels", f"cheap flights to town{n}"] for n in range(80)}
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows_of(asked))
    method = qc.Phrases(epsilon=16, delta=1e-4, selection="gaussian", max_keys_per_user=20, queries=True)
    folders = [tmp_path / "demo" / "releases" / name for name in ("phrases-e8", "queries-e8")]
    folders[0].parent.mkdir(parents=True)
    for folder in (tmp_path / "out", *folders):
        method.release(log, randomness=Randomness(seed=3)).save(folder)
    queries = qc.load(tmp_path / "out").table("queries")["query"].to_pylist()
    assert queries == ["cheap hotels"]
    heading, *lines = _completed(tmp_path / "demo")
    assert "No released query begins with 'cheap flights" in heading
    assert all(line.startswith("  cheap flights") for line in lines)
    shown = in_process("complete", tmp_path / "out", "cheap fl", "--json")
    completions = json.loads(shown.stdout)["completions"]
    assert completions[0]["query"].startswith("cheap flights")
    scores = [each["score"] for each in completions]
    assert scores == sorted(scores, reverse=True)


@pytest.mark.parametrize("longest", [0, -1, 9, 1.5, True])
def test_lengths_are_refused_before_anything_is_read(longest: Any) -> None:
    with pytest.raises(ParameterError, match=r"longest must be"):
        qc.Phrases(epsilon=1, delta=1e-6, longest=longest)


def test_a_split_names_every_level() -> None:
    method = qc.Phrases(
        epsilon=8, delta=1e-6, selection="multi-round", split="level-1=1,level-2=2,level-3=3", max_keys_per_user=16
    )
    thresholds = [method.plans[level].threshold for level in method.levels]
    assert thresholds == sorted(thresholds, reverse=True)
    with pytest.raises(ParameterError, match="a part for each of level-1, level-2, level-3, queries"):
        qc.Phrases(epsilon=8, delta=1e-6, queries=True, split="level-1=1,level-2=2,level-3=3")
    with pytest.raises(ParameterError, match="split must be left out with a noise"):
        qc.Phrases(noise=1, threshold=9, split="level-1=1,level-2=2,level-3=3")


@pytest.mark.parametrize(
    "queries",
    [
        {f"u{user}": ["weather"] for user in range(60)},
        {"only": ["tiger woods", "weather"]},
        {f"u{user}": [f"word{user}"] for user in range(40)},
        {f"u{user}": ["???"] for user in range(40)},
    ],
    ids=["one-word queries", "one user", "no shared word", "no word"],
)
def test_odd_logs_are_released_and_charged(
    queries: dict[str, list[str]], duckdb_engine: Engine, tmp_path: Path
) -> None:
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows_of(queries))
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_limit("people", 10, 1e-2)
    release = qc.Phrases(epsilon=8, delta=1e-4).release(
        log, ledger=ledger, population="people", randomness=Randomness(seed=1)
    )
    words = set(release.table("phrases")["phrase"].to_pylist())
    assert words == ({"weather"} if len(queries) == 60 else set())
    (account,) = ledger.show("people")
    assert account.spent[0] == 8


def counted(log: SearchLog, **options: Any) -> CountedLevels:
    levels = qc.Phrases(**options).count(log)
    assert isinstance(levels, CountedLevels)
    return levels


def test_the_choice_looks_at_each_users_number_of_keys(duckdb_engine: Engine, tmp_path: Path) -> None:
    asked = {"u1": ["a b c", "a"], "u2": ["a b"], "u3": ["c"]}
    log = open_rows(duckdb_engine, tmp_path / "log.parquet", rows_of(asked))
    levels = counted(log, epsilon=8, delta=1e-4)
    # Words; marked words and pairs; marked pairs, triples and marked triples.
    assert levels.users_by_keys["level-1"] == {4: 1, 2: 1, 1: 1}
    assert levels.users_by_keys["level-2"] == {7: 1, 3: 2}
    assert levels.users_by_keys["level-3"] == {6: 1, 3: 1}


@pytest.mark.parametrize("queries", [False, True])
def test_a_small_budget_is_divided_more_evenly(queries: bool) -> None:
    """Sigma of weights is 64 at most: one part of 22 or 32 would be refused at epsilon .5."""
    at = {
        epsilon: qc.Phrases(epsilon=epsilon, delta=1e-6, max_keys_per_user=16, queries=queries).plans
        for epsilon in (0.1, 0.2, 0.3, 0.5, 0.7, 1.0, 3.0)
    }
    needed = [plans["level-1"].enough_users for plans in at.values()]
    assert needed == sorted(needed, reverse=True)
    assert len(set(needed)) == len(needed)
    uneven = qc.Phrases(
        epsilon=3, delta=1e-6, max_keys_per_user=16, split="level-1=20,level-2=10,level-3=1", selection="multi-round"
    )
    if not queries:
        assert at[3.0] == uneven.plans


@pytest.mark.parametrize("bound", [4, 16, 64, 256])
@pytest.mark.parametrize("epsilon", [3.0, 10.0, 30.0])
def test_the_selection_by_formula_counts_with_the_parts_of_levels(epsilon: float, bound: int) -> None:
    """Laplace noise divides epsilon among levels, weights divide its square: by one table alone Laplace would win."""
    chosen = qc.Phrases(epsilon=epsilon, delta=1e-6, max_keys_per_user=bound)
    assert chosen.plans == qc.Phrases(**{**_given(chosen), "selection": "multi-round"}).plans


def _given(method: qc.Phrases) -> dict[str, Any]:
    return {"epsilon": method.epsilon, "delta": method.delta, "max_keys_per_user": method.max_keys_per_user}
