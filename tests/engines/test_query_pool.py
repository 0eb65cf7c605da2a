"""The query pool, by query_pool.md: who adds what, keys that nobody asked for, and where the paper's own way fails."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
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
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.query_pool.outside_plan import RARE_QUERIES
from querycloak.papers.zhang2016_count import PaperPooling
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.calibration.gaussian import gaussian_delta, squared_loss
from querycloak.privacy.calibration.public_counts import public_cut
from querycloak.privacy.calibration.selection import together
from querycloak.privacy.sampling.noise import Gaussian, Laplace
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
    released = release_public(counts, public, noise, public_cut(noise, public.size), Randomness(seed=1))
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
    scales = {name: noise.size for name, noise in solved.noises.items()}
    assert sum(Fraction(solved.bounds[name]) / Fraction(scale) for name, scale in scales.items()) <= 3
    assert scales["queries"] == pytest.approx(5 / 2.25)
    assert solved.proven().epsilon == 3
    both = QueryPool(epsilon=6, delta=1e-6, off_pool=True, clicks="threshold").proven()
    assert (both.kind, both.epsilon) == ("approximate-dp", 6.0)
    assert 1e-7 < (both.delta or 0) <= 1e-6


# The coin of keys outside public lists


def coin_delta(method: QueryPool, tie_of: Mapping[str, float]) -> Decimal:
    """query_pool.md, *A coin at K*, to 60 digits: the chance that a key of one user alone comes out, over tables."""
    total = Decimal(0)
    with localcontext() as context:
        context.prec = 60
        for name, tie in tie_of.items():
            ratio = (-1 / Decimal(method.noises[name].size)).exp()
            above, equal_too = (
                ratio**least / (1 + ratio) for least in (method.thresholds[name], method.thresholds[name] - 1)
            )
            alone = (1 - Decimal(str(tie))) * above + Decimal(str(tie)) * equal_too
            total += 1 - (1 - alone) ** method.bounds[name]
    return total


@pytest.mark.parametrize(
    ("epsilon", "delta", "used"), [(1, 1e-6, 0.999), (3, math.exp(-10), 0.96), (8, 2.25e-7, 0.999), (12, 1e-3, 0.58)]
)
def test_the_coin_uses_what_thresholds_of_whole_numbers_leave_of_delta(
    epsilon: float, delta: float, used: float
) -> None:
    method = QueryPool(epsilon=epsilon, delta=delta, off_pool=True, selection="laplace")
    ties = method.tie_probabilities
    assert all(0 < tie < 1 for tie in ties.values())
    exact, proven = coin_delta(method, ties), Decimal(method.proven().numbers[1])
    assert exact <= proven <= Decimal(delta)
    assert used * delta <= proven <= exact * (1 + Decimal("1e-9"))
    assert coin_delta(method, dict.fromkeys(ties, 0.0)) < Decimal("0.95") * Decimal(delta)  # without a coin
    if max(ties.values()) < 0.999:  # a broken copy, whose coins are one digit too large, needs more than there is
        assert coin_delta(method, {name: tie + 0.001 for name, tie in ties.items()}) > Decimal(delta)
    recorded = {name: value for name, value in method.parameters().items() if name.endswith("_coin")}
    assert recorded == {f"{name}_coin": tie for name, tie in ties.items()}
    assert not QueryPool(noise=2.0, threshold=30, off_pool=True).tie_probabilities


def test_a_key_at_the_threshold_comes_out_as_often_as_its_coin_says(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Users with a query of their own: as many come out as delta says; the coin gives more than half of them."""
    pool = listed(tmp_path / "pool", ["public"])
    options: dict[str, Any] = {"pool": pool, "off_pool": True, "clicks": "none", "selection": "laplace"}
    method = QueryPool(epsilon=4, delta=0.015, queries_per_user=1, **options)
    rows = [(f"u{user}", "00:00:00", f"query {user}", "", "") for user in range(20_000)]
    log = opened(duckdb_engine, tmp_path / "log.tsv", rows)
    number = method.release(log, randomness=Randomness(seed=5)).table("queries").num_rows
    with_coin, without = (float(coin_delta(method, {"queries": tie})) for tie in (*method.ties().values(), 0.0))
    assert without < with_coin / 2
    assert abs(number - 20_000 * with_coin) < 5 * sqrt(20_000 * with_coin)


# Selections of keys outside public lists


def gaussian_law(sigma: float, reach: int) -> np.ndarray:
    weights = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    law: np.ndarray = weights / weights.sum()
    return law


def test_a_budget_that_moves_by_noisy_numbers_costs_the_same_either_way() -> None:
    """query_pool.md, *Selections*, step 3, by enumeration: what a first noisy count decides is how mu^2 is divided.

    One user moves the first count by one, and then either one count under little noise or two under more. The loss of
    both ways is that of one mu^2, so the delta of all is at most the formula's.
    """
    first, alone, each = Gaussian(4.0), Gaussian(3.0), Gaussian(math.sqrt(15))  # 1/(9-3) = 2/(15-3)
    reach, epsilon = 26, 0.8
    law = gaussian_law(first.sigma, reach)
    one = gaussian_law(alone.sigma, reach)
    two = gaussian_law(each.sigma, reach)
    moved, still = ([np.append(0, x), np.append(x, 0)] for x in (one, two))
    ways = [(moved[0], moved[1]), (np.outer(still[0], still[0]).ravel(), np.outer(still[1], still[1]).ravel())]
    sums = np.zeros(2)
    for value, (p, q) in enumerate(zip(np.append(0, law), np.append(law, 0), strict=True)):
        with_user, without = ways[value > reach]  # decided by the noisy count alone
        sums += [
            np.maximum(p * with_user - math.exp(epsilon) * q * without, 0).sum(),
            np.maximum(q * without - math.exp(epsilon) * p * with_user, 0).sum(),
        ]
    stated = gaussian_delta(squared_loss(first, 1) + squared_loss(alone, 1), epsilon)
    assert squared_loss(alone, 1) == pytest.approx(squared_loss(each, 2), rel=1e-9)
    assert max(sums) <= stated
    assert max(sums) > stated / 4


@pytest.mark.parametrize("options", [{"off_pool": True}, {}, {"off_pool": True, "clicks": "none"}])
@pytest.mark.parametrize(("epsilon", "delta"), [(8, 2.25e-7), (1, 1e-6), (3, 1e-3)])
def test_selections_use_nearly_all_of_delta_and_no_more(options: dict[str, Any], epsilon: float, delta: float) -> None:
    method = QueryPool(epsilon=epsilon, delta=delta, selection="multi-round", **options)
    plan = method.outside
    assert plan is not None
    assert 0.97 * delta < plan.delta <= delta
    assert method.proven().numbers == (epsilon, plan.delta)
    # One way may have the larger loss, the other the larger chance of own keys, and noise decides which way is taken.
    assert together(epsilon, *plan.draws()) <= plan.delta
    # The draws that a ledger adds up cover both ways.
    recorded = sum((draw.losses() for draw in plan.draws()), start=Losses())
    assert recorded.delta_at(epsilon) <= delta * (1 + 1e-6)
    if plan.clicks_alone is not None:
        without = [*(each for name, each in plan.selected.items() if name != "clicks"), plan.clicks_alone]
        rest = GaussianRounds(plan.public_loss - plan.transitions_loss, 0.0)
        assert together(epsilon, *(each.draw() for each in without), rest) <= plan.delta
        assert plan.clicks_alone.threshold < plan.selected["clicks"].threshold


def test_laplace_noise_stays_reachable_and_rounds_need_a_budget() -> None:
    former = QueryPool(epsilon=8, delta=2.25e-7, off_pool=True, selection="laplace")
    assert former.outside is None
    assert former.thresholds == {"queries": 18, "clicks": 34}
    assert "outside" not in former.parameters()
    assert former.parameters() == QueryPool(epsilon=8, delta=2.25e-7, off_pool=True).parameters()
    for options in ({"epsilon": 1, "selection": "multi-round"}, {**KNOBS, "max_keys_per_user": 4}):
        with pytest.raises(ParameterError, match="selection='multi-round' and max_keys_per_user are for"):
            QueryPool(**options)
    with pytest.raises(ParameterError, match="a part for each of queries, clicks, transitions"):
        QueryPool(epsilon=8, delta=1e-6, split="queries=1,clicks=1", selection="multi-round")


@pytest.mark.same_on_spark
def test_keys_outside_the_pool_are_selected_and_transitions_get_their_part_where_queries_are_frequent(
    engine: Engine, tmp_path: Path
) -> None:
    pool = listed(tmp_path / "pool.txt", ["alpha", "beta", "gamma"])
    rows = []
    for user in range(400):
        rows += [
            (f"u{user}", "12:00:00", "alpha", "1", "http://a.example/"),
            (f"u{user}", "12:01:00", "off the pool", "1", "http://off.example/"),
            (f"u{user}", "12:02:00", f"mine {user}", "1", f"http://own.example/{user}"),
        ]
    log = opened(engine, tmp_path / "log.tsv", rows)
    method = QueryPool(epsilon=8, delta=1e-5, pool=pool, off_pool=True, selection="multi-round")
    release = method.release(log, randomness=Randomness(seed=3))
    assert set(release.table("queries")["query"].to_pylist()) == {"alpha", "off the pool"}
    clicks = {(row["query"], row["url"]) for row in release.table("clicks").to_pylist()}
    assert clicks == {("alpha", "http://a.example/"), ("off the pool", "http://off.example/")}
    assert release.parameters["transitions_left_out"] is None
    (step,) = release.table("transitions").to_pylist()
    assert (step["query"], step["next_query"]) == ("alpha", "off the pool")
    assert abs(step["count"] - 400) < 40
    # Rare queries: nothing is drawn for transitions.
    few = opened(engine, tmp_path / "few.tsv", [row for row in rows if int(row[0][1:]) < 60])
    left_out = method.release(few, randomness=Randomness(seed=3))
    assert left_out.table("transitions").num_rows == 0
    assert left_out.parameters["transitions_left_out"] == RARE_QUERIES
    assert "Nothing was drawn, and clicks by selection got the budget" in left_out.reach["transitions"].notes[0]


def test_a_budget_that_nothing_gets_is_not_said_to_move(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Without clicks by selection, transitions that are left out leave their part unspent."""
    pool = listed(tmp_path / "pool.txt", ["alpha", "beta"])
    log = opened(duckdb_engine, tmp_path / "log.tsv", [("u", "12:00:00", "alpha", "", "")])
    method = QueryPool(epsilon=8, delta=1e-5, pool=pool, off_pool=True, clicks="none", selection="multi-round")
    release = method.release(log, randomness=Randomness(seed=3))
    assert release.parameters["transitions_left_out"] is not None
    assert release.reach["transitions"].notes[0].startswith("Nothing was drawn: ")


def test_the_threshold_lets_one_zero_pass() -> None:
    for scale, keys in ((0.25, 1000), (1.5, 325_176), (10.0, 10**12)):
        noise = Laplace(scale)
        least = public_cut(noise, keys)
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
