"""Pairs of released queries and reformulations: the claims of sessions.md, by enumeration and against plain loops."""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.reformulations import ALL_WORDS, KINDS, reformulations
from querycloak.logs.searchlog import read
from querycloak.logs.sequences import pairs_of_steps, session_steps
from querycloak.methods.sessions.method import Sessions
from querycloak.methods.sessions.public_plans import FEW_QUERIES, RARE_QUERIES, PublicPlans
from querycloak.methods.sessions.public_tables import PublicTables, released_queries, words_of
from querycloak.privacy.calibration.gaussian import squared_loss
from querycloak.privacy.calibration.public_counts import (
    SPURIOUS,
    PublicPlan,
    cut_for,
    expected_spurious,
    lowest_cut,
    quiet_cut,
)
from querycloak.privacy.calibration.selection import together
from querycloak.privacy.sampling.noise import Gaussian, Laplace
from querycloak.privacy.sampling.randomness import Randomness
from tests.logs import Row, aol, write

GAP = 30 * 60


def some_rows(seed: int, users: int) -> list[Row]:
    draw = random.Random(seed)
    texts = ["a", "b", "a b", "a b c", "c", "a c"]
    rows = []
    for user in range(users):
        second = draw.randrange(3600)
        for _ in range(draw.randrange(12)):
            second += draw.choice([0, 1, 60, GAP, GAP + 1])
            clock = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
            rows.append((f"u{user}", clock, draw.choice(texts), "1", "http://x/"))
    return rows


def sessions_of(rows: list[Row], user: str) -> list[list[str]]:
    """Every row that is no copy of the one before, in order of time and query, cut at pauses."""
    sessions: list[list[str]] = []
    before: tuple[int, str] | None = None
    for clock, query in sorted((t, q) for u, t, q, _, _ in rows if u == user):
        hours, minutes, seconds = map(int, clock.split(":"))
        at = 3600 * hours + 60 * minutes + seconds
        if before is None or at - before[0] > GAP:
            sessions.append([query])
        elif (at, query) != before:
            sessions[-1].append(query)
        before = at, query
    return sessions


def pairs_by_hand(rows: list[Row], user: str, among: set[str]) -> set[tuple[str, str]]:
    pairs = set()
    for session in sessions_of(rows, user):
        for i, first in enumerate(session):
            pairs |= {(first, later) for later in session[i + 1 :] if later != first}
    return {pair for pair in pairs if set(pair) <= among}


def cells_by_hand(rows: list[Row], user: str) -> set[tuple[str, str]]:
    cells = set()
    for session in sessions_of(rows, user):
        for before, after in pairwise(session):
            first, second = set(before.split()), set(after.split())
            kind = (
                "same" if first == second else "added" if first < second else "dropped" if second < first
                else "replaced" if first & second else "new"
            )  # fmt: skip
            cells.add((kind, ALL_WORDS))
            words = first - second if kind == "dropped" else second - first if kind in ("added", "replaced") else set()
            cells |= {(kind, word) for word in words}
    return cells


def test_users_hold_the_pairs_and_cells_of_the_note(engine: Engine, tmp_path: Path) -> None:
    rows = some_rows(seed=1, users=60)
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    steps = engine.stage(session_steps(log.rows, 30))
    among = {"a", "a b", "c"}
    held = pairs_of_steps(steps, engine.upload(pa.table({"query": sorted(among)})), 32, repeats=False)
    fetched = engine.fetch(held).to_pylist()
    users = sorted({row[0] for row in rows})
    assert {(r["user"], r["query"], r["next_query"]) for r in fetched} == {
        (user, *pair) for user in users for pair in pairs_by_hand(rows, user, among)
    }
    cells = engine.fetch(reformulations(steps)).to_pylist()
    assert len(cells) == len({(r["user"], r["kind"], r["word"]) for r in cells})
    assert {(r["user"], r["kind"], r["word"]) for r in cells} == {
        (user, *cell) for user in users for cell in cells_by_hand(rows, user)
    }
    assert {r["kind"] for r in cells} == set(KINDS)


def a_plan(per_user: int = 2) -> PublicPlans:
    plans = {name: PublicPlan(Laplace(0.01), per_user) for name in ("sessions", "reformulations")}
    return PublicPlans(plans, PublicPlan(Laplace(0.005), per_user), [])


def test_a_user_more_changes_as_many_counts_as_the_bound_by_one(engine: Engine, tmp_path: Path) -> None:
    """Claims A and D, for any queries that came out."""
    rows = some_rows(seed=2, users=30)
    newcomer = [("new", t, q, r, a) for _, t, q, r, a in some_rows(seed=5, users=9)]
    logs = [
        read(write(tmp_path / f"{number}.tsv", aol(some)), engine=engine)
        for number, some in enumerate((rows, random.Random(1).sample(rows + newcomer, len(rows + newcomer))))
    ]
    for per_user, names in product((1, 3, 7), (["a", "b"], ["a", "a b", "a b c", "c"])):
        plan = PublicPlan(Laplace(1.0), per_user)
        changed: list[Counter[str]] = []
        for log in logs:
            tables = PublicTables.of(log, 30, a_plan(), repeats=False, counted=True)
            counts = Counter({f"pair {key}": n for key, n in tables.pairs(pa.array(names), plan)[0].numbers().items()})
            totals, words, _ = tables.cells_of(pa.array(names), plan)
            cells = Counter({f"cell {key}": n for key, n in words.numbers().items()})
            cells.update({f"kind {place}": n for place, n in enumerate(totals.tolist())})
            changed.append(counts)
            changed.append(cells)
        for without, with_one in zip(changed[:2], changed[2:], strict=True):
            moved = {key: with_one[key] - without[key] for key in {*without, *with_one}}
            assert set(moved.values()) <= {0, 1}
            assert sum(moved.values()) <= per_user


def law_of_printed(counts: tuple[int, ...], scale: float, reach: int) -> dict[tuple[int | None, ...], float]:
    """The law of what is printed of these counts, all noise from -reach to reach enumerated."""
    noise = Laplace(scale)
    q = math.exp(-1 / scale)
    mass = {z: (1 - q) / (1 + q) * q ** abs(z) for z in range(-reach, reach + 1)}
    printed: dict[tuple[int | None, ...], float] = {}
    lowest = lowest_cut(noise, len(counts))
    for drawn in product(mass, repeat=len(counts)):
        noisy = np.array([count + z for count, z in zip(counts, drawn, strict=True)])
        cut = quiet_cut(noisy[noisy > lowest], noise, len(counts))
        outcome = tuple(int(value) if value > cut else None for value in noisy)
        printed[outcome] = printed.get(outcome, 0.0) + math.prod(mass[z] for z in drawn)
    return printed


@pytest.mark.parametrize(
    ("without", "with_one"),
    [((2, 1), (2, 2)), *(pytest.param(*pair, marks=pytest.mark.slow) for pair in (((0, 0), (1, 0)), ((0, 5), (1, 5))))],
)
def test_the_law_of_what_is_printed_keeps_the_budget(without: tuple[int, ...], with_one: tuple[int, ...]) -> None:
    """Claim C by enumeration: the cut that noisy numbers choose costs nothing beyond 1/scale."""
    scale, reach = 0.8, 24
    first, second = law_of_printed(without, scale, reach), law_of_printed(with_one, scale, reach)
    beyond = 4 * math.exp(-reach / scale)  # mass that was not enumerated
    at_less = []
    for one, other in ((first, second), (second, first)):
        delta = sum(max(0.0, p - math.exp(1 / scale) * other.get(outcome, 0.0)) for outcome, p in one.items())
        assert delta <= beyond
        at_less.append(sum(max(0.0, p - math.exp(0.9 / scale) * other.get(outcome, 0.0)) for outcome, p in one.items()))
    assert max(at_less) > 100 * beyond  # the test would see a guarantee that fails


@pytest.mark.parametrize("noise", [Laplace(2.0), Gaussian(7.5)])
def test_spurious_rows_are_one_in_a_hundred(noise: Laplace | Gaussian) -> None:
    keys = 40_000
    lowest, alone = lowest_cut(noise, keys), cut_for(noise, keys, SPURIOUS)
    assert 0 <= lowest < alone
    assert expected_spurious(noise, alone, keys) <= SPURIOUS < expected_spurious(noise, alone - 1, keys)
    many = np.arange(1, 2000) + lowest
    cut = quiet_cut(many, noise, keys)
    assert expected_spurious(noise, cut, keys) <= np.sum(many > cut) / 100
    assert cut == lowest or expected_spurious(noise, cut - 1, keys) > np.sum(many > cut - 1) / 100
    assert quiet_cut(np.array([], np.int64), noise, keys) == alone
    assert lowest <= cut <= quiet_cut(np.array([10**6]), noise, keys) <= alone


def test_pairs_get_nothing_where_none_can_come_out(duckdb_engine: Engine, tmp_path: Path) -> None:
    """Claim E: both cases spend the same, and the reason is on the card."""
    plans = PublicPlans.of_loss(0.3, {"sessions": Fraction(2, 3), "reformulations": Fraction(1, 3)})
    parts = [squared_loss(plan.noise, plan.per_user) for plan in plans.tables.values()]  # type: ignore[arg-type]
    assert plans.alone is not None
    assert sum(parts) <= 0.3
    assert 0.29 < squared_loss(plans.alone.noise, plans.alone.per_user) <= 0.3  # type: ignore[arg-type]
    one = pa.table({"query": ["a"], "count": [10**9]})
    rare = pa.table({"query": ["a", "b"], "count": [10**9, 3]})
    often = pa.table({"query": ["a", "b"], "count": [10**9, 10**9]})
    assert [plans.given(queries)[1] for queries in (one, rare, often)] == [FEW_QUERIES, RARE_QUERIES, None]
    assert list(plans.given(rare)[0]) == ["reformulations"]
    log = read(write(tmp_path / "log.tsv", aol(some_rows(seed=1, users=40))), engine=duckdb_engine)
    release = Sessions(epsilon=1, delta=1e-6).release(log, randomness=Randomness(seed=1))
    assert release.table("sessions").num_rows == 0
    assert release.parameters["pairs_left_out"] == FEW_QUERIES
    assert any("Nothing was drawn" in note for note in release.reach["sessions"].notes)


def test_every_pair_can_come_out_and_no_other(engine: Engine, tmp_path: Path) -> None:
    """With hardly any noise the rows are the pairs that enough users hold, with their counts."""
    rows = some_rows(seed=3, users=80)
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=engine)
    tables = PublicTables.of(log, 30, a_plan(per_user=100), repeats=False, counted=True)
    clicks = pa.table({"query": ["a", "b", "a b", "b"], "url": ["x"] * 4, "count": [9000, 9000, 9000, 9000]})
    drawn = tables.draw({"clicks": clicks}, Randomness(seed=1))
    among = {"a", "b", "a b"}
    held = Counter(pair for user in {row[0] for row in rows} for pair in pairs_by_hand(rows, user, among))
    printed = {tuple(row["queries"]): row["count"] for row in drawn.tables["sessions"].to_pylist()}  # type: ignore[union-attr]
    assert printed == dict(held)
    cells = Counter(cell for user in {row[0] for row in rows} for cell in cells_by_hand(rows, user))
    table = drawn.tables["reformulations"].to_pylist()  # type: ignore[union-attr]
    assert {(row["kind"], row["word"]): row["count"] for row in table} == {
        cell: n for cell, n in cells.items() if cell[1] in ("a", "b", ALL_WORDS)
    }
    assert [row["count"] for row in table] == sorted((row["count"] for row in table), reverse=True)


def test_released_queries_and_their_words() -> None:
    clicks = pa.table({"query": ["b a", "b a", "c"], "url": ["x", "y", "x"], "count": [3, None, 9]})
    queries = pa.table({"query": ["c", "d"], "count": [10, 2]})
    released = released_queries({"queries": queries, "clicks": clicks}).to_pylist()
    assert released == [{"query": "b a", "count": 4}, {"query": "c", "count": 10}, {"query": "d", "count": 2}]
    assert words_of(pa.array(["b a", "c", "a"])).to_pylist() == ["a", "b", "c"]


def test_one_budget_for_all_tables() -> None:
    method = Sessions(epsilon=8, delta=2.25e-7)
    assert method.released == ("clicks", "sessions", "reformulations")
    assert method.proven().numbers == (8, 2.25e-7)
    for candidate in method.plan.candidates[1:]:
        assert isinstance(candidate.method, Sessions)
        draws = candidate.method.draws()
        assert together(8 * 0.99, *draws) <= 2.25e-7  # type: ignore[arg-type]
        public = candidate.method.public
        assert public is not None
        losses = [squared_loss(plan.noise, plan.per_user) for plan in public.tables.values()]  # type: ignore[arg-type]
        spent = sum(losses)
        assert spent <= draws[-1].squared_loss  # type: ignore[attr-defined]
    assert Sessions(epsilon=8, delta=2.25e-7, selection="multi-round").released == ("clicks", "sessions")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tables": "sessions"}, "needs queries that come out before"),
        ({"queries_per_session": 3}, "makes pairs of queries"),
        ({"two_draws": True}, "needs a budget"),
        ({"split": "clicks=1,sessions=1"}, "a part for each of clicks, sessions, reformulations"),
    ],
)
def test_options_that_do_not_go_with_released_pairs(options: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Sessions(epsilon=8, delta=2.25e-7, sequences="released", **options)  # type: ignore[arg-type]


def test_reformulations_need_released_pairs() -> None:
    with pytest.raises(ParameterError, match="reformulations in tables need sequences='released'"):
        Sessions(epsilon=8, delta=2.25e-7, tables="clicks,sessions,reformulations", selection="multi-round")
