"""Many draws at once have the law of single ones (audits/guarantees/method_runs.py)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from scipy.stats import chi2_contingency

from querycloak.audits.guarantees import method_runs  # noqa: F401 (it registers methods)
from querycloak.audits.guarantees.public_runs import UserSteps, _without_pairs, sorted_counts
from querycloak.audits.guarantees.runs import RUN, DrawnRuns, draw_runs, in_memory, numbered, runs_alike
from querycloak.engines import Engine
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.keys.key_tables import UnboundedTables
from querycloak.methods.method import Drawn, Method
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.phrases.method import Phrases
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.semantic.method import Semantic
from querycloak.methods.sessions.method import Sessions
from querycloak.methods.sessions.public_tables import PublicTables
from querycloak.privacy.calibration.public_counts import PublicPlan, lowest_cut, quiet_cut, quiet_cuts
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness
from tests.conftest import FIXTURES
from tests.logs import Row, aol, write

POOL = str(FIXTURES / "pool.txt")
RUNS = 5_000
# What is drawn here has a chance of this to look unlike although it is alike.
UNLIKELY = 1e-6
METHODS: dict[str, Method] = {
    "laplace": Clicks(noise=1, threshold=5, max_keys_per_user=2),
    "gaussian": Clicks(epsilon=1, delta=0.1, selection="gaussian", max_keys_per_user=2),
    "weighted": Clicks(epsilon=3, delta=0.1, selection="weighted", max_keys_per_user=4),
    "rounds": Clicks(epsilon=3, delta=0.1, selection="multi-round", max_keys_per_user=4),
    "without counts": Clicks(epsilon=1, delta=0.1, counts="none", selection="laplace", max_keys_per_user=3),
    "clicks counted": Clicks(epsilon=3, delta=0.1, count_of="clicks", selection="laplace", max_keys_per_user=3),
    "auto": Clicks(epsilon=2, delta=0.1, max_keys_per_user="auto", auto_share=0.2, selection="laplace"),
    "paper": Clicks(noise=2, threshold=8, max_keys_per_user=2, variant="paper"),
    "sessions": Sessions(noise=2, threshold=5, sessions_per_user=1, queries_per_session=2, max_keys_per_user=2),
    "sessions public": Sessions(epsilon=9, delta=0.1),
    "phrases": Phrases(noise=1, threshold=5, max_keys_per_user=3, longest=2, queries=True),
    "phrases rounds": Phrases(epsilon=9, delta=0.1, selection="multi-round", max_keys_per_user=4, longest=2),
    "phrases without counts": Phrases(
        epsilon=6, delta=0.1, counts="none", selection="laplace", max_keys_per_user=3, longest=1
    ),
    "phrases auto": Phrases(epsilon=6, delta=0.1, auto_share=0.2, max_keys_per_user="auto", selection="laplace"),
    "pool": QueryPool(noise=1, threshold=5, pool=POOL, queries_per_user=2),
    "pool paper": QueryPool(noise=1, threshold=5, pool=POOL, queries_per_user=2, clicks_per_user=2, variant="paper"),
    "optimal": Optimal(epsilon=3, delta=0.1, max_keys_per_user=3, linked_per_user=2),
    "optimal paper": Optimal(epsilon=3, delta=0.9, variant="paper"),
    "semantic": Semantic(epsilon=2, domain="question", max_queries=2),
    "semantic counts": Semantic(epsilon=2, domain="question", criterion="hbdp", max_queries=2),
}
LONG = ("phrases rounds", "phrases auto", "phrases without counts", "optimal", "pool paper")
each_method = pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in METHODS]
)


def rows() -> list[Row]:
    """Keys that 2, 5 and 9 users hold, and one of one user; of the pool, too."""
    held = {"query 0": 9, "query 1": 5, "query 2": 2, "own": 1}
    return [
        (f"u{user}", f"12:{minute:02}:00", query, "1", f"http://{minute}.example/")
        for minute, (query, users) in enumerate(held.items())
        for user in range(users)
    ]


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory, duckdb_engine: Engine) -> SearchLog:
    return read(write(tmp_path_factory.mktemp("runs") / "log.tsv", aol(rows())), engine=duckdb_engine)


def outputs(drawn: DrawnRuns) -> list[str]:
    """What each run published, coarsely: keys, and whether counts are large; names of users are random.

    Of replaced queries only how many come early in the alphabet: no two runs have the same.
    """
    found: list[list[str]] = [[] for _ in range(drawn.number)]
    for kind, table in drawn.tables.items():
        if kind == "log" and "url" not in table.column_names:
            early = Counter(table.filter(pc.less(table["query"], "h"))[RUN].to_pylist())
            found = [[f"{early[run]} early"] for run in range(drawn.number)]
            continue
        keys = [name for name in table.column_names if name not in (RUN, "user", "count")]
        counts = table["count"].to_pylist() if "count" in table.column_names else [1] * table.num_rows
        texts = table.select(keys).to_pylist()
        for run, text, count in zip(table[RUN].to_pylist(), texts, counts, strict=True):
            found[run].append(f"{kind} {list(text.values())} {(count or 1) > 8}")
    chosen = [drawn.parameters[answer].get("per_user") for answer in drawn.answer] if drawn.answer.size else []
    for run, bound in enumerate(chosen):
        found[run].append(f"bound {bound}")
    return [" ".join(sorted(each)) for each in found]


def alike(one: Iterable[str], other: Iterable[str]) -> float:
    """The chance that two samples of one law differ as much; rare outputs are taken together."""
    counts = [Counter(one), Counter(other)]
    common = [text for text in counts[0] | counts[1] if counts[0][text] >= 4]
    table = np.array([[each[text] for text in common] for each in counts])
    rest = np.array([[sum(each.values())] for each in counts]) - table.sum(axis=1, keepdims=True)
    table = np.concatenate([table, rest], axis=1)
    return float(chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


def single_runs(method: Method, log: SearchLog, number: int) -> list[str]:
    """The same of releases that are drawn one by one, as a release is."""
    counted, randomness = method.count(log), Randomness(seed=4)
    found = []
    for _ in range(number):
        drawn = counted.draw(randomness)
        tables = {kind: numbered(in_memory(_plain(table)), 0) for kind, table in drawn.tables.items()}
        answer = np.zeros(int(bool(drawn.parameters)), np.int64)
        found += outputs(DrawnRuns(1, tables, [drawn.parameters], answer))
    return found


def check_law(name: str, log: SearchLog, singles: int) -> None:
    method = METHODS[name]
    one_by_one = single_runs(method, log, singles)
    assert len(set(one_by_one)) > 1
    many = outputs(draw_runs(method.count(log), Randomness(seed=3), RUNS))
    assert alike(one_by_one, many) > UNLIKELY
    # A tenth of the runs spoiled would be seen.
    spoiled = [f"{text} and more" if run % 10 == 0 else text for run, text in enumerate(many)]
    assert alike(spoiled, many) < UNLIKELY


@each_method
def test_many_draws_at_once_have_the_law_of_single_ones(name: str, log: SearchLog) -> None:
    check_law(name, log, 60 if name.endswith(("rounds", "auto")) else 25)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["weighted", "rounds", "auto", "pool", "optimal"])
def test_they_have_the_law_of_two_hundred_single_ones(name: str, log: SearchLog) -> None:
    check_law(name, log, 200)


def _plain(table: pa.Table) -> pa.Table:
    """Sessions as they are before their last touch."""
    if not isinstance(table, pa.Table) or "queries" not in table.column_names:
        return table
    from querycloak.logs.sequences import as_texts

    return table.set_column(0, "queries", as_texts(table["queries"], escape=False))


def test_runs_are_independent(log: SearchLog) -> None:
    """Neighbouring runs agree no more often than runs far apart."""
    drawn = draw_runs(METHODS["rounds"].count(log), Randomness(seed=6), RUNS)
    published = outputs(drawn)
    pairs = [f"{one} | {other}" for one, other in pairwise(published)]
    shuffled = [f"{one} | {other}" for one, other in zip(published, published[RUNS // 2 :], strict=False)]
    assert alike(shuffled, pairs) > UNLIKELY


def test_runs_in_which_the_same_came_out_are_found() -> None:
    table = pa.table({RUN: [2, 0, 0, 2, 3], "query": ["a", "a", "b", "b", "b"], "count": [1, 2, 3, 4, 5]})
    found = {tuple(same["query"].to_pylist()): runs.tolist() for same, runs in runs_alike(table, ["query"], 4)}
    assert found == {("a", "b"): [0, 2], (): [1], ("b",): [3]}


def test_counts_without_an_axis_of_runs_are_drawn_one_by_one() -> None:
    class Coin:
        def draw(self, randomness: Randomness) -> Drawn:
            table = pa.table({"query": ["tennis"], "count": randomness.noise(Laplace(1.0), 1)})
            return Drawn({"queries": table}, "public-keys")

    drawn = draw_runs(Coin(), Randomness(seed=1), 3)
    assert drawn.tables["queries"][RUN].to_pylist() == [0, 1, 2]


def steps_of_sessions(seed: int) -> list[Row]:
    """Ten users who go back and forth between queries, with pauses; some moves happen within one second."""
    random = np.random.default_rng(seed)
    queries, pauses = ["a", "b", "c", "d e", "a b", "b c", "é", "z"], [0, 5, 60, 600]
    rows: list[Row] = []
    for user in range(10):
        second = 0
        for _ in range(12):
            second += int(random.choice(pauses))
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            rows.append((f"u{user}", clock, str(random.choice(queries)), "", ""))
    return rows


def test_pairs_and_cells_in_memory_are_those_of_the_engine(tmp_path: Path, duckdb_engine: Engine) -> None:
    """What audits count anew for every set of released queries is what a release counts (sessions.md)."""
    log = read(write(tmp_path / "log.tsv", aol(steps_of_sessions(1))), engine=duckdb_engine)
    counted = Sessions(epsilon=8, delta=1e-6, gap_minutes=5).count(log)
    assert isinstance(counted, UnboundedTables)
    later = counted.counted_at(next(iter(counted.candidates.values()))).later
    assert isinstance(later, PublicTables)
    for repeats, names, per_user in (
        (True, ["a", "b", "c", "é"], 2),
        (False, ["a", "a b", "b", "b c", "c", "d e", "nobody", "z"], 1),
        (False, ["a", "b", "d e"], 8),
        (False, [], 1),
    ):
        tables, plan = replace(later, repeats=repeats), PublicPlan(Laplace(1.0), per_user)
        users, queries = UserSteps.of(tables), pa.array(names, pa.string())
        assert users.pairs(queries, plan).to_pylist() == sorted_counts(tables.pairs(queries, plan)[0]).to_pylist()
        totals, words, _ = tables.cells_of(queries, plan)
        own_totals, own_words = users.cells(queries, plan)
        assert (own_totals.tolist(), own_words.to_pylist()) == (totals.tolist(), sorted_counts(words).to_pylist())


def test_runs_get_the_cuts_and_plans_of_single_ones() -> None:
    """Vectors over runs decide as `quiet_cut` and `PublicPlans.given` do for one run."""
    random = np.random.default_rng(2)
    noise, keys, runs = Laplace(2.0), 400, 30
    lowest = lowest_cut(noise, keys)
    noisy = [lowest + 1 + random.integers(0, 40, random.integers(0, 60)) for _ in range(runs)]
    run = np.repeat(np.arange(runs), [each.size for each in noisy])
    together = quiet_cuts(np.concatenate(noisy), run, runs, noise, keys).tolist()
    assert together == [quiet_cut(each, noise, keys) for each in noisy]
    assert len(set(together)) > 3
    method = Sessions(epsilon=8, delta=1e-6).plan.candidates[0].method
    assert isinstance(method, Sessions)
    plans = method.public
    assert plans is not None
    least = plans.least_second_count(3)
    counts: list[list[int | None]] = [
        [],
        [9],
        [least, least, 1],
        [least, least - 1, 1],
        [None, None, None],
        [10 * least, least, None],
    ]
    table = pa.table(
        {
            RUN: pa.array([at for at, each in enumerate(counts) for _ in each], pa.int64()),
            "query": pa.array([f"q{place}" for each in counts for place in range(len(each))], pa.string()),
            "count": pa.array([count for each in counts for count in each], pa.int64()),
        }
    )
    singly = [plans.given(table.filter(pc.equal(table[RUN], at)))[1] is not None for at in range(len(counts))]
    assert _without_pairs(plans, table, len(counts)).tolist() == singly == [True, True, False, True, False, False]
