"""One contract suite over all methods, on both engines; then what is particular to each."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripts.seeded_methods import METHODS as VALUES
from scripts.seeded_methods import POOL, URLS

import querycloak as qc
from querycloak import contract
from querycloak.engines import Engine
from querycloak.errors import BudgetRefused, ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.generalize.method import Generalize
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.methods.keys.thresholded import KeyCounts, least_likely_count, release_keys
from querycloak.methods.method import Method
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.synthetic.method import Synthetic
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.sampling.noise import Gaussian, Laplace
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.loading import load
from querycloak.text.wordnet import wordnet
from tests.logs import Row, aol, write

METHODS: dict[str, Method] = {name: getattr(qc, kind)(**options) for name, (kind, options) in VALUES.items()}
ON_SPARK = (
    "queries", "clicks", "clicks weighted", "clicks priors", "clicks laplace", "clicks paper", "clicks auto",
    "clicks without counts", "clicks counted", "clicks counted laplace", "sessions with queries", "sessions paper",
    "phrases", "phrases by attributes", "pool urls", "pool threshold", "pool paper", "optimal", "optimal paper",
    "k log", "k dma", "eu records", "affinity with times", "generalize", "semantic topics",
)  # fmt: skip
LONG_ON_SPARK = (
    "clicks weighted", "clicks priors", "clicks laplace", "clicks auto", "clicks without counts",
    "clicks counted laplace", "phrases", "phrases by attributes", "pool threshold", "pool paper",
    "optimal paper", "k dma",
)  # fmt: skip
KILLED = "stays_charged_if_it_is_killed"
each_method = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


def shared_rows(users: int = 60) -> list[Row]:
    """Pair i is clicked by users i, i+1, ...: counts of every size, one pair for each."""
    rows = [
        (f"u{user}", f"12:{pair:02}:00", f"query {pair}", "1", f"http://{pair}.example/")
        for user in range(users)
        for pair in range(min(user + 1, 40))
    ]
    return [*rows, *(row for row in rows if row[0] == "u7")]  # one user says everything twice


@pytest.fixture(scope="module")
def log_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("methods") / "log.tsv", aol(shared_rows()))


@pytest.fixture
def log(engine: Engine, log_file: Path) -> SearchLog:
    return read(log_file, engine=engine)


def test_no_rule_is_left_out() -> None:
    assert KILLED in contract.RULES
    assert len(contract.RULES) == 12


@each_method
def test_a_method_keeps_the_contract_and_releases_what_it_may(method: Method, duckdb_engine: Engine) -> None:
    with contract.Trial(method, engine=duckdb_engine) as trial:
        for name, rule in contract.RULES.items():
            if name != KILLED:
                rule(trial)
        release = trial.outcome.release
        queries, pairs = may_come_out(method)
        for kind in release.tables:
            rows = release.table(kind).to_pylist()
            if isinstance(method, Synthetic):
                check_made_up(rows, queries, pairs)
                continue
            if kind == "phrases":
                assert all(any(row["phrase"] in query for query in queries) for row in rows)
                continue
            if kind == "reformulations":
                words = {word for query in queries for word in query.split()}
                assert {row["word"] for row in rows} <= words | {None, ""}
                continue
            assert {query for row in rows for query in row.get("queries", [row.get("query")])} <= queries
            assert {row["next_query"] for row in rows if "next_query" in row} <= queries
            assert {(row["query"], row["url"]) for row in rows if row.get("url") is not None} <= pairs
    assert (method.claimed() is not None) == (method.variant == "paper")


def check_made_up(rows: list[dict[str, Any]], queries: set[str], pairs: set[tuple[str, str]]) -> None:
    """Users are marked; words are the log's; an address is one that was clicked, its host, or none that exists."""
    words = {word for query in queries for word in query.split()}
    hosts = {"/".join(url.split("/")[:3]) for _, url in pairs}
    for row in rows:
        assert row["user"].startswith("made-up-")
        assert set(row["query"].split()) <= words
        url = row["url"]
        assert url is None or url.endswith(".invalid") or (row["query"], url) in pairs or url in hosts


def may_come_out(method: Method) -> tuple[set[str], set[tuple[str, str]]]:
    """What the log holds; with it, or in its place, what is public."""
    rows = [line.split("\t") for line in contract.small_log().splitlines()[1:]]
    asked, clicked = {row[1] for row in rows}, {(row[1], row[4]) for row in rows}
    if isinstance(method, QueryPool):
        pool = {" ".join(line.lower().split()) for line in Path(POOL).read_text().splitlines()}
        urls = [line.removesuffix("?session=1") for line in Path(URLS).read_text().splitlines()]
        return asked | pool, clicked | {(query, url) for query in pool for url in urls}
    if isinstance(method, Generalize | Semantic):
        labels = set(wordnet().labels)
        # As published, what stands around a concept stays: every query of the log is a concept, or one and "rules".
        return labels | {f"{label} rules" for label in labels if method.variant == "paper"}, set()
    return asked, clicked


@pytest.mark.slow
def test_every_method_stays_charged_if_it_is_killed(tmp_path: Path) -> None:
    """One value of each method and variant, for all values are released by the same code."""
    methods = {f"{method.name} {method.variant}": method for method in METHODS.values()}
    log_file = write(tmp_path / "log.tsv", contract.small_log())
    (tmp_path / "killed").mkdir()
    problems = contract.killed_after_the_charge(list(methods.values()), log_file, tmp_path / "killed")
    assert dict(zip(methods, problems, strict=True)) == dict.fromkeys(methods)


@pytest.mark.parametrize(
    ("name", "query", "beginning"),
    [
        ("k log", "what was asked", "what too few people asked is missing"),
        ("affinity", "what was asked, by one person alone perhaps", "or others much like them"),
        ("generalize", "the label of a concept that takes in what was asked", "the most specific concept"),
        ("semantic", "what was drawn in place of what was asked", "never a single row"),
        ("semantic counts", "the label of a concept, as often as noise decided", "or noise alone"),
        ("semantic paper", "the words around them are as they were typed", "words are somebody's own"),
        ("eu records", "what was asked, in one session", "in sessions under made-up ids"),
        ("optimal", "what a made-up user asked", "no user is a real person"),
        ("synthetic", "what a made-up user asked", "no evidence that anybody asked"),
        ("optimal paper", "what was asked", "rows of real users were drawn"),
    ],
)
def test_card_and_datasheet_say_what_stands_in_a_logs_rows(
    name: str, query: str, beginning: str, log_file: Path, duckdb_engine: Engine, tmp_path: Path
) -> None:
    METHODS[name].release(read(log_file, engine=duckdb_engine)).save(tmp_path / "out")
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    datasheet = (tmp_path / "out" / "README.md").read_text()
    assert query in card["tables"]["log"]["columns"]["query"]["meaning"]
    assert f"| query | {card['tables']['log']['columns']['query']['meaning']} |" in datasheet
    assert beginning in datasheet.partition("## What is in it")[0]
    assert load(tmp_path / "out").rows == card["rows"]
    assert card["log"]["keep_url"] == "path"
    assert card["accounting"] == "not accounted"


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG_ON_SPARK else []) for name in ON_SPARK]
)
def test_spark_draws_what_duckdb_draws_from_one_seed(name: str, duckdb_engine: Engine, spark_engine: Engine) -> None:
    """What holds on DuckDB then holds on Spark: one of each way in which engines are asked, for Spark is slow."""
    with contract.Trial(METHODS[name], engine=duckdb_engine, also_on=spark_engine) as trial:
        contract.RULES["is_the_same_on_another_engine"](trial)


def test_what_a_charge_says_of_the_draws(duckdb_engine: Engine, log_file: Path, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.sqlite")
    ledger.set_limit("people", 10, 1e-2)
    log = read(log_file, engine=duckdb_engine)
    Clicks(epsilon=4, delta=1e-3, selection="multi-round").release(log, ledger=ledger, population="people").save(
        tmp_path / "out"
    )
    (charge,) = ledger.show("people")[0].charges
    assert (charge.status, charge.parameters["mechanisms"][0]["kind"]) == ("released", "gaussian-rounds")
    with pytest.raises(BudgetRefused):
        Clicks(epsilon=7, delta=1e-3).release(log, ledger=ledger, population="people")
    assert len(ledger.show("people")[0].charges) == 1


def test_once_per_key_or_every_record(log: SearchLog) -> None:
    """User u7 says everything twice: that counts once in the default, twice in the paper's variant."""
    counted = {
        variant: {
            row["query"]: row["n"]
            for row in log.engine.fetch(
                KeyCounts.of(log.engine, method.contributions(log)["clicks"], ("query", "url")).table
            ).to_pylist()
        }
        for variant, method in (
            ("default", Clicks(noise=1, threshold=50, max_keys_per_user=40)),
            ("paper", Clicks(noise=1, threshold=50, max_keys_per_user=40, variant="paper")),
        )
    }
    assert counted["default"]["query 0"] == 60
    assert counted["paper"]["query 0"] == 61
    assert counted["default"]["query 39"] == 21


def test_what_is_far_above_comes_out_and_what_is_far_below_does_not(log: SearchLog) -> None:
    release = Clicks(noise=0.1, threshold=30, max_keys_per_user=40).release(log)
    counts = {row["query"]: row["count"] for row in release.table("clicks").to_pylist()}
    # Counts are 60 - i; noise of scale 0.1 moves by 3 with a chance below 1e-12.
    assert set(counts) >= {f"query {i}" for i in range(27)}
    assert not set(counts) & {f"query {i}" for i in range(33, 40)}
    assert all(abs(count - (60 - int(query.split()[1]))) <= 3 for query, count in counts.items())


def test_hopeless_keys_pass_by_rank_without_being_fetched(engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: E501  # fmt: skip
    rows = [(f"u{i}", "12:00:00", f"own {i}", "1", "http://x/") for i in range(20_000)]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    counts = KeyCounts.of(engine, log.clicks.select("query", "url"), ("query", "url"))
    noise, threshold = Laplace(1.0), 8
    assert least_likely_count(noise, threshold) > 1
    fetched: list[int] = []
    fetch = type(engine).fetch

    def counting(self: Engine, table: Any) -> Any:
        result = fetch(self, table)
        fetched.append(result.num_rows)
        return result

    monkeypatch.setattr(type(engine), "fetch", counting)
    released = release_keys(counts, noise, threshold, Randomness(seed=1))
    found = released.table.to_pylist()
    assert 1 <= len(found) <= 20  # 4.9 expected
    assert released.draws == len(found)
    assert all(row["count"] > threshold for row in found)
    assert {row["query"] for row in found} <= {f"own {i}" for i in range(20_000)}
    assert max(fetched) <= 4096  # buckets, and the few members of some; never 20,000 keys


def test_ranks_follow_one_order_on_every_engine(engine: Engine, tmp_path: Path) -> None:
    from querycloak.methods.keys.thresholded import _keys_at

    rows = [(f"u{i}", "12:00:00", f"own {i}", "1", "http://x/") for i in range(300)]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    counts = KeyCounts.of(engine, log.clicks.select("query", "url"), ("query", "url"))
    keys = [(f"own {i}", "http://x/") for i in range(300)]
    order = sorted(keys, key=lambda key: (hashlib.md5("\t".join(key).encode()).hexdigest()[:3], key))
    ranks = np.array([0, 1, 150, 298, 299])
    found = _keys_at(counts, 1, ranks, ranks + 10).to_pylist()
    assert [(row["query"], row["url"]) for row in found] == [order[rank] for rank in ranks]
    assert [row["count"] for row in found] == [10, 11, 160, 308, 309]


@pytest.mark.parametrize("noise", [Laplace(1.0), Laplace(0.125), Gaussian(3.9), Laplace(40.0)])
@pytest.mark.parametrize("threshold", [0, 2, 23, 100])
def test_likely_counts_are_those_that_pass_with_one_in_a_thousand(noise: Any, threshold: int) -> None:
    least = least_likely_count(noise, threshold)
    chances = [noise.tail(threshold + 1 - count).up() >= 2.0**-10 for count in range(1, threshold + 2)]
    assert least == chances.index(True) + 1


def test_k_anonymity_counts_distinct_users(log: SearchLog) -> None:
    pairs = {row["query"]: row["count"] for row in KAnonymity(min_users=25).release(log).table("clicks").to_pylist()}
    assert pairs == {f"query {i}": 60 - i for i in range(36)}
    rows = KAnonymity(min_users=60, keys="log").release(log).table("log").to_pylist()
    assert {row["query"] for row in rows} == {"query 0"}
    assert len(rows) == 61
    assert len({row["user"] for row in rows}) == 60
    assert not any(row["user"].startswith("u") for row in rows)
    again = {row["user"] for row in KAnonymity(min_users=60, keys="log").release(log).table("log").to_pylist()}
    assert not again & {row["user"] for row in rows}
    dma = KAnonymity(preset="dma").release(log)
    assert {row["query"] for row in dma.table("clicks").to_pylist()} == {f"query {i}" for i in range(31)}
    assert {row["query"] for row in dma.table("queries").to_pylist()} == {f"query {i}" for i in range(31)}


def test_a_url_comes_out_with_its_row_only_if_k_users_clicked_it(engine: Engine, tmp_path: Path) -> None:
    own = [(f"u{i}", "12:00:00", "facebook", "1", f"http://f.example/profile-{i}") for i in range(5)]
    same = [(f"u{i}", "12:01:00", "facebook", "1", "http://f.example/") for i in range(5)]
    log = read(write(tmp_path / "log.tsv", aol(own + same)), engine=engine)
    rows = KAnonymity(min_users=5, keys="log").release(log).table("log").to_pylist()
    assert Counter(row["url"] for row in rows) == {None: 5, "http://f.example/": 5}


def test_a_streamed_release_must_be_saved_while_the_log_is_open(log_file: Path, tmp_path: Path) -> None:
    with read(log_file) as log:
        rows, pairs = (KAnonymity(min_users=3, keys=keys).release(log) for keys in ("log", "clicks"))
    pairs.save(tmp_path / "pairs")
    with pytest.raises(ParameterError, match="the log is closed already"):
        rows.save(tmp_path / "rows")
    with pytest.raises(ParameterError, match="the log is closed already"):
        Clicks(noise=1, threshold=9).release(read(log_file, engine=log.engine))
    assert not (tmp_path / "rows").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give the budget .epsilon, delta. or explicit noise .noise, threshold."),
        ({"epsilon": 1}, "delta must be given too"),
        ({"epsilon": 1, "delta": 1e-6, "noise": 1}, "never both"),
        ({"epsilon": 0, "delta": 1e-6}, "epsilon must be a finite number above 0, got 0"),
        ({"epsilon": float("nan"), "delta": 1e-6}, "epsilon must be a finite number above 0, got nan"),
        ({"epsilon": float("inf"), "delta": 1e-6}, "epsilon must be a finite number above 0, got inf"),
        ({"epsilon": 1, "delta": 0}, "delta must be a number above 0 and below 1, got 0"),
        ({"epsilon": 1, "delta": 1}, "delta must be a number above 0 and below 1, got 1"),
        (
            {"noise": 9, "threshold": 0, "max_keys_per_user": 99},
            "threshold must be high enough for delta to stay below 1",
        ),
        ({"noise": 1, "threshold": 3, "variant": "paper"}, "threshold must be high enough"),
        ({"noise": 1, "threshold": 9, "variant": "new"}, "variant must be one of default, paper, got 'new'"),
        ({"noise": 1, "threshold": 9, "selection": "uniform"}, "selection must be one of laplace, gaussian, weighted"),
        ({"noise": 1, "threshold": 9, "priors": "private"}, "priors must be one of public, got 'private'"),
        (
            {"noise": 1, "threshold": 9, "variant": "paper", "priors": "public"},
            "leave selection, two_draws and priors out",
        ),
        ({"noise": 1, "threshold": 9, "selection": "multi-round"}, "has several noises: give the budget"),
        ({"epsilon": 1, "delta": 1e-6, "selection": "weighted", "two_draws": True}, "counts with fresh noise anyway"),
        ({"noise": 1, "threshold": 9, "max_keys_per_user": 0}, "max_keys_per_user must be at least 1, got 0"),
        ({"noise": 1, "threshold": 9, "variant": "paper", "two_draws": True}, "two draws of its own"),
    ],
)
def test_clicks_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Clicks(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "min_users must be given"),
        ({"min_users": 1}, "min_users must be at least 2, got 1"),
        ({"min_users": 5, "keys": "users"}, "keys must be one of queries, clicks, log, got 'users'"),
        ({"min_users": 5, "preset": "dma"}, "preset='dma' sets min_users and keys itself"),
        ({"keys": "log", "preset": "dma"}, "preset='dma' sets min_users and keys itself"),
        ({"preset": "gdpr"}, "preset must be one of dma, dma-2024, got 'gdpr'"),
        ({"min_users": 5, "variant": "paper"}, "variant must be one of default, got 'paper'"),
    ],
)
def test_k_anonymity_refuses_what_makes_no_sense(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        KAnonymity(**options)


def test_golden_guarantees() -> None:
    """Zhang & Yang (ICTIR 2017), Table 4's budget with l = 4; and what our default solves for at it."""
    paper = Clicks(variant="paper", max_keys_per_user=4, noise=1, threshold=20)
    claimed, proven = paper.claimed(), paper.proven()
    assert claimed is not None
    assert (claimed.epsilon, f"{claimed.delta:.2e}") == (8.0, "2.25e-07")
    assert proven.epsilon == 8.0
    assert proven.delta is not None
    assert proven.delta <= 5.7e-8
    for per_user, law, noise, threshold in (
        (1, "laplace", 0.125, 2),
        (4, "gaussian", None, 8),
        (32, "gaussian", None, 23),
    ):
        solved = Clicks(epsilon=8, delta=2.25e-7, max_keys_per_user=per_user).parameters()
        if per_user == 32:  # the formula prefers rounds there; of one draw per key it would still be this
            assert solved["selection"] == "rounds"
            solved = Clicks(epsilon=8, delta=2.25e-7, max_keys_per_user=per_user, selection=law).parameters()  # type: ignore[arg-type]
        assert (solved["selection"], solved["threshold"]) == (law, threshold)
        assert noise is None or solved["noise"] == noise
