"""What methods say of their counts before any data, what releases carry of it, and epsilon solved for a wish."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import querycloak as qc
from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.accuracy_target import AccuracyTarget, _epsilon
from querycloak.methods.method import Method
from querycloak.privacy.calibration.accuracy import LIKELY, Range, TableAccuracy
from querycloak.privacy.sampling.randomness import Randomness
from tests.commands import in_process
from tests.logs import Row, aol, write

METHODS: dict[str, Method] = {
    "clicks": qc.Clicks(epsilon=8, delta=1e-6),
    "one draw": qc.Clicks(noise=1, threshold=18, max_keys_per_user=8),
    "two draws": qc.Clicks(epsilon=8, delta=1e-6, selection="gaussian", two_draws=True),
    "priors": qc.Clicks(epsilon=8, delta=1e-6, selection="weighted", priors="public"),
    "auto": qc.Clicks(epsilon=8, delta=1e-6, max_keys_per_user="auto"),
    "paper clicks": qc.Clicks(noise=1, threshold=20, variant="paper"),
    "sessions": qc.Sessions(epsilon=8, delta=1e-6),
    "sessions alone": qc.Sessions(epsilon=8, delta=1e-6, no_clicks=True, selection="gaussian"),
    "query-pool": qc.QueryPool(epsilon=4),
    "clicks of a pool": qc.QueryPool(epsilon=4, delta=1e-6, clicks="threshold"),
    "off pool": qc.QueryPool(epsilon=4, delta=1e-6, off_pool=True),
    "paper pool": qc.QueryPool(noise=10, threshold=500, variant="paper"),
    "optimal": qc.Optimal(epsilon=8, delta=1e-6),
    "k-anonymity": qc.KAnonymity(min_users=5),
    "dma": qc.KAnonymity(preset="dma"),
    "a log": qc.KAnonymity(min_users=5, keys="log"),
    "affinity": qc.Affinity(min_users=5),
    "generalize": qc.Generalize(min_users=5),
}


def some_rows(users: int = 40) -> list[Row]:
    draw = np.random.default_rng(1)
    words = ["weather", "news", "maps", "music"]
    return [
        (f"u{user}", f"12:00:{second:02}", str(draw.choice(words)), "1", f"http://{draw.integers(3)}/")
        for user in range(users)
        for second in range(int(draw.integers(1, 6)))
    ]


@pytest.fixture
def log(duckdb_engine: Engine, tmp_path: Path) -> SearchLog:
    return read(write(tmp_path / "log.tsv", aol(some_rows())), engine=duckdb_engine)


@pytest.mark.parametrize("name", METHODS)
def test_every_table_says_what_its_counts_are_worth(name: str, log: SearchLog, tmp_path: Path) -> None:
    method = METHODS[name]
    before = method.reach()
    release = method.release(log, randomness=Randomness(1))
    assert set(before) == set(release.tables) == set(release.reach)
    assert set(method.routes()) <= set(before)
    for table, reach in release.reach.items():
        assert reach == TableAccuracy.from_json(reach.to_json())
        # What is known after the draw is one of what was possible before.
        for field in ("margin95", "users50", "users95"):
            now, then = getattr(reach, field), getattr(before[table], field)
            if any(note.startswith("Nothing was drawn") for note in reach.notes):
                assert now is None
                continue
            assert (now is None) == (then is None), field
            assert now is None or then.low <= now.low <= now.high <= then.high, field
    release.save(tmp_path / "out")
    card = json.loads((tmp_path / "out" / "card.json").read_text())
    assert {kind: entry["reach"] for kind, entry in card["tables"].items()} == {
        kind: reach.to_json() for kind, reach in release.reach.items()
    }


# Margin, then users for 50 % and for 95 %. From the parameters that a card prints (noise, thresholds, floors, bounds),
# recomputed by a program of its own (normal tails, half a step off for whole numbers) with the formulas of
# accuracy.md, claims 1 and 2.
GOLDEN: list[tuple[float, float, dict[str, tuple[int, Range, Range]]]] = [
    (1.0, 1e-6, {"clicks": (108, Range(52, 845), Range(68, 1100)), "sessions": (54, Range(51, 669), Range(67, 1002))}),
    (
        3.0,
        math.exp(-10),
        {"clicks": (33, Range(15, 237), Range(20, 318)), "sessions": (17, Range(15, 195), Range(20, 306))},
    ),
    (8.0, 2.25e-7, {"clicks": (18, Range(10, 152), Range(12, 192)), "sessions": (9, Range(10, 118), Range(12, 162))}),
]


@pytest.mark.parametrize(("epsilon", "delta", "wanted"), GOLDEN)
def test_golden_numbers_of_sessions(epsilon: float, delta: float, wanted: dict[str, tuple[int, Range, Range]]) -> None:
    found = qc.Sessions(epsilon=epsilon, delta=delta, selection="multi-round").reach()
    assert {table: (each.margin95, each.users50, each.users95) for table, each in found.items()} == {
        table: (Range(margin, margin), users50, users95) for table, (margin, users50, users95) in wanted.items()
    }


def test_an_automatic_bound_runs_over_all_its_plans() -> None:
    method = qc.Clicks(epsilon=8, delta=1e-6, max_keys_per_user="auto")
    candidates = [each.method.reach()["clicks"] for each in method.plan.candidates]
    found = method.reach()["clicks"]
    assert len(candidates) == 3
    assert found.users95 == Range.over([each.users95 for each in candidates if each.users95])
    assert found.margin95 == Range.over([each.margin95 for each in candidates if each.margin95])
    assert len(method.routes()["clicks"]) == 3


def test_the_papers_variant_counts_records() -> None:
    reach = qc.Clicks(noise=1, threshold=20, variant="paper").reach()["clicks"]
    # 21 records bring a pair out more likely than not: 6 users of 4 records, or 21 of one.
    assert reach.users50 == Range(6, 21)
    assert reach.counts.startswith("clicks on the result; of each user the first 4 count, perhaps all for one row")


def test_spurious_rows_in_a_pool() -> None:
    method = qc.QueryPool(noise=1, threshold=5)
    expected = 325_176 * math.exp(-6) / (1 + math.exp(-1))
    assert method.reach()["queries"].spurious == pytest.approx(expected)
    assert all((each.spurious or 0) <= 1 for each in qc.QueryPool(epsilon=4).reach().values())
    assert qc.Clicks(epsilon=8, delta=1e-6).reach()["clicks"].spurious == 0


def test_other_objectives_have_no_margin() -> None:
    assert qc.Optimal(epsilon=8, delta=1e-6).reach()["log"].margin95 is not None
    assert qc.Optimal(epsilon=8, delta=1e-6, objective="diversity").reach()["log"].margin95 is None
    paper = qc.Optimal(epsilon=1, delta=0.5, variant="paper").reach()["log"]
    assert (paper.margin95, paper.users50, paper.spurious) == (None, None, None)


WISHES: list[tuple[type[Method], dict[str, Any], AccuracyTarget]] = [
    (qc.Clicks, {"delta": 1e-6}, AccuracyTarget(200)),
    (qc.Clicks, {"delta": 1e-6, "selection": "laplace"}, AccuracyTarget(20)),
    (qc.Clicks, {"delta": 1e-6, "selection": "gaussian"}, AccuracyTarget(50, 10)),
    (qc.Clicks, {"delta": 1e-6, "max_keys_per_user": 8}, AccuracyTarget(100, 20)),
    (qc.Clicks, {"delta": 1e-6, "variant": "paper"}, AccuracyTarget(50)),
    (qc.Sessions, {"delta": 1e-7, "two_draws": True}, AccuracyTarget(60)),
    (qc.Optimal, {"delta": 1e-6}, AccuracyTarget(50)),
    (qc.QueryPool, {}, AccuracyTarget(30, 5)),
]


@pytest.mark.parametrize(("kind", "options", "wish"), WISHES)
def test_the_smallest_epsilon_that_meets_a_wish(
    kind: type[Method], options: dict[str, Any], wish: AccuracyTarget
) -> None:
    if wish.error is None:
        method = kind.for_users(wish.users, **options)
    else:
        method = kind.for_error(wish.error, at_users=wish.users, **options)
    epsilon = float(vars(method)["epsilon"])
    assert epsilon == float(f"{epsilon:.3g}")
    assert wish.is_met(method)
    for routes in method.routes().values():
        for route in routes:
            assert route.users(LIKELY).high <= wish.users
            assert wish.error is None or route.margin <= wish.error
    step = min(step for step in range(5400) if _epsilon(step) >= epsilon)
    assert _epsilon(step) == epsilon
    assert not wish.is_met(kind(**{**options, "epsilon": _epsilon(step - 1)}))


def test_numbers_of_three_digits() -> None:
    assert [_epsilon(step) for step in (0, 1, 899, 900, 2700, 5399)] == [0.001, 0.00101, 0.00999, 0.01, 1.0, 999.0]


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (
            lambda: qc.KAnonymity.for_users(5, min_users=5),
            "which has no epsilon, got 5; min_users is that number itself",
        ),
        (
            lambda: qc.Semantic.for_users(5, max_queries=1),
            "for_users must be left out with semantic, got 5; no number of users",
        ),
        (lambda: qc.Optimal.for_users(9, delta=0.5, variant="paper"), "for_users must be left out with optimal"),
        (
            lambda: qc.Clicks.for_users(1, delta=1e-6, selection="laplace"),
            "for_users must be at least 2 here, got 1; no",
        ),
        (
            lambda: qc.Clicks.for_error(0, at_users=999, delta=1e-6),
            "for_error must be at least 3 here, got 0; no epsilon",
        ),
        (
            lambda: qc.Clicks.for_error(9, at_users=1, delta=1e-6),
            "at_users must be at least 21 here, got 1; no epsilon",
        ),
        (lambda: qc.Synthetic.for_users(5, delta=1e-6, users=1000), "for_users must be at least 28 here, got 5; no"),
        (lambda: qc.Clicks.for_users(50), "delta must be given"),
        (lambda: qc.Clicks.for_users(50, delta=1e-6, epsilon=1), "epsilon must be left out with for_users, got 1"),
        (lambda: qc.Clicks.for_users(0, delta=1e-6), "for_users must be at least 1, got 0"),
        (lambda: qc.Clicks.for_error(-1, at_users=5, delta=1e-6), "for_error must be at least 0, got -1"),
    ],
)
def test_wishes_that_cannot_be_met(ask: Any, words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        ask()


BUDGET = ("--epsilon", "8", "--delta", "2.25e-7", "--selection", "multi-round")


def test_guarantee_and_dry_run_say_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "log.tsv", aol(some_rows()))
    told = in_process("guarantee", "clicks", *BUDGET).stdout
    lines = [line for line in told.splitlines() if line.startswith("  ")]
    assert "  95 % margin of a count: 13 up or down" in lines
    assert "7 to 110 with probability 50 %, 9 to 138 with 95 %" in " ".join(told.split())
    dry = in_process("release", "clicks", path, *BUDGET, "--dry-run").stdout
    assert set(lines) <= set(dry.splitlines())
    machine, dry_machine = (
        json.loads(done.stdout)["tables"]
        for done in (
            in_process("guarantee", "clicks", *BUDGET, "--json"),
            in_process("release", "clicks", path, *BUDGET, "--dry-run", "--json"),
        )
    )
    assert machine == dry_machine
    assert (machine["clicks"]["margin95"], machine["clicks"]["users50"]) == (13, [7, 110])
    assert max(map(len, told.splitlines())) <= 80


def test_wishes_on_the_command_line(tmp_path: Path) -> None:
    solved = in_process("guarantee", "clicks", "--delta", "1e-6", "--selection", "gaussian", "--for-users", "50")
    assert solved.returncode == 0
    assert "epsilon 3.89: smallest with which keys of 50 users come out (95 %, worse end)" in solved.stdout
    near = in_process(
        "guarantee", "clicks", "--delta", "1e-6", "--selection", "laplace", "--for-error", "2", "--at-users", "40"
    )
    assert "keys of 40 users come out within 2 (95 %)" in near.stdout
    path = write(tmp_path / "log.tsv", aol(some_rows()))
    dry = in_process(
        "release", "clicks", path, "--delta", "1e-6", "--selection", "laplace", "--for-users", "9", "--dry-run"
    )
    assert "smallest with which keys of 9 users come out" in dry.stdout
    for words, said in (
        (["--for-error", "3"], "--for-error goes with --at-users, the users of a key, and not --for-users"),
        (["--for-error", "3", "--at-users", "9", "--for-users", "9"], "--for-error goes with --at-users"),
        (["--at-users", "9"], "--at-users goes with --for-error"),
        (["--for-users", "9", "--epsilon", "1"], "--epsilon must be left out with --for-users, got 1.0"),
    ):
        refused = in_process("guarantee", "clicks", "--delta", "1e-6", *words)
        assert refused.returncode == 2
        assert said in refused.stderr


@pytest.mark.parametrize(
    ("options", "first_words"),
    [({}, "users who clicked"), ({"counts": "none"}, "there is no count"), ({"count_of": "clicks"}, "clicks on the")],
)
def test_auto_counts_what_its_plans_count(options: dict[str, Any], first_words: str) -> None:
    """What a count counts is known before the plan is chosen, and is the same in all of them."""
    method = qc.Clicks(epsilon=8, delta=1e-6, **options)
    said = method.reach()["clicks"]
    plans = [each.method.reach()["clicks"] for each in method.plan.candidates]
    assert all(each.counts.startswith(first_words) for each in (said, *plans))
    assert (said.margin95 is None) == all(each.margin95 is None for each in plans) == ("plus noise" not in said.counts)


def test_auto_says_of_every_table_without_counts_that_it_has_none() -> None:
    method = qc.Sessions(epsilon=8, delta=1e-6, counts="none", tables="queries,clicks,sessions")
    assert all(each.counts.startswith("there is no count") for each in method.reach().values())


def test_the_fewest_accounts_that_any_plan_of_auto_asks_for() -> None:
    method = qc.Clicks(epsilon=8, delta=1e-6)
    plans = [plans["clicks"] for plans in method.plan.alternatives]
    fewest = min(plan.accounts_for(256) for plan in plans)
    assert f"{fewest:,} bring out 256 at once" in method.proven().unprotected[-1]
    assert f": {min(plan.accounts_for(1) for plan in plans):,} bring out one text" in method.proven().unprotected[-1]


def test_the_card_of_clicks_has_no_bound_that_is_not_used() -> None:
    users, clicks = (
        qc.Clicks(epsilon=8, delta=1e-6, selection="multi-round", count_of=of) for of in ("users", "clicks")
    )
    assert users.parameters()["counted_per_user"] == 16
    assert clicks.parameters()["counted_per_user"] is None
