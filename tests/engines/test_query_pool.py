"""The query pool, by query_pool.md: who adds what, keys that nobody asked for, and where the paper's own way fails."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from querycloak.engines import Engine
from querycloak.errors import InputError, ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.keys import public_keys
from querycloak.methods.keys.public_keys import PublicKeys, release_public
from querycloak.methods.keys.thresholded import KeyCounts
from querycloak.methods.method import Variant
from querycloak.methods.query_pool.count import Pooling
from querycloak.methods.query_pool.method import QueryPool, quiet_threshold
from querycloak.papers.zhang2016_count import PaperPooling
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import Row, aol, write

KNOBS: dict[str, Any] = {"noise": 1.0, "threshold": 20}


def listed(path: Path, entries: Iterable[str]) -> str:
    return str(write(path, "".join(f"{entry}\n" for entry in entries)))


def opened(engine: Engine, path: Path, rows: list[Row]) -> SearchLog:
    return read(write(path, aol(rows)), engine=engine)


def some_rows(seed: int, users: int = 40) -> list[Row]:
    draw = random.Random(seed)
    rows = []
    for user in range(users):
        minute = draw.randrange(60)
        for _ in range(draw.randrange(16)):
            minute += draw.choice([0, 1, 5, 30, 31])
            clicked = draw.choice(["", "http://1.example/", "http://2.example/"])
            clock = f"{minute // 60:02}:{minute % 60:02}:00"
            rows.append((f"u{user}", clock, draw.choice("abcdef"), "1" if clicked else "", clicked))
    return rows


def keys_of(engine: Engine, table: Any, *key: str) -> dict[str, list[tuple[str, ...]]]:
    found: dict[str, list[tuple[str, ...]]] = {}
    for row in engine.fetch(table).sort_by([(name, "ascending") for name in ("user", "earliest", *key)]).to_pylist():
        found.setdefault(row["user"], []).append(tuple(row[name] for name in key))
    return found


def expected(rows: list[Row], pool: str, released: str, urls: set[str]) -> tuple[dict[str, Any], ...]:
    """query_pool.md, steps 1 to 3, one row after another, for 3 queries, 2 transitions and 2 clicks a user."""
    queries, transitions, clicks = {}, {}, {}
    for user in {row[0] for row in rows}:
        mine = sorted((t, int(r or 1022), q, a) for u, t, q, r, a in rows if u == user and q in pool)
        asked = sorted((t, q) for t, _, q, _ in mine)
        steps: dict[tuple[str, str], str] = {}
        for first, then in pairwise(asked):
            if (
                first[1] != then[1]
                and minutes(then[0]) - minutes(first[0]) <= 30
                and {first[1], then[1]} <= set(released)
            ):
                steps.setdefault((first[1], then[1]), then[0])
        by_time: dict[str, str] = {}
        for t, q in asked:
            by_time.setdefault(q, t)
        queries[user] = [(q,) for q in sorted(by_time, key=lambda q: (by_time[q], q))][:3]
        transitions[user] = sorted(steps, key=lambda pair: (steps[pair], pair))[:2]
        pairs = [(t, r, q, a) for t, r, q, a in mine if a in urls and q in released]
        clicks[user] = list(dict.fromkeys((q, a) for _, _, q, a in pairs))[:2]
    return tuple({user: keys for user, keys in found.items() if keys} for found in (queries, transitions, clicks))


def minutes(clock: str) -> int:
    return 60 * int(clock[:2]) + int(clock[3:5])


@pytest.mark.same_on_spark
def test_users_add_what_the_proof_note_says(engine: Engine, tmp_path: Path) -> None:
    rows = some_rows(seed=1)
    urls = {"http://1.example/"}
    method = QueryPool(
        **KNOBS,
        pool=listed(tmp_path / "pool", "abcdx"),
        urls=listed(tmp_path / "urls", urls),
        queries_per_user=3,
        clicks_per_user=2,
    )
    pooling = Pooling(method, opened(engine, tmp_path / "log.tsv", rows))
    released, public = (engine.upload(pa.table(t)) for t in ({"query": ["a", "b", "c"]}, {"url": list(urls)}))
    queries, transitions, clicks = expected(rows, "abcd", "abc", urls)
    assert keys_of(engine, pooling.queries(), "query") == queries
    assert keys_of(engine, pooling.transitions(released), "query", "next_query") == transitions
    assert keys_of(engine, pooling.clicks(released, public), "query", "url") == clicks
    assert max(map(len, queries.values())) == 3
    assert max(map(len, transitions.values())) == max(map(len, clicks.values())) == 2


@pytest.mark.same_on_spark
def test_a_user_more_adds_no_more_than_the_bounds_and_changes_nobody_else(engine: Engine, tmp_path: Path) -> None:
    rows = some_rows(seed=2)
    newcomer = [("new", t, q, r, a) for _, t, q, r, a in some_rows(seed=3)]
    method = QueryPool(**KNOBS, pool=listed(tmp_path / "pool", "abcdef"), clicks="threshold", queries_per_user=3)
    released = engine.upload(pa.table({"query": list("abcde")}))
    counted = []
    for number, some in enumerate((rows, random.Random(5).sample(rows + newcomer, len(rows + newcomer)))):
        pooling = Pooling(method, opened(engine, tmp_path / f"{number}.tsv", some))
        counted.append(
            (
                keys_of(engine, pooling.queries(), "query"),
                keys_of(engine, pooling.transitions(released), "query", "next_query"),
                keys_of(engine, pooling.clicks(released, None), "query", "url"),
            )
        )
    for without, with_one_more, bound in zip(*counted, (3, 2, 4), strict=True):
        assert 0 < len(with_one_more.pop("new")) <= bound
        assert without == with_one_more


LISTS = st.lists(st.text("abc", min_size=1, max_size=3), min_size=2, max_size=7, unique=True)


@given(LISTS, LISTS, st.booleans())
def test_keys_are_numbered_one_to_one(first: list[str], second: list[str], different: bool) -> None:
    lists = {"query": pa.array(first), "other": pa.array(first if different else second)}
    public = PublicKeys(lists, different)
    keys = public.at(np.arange(public.size))
    whole = {(a, b) for a in first for b in (first if different else second) if not (different and a == b)}
    assert {tuple(row.values()) for row in keys.to_pylist()} == whole
    assert len(whole) == public.size
    assert public.codes(keys).tolist() == list(range(public.size))
    single = PublicKeys({"query": lists["query"]})
    assert single.codes(single.at(np.arange(single.size))).tolist() == list(range(len(first)))


@pytest.mark.parametrize("crowded", [True, False])
def test_every_public_key_has_its_own_law(
    duckdb_engine: Engine, monkeypatch: pytest.MonkeyPatch, crowded: bool
) -> None:
    """Against one draw for every key: how often keys pass, by count and by place, within six deviations."""
    monkeypatch.setattr(public_keys, "_CROWDED", 0 if crowded else 9)
    names = [f"{i:02}" for i in range(20)]
    true = {(a, b): int(b) for a in names for b in names[1:7]}
    public = PublicKeys({"query": pa.array(names), "next_query": pa.array(names)})
    columns = zip(*((a, b, n) for (a, b), n in true.items()), strict=True)
    counted = duckdb_engine.upload(
        pa.table(dict(zip(("query", "next_query", "n"), map(pa.array, columns), strict=True)))
    )
    counts = KeyCounts(duckdb_engine, counted, ("query", "next_query"))
    noise, threshold, runs, randomness = Laplace(1.5), 2, 25, Randomness(seed=9)
    passed: Counter[tuple[str, str]] = Counter()
    for _ in range(runs):
        released = release_public(counts, public, noise, threshold, randomness)
        assert released["count"].to_numpy().min() > threshold
        keys = [(row["query"], row["next_query"]) for row in released.to_pylist()]
        assert len(keys) == len(set(keys))
        passed.update(keys)
    for groups in (lambda a, b: (true.get((a, b), 0), ""), lambda a, b: (true.get((a, b), 0), a)):
        sizes = Counter(groups(a, b) for a in names for b in names)
        seen: Counter[tuple[int, str]] = Counter()
        for (a, b), times in passed.items():
            seen[groups(a, b)] += times
        for (count, place), size in sizes.items():
            chance, draws = noise.tail(threshold + 1 - count).up(), size * runs
            assert abs(seen[count, place] - draws * chance) < 6 * sqrt(draws * chance * (1 - chance)), (count, place)


@pytest.mark.same_on_spark
def test_rows_that_nobody_asked_for_may_come_out_and_no_others(engine: Engine, tmp_path: Path) -> None:
    """What may come out is the pool's, whoever is in the log: query_pool.md, pure epsilon."""
    pool = listed(tmp_path / "pool", (f"public {i}" for i in range(2000)))
    rows = [("u", "12:00:00", "secret of one user", "1", "http://1.example/")] * 9
    release = QueryPool(noise=3.0, threshold=8, pool=pool).release(
        opened(engine, tmp_path / "log.tsv", rows), randomness=Randomness(seed=3)
    )
    queries = [row["query"] for row in release.table("queries").to_pylist()]
    assert 20 < len(queries) < 150  # 2,000 times 0.029 = 58 expected
    assert all(query.startswith("public ") for query in queries)
    transitions = release.table("transitions").to_pylist()
    assert len(transitions) < 12  # one is expected
    assert all({row["query"], row["next_query"]} <= set(queries) for row in transitions)
    assert all(row["query"] != row["next_query"] for row in transitions)
    assert "clicks" not in release.tables


def test_nothing_may_come_out(engine: Engine, tmp_path: Path) -> None:
    log = opened(engine, tmp_path / "log.tsv", some_rows(seed=4))
    pool, urls = listed(tmp_path / "pool", "xyz"), listed(tmp_path / "urls", ["http://1.example/"])
    release = QueryPool(noise=0.1, threshold=90, pool=pool, urls=urls).release(log)
    assert {kind: release.table(kind).num_rows for kind in release.tables} == {
        "queries": 0,
        "clicks": 0,
        "transitions": 0,
    }


def test_pairs_of_many_queries_are_never_written_down(duckdb_engine: Engine) -> None:
    names = pa.array([f"query {i}" for i in range(1_000_000)])
    public = PublicKeys({"query": names, "next_query": names}, different=True)
    counted = duckdb_engine.upload(pa.table({"query": ["query 1"], "next_query": ["query 2"], "n": [100]}))
    counts = KeyCounts(duckdb_engine, counted, ("query", "next_query"))
    noise = Laplace(3.0)
    assert public.size == 999_999_000_000
    released = release_public(counts, public, noise, quiet_threshold(noise, public.size), Randomness(seed=1))
    assert 1 <= released.num_rows < 12
    assert (released["query"][0].as_py(), released["next_query"][0].as_py()) == ("query 1", "query 2")


def counterexample(lifted: int) -> tuple[list[Row], list[Row]]:
    """query_pool.md, counterexample (a): neighbours that differ in one user."""
    rows = [("five" + str(i), "12:00:00", "a", "", "") for i in range(5)]
    for i in range(lifted):
        for user in range(4):
            rows += [(f"u{i}-{user}", "12:00:00", f"r{i}", "", ""), (f"u{i}-{user}", "12:01:00", "a", "", "")]
    one = [("one", f"12:{i:02}:00", f"r{i}", "", "") for i in range(lifted)]
    return rows, rows + one


def counts_of(engine: Engine, table: Any) -> Counter[str]:
    counted = engine.fetch(table.group_by("query").agg(n=table.count())).to_pylist()
    return Counter({row["query"]: row["n"] for row in counted})


@pytest.mark.same_on_spark
@pytest.mark.parametrize("lifted", [1, 6])
def test_one_user_moves_the_papers_counts_by_eight_for_each_query_lifted(
    engine: Engine, tmp_path: Path, lifted: int
) -> None:
    """query_pool.md, counterexample (a): 8M + 1 in the paper's variant, at most q_f in ours."""
    pool = listed(tmp_path / "pool", ["a", *(f"r{i}" for i in range(lifted))])
    logs = [opened(engine, tmp_path / f"{i}.tsv", rows) for i, rows in enumerate(counterexample(lifted))]
    moved = {}
    for variant, kind in (("paper", PaperPooling), ("default", Pooling)):
        method = QueryPool(**KNOBS, pool=pool, queries_per_user=1, variant=variant)  # type: ignore[arg-type]
        without, with_one = (counts_of(engine, kind(method, log).queries()) for log in logs)
        moved[variant] = sum(abs(with_one[key] - without[key]) for key in with_one | without)
    assert moved == {"paper": 8 * lifted + 1, "default": 1}


@pytest.mark.same_on_spark
def test_one_user_alone_makes_the_paper_show_what_it_could_not(engine: Engine, tmp_path: Path) -> None:
    """query_pool.md, counterexamples (b) and (c): an output that is possible from one neighbour only."""
    others = [
        (f"u{i}", f"12:0{j}:00", query, "1", "http://1.example/")
        for i in range(30)
        for j, query in enumerate(("weather", "lisbon hotels"))
    ]
    own = [("one", f"13:{i:02}:00", "weather lisbon", "1", "http://own.example/") for i in range(20)]
    pool = listed(tmp_path / "pool", ["weather", "lisbon hotels", "tides"])
    shown = {}
    for number, rows in enumerate((others, others + own)):
        log = opened(engine, tmp_path / f"{number}.tsv", rows)
        variants: tuple[Variant, ...] = ("paper", "default")
        for variant in variants:
            release = QueryPool(noise=0.1, threshold=10, pool=pool, variant=variant).release(log)
            shown[variant, number] = {
                text for kind in release.tables for row in release.table(kind).to_pylist() for text in row.values()
            }
    assert {"weather lisbon", "http://own.example/"} <= shown["paper", 1]
    assert not {"weather lisbon", "http://own.example/"} & (shown["paper", 0] | shown["default", 1])
    assert "weather" in shown["default", 0] & shown["default", 1]


def test_the_paper_drops_what_is_rare_or_has_a_term_of_one_user(engine: Engine, tmp_path: Path) -> None:
    rows = [(f"u{i}", "12:00:00", "weather", "", "") for i in range(5)]
    rows += [(f"u{i}", "12:00:00", "tides", "", "") for i in range(4)]
    rows += [("one", f"13:0{i}:00", "weather 987654321", "", "") for i in range(6)]
    method = QueryPool(**KNOBS, pool=listed(tmp_path / "pool", ["x"]), variant="paper")
    pooling = PaperPooling(method, opened(engine, tmp_path / "log.tsv", rows))
    assert counts_of(engine, pooling.queries()) == {"weather": 5}


@pytest.mark.same_on_spark
def test_what_many_ask_comes_out(engine: Engine, tmp_path: Path) -> None:
    rows = [
        (f"u{i}", f"12:0{j}:00", query, "1", f"http://{j}.example/?id={i}")
        for i in range(50)
        for j, query in enumerate(("first", "then", f"own {i}"))
    ]
    log = opened(engine, tmp_path / "log.tsv", rows)
    pool, urls = (
        listed(tmp_path / name, lines)
        for name, lines in (
            ("pool", ["First ", "then", "never"]),
            ("urls", ["http://0.example/?x", "http://9.example/"]),
        )
    )
    release = QueryPool(epsilon=30, pool=pool, urls=urls).release(log)
    near = {kind: {tuple(row.values())[:-1] for row in release.table(kind).to_pylist() if row["count"] > 40} for kind in release.tables}  # noqa: E501  # fmt: skip
    assert near == {
        "queries": {("first",), ("then",)},
        "transitions": {("first", "then")},
        "clicks": {("first", "http://0.example/")},
    }
    beside = QueryPool(epsilon=30, delta=1e-6, pool=pool, off_pool=True, clicks="threshold").release(log)
    assert {row["query"] for row in beside.table("queries").to_pylist()} <= {"first", "then", "never"}
    found = {(row["query"], row["url"]) for row in beside.table("clicks").to_pylist()}
    assert found == {("first", "http://0.example/"), ("then", "http://1.example/")}


def test_epsilon_is_the_sum_over_tables() -> None:
    """query_pool.md: epsilon = q_f/b_q + (q_f - 1)/b_t + c_f/b_c."""
    proven = QueryPool(noise=2.0, threshold=30, queries_per_user=4).proven()
    assert (proven.kind, proven.epsilon, proven.delta) == ("pure-dp", (4 + 3) / 2, 0)
    single = QueryPool(noise=2.0, threshold=30, queries_per_user=1)
    assert (single.proven().epsilon, "transitions" in single.bounds) == (0.5, False)
    solved = QueryPool(epsilon=3, split="queries=3,transitions=1", queries_per_user=5)
    scales = {name: noise.scale for name, noise in solved.noises.items()}
    assert sum(Fraction(solved.bounds[name]) / Fraction(scale) for name, scale in scales.items()) <= 3
    assert scales["queries"] == pytest.approx(5 / 2.25)
    assert solved.proven().epsilon == 3
    both = QueryPool(epsilon=6, delta=1e-6, off_pool=True, clicks="threshold").proven()
    assert (both.kind, both.epsilon) == ("approximate-dp", 6.0)
    assert 1e-7 < (both.delta or 0) <= 1e-6


def test_the_threshold_lets_one_zero_pass() -> None:
    for scale, keys in ((0.25, 1000), (1.5, 325_176), (10.0, 10**12)):
        noise = Laplace(scale)
        least = quiet_threshold(noise, keys)
        assert keys * noise.tail(least + 1).up() <= 1 < keys * noise.tail(least).up()


def test_the_paper_claims_what_is_not_so() -> None:
    """Zhang, Yang & Singh, SIGIR 2016: epsilon 29.99 at b = 10 and K = 500, delta = 0; they do not say q_f and c_f."""
    method = QueryPool(noise=10, threshold=500, variant="paper")
    claimed, proven = method.claimed(), method.proven()
    assert claimed is not None
    assert (claimed.kind, claimed.epsilon, claimed.delta) == ("pure-dp", 29.9, 0.0)
    assert (proven.kind, proven.epsilon, proven.k) == ("syntactic", None, None)
    assert "not differentially private" in proven.because
    assert any("8M+1" in text for text in proven.unprotected)


def test_the_built_in_pool_is_what_the_guarantee_takes_it_for() -> None:
    from querycloak.logs.choices import Choices
    from querycloak.methods.keys.public_lists import BUILT_IN_SIZE, PublicList, queries_of
    from querycloak.text.normalisation import normalise
    from querycloak.text.spans import Spans

    queries = queries_of(PublicList.of("pool", None), Choices())
    assert len(queries) == len(queries.unique()) == BUILT_IN_SIZE
    assert normalise(Spans.of(queries)).equals(queries)
    assert queries.to_pylist() == sorted(queries.to_pylist(), key=str.encode)
    assert {"weather", "news channel"} <= set(queries.to_pylist())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give the budget .epsilon. or explicit noise .noise, threshold."),
        ({"epsilon": 1, "noise": 1, "threshold": 5}, "never both"),
        ({"epsilon": 1, "delta": 1e-6, "clicks": "none"}, "delta is for off_pool and clicks='threshold'"),
        ({"epsilon": 1, "off_pool": True}, "delta must be given, a number above 0 and below 1; off_pool"),
        ({"epsilon": 1, "clicks": "all"}, "clicks must be one of none, threshold, public, got 'all'"),
        ({"epsilon": 1, "clicks": "public"}, "clicks='public' needs a public list of urls: urls='FILE'"),
        ({"epsilon": 1, "queries_per_user": 0}, "queries_per_user must be at least 1, got 0"),
        ({"epsilon": 1, "split": "queries=1"}, "split must be a part for each of queries, transitions"),
        ({"noise": 1, "threshold": 5, "split": "queries=1,transitions=1"}, "delta and split are for a budget"),
        ({"noise": 9, "threshold": 0, "off_pool": True, "queries_per_user": 90}, "threshold must be high enough"),
        ({"epsilon": 1, "variant": "paper", "clicks": "threshold"}, "the paper variant releases all queries"),
        ({"epsilon": 1, "gap_minutes": -1}, "gap_minutes must be a finite number above 0"),
    ],
)
def test_query_pool_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        QueryPool(**options)


def test_lists_that_cannot_be_used_are_refused(tmp_path: Path, duckdb_engine: Engine) -> None:
    (tmp_path / "bad").write_bytes(b"caf\xe9\n")
    (tmp_path / "empty").write_text("\n \n")
    for name, problem in (("none", "no such file"), ("bad", "it is not UTF-8"), ("empty", "is empty")):
        with pytest.raises(InputError, match=problem):
            QueryPool(epsilon=1, pool=str(tmp_path / name))
    with pytest.raises(InputError, match="urls: the list"):
        QueryPool(epsilon=1, urls=str(tmp_path / "none"))
    method = QueryPool(epsilon=1, pool=listed(tmp_path / "pool", "ab"))
    listed(tmp_path / "pool", "abc")
    with pytest.raises(InputError, match="was changed meanwhile"):
        method.release(opened(duckdb_engine, tmp_path / "log.tsv", some_rows(seed=1)))
