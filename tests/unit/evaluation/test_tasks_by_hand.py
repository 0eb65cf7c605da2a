"""Tasks on toy logs whose scores were computed by hand, and on random logs against plain loops over rows."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import kendalltau

from querycloak.engines import Engine
from querycloak.evaluation.subjects import Original, PlainKAnonymity
from querycloak.evaluation.task import CaseScores, Figure, Logs, Subject, Task
from querycloak.evaluation.tasks.completion import Completion
from querycloak.evaluation.tasks.ranking import Ranking
from querycloak.evaluation.tasks.retrieval import RetrievalWalk
from querycloak.evaluation.tasks.retrieval_feedback import RetrievalFeedback
from querycloak.evaluation.tasks.suggestion import Suggestion
from querycloak.releases.row_kinds import RowKind
from tests.evaluated import MINUTE, Asked, open_rows, sessions_of, some_rows
from tests.subjects import Released

A, B, C = "http://a/", "http://b/", "http://c/"
KINDS = {
    "queries": ["query", "count"],
    "clicks": ["query", "url", "count"],
    "transitions": ["query", "next_query", "count"],
    "sessions": ["queries", "count"],
}


def release(name: str = "mine", rows: RowKind = RowKind.ASKED, **tables: list[tuple[Any, ...]]) -> Released:
    made = {}
    for kind, given in tables.items():
        columns = KINDS.get(kind) or ["user", "query", "url"]
        types = {"count": pa.int64(), "queries": pa.list_(pa.string())}
        arrays = [pa.array([row[at] for row in given], types.get(n, pa.string())) for at, n in enumerate(columns)]
        made[kind] = pa.table(arrays, columns)
    return Released(name, made, rows)


def logs_of(
    engine: Engine, folder: Path, train: Sequence[Asked], test: Sequence[Asked], *subjects: Subject
) -> tuple[Logs, Original]:
    ours, theirs = (open_rows(engine, folder / f"{n}.parquet", rows) for n, rows in (("train", train), ("test", test)))
    original = Original(ours)
    return Logs(ours, theirs, (original, *subjects)), original


def scored(task: Task, logs: Logs, subject: Subject) -> dict[tuple[str, str | None], CaseScores]:
    assert task.unsupported_reason(subject) is None
    found = task.prepare(logs).scores(subject)
    return {(each.measure.name, each.slice): each for each in found if isinstance(each, CaseScores)}


def values(task: Task, logs: Logs, subject: Subject, measure: str, part: str | None = None) -> list[float | None]:
    found = scored(task, logs, subject)[measure, part].scores
    return [None if math.isnan(value) else value for value in found.tolist()]


def test_suggestion(duckdb_engine: Engine, tmp_path: Path) -> None:
    """TRAIN: after a come b (twice) and c (once); a, d and e share url A, so they are alike.

    d("a") = 3. P(a, b) = 1/2 2/3 = .33, P(a, c) = .17, P(a, d) = 1/2 cos = 1/2 * 1; e: clicked A and B, 1/2 * .707.
    So after a: d, e, b, c. TEST: one session a, x, b, d and one x, a: prefixes a, a x, a x b, and x.
    """
    train: list[Asked] = [
        ("1", 0, "a", A, 1), ("1", 60, "b", None, None),
        ("2", 0, "a", A, 1), ("2", 60, "b", None, None), ("2", 90, "b", None, None), ("2", 120, "c", None, None),
        ("3", 0, "d", A, 1), ("4", 0, "e", A, 1), ("4", 0, "e", B, 2),
    ]  # fmt: skip
    test: list[Asked] = [
        ("7", 0, "a", None, None), ("7", 60, "x", None, None), ("7", 120, "b", None, None), ("7", 180, "d", C, 1),
        ("8", 0, "x", None, None), ("8", 60, "a", None, None), ("9", 0, "a", None, None),
    ]  # fmt: skip
    released = release(
        # b before c; longer sequences, loops and counts below 0 do not count
        sessions=[(["a", "b"], 5), (["a", "b", "d"], 99), (["a", "a"], 50), (["a", "d"], -2), (["b", "d"], 1)],
    )
    logs, original = logs_of(duckdb_engine, tmp_path, train, test, released)
    # True after a: x, b, d. Found d, e, b, c: two hits of five; two of three.
    assert values(Suggestion(), logs, original, "P@5") == [0.4, None, 0.0, None]
    assert values(Suggestion(), logs, original, "R@5") == pytest.approx([2 / 3, None, 0.0, None])
    # The release: after a comes b alone; after b comes d.
    assert values(Suggestion(), logs, released, "R@5") == pytest.approx([1 / 3, None, 1.0, None])
    case = scored(Suggestion(), logs, released)["P@5", None]
    assert case.units is not None
    assert np.unique(case.units).size == 2
    assert case.users.tolist() == [0, 0, 0, 1]


def test_completion(duckdb_engine: Engine, tmp_path: Path) -> None:
    """TRAIN asks "ba" three times and "bb" once. TEST: "ba" and "bc" have two letters, so the prefix is b; "z" none."""
    train: list[Asked] = [(str(n), n, "ba" if n < 3 else "bb", None, None) for n in range(4)]
    test: list[Asked] = [
        ("7", 0, "ba", None, None), ("7", 9, "ba", None, None), ("7", 99, "bc", None, None), ("8", 0, "z", None, None),
        ("8", 9, "zz", None, None),
    ]  # fmt: skip
    released = release(clicks=[("ba", A, 1), ("bc", A, 2), ("bc", B, 2), ("ba", B, 1), ("bb", A, -3)])
    logs, original = logs_of(duckdb_engine, tmp_path, train, test, released)
    task = Completion()
    assert values(task, logs, original, "RR@10") == [1.0, 0.0, None]
    assert values(task, logs, released, "RR@10") == [0.5, 1.0, None]
    assert values(task, logs, released, "Success@10", "prefix=1") == [1.0, 1.0, None]
    assert values(task, logs, released, "RR@10", "prefix=2") == []
    assert values(task, logs, released, "RR@10", "train=yes") == [0.5]
    assert values(task, logs, released, "RR@10", "train=no") == [1.0, None]


def test_prefixes_are_short_of_the_query_and_of_all_lengths(duckdb_engine: Engine, tmp_path: Path) -> None:
    test: list[Asked] = [("7", n, "ä" * (2 + n % 30) + str(n), None, None) for n in range(600)]
    logs, original = logs_of(duckdb_engine, tmp_path, [("1", 0, "a", None, None)], test)
    found = scored(Completion(), logs, original)
    sizes = [found["RR@10", f"prefix={length}"].scores.size for length in range(1, 11)]
    assert sum(sizes) == found["RR@10", None].scores.size == 600
    assert min(sizes) > 20


def test_retrieval_by_a_walk(duckdb_engine: Engine, tmp_path: Path) -> None:
    """As in the walk's own test by hand: from a, url b (through query b) has .729, url a .24975."""
    train: list[Asked] = [("1", 0, "a", A, 1), ("2", 0, "b", B, 1), ("2", 3600, "b", B, 1)]
    train += [row for n in range(3) for row in ((f"x{n}", 0, "a", None, None), (f"x{n}", 60, "b", None, None))]
    test: list[Asked] = [("7", 0, "a", A, 1), ("8", 0, "a", B, 1), ("8", 0, "a", C, 2), ("9", 0, "z", A, 1)]
    released = release(clicks=[("a", B, 3), ("a", A, 3)])
    logs, original = logs_of(duckdb_engine, tmp_path, train, test, released)
    gain = 1 / math.log2(3)
    assert values(RetrievalWalk(), logs, original, "nDCG@10") == pytest.approx([gain, 1 / (1 + gain), None])
    assert values(RetrievalWalk(), logs, original, "AP") == pytest.approx([0.5, 0.5, None])
    # A tie in the release: A comes first by text.
    assert values(RetrievalWalk(), logs, released, "AP") == pytest.approx([1.0, 0.25, None])


def test_retrieval_by_feedback(duckdb_engine: Engine, tmp_path: Path) -> None:
    """The release ranks A, B, C. User 7 clicks C at rank 1: .6/2 + .4/4 = .4 lies between A's 1/2 and B's 1/3.

    User 8 clicks B at rank 2: .6/3 + .4/3 = 1/3, still second. For user 7, B is moved by 8's click to 1/3: no change,
    C stays third. For user 8, C is moved by 7's click to .4, above B: third.
    """
    train: list[Asked] = [("1", 0, "z", A, 1)]
    test: list[Asked] = [("7", 0, "q", C, 1), ("8", 0, "q", B, 2), ("8", 0, "q", "http://unknown/", 3)]
    released = release(clicks=[("q", A, 9), ("q", B, 5), ("q", C, 2)])
    logs, _ = logs_of(duckdb_engine, tmp_path, train, test, released)
    task = RetrievalFeedback()
    assert values(task, logs, released, "AP", "feedback=none") == pytest.approx([1 / 3, 1 / 4])
    assert values(task, logs, released, "AP", "feedback=own (circular)") == pytest.approx([1 / 2, 1 / 4])
    assert values(task, logs, released, "AP") == pytest.approx([1 / 3, 1 / 6])


def test_ten_urls_in_random_order(duckdb_engine: Engine, tmp_path: Path) -> None:
    """One of ten urls at a rank that is as likely as any other: the mean of 1 / log2(1 + rank) is .454."""
    urls = [f"http://{n}/" for n in range(10)]
    train: list[Asked] = [("1", 0, "z", A, 1)]
    test: list[Asked] = [(f"u{n}", n, f"q{n}", urls[n % 10], 1) for n in range(2000)]
    released = release(clicks=[(f"q{n}", url, 10 - at) for n in range(2000) for at, url in enumerate(urls)])
    logs, _ = logs_of(duckdb_engine, tmp_path, train, test, released)
    found = scored(RetrievalFeedback(), logs, released)
    mean = found["nDCG@10", "feedback=none,order=random"].scores.mean()
    assert mean == pytest.approx(0.4544, abs=0.03)  # five standard errors
    # The click itself as feedback lifts a random order far above that, at whatever rank the user clicked.
    circular = found["nDCG@10", "feedback=own (circular),order=random"].scores.mean()
    assert circular > mean + 0.15


def test_ranking(duckdb_engine: Engine, tmp_path: Path) -> None:
    test: list[Asked] = [
        *((f"u{n}", n, "q", A, 1) for n in range(3)), *((f"u{n}", n, "q", B, 1) for n in range(2)),
        ("x", 0, "q", C, 1), ("x", 0, "tied", A, 1), ("x", 0, "tied", B, 1), ("x", 0, "one", A, 1),
        ("x", 0, "r", A, 1), ("x", 9, "r", A, 1), ("x", 0, "r", B, 1),
    ]  # fmt: skip
    released = release(clicks=[("q", A, 5), ("q", B, 5), ("q", "http://other/", 7), ("one", A, 5), ("tied", A, 5)])
    logs, _ = logs_of(duckdb_engine, tmp_path, [("1", 0, "q", A, 1)], test, released)
    # q: 5, 5, 0 against 3, 2, 1: two of three pairs agree, one is tied. r: not in the release, so all tied.
    assert values(Ranking(), logs, released, "tau-b") == [pytest.approx(2 / 6**0.5), None]
    assert scored(Ranking(), logs, released)["tau-b", "weight=clicks"].weights is not None
    figures = [each for each in Ranking().prepare(logs).scores(released) if isinstance(each, Figure)]
    assert {(figure.slice, figure.value) for figure in figures} == {("tied=test", 1), ("tied=release", 1)}


@pytest.mark.parametrize("seed", range(3))
def test_suggestion_as_by_loops(duckdb_engine: Engine, tmp_path: Path, seed: int) -> None:
    train, test = some_rows(seed, 25), some_rows(seed + 100, 15, first=100)
    logs, original = logs_of(duckdb_engine, tmp_path, train, test)
    lists = _suggestions(train)
    expected: list[float | None] = []
    for _, session in sessions_of(test):
        for place, last in enumerate(session[:-1]):
            true = set(session[place + 1 :]) - {last}
            found = lists(last)
            expected.append(len(true & set(found)) / len(true) if found else None)
    assert values(Suggestion(), logs, original, "R@5") == pytest.approx(expected)


def _suggestions(train: list[Asked]) -> Any:
    vectors: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, query, url, _ in train:
        if url is not None:
            vectors[query][url] += 1
    later: dict[str, Counter[str]] = defaultdict(Counter)
    for _, session in sessions_of(train):
        for one, other in combinations(session, 2):
            if one != other:
                later[one][other] += 1

    def suggest(query: str) -> list[str]:
        scores: dict[str, float] = {}
        for other in (vectors.keys() | later[query].keys()) - {query}:
            dot = sum(n * vectors[other][url] for url, n in vectors[query].items())
            norms = [math.sqrt(sum(n * n for n in vectors[each].values())) for each in (query, other)]
            score = dot / norms[0] / norms[1] / 2 if dot else 0.0
            score += later[query][other] / later[query].total() / 2 if later[query] else 0.0
            if score > 0:
                scores[other] = score
        return sorted(scores, key=lambda other: (-round(scores[other], 12), other.encode()))[:5]

    return suggest


@pytest.mark.parametrize("seed", range(3))
def test_feedback_as_by_loops(duckdb_engine: Engine, tmp_path: Path, seed: int) -> None:
    train, test = some_rows(seed, 25), some_rows(seed + 100, 15, first=100)
    logs, original = logs_of(duckdb_engine, tmp_path, train, test)
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for _, _, query, url, _ in train:
        if url is not None:
            counts[query][url] += 1
    searches: dict[tuple[str, int, str], dict[str, int]] = defaultdict(dict)
    for user, second, query, url, rank in test:
        if url is not None:
            before = searches[user, second, query].get(url)
            ranks = [each for each in (before, rank) if each]
            searches[user, second, query][url] = min(ranks, default=0)
    for part in ("feedback=own (circular)", None, "feedback=none"):
        expected: list[float | None] = []
        for (user, _, query), clicked in sorted(
            searches.items(), key=lambda each: (each[0][0], each[0][1], each[0][2].encode())
        ):
            order = sorted(counts[query], key=lambda url: (-counts[query][url], url))
            moved: dict[str, float] = {}
            for url in order:
                others = [seen[url] for (who, _, asked), seen in searches.items()
                          if who != user and asked == query and seen.get(url)]  # fmt: skip
                if part is None and others:
                    moved[url] = sum(others) / len(others)
                elif part == "feedback=own (circular)" and clicked.get(url):
                    moved[url] = clicked[url]
            score = {
                url: 0.6 / (moved[url] + 1) + 0.4 / (place + 1) if url in moved else 1 / (place + 1)
                for place, url in enumerate(order, 1)
            }
            ranked = sorted(order, key=lambda url: (-round(score[url], 12), url))
            precision = [
                len(set(ranked[:place]) & set(clicked)) / place for place, url in enumerate(ranked, 1) if url in clicked
            ]
            expected.append(sum(precision) / len(clicked) if order else None)
        assert values(RetrievalFeedback(), logs, original, "AP", part) == pytest.approx(expected), part


@pytest.mark.parametrize("seed", range(3))
def test_ranking_as_by_loops(duckdb_engine: Engine, tmp_path: Path, seed: int) -> None:
    train, test = some_rows(seed, 30), some_rows(seed + 100, 30, first=100)
    baseline_rows = [*train, *((f"more {n}", n, "a", A, 1) for n in range(5))]
    logs, original = logs_of(duckdb_engine, tmp_path, baseline_rows, test)
    ours, theirs = (Counter((q, url) for _, _, q, url, _ in rows if url) for rows in (baseline_rows, test))
    expected = []
    for query in sorted({query for query, _ in theirs}, key=str.encode):
        urls = sorted(url for asked, url in theirs if asked == query)
        clicked = [theirs[query, url] for url in urls]
        if len(set(clicked)) > 1:
            tau = kendalltau([ours[query, url] for url in urls], clicked).statistic
            expected.append(None if math.isnan(tau) else tau)
    assert values(Ranking(), logs, original, "tau-b") == pytest.approx(expected)


def test_the_original_as_tables_is_the_original_in_numbers(duckdb_engine: Engine, tmp_path: Path) -> None:
    """TRAIN in a release's form gives the graphs that TRAIN gives: two ways to the same counts."""
    train, test = some_rows(1, 40), some_rows(2, 10, first=100)
    log = open_rows(duckdb_engine, tmp_path / "again.parquet", train)
    told = {kind: Original(log).table(kind) for kind in ("queries", "clicks", "sessions")}
    same = Released("told", told)
    nexts = Released("nexts", {"transitions": Original(log).table("transitions")})
    logs, original = logs_of(duckdb_engine, tmp_path, train, test, same, nexts)
    for known, other in (("clicks", same), ("later", same), ("next", nexts)):
        pairs = [getattr(logs.graphs, known)(subject) for subject in (original, other)]
        for column in ("left", "right", "weight"):
            assert getattr(pairs[0], column).tolist() == getattr(pairs[1], column).tolist(), known
    assert logs.graphs.queries(original).tolist() == logs.graphs.queries(same).tolist()


def test_a_log_with_times_has_sequences(duckdb_engine: Engine, tmp_path: Path) -> None:
    train, test = some_rows(3, 30), some_rows(4, 8, first=100)
    log = open_rows(duckdb_engine, tmp_path / "again.parquet", train)
    rows = duckdb_engine.fetch(log.rows.select("user", "query", "url", "time"))
    timed = Released("timed", {"log": rows})
    logs, original = logs_of(duckdb_engine, tmp_path, train, test, timed)
    for known in ("clicks", "later", "next"):
        pairs = [getattr(logs.graphs, known)(subject) for subject in (original, timed)]
        assert pairs[0].weight.tolist() == pairs[1].weight.tolist(), known
        assert pairs[0].right.tolist() == pairs[1].right.tolist(), known


def test_k_anonymity_is_what_five_users_share(duckdb_engine: Engine, tmp_path: Path) -> None:
    train: list[Asked] = [(f"u{n}", n, "five", A, 1) for n in range(5)]
    train += [(f"u{n}", n, "four", A, 1) for n in range(4)]
    train += [("u0", 10 * MINUTE, "four", A, 1), ("u0", 10 * MINUTE, "five", B, 1)]
    subject = PlainKAnonymity(open_rows(duckdb_engine, tmp_path / "log.parquet", train))
    assert subject.table("queries").to_pylist() == [{"query": "five", "count": 5}]
    assert subject.table("clicks").to_pylist() == [{"query": "five", "url": A, "count": 5}]


@pytest.mark.parametrize(
    ("task", "kind", "said"),
    [
        (Suggestion(), "queries", "it has no clicks and no sequences of queries; sessions"),
        (RetrievalWalk(), "sessions", "it has no clicks; clicks"),
        (RetrievalFeedback(), "queries", "it has no clicks; clicks"),
        (Ranking(), "transitions", "it has no clicks; clicks"),
    ],
)
def test_what_a_release_cannot_do_says_why_and_what_could(task: Task, kind: str, said: str) -> None:
    empty: dict[str, Any] = {kind: []}
    assert (task.unsupported_reason(release(**empty)) or "").startswith(said)


@pytest.mark.parametrize("task", [Suggestion(), Completion(), RetrievalWalk(), RetrievalFeedback(), Ranking()])
def test_replaced_queries_serve_nothing(task: Task) -> None:
    why = task.unsupported_reason(release(rows=RowKind.REPLACED, log=[]))
    assert why is not None
    assert why.startswith("its rows hold other texts in place of what was asked; ")
    assert task.unsupported_reason(release(log=[])) is None
