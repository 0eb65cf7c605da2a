"""The paper's tables as data: what it prints is beyond what its own constraints allow, and we say what can be."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from querycloak.engines import Engine
from querycloak.errors import InputError
from querycloak.evaluation.tasks.pairs import output_of, pair_measures, values
from querycloak.files.resumable_folder import KeptSteps
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.optimal.holdings import of_log
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.optimal.objectives import objective
from querycloak.papers.output_counts.constraints import limit, packing
from querycloak.papers.output_counts.solver import relax, solve_by_floor
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.reproduction import hong2012_tables
from querycloak.reproduction.hong2012_exhibits import _seconds, figure_6, table_3, table_7
from querycloak.reproduction.hong2012_frequent import figure_3, figure_3c, how_solved, precision, tables_5_and_6
from querycloak.reproduction.hong2012_tables import (
    DELTAS,
    EXP_EPSILONS,
    LARGEST,
    SIZES,
    SUPPORTS,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_7_OTHERS,
    TABLE_7A,
    TABLE_7B,
    OptimalTables,
    Proved,
    by_highs,
)
from querycloak.reproduction.workbench import Workbench
from tests.logs import aol, write
from tests.unit.methods.optimal.instances import random_holdings


def _compared_variants(
    log: SearchLog,
    supports: Sequence[float],
    *,
    budgets: Sequence[tuple[float, float]],
    randomness: Randomness,
) -> Iterator[dict[str, Any]]:
    """One row for each variant, budget and support; where nothing can be released, why."""
    holdings = of_log(log)
    for epsilon, delta in budgets:
        for variant in ("default", "paper"):
            method = Optimal(epsilon=epsilon, delta=delta, variant=variant)
            row = {"variant": variant, "epsilon": epsilon, "delta": delta, "kind": method.proven().kind}
            try:
                table = method.release(log, randomness=randomness).table("log")
            except InputError as nothing:
                yield row | {"nothing": str(nothing)}
                continue
            output = output_of(holdings, table)
            for support in supports:
                yield row | {"rows": output.size, "support": support, **values(holdings, output, support)}


@pytest.fixture(scope="module")
def tables() -> OptimalTables:
    return OptimalTables(random_holdings(40, 30, 3), seconds=0.1)


def test_a_solver_that_was_stopped_before_it_had_a_bound_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine HiGHS may end without counts and without a bound: our own stand then."""
    monkeypatch.setattr(hong2012_tables, "by_highs", lambda *_: Proved(None, -math.inf, math.inf))
    most = OptimalTables(random_holdings(40, 30, 3), seconds=0.1).largest(limit(math.log(2), 0.5))
    assert most.value <= most.bound < math.inf


def test_table_4_is_copied_as_its_constraints_have_it() -> None:
    """Hong et al. (EDBT 2012): a size depends on min(epsilon, log 1/(1 - delta)) alone, and grows with it."""
    sizes = sorted(
        (min(math.log(exp_epsilon), -math.log1p(-delta)), TABLE_4[row][column])
        for row, exp_epsilon in enumerate(EXP_EPSILONS)
        for column, delta in enumerate(DELTAS)
    )
    assert len(sizes) == 49
    for (allowed, size), (next_allowed, next_size) in pairwise(sizes):
        assert size == next_size if allowed == next_allowed else size <= next_size
    assert TABLE_4[EXP_EPSILONS.index(2.0)][DELTAS.index(0.5)] == LARGEST


def test_tables_5_to_7_are_copied_as_they_must_be() -> None:
    """A recall is a share of the frequent pairs, of which each support has one number; distances grow with the output.

    127, 105, 70, 34 and 15 are the smallest numbers whose shares these are. Three entries of the paper are none.
    """
    odd = {0.8873, 0.9116, 0.933}
    for row, frequent in zip(TABLE_5, (127, 105, 70, 34, 15), strict=True):
        for recall in set(row) - odd:
            assert recall == pytest.approx(round(recall * frequent) / frequent, abs=5.1e-5)
    assert odd < {recall for row in TABLE_5 for recall in row}
    assert all(list(row) == sorted(set(row)) for row in TABLE_6)
    for shares in (TABLE_7A, TABLE_7B):
        assert list(shares) == sorted(shares)
        assert list(shares.values()) == sorted(shares.values())
    assert (len(TABLE_5), len(TABLE_6)) == (len(SUPPORTS), len(SUPPORTS))
    assert {len(row) for row in (*TABLE_5, *TABLE_6)} == {len(SIZES)}


def test_nothing_that_table_4_prints_can_be(tables: OptimalTables) -> None:
    rows = tables.table_4()
    assert len(rows) == 49
    assert not any(row["claimed_feasible"] for row in rows)
    golden = {(row["exp_epsilon"], row["delta"]): row["claimed_at_most"] for row in rows}
    assert golden[1.001, 1e-4] == pytest.approx(0.198, abs=1e-3)
    assert golden[2.0, 0.5] == pytest.approx(1372.4, abs=0.1)
    for row in rows:
        assert row["relaxed_floored"] <= row["found"] <= row["at_most"] <= row["users_times_limit"] + 1e-9
        assert row["relaxed"] <= row["users_times_limit"]
    # Monotone in both: what one limit allows, a larger one allows.
    assert all(row["at_most"] >= other["found"] for row, other in zip(rows[7:], rows[:-7], strict=True))


@pytest.mark.slow
def test_tables_5_to_7_and_figures_are_whole(tables: OptimalTables) -> None:
    names = ("table_5_and_6", "table_7", "figure_3", "figure_4", "figure_5")
    made = {name: getattr(tables, name)() for name in names} | {"figure_6": tables.figure_6(Randomness(seed=1))}
    json.dumps(made)
    assert len(made["table_5_and_6"]) == 30
    assert all(row["distance"] >= row["distance_at_least"] - 1e-9 for row in made["table_5_and_6"] if "distance" in row)
    assert len(made["table_7"]) == 11
    for row in made["table_7"]:
        assert not row["claimed_feasible"]
        assert max(row["spe"], row["floor"], row["highs"]) <= row["ours"] <= row["at_most"]
    assert len(made["figure_3"]) == len(made["figure_4"]) == 49
    assert all(row["spe"] <= row["ours"] <= row["at_most"] for row in made["figure_4"])
    assert {row["solver"] for row in made["figure_5"]} == {"spe", "ours", "highs"}
    triplets = {round(sum(row["triplets_by_tenths"])) for row in made["figure_6"]}
    assert len(triplets) == 1


def test_the_floor_is_that_of_a_vertex_and_every_exhibit_has_the_best_solution(tables: OptimalTables) -> None:
    """A vertex has at most as many fractions as rows that are full; an interior point rounds down to far less."""
    bound = limit(math.log(2.0), 0.5)
    goal = objective("size", tables.holdings.totals)
    rows = packing(tables.holdings, bound, goal)
    vertex, inner = (relax(rows, goal, whole=False, vertex=each) for each in (True, False))
    assert vertex.value == pytest.approx(inner.value, rel=1e-3)
    fractions = np.abs(vertex.counts - np.rint(vertex.counts)) > 1e-6
    assert fractions.sum() <= tables.holdings.users
    assert rows.holds(solve_by_floor(rows, goal).counts)
    largest = tables.largest(bound)
    proved = by_highs(rows, goal, 5.0)
    assert largest.value <= proved.bound + 1e-5
    assert proved.value <= largest.bound
    corner = next(row for row in tables.table_4() if (row["exp_epsilon"], row["delta"]) == (2.0, 0.5))
    assert (corner["found"], corner["at_most"]) == (largest.value, largest.bound)
    assert corner["relaxed_floored"] == int(solve_by_floor(rows, goal).counts.sum())


def test_the_page_says_how_long_highs_had() -> None:
    assert "HiGHS is stopped after 2 s of each program" in how_solved(2.0)
    bench: Any = SimpleNamespace(quick=True)
    assert _seconds(bench) == 2.0
    assert _seconds(SimpleNamespace(quick=False)) == 60.0  # type: ignore[arg-type]


def test_highs_proves_distances_by_trying() -> None:
    """F-UMP on a log small enough for all whole counts of the total to be tried."""
    holdings, bound = random_holdings(6, 6, 4, mean=3), limit(10.0, 0.7)
    goal = objective("frequent", holdings.totals, support=0.1, output_size=3)
    rows = packing(holdings, bound, goal)
    every = (np.array(each) for each in itertools.product(range(4), repeat=rows.pairs) if sum(each) == 3)
    best = max(goal.value(counts) for counts in every if rows.holds(counts))
    proved = by_highs(rows, goal, 5.0)
    assert proved.value == pytest.approx(best)
    assert proved.bound == pytest.approx(best, abs=1e-5)


def test_what_the_paper_says_of_precision_and_averages_is_judged(tables: OptimalTables, tmp_path: Path) -> None:
    """Section 6.3 and Figure 3 (c); Table 6 grows with the support, although frequent sets are nested."""
    bench = Workbench(None, KeptSteps(tmp_path, {}), True, 40)  # type: ignore[arg-type]
    rows = tables.table_5_and_6()
    assert precision(bench, rows).verdict == "differs"
    assert "grows in 6 of 6 columns" in figure_3c(bench, rows).statement
    assert figure_3c(bench, rows).verdict == "cannot hold"
    growing = [j for j in range(6) if any(TABLE_6[i][j] < TABLE_6[i + 1][j] for i in range(4))]
    assert len(growing) == 4
    assert "in four of its six columns" in tables_5_and_6(bench, rows)[1].why
    assert {row[0] for row in table_3(bench, tables.log()).ours.rows} >= {"urls", "queries"}  # type: ignore[union-attr]
    bench.close()


def test_triplets_near_what_the_paper_prints_would_agree() -> None:
    """Section 6.5: about 75 % and 90 % below a difference of 40 %; a verdict that can be either."""
    bench = Workbench(None, None, True, 40)  # type: ignore[arg-type]

    def judged(near: float) -> str:
        bins = [near, 0, 0, 0, 1 - near, *[0] * 6]
        rows = [{"claimed_size": size, "size": 9, "triplets_by_tenths": bins} for size in (4000, 6000)]
        return figure_6(bench, rows).verdict

    assert [judged(0.92), judged(0.7), judged(0.01)] == ["agrees", "agrees in part", "differs"]


def test_what_the_paper_says_against_its_own_tables_is_shown(tables: OptimalTables) -> None:
    """Section 6.4.2 on feaspump, and two shares of scip at one point; Section 6.3 on recall and distance."""
    better = [point for point, shares in TABLE_7_OTHERS.items() if shares[3] > TABLE_7A[point[1]] and point[0] == 2]
    assert better == [(2.0, 0.2), (2.0, 0.5)]
    bench = Workbench(None, None, True, 40)  # type: ignore[arg-type]
    table = table_7(bench, tables.table_7())
    assert "feaspump ahead of SPE at (2, .5) and (1.1, .1) only; in the table it is ahead at (2, .2), too" in table.why
    assert "scip has 23.7% in part (a) and 23.1% in part (b)" in table.why
    assert table.statement.startswith("0 of 11 printed shares are possible")
    recall, distance = tables_5_and_6(bench, tables.table_5_and_6())
    assert min(min(row) for row in TABLE_5) == 0.7333
    assert "over 80 % are retained; the table's last entry is 73 %" in recall.why
    assert "never falls as the output grows; here that is so at" in distance.statement


def test_figure_3_b_is_judged_by_its_distances() -> None:
    """Section 6.3: recall grows and the sum of distances falls as the limit grows."""
    bench = Workbench(None, None, True, 40)  # type: ignore[arg-type]

    def judged(recalls: tuple[float, float], distances: tuple[float, float]) -> str:
        rows = [
            {"exp_epsilon": 2.3, "delta": delta, "size": 9, "feasible": True, "recall": recall, "distance": distance}
            for delta, recall, distance in zip((0.2, 0.5), recalls, distances, strict=True)
        ]
        return figure_3(bench, rows).statement

    assert "recall never falls, and the sum of distances never grows" in judged((0.1, 0.2), (0.5, 0.4))
    assert "recall never falls, and the sum of distances sometimes grows" in judged((0.1, 0.2), (0.4, 0.5))
    assert "recall sometimes falls" in judged((0.2, 0.1), (0.5, 0.4))


def test_both_variants_in_every_measure(duckdb_engine: Engine, tmp_path: Path) -> None:
    rows = [
        (f"u{user}", f"12:{pair:02}:00", f"query {pair}", "1", f"http://{pair}.example/")
        for user in range(80)
        for pair in range(user % 5 + 1)
    ]
    log = read(write(tmp_path / "log.tsv", aol(rows)), engine=duckdb_engine)
    compared = list(_compared_variants(log, (0.05,), budgets=((0.7, 0.5), (8.0, 1e-7)), randomness=Randomness(seed=2)))
    assert [(row["variant"], row["kind"]) for row in compared] == [
        ("default", "approximate-dp"),
        ("paper", "sampling-only"),
    ] * 2
    assert set(pair_measures(0.05)) <= set(compared[0])
    assert "no pair at all can be released" in compared[3]["nothing"]
