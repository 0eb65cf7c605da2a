"""Task loss: the penalty by hand, against loops over words, and the original against itself."""

from __future__ import annotations

import random
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.evaluation.task import Figure, Logs
from querycloak.evaluation.tasks.loss import NCP, SENSITIVE_RELEASED, SHARE_RELEASED, Loss, all_queries, f_beta
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.generalize.clusters import Matcher, Tree
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.row_kinds import RowKind
from querycloak.text.spans import Spans
from querycloak.text.wordnet import wordnet
from tests.logs import Row, aol, write
from tests.subjects import ORIGINAL, Released

WORDS = ["tennis", "asthma", "badminton", "golf ball", "cheap flights to rome", "qwxyz", "flu", "a flu shot"]


def some_rows(seed: int, users: int = 40) -> list[Row]:
    draw = random.Random(seed)
    return [
        (f"u{user}", f"12:{draw.randrange(60):02}:{second:02}", draw.choice(WORDS), draw.choice(["", "1"]), "")
        for user in range(users)
        for second in range(draw.randrange(6))
    ]


def opened(engine: Engine, folder: Path, rows: list[Row]) -> SearchLog:
    return read(write(folder / "log.tsv", aol(rows)), engine=engine)


def figures(log: SearchLog, subject: Released) -> dict[str, Figure]:
    return {each.measure.name: each for each in Loss().prepare(Logs(log, log)).scores(subject)}


@pytest.mark.parametrize("seed", range(3))
def test_left_out_or_as_it_is_against_loops(duckdb_engine: Engine, tmp_path: Path, seed: int) -> None:
    rows = some_rows(seed)
    searches = {(user, clock, query) for user, clock, query, _, _ in rows}
    out = {"golf ball", "tennis", "not of this log"}
    table = pa.table({"query": sorted(out), "count": [3] * 3})
    found = figures(opened(duckdb_engine, tmp_path, rows), Released("r", {"queries": table}))
    words = [query in out for _, _, query in searches for _ in query.split()]
    assert found["ncp"].value == pytest.approx(1 - sum(words) / len(words))
    assert found["ncp"].cases == len(words)
    distinct = {query for _, _, query in searches}
    assert found["share_released"].value == pytest.approx(len(out & distinct) / len(distinct))


def test_the_original_against_itself_loses_nothing(duckdb_engine: Engine, tmp_path: Path) -> None:
    found = figures(opened(duckdb_engine, tmp_path, some_rows(1)), ORIGINAL)
    assert (found["ncp"].value, found["share_released"].value) == (0, 1)
    assert set(found) == {measure.name for measure in Loss().measures}


def test_generalised_queries_against_loops(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Each phrase costs the share of leaves under what it became, every other word is left out."""
    rows = some_rows(4)
    log = opened(duckdb_engine, tmp_path, rows)
    nouns = wordnet()
    tree = Tree.of(nouns)
    matches = zip(WORDS, *Matcher(nouns).matches(Spans.of(pa.array(WORDS))), strict=True)
    matched = {text: tuple(map(int, numbers)) for text, *numbers in matches}
    users: dict[int, set[str]] = {}
    for user, _, query, _, _ in rows:
        users.setdefault(matched[query][0], set()).add(user)
    prepared = Loss().prepare(Logs(log, log))
    for least in (2, 8, 30):
        release = qc.Generalize(min_users=least).release(log, randomness=Randomness(1))
        found = {each.measure.name: each for each in prepared.scores(Released.of(release))}["ncp"]
        becomes = {concept: becomes_by_hand(tree, users, concept, least) for concept in users if concept >= 0}
        lost = total = 0.0
        for _, _, query in {(user, clock, query) for user, clock, query, _, _ in rows}:
            concept, covered, words = matched[query]
            target = becomes.get(concept)
            total += words
            lost += words - covered
            if target is None or target == tree.root:
                lost += covered
            elif target != concept:
                lost += covered * float(tree.leaves_under[target]) / float(tree.leaves_under.max())
        assert found.value == pytest.approx(lost / total)
        assert found.cases == total


def becomes_by_hand(tree: Tree, users: dict[int, set[str]], concept: int, least: int) -> int | None:
    """The first at or above whose own users and those handed up to it are enough; generalize.md, step 2."""

    @cache
    def own(node: int) -> set[str]:
        children = [c for c in above if tree.parents[c] == node and c != node]
        handed: set[str] = set().union(*(own(c) for c in children if len(own(c)) < least))
        return users.get(node, set()) | handed

    above: set[int] = set()
    for start in users:
        node = start
        while node >= 0 and node not in above:
            above.add(node)
            node = int(tree.parents[node])
    node = concept
    while True:
        if len(own(node)) >= least:
            return node
        if node == tree.root:
            return None
        node = int(tree.parents[node])


def test_what_was_drawn_at_random_has_no_penalty() -> None:
    log = pa.table({"user": ["1"], "query": ["a"]})
    for rows in (RowKind.REPLACED, RowKind.REBUILT, RowKind.NOISED):
        assert "drawn at random" in (Loss().unsupported_reason(Released("s", {"log": log}, rows=rows)) or "")
    for rows in (RowKind.ASKED, RowKind.ALIKE, RowKind.DRAWN, RowKind.MADE_UP, RowKind.GENERALISED):
        assert Loss().unsupported_reason(Released("s", {"log": log}, rows=rows)) is None
    assert Loss().unsupported_reason(Released("s", {"queries": log})) is None


def test_queries_of_all_tables_count() -> None:
    tables = {
        "clicks": pa.table({"query": ["a", "b"], "url": ["u", "u"], "count": [1, 1]}),
        "sessions": pa.table({"queries": pa.array([["b", "c"]]), "count": [1]}),
        "reformulations": pa.table({"kind": ["add"], "word": ["w"], "count": [9]}),  # no query
    }
    assert sorted(all_queries(Released("r", tables)).to_pylist()) == ["a", "b", "c"]


def test_measures_are_callable() -> None:
    assert NCP([2, 1, 1], [0.0, 0.5, 1.0]) == pytest.approx(0.375)
    assert NCP([], []) is None
    assert SHARE_RELEASED(np.array([True, False])) == 0.5
    assert SENSITIVE_RELEASED(np.array([True, False, True]), np.array([True, True, False])) == 0.5
    # Precision 1/2 (of two that came out one is sensitive), recall 1.
    assert f_beta(1.0)(np.array([True, True]), np.array([True, False])) == pytest.approx(2 / 3)
