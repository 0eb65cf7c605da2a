"""Affinity on both engines: concepts, degrees and releases against the definitions, and the paper's attacks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError
from querycloak.logs.choices import Choices
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.affinity.cores import degrees_at, expand_log
from querycloak.methods.affinity.method import Affinity
from querycloak.methods.distinct_queries import uses_of
from querycloak.methods.method import Variant
from tests.logs import Row, aol, write
from tests.unit.methods.affinity import oracles

VOCABULARY = (
    "cell", "phone", "case", "nokia", "the", "of", "a", "visa", "card", "blue", "sky", "2651", "e815", "bank", "los",
    "angeles", "times",
)  # fmt: skip


def random_searches(seed: int, count: int, users: int = 12) -> list[oracles.Search]:
    random = np.random.default_rng(seed)
    popular = np.minimum(random.zipf(1.3, count * 6) - 1, len(VOCABULARY) - 1)
    searches = []
    for i in range(count):
        words = [VOCABULARY[w] for w in popular[6 * i : 6 * i + random.integers(1, 6)]]
        searches.append((f"u{random.integers(0, users)}", " ".join(words)))
    return searches


def log_of(searches: list[oracles.Search], path: Path, engine: Engine, **choices: Any) -> SearchLog:
    """Each search at a time of its own, so that repeats count."""
    rows: list[Row] = [
        (user, f"{i // 3600:02}:{i // 60 % 60:02}:{i % 60:02}", query, "", "")
        for i, (user, query) in enumerate(searches)
    ]
    return read(write(path / "log.tsv", aol(rows)), engine=engine, choices=Choices(**choices))


@pytest.mark.same_on_spark
@pytest.mark.parametrize(("seed", "least"), [(1, 2), (2, 3), (3, 5)])
def test_concepts_and_weights_are_the_definition_s(seed: int, least: int, engine: Engine, tmp_path: Path) -> None:
    searches = random_searches(seed, 300)
    log = log_of(searches, tmp_path, engine)
    found = expand_log(log, uses_of(log), least, 2).concepts
    weights = dict(zip(found.names.to_pylist(), found.weights.tolist(), strict=True))
    true = oracles.weights_of(searches, least)
    assert set(weights) == {" ".join(gram) for gram in true}
    assert weights == {" ".join(gram): max(1, round(weight * 1024)) for gram, weight in true.items()}
    assert {len(name.split()) for name in weights} == {1, 2, 3}


@pytest.mark.same_on_spark
@pytest.mark.parametrize(
    ("seed", "theta", "least", "word_users"), [(1, 0.9, 2, 2), (2, 0.8, 3, 2), (3, 0.7, 4, 3), (4, 1.0, 3, 6)]
)
def test_degrees_are_the_definition_s(
    seed: int, theta: float, least: int, word_users: int, engine: Engine, tmp_path: Path
) -> None:
    """Without collapsing, filters or peeling: every query a vertex, every pair compared, every k by itself."""
    searches = random_searches(seed, 220)
    log = log_of(searches, tmp_path, engine)
    expansion = expand_log(log, uses_of(log), least, word_users)
    millionths = round(theta * 10**6)
    found = degrees_at(expansion, millionths, 9)
    true = oracles.query_degrees(searches, millionths, least, word_users, 9)
    assert dict(zip(expansion.expanded.queries.to_pylist(), found.tolist(), strict=True)) == true
    assert len(set(true.values())) > 3


@pytest.mark.same_on_spark  # words are parted by the same kernel
def test_several_blanks_part_words_once(engine: Engine, tmp_path: Path) -> None:
    searches = [(f"u{i}", f" cell   phone{' ' * (i % 3)}") for i in range(6)]
    log = log_of(searches, tmp_path, engine, normalise=False)
    found = expand_log(log, uses_of(log), 3, 2).concepts.names.to_pylist()
    assert found == ["cell", "phone", "cell phone"]


def released(method: Affinity, log: SearchLog) -> Counter[str]:
    return Counter(method.release(log).table("log")["query"].to_pylist())


@pytest.mark.same_on_spark
def test_searches_of_what_passes_come_out_under_fresh_names(engine: Engine, tmp_path: Path) -> None:
    searches = random_searches(7, 250)
    log = log_of(searches, tmp_path, engine)
    degrees = oracles.query_degrees(searches, 900_000, 3, 2, 4)
    method = Affinity(min_users=4, concept_users=3, min_word_users=2)
    rows = method.release(log).table("log").to_pylist()
    assert Counter(row["query"] for row in rows) == Counter(q for _, q in searches if degrees[q] >= 4)
    assert rows == sorted(rows, key=lambda row: (row["user"], row["query"]))
    true = {(u, q) for u, q in searches if degrees[q] >= 4}
    by_name = Counter(name for name, _ in {(row["user"], row["query"]) for row in rows})
    assert sorted(by_name.values()) == sorted(Counter(u for u, _ in true).values())
    assert not {row["user"] for row in rows} & {u for u, _ in searches}
    again = {row["user"] for row in method.release(log).table("log").to_pylist()}
    assert not again & {row["user"] for row in rows}
    timed = Affinity(min_users=4, concept_users=3, min_word_users=2, keep_time=True).release(log).table("log")
    assert timed.schema.names == ["user", "query", "time"]
    assert timed.num_rows == len(rows)


VISA = [(f"u{i}", "visa") for i in range(30)]
SECRET = ("victim", "123xyz visa")


@pytest.mark.same_on_spark
def test_a_card_number_beside_a_frequent_word_does_not_come_out(engine: Engine, tmp_path: Path) -> None:
    """Carpineto and Romano, section 5: its concepts are those of visa, but the number is one user's."""
    log = log_of([*VISA, SECRET], tmp_path, engine)
    assert released(Affinity(min_users=10, concept_users=5), log) == {"visa": 30}


@pytest.mark.same_on_spark
def test_two_accounts_bring_a_card_number_out_unless_words_need_more_users(engine: Engine, tmp_path: Path) -> None:
    """Carpineto and Romano, section 5: the second account asks for the number by itself."""
    log = log_of([*VISA, SECRET, ("accomplice", "123xyz")], tmp_path, engine)
    paper = Affinity(min_users=10, concept_users=5, variant="paper")
    assert released(paper, log) == {"visa": 30, "123xyz visa": 1}
    assert released(Affinity(min_users=10, concept_users=5, min_word_users=3), log) == {"visa": 30}
    assert released(Affinity(min_users=10, concept_users=5), log) == {"visa": 30}


@pytest.mark.same_on_spark
def test_who_saw_a_friend_type_it_finds_the_friend(engine: Engine, tmp_path: Path) -> None:
    """The observed friend: a query of one user comes out, and the card says so."""
    cases = [(f"u{i}", "cell phone case") for i in range(20)]
    friend = [("friend", "cell phone case e815"), ("friend", "cell phone"), ("other", "e815")]
    log = log_of([*cases, *cases[:3], *friend], tmp_path, engine)
    method = Affinity(min_users=10, concept_users=5, variant="paper")
    rows = method.release(log).table("log").to_pylist()
    (seen,) = [row["user"] for row in rows if row["query"] == "cell phone case e815"]
    assert {row["query"] for row in rows if row["user"] == seen} >= {"cell phone case e815"}
    assert any("somebody who saw it typed finds everything else" in each for each in method.proven().unprotected)


@pytest.mark.same_on_spark
def test_a_log_without_concepts_says_which_threshold_emptied_it(engine: Engine, tmp_path: Path) -> None:
    log = log_of([(f"u{i}", f"word{i} of the") for i in range(5)], tmp_path, engine)
    with pytest.raises(
        InputError, match=r"no concepts: .* by 4 users \(concept_users\); lower it towards 2, or use k-anonymity"
    ):
        Affinity(min_users=2, concept_users=4).release(log)
    with pytest.raises(InputError, match=r"by 0\.5 of its users \(a share; two users at least\) \("):
        Affinity(min_users=2, concept_users=0.5).release(log)


def test_an_empty_log_has_no_concepts_either(engine: Engine, tmp_path: Path) -> None:
    log = read(write(tmp_path / "log.tsv", aol([])), engine=engine)
    with pytest.raises(InputError, match="this log has no concepts"):
        Affinity(min_users=2).release(log)


@pytest.mark.same_on_spark  # explanations are made on one machine
def test_an_explanation_shows_the_neighbourhood(engine: Engine, tmp_path: Path) -> None:
    searches = random_searches(7, 250)
    log = log_of(searches, tmp_path, engine)
    method = Affinity(min_users=4, concept_users=3, min_word_users=2)
    degrees = oracles.query_degrees(searches, 900_000, 3, 2, 1000)
    users = {query: {u for u, q in searches if q == query} for query in degrees}
    for query in sorted(degrees)[:: 9 if engine.name == "duckdb" else 60]:
        explained = method.explain(log, query.upper())
        assert (explained.query, explained.degree) == (query, degrees[query])
        assert explained.own_users == len(users[query])
        words = {word: {u for u, q in searches if word in q.split()} for word in query.split()}
        assert explained.word_users == {word: len(by) for word, by in words.items()}
        assert explained.released == (degrees[query] >= 4)
        assert explained.users >= explained.degree
        json.dumps(explained.to_json())
    with pytest.raises(InputError, match="nobody asked the query that is to be explained"):
        method.explain(log, "never asked")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "min_users must be given"),
        ({"min_users": 1}, "min_users must be at least 2, got 1"),
        ({"min_users": 2.5}, "min_users must be a whole number, got 2.5"),
        ({"theta": 0}, "theta must be a finite number above 0, got 0"),
        ({"theta": -0.5}, "theta must be a finite number above 0, got -0.5"),
        ({"theta": 1.01}, "theta must be a number above 0 and at most 1, got 1.01"),
        ({"theta": float("nan")}, "theta must be a finite number above 0, got nan"),
        ({"theta": 0.1234567}, "theta must be a number of at most six decimals, got 0.1234567"),
        ({"concept_users": 0}, "concept_users must be a finite number above 0, got 0"),
        ({"concept_users": 65.5}, "concept_users must be a share below 1 or a whole number, got 65.5"),
        ({"min_word_users": 1}, "min_word_users must be at least 2, got 1"),
        ({"max_neighbours": 0}, "max_neighbours must be at least 1, got 0"),
        ({"variant": "new"}, "variant must be one of default, paper, got 'new'"),
    ],
)
def test_affinity_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    given = options if "min_users" in options or not options else {"min_users": 5, **options}
    with pytest.raises(ParameterError, match=message):
        Affinity(**given)


def probing(accounts: int, *, somebody_else: bool) -> list[oracles.Search]:
    """A frequent query of 40 users, and accounts that ask it with one more word, which one person may have used."""
    searches = [(f"u{i}", "visa card") for i in range(40)]
    searches += [(f"sybil{i}", "visa card smithers") for i in range(accounts)]
    return [*searches, ("victim", "smithers clinic")] if somebody_else else searches


@pytest.mark.parametrize(("variant", "needed"), [("paper", 1), ("default", 9)])
def test_the_word_probe(variant: Variant, needed: int, duckdb_engine: Engine, tmp_path: Path) -> None:
    """affinity.md, the word probe: w - 1 accounts learn whether anybody else used a word."""
    rule = Affinity(min_users=10, concept_users=20, variant=variant)
    assert rule.w == needed + 1

    def comes_out(accounts: int, *, somebody_else: bool) -> bool:
        log = log_of(probing(accounts, somebody_else=somebody_else), tmp_path, duckdb_engine)
        return "visa card smithers" in released(rule, log)

    assert comes_out(needed, somebody_else=True)
    assert not comes_out(needed, somebody_else=False)
    assert not comes_out(needed - 1, somebody_else=True)
    assert comes_out(needed + 1, somebody_else=False)  # w accounts force a text beside a frequent query
