"""Task profiles: pooled by hand, single users where owners are known, the original against itself."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from querycloak.engines import Engine
from querycloak.evaluation.task import Figure, Logs
from querycloak.evaluation.tasks.profiles import (
    CLOSENESS,
    KEPT,
    POOLED_LOSS,
    POOLED_LOSS_ON_TOPICS,
    PROFILE_LOSS_ON_TOPICS,
    TOPICS,
    Profiles,
    TopicFinder,
    released_queries,
    source_of,
)
from querycloak.logs.searchlog import SearchLog, read
from querycloak.releases.row_kinds import RowKind
from querycloak.text.query_concepts import ConceptFinder
from querycloak.text.taxonomy import FOUR, topic_concepts, topics_of
from querycloak.text.wordnet import wordnet
from tests.logs import Row, aol, write
from tests.subjects import ORIGINAL, Released

# Health 1, sport 3; google has no concept of these.
ROWS: list[Row] = [
    ("1", "12:00:00", "asthma", "1", "http://a/"),
    ("1", "12:00:00", "asthma", "2", "http://b/"),
    ("1", "12:01:00", "asthma", "", ""),
    ("1", "12:02:00", "tennis", "1", "http://t/"),
    ("2", "12:00:00", "tennis", "", ""),
    ("2", "12:09:00", "google", "1", "http://g/"),
]


def opened(engine: Engine, folder: Path, rows: list[Row] = ROWS) -> SearchLog:
    return read(write(folder / "log.tsv", aol(rows)), engine=engine)


def figures(task: Profiles, log: SearchLog, subject: Released) -> dict[tuple[str, str | None], Figure]:
    return {(each.measure.name, each.slice): each for each in task.prepare(Logs(log, log)).scores(subject)}


def divergence(first: list[float], second: list[float]) -> float:
    """Jensen and Shannon's, base 2, term by term."""
    total = 0.0
    for ours, theirs in ((first, second), (second, first)):
        for a, b in zip(ours, theirs, strict=True):
            total += a / sum(ours) * math.log2(2 * a / sum(ours) / (a / sum(ours) + b / sum(theirs))) / 2 if a else 0
    return total


def test_topics_are_those_of_the_words() -> None:
    nouns = wordnet()
    four = topics_of(nouns, topic_concepts(nouns, FOUR))
    queries = pa.array(["asthma", "tennis", "google", "", "how to get rid of asthma", "water polo rules"])
    finder = TopicFinder()
    wanted = [int(four[c]) if c >= 0 else 0 for c in ConceptFinder(nouns).concepts(queries).tolist()]
    assert finder.topics(finder.codes(queries))["4"].tolist() == wanted
    assert wanted[:3] == [1, 3, 0]
    totals = np.bincount(finder.codes(queries), minlength=finder.number).astype(float)
    assert finder.pooled(totals)["4"].tolist() == [Counter(wanted)[topic] for topic in range(5)]
    assert [each.size for each in finder.pooled(totals).values()] == [len(names) + 1 for names in TOPICS.values()]


def test_pooled_profiles_by_hand(duckdb_engine: Engine, tmp_path: Path) -> None:
    """A log counts searches (2 asthma, 2 tennis, 1 other), tables users (1, 2, 1), clicks users of pairs (2, 1, 1)."""
    log = opened(duckdb_engine, tmp_path)
    rows = pa.table({"user": ["x", "x", "y", "y"], "query": ["asthma", "tennis", "tennis", "google"]})
    of_log = figures(Profiles(), log, Released("l", {"log": rows}))
    assert of_log["pooled_loss", "topics=4"].value == pytest.approx(divergence([1, 2, 0, 2, 0], [1, 1, 0, 2, 0]))
    assert of_log["pooled_loss_on_topics", "topics=4"].value == pytest.approx(divergence([2, 0, 2, 0], [1, 0, 2, 0]))
    queries = pa.table({"query": ["tennis", "google"], "count": [5, -3]})
    of_queries = figures(Profiles(), log, Released("q", {"queries": queries}))
    assert of_queries["pooled_loss", "topics=4"].value == pytest.approx(divergence([1, 1, 0, 2, 0], [0, 0, 0, 1, 0]))
    clicks = pa.table({"query": ["asthma", "tennis"], "url": ["http://a/", "http://t/"], "count": [1, 1]})
    of_clicks = figures(Profiles(), log, Released("c", {"clicks": clicks}))
    assert of_clicks["pooled_loss", "topics=4"].value == pytest.approx(divergence([1, 2, 0, 1, 0], [0, 1, 0, 1, 0]))
    empty = pa.table({"query": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    nothing = figures(Profiles(), log, Released("q", {"queries": empty}))["pooled_loss", "topics=4"]
    assert (nothing.value, nothing.why) == (None, "nothing on these topics to compare")


def test_the_original_against_itself_loses_nothing(duckdb_engine: Engine, tmp_path: Path) -> None:
    found = figures(Profiles(), opened(duckdb_engine, tmp_path), ORIGINAL)
    assert {name for name, _ in found} == {measure.name for measure in Profiles().measures}
    assert [figure.value for figure in found.values()] == [0] * len(found)


def test_single_users_only_where_owners_are_known(duckdb_engine: Engine, tmp_path: Path) -> None:
    log = opened(duckdb_engine, tmp_path)
    rows = pa.table({"user": ["x", "x", "y", "z"], "query": ["asthma", "tennis", "google", "asthma"]})
    subject = Released("s", {"log": rows}, rows=RowKind.REPLACED)
    forgotten = figures(Profiles(), log, subject)["profile_loss", "topics=4"]
    assert forgotten.value is None
    assert "whose row is whose" in (forgotten.why or "")
    owners = pa.table({"user": ["x", "y"], "owner": ["1", "2"]})
    known = figures(Profiles({"s": owners}), log, subject)
    # User 1 had 2 asthma and 1 tennis and has 1 of each; user 2 had tennis and google and has google.
    first, second = divergence([2, 1], [1, 1]), divergence([1, 1], [0, 1])
    assert known["profile_loss", "topics=4"].value == pytest.approx((first + second) / 2)
    assert known["profile_loss", "topics=4"].cases == 2
    assert known["profile_loss_on_topics", "topics=4"].value == pytest.approx((first + 1) / 2)


def test_which_table_is_taken_and_how() -> None:
    sessions = pa.table({"queries": pa.array([["a", "b"], ["c", "d", "e"]]), "count": [3, 4]})
    queries, weights = released_queries(sessions, "sessions")
    assert list(zip(queries.to_pylist(), weights.tolist(), strict=True)) == [
        ("a", 3), ("b", 3), ("c", 4), ("d", 4), ("e", 4),
    ]  # fmt: skip
    steps = pa.table({"query": ["a"], "next_query": ["b"], "count": [2]})
    queries, weights = released_queries(steps, "transitions")
    assert (queries.to_pylist(), weights.tolist()) == (["a", "b"], [2, 2])
    assert source_of(Released("s", {"sessions": sessions, "clicks": sessions})) == "clicks"
    assert source_of(ORIGINAL) == "log"


def test_measures_are_callable() -> None:
    assert POOLED_LOSS([1, 2, 0], [1, 2, 0]) == 0
    assert POOLED_LOSS([0, 1, 0], [0, 0, 1]) == 1
    assert POOLED_LOSS([0, 1, 0], [0, 0, 0]) is None
    assert POOLED_LOSS_ON_TOPICS([9, 1, 1], [0, 2, 2]) == 0
    assert PROFILE_LOSS_ON_TOPICS(np.array([[0.5, 0.5, 0.0]]), np.array([[0.0, 1.0, 0.0]])) == 0
    assert KEPT([1, 2, 3], [1, 2, 4]) == pytest.approx(2 / 3)
    nouns = wordnet()
    tennis = np.array([nouns.concept("tennis")])
    assert CLOSENESS(nouns, tennis, tennis) == 1
