"""The paper variant's constraints, bounds, counts and draws: laws of optimal.md, golden values of the paper's toy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from querycloak.errors import InputError, ParameterError
from querycloak.methods.optimal.holdings import Holdings
from querycloak.methods.optimal.made_up_users import named
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.optimal.objectives import Objective, objective
from querycloak.papers.hong2012 import PaperOptimal, sample
from querycloak.papers.output_counts.constraints import UNIT, Packing, PairLimit, least_delta, limit, packing, weights
from querycloak.papers.output_counts.solver import (
    Solution,
    largest_output,
    relax,
    solve,
    solve_by_floor,
    solve_by_spe,
)
from querycloak.papers.output_counts.whole_counts import eliminate, exchange, fill, heaviest
from querycloak.privacy.sampling.exact import exp_minus
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.reproduction.hong2012_tables import by_highs
from tests.unit.methods.optimal.instances import TOY, of_matrix, random_holdings, toy

LOG2 = math.nextafter(math.log(2), 1)  # not below the logarithm
small = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
seeds = st.integers(0, 10**6)
names = ("size", "diversity", "queries")


def solved(held: Holdings, bound: PairLimit, name: str = "size", **more: float) -> tuple[Packing, Objective, Solution]:
    goal = objective(name, held.totals, **more)  # type: ignore[arg-type]
    rows = packing(held, bound, goal)
    return rows, goal, solve(rows, goal)


def every_choice(rows: Packing) -> np.ndarray:
    """All whole counts within the constraints: the slow oracle."""
    ranges = [range(int(most) + 1) for most in rows.most]
    return np.array([counts for counts in itertools.product(*ranges) if rows.holds(np.array(counts))])


def test_the_toy_of_the_paper() -> None:
    """Figure 1 of Hong et al.: 53 clicks, 50 without the two pairs of one user; the optimum of its constraints."""
    held = toy()
    assert int(TOY.sum()) == 53
    assert (held.pairs, held.users, held.size) == (3, 3, 50)
    assert held.totals.tolist() == [4, 39, 7]
    goal = objective("size", held.totals)
    rows = packing(held, limit(LOG2, 0.5), goal)
    best = relax(rows, goal, whole=False, tolerance=1e-9)
    assert best.counts == pytest.approx([0.0922, 1.1644, 0.0], abs=1e-4)
    assert best.value == pytest.approx(1.2566, abs=1e-4)
    assert best.bound == pytest.approx(best.value, abs=1e-4)
    found = solve(rows, goal)
    assert found.floored.tolist() == [0, 1, 0]
    assert (found.value, found.bound) == (1, 1)
    assert found.remark("size") == "1 row; no choice has more than 1 (gap 0.0%)"
    frequent = objective("frequent", held.totals, support=0.5, output_size=1)
    assert frequent.goal.tolist() == [-1, 39 / 50, -1]
    assert -solve(packing(held, limit(LOG2, 0.5), frequent), frequent).value == pytest.approx(11 / 50)


@small
@given(seeds)
def test_what_is_published_comes_out_as_published_and_ours_is_never_worse(seed: int) -> None:
    """`solver` floor and spe: the rounded-down program and the heuristic alone, within the same constraints."""
    held, bound = random_holdings(15, 12, seed), limit(LOG2, 0.5)
    for name, published in (("size", solve_by_floor), ("diversity", solve_by_floor), ("diversity", solve_by_spe)):
        rows, goal, best = solved(held, bound, name)
        found = published(rows, goal)
        assert rows.holds(found.counts)
        assert found.value <= best.value <= found.bound + 1e-6
    assert solve_by_spe(rows, goal).counts.tolist() == eliminate(rows).tolist()


def test_the_solver_can_be_chosen_where_the_paper_has_one() -> None:
    held = toy()
    budget: dict[str, Any] = {"epsilon": LOG2, "delta": 0.5, "variant": "paper"}
    assert PaperOptimal(**budget, solver="floor").solve(held).counts.tolist() == [0, 1, 0]
    spe = PaperOptimal(**budget, objective="diversity", solver="spe")
    assert spe.solve(held).counts.tolist() == eliminate(solved(held, limit(LOG2, 0.5), "diversity")[0]).tolist()
    assert spe.parameters()["solver"] == "spe"
    assert "solver" not in PaperOptimal(**budget).parameters()
    assert PaperOptimal(**budget).proven() == PaperOptimal(**budget, solver="floor").proven()
    with pytest.raises(InputError, match="is above what the constraints allow"):
        PaperOptimal(**budget, objective="frequent", support=0.1, output_size=40, solver="floor").solve(held)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"solver": "floor"}, "solver must be left out, got 'floor'; it goes with variant='paper'"),
        (
            {"solver": "spe", "variant": "paper"},
            "solver must be best or floor, got 'spe'; spe goes with objective='diversity'",
        ),
        ({"solver": "floor", "variant": "paper", "objective": "queries"}, "the paper has no linear program"),
        ({"solver": "simplex", "variant": "paper"}, "solver must be one of best, floor, spe"),
    ],
)
def test_a_solver_that_does_not_fit_is_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(ParameterError) as refused:
        Optimal(epsilon=1.0, delta=0.1, **given)  # type: ignore[arg-type]
    assert said in str(refused.value)


def test_weights_are_not_below_the_logarithms_and_limits_not_above() -> None:
    held = random_holdings(50, 30, 1)
    totals = held.totals[held.pair]
    for total, count, weight in zip(totals.tolist(), held.count.tolist(), weights(held).tolist(), strict=True):
        # weight/UNIT >= log(total/(total-count)) iff exp(-weight/UNIT) <= (total-count)/total
        high = exp_minus(Fraction(weight, UNIT), 120)[1]
        assert Fraction(high, 1 << 120) <= Fraction(total - count, total)
        assert weight <= math.log(total / (total - count)) * UNIT * (1 + 1e-12) + 2
    for epsilon, delta in ((8.0, 1e-7), (LOG2, 0.5), (0.001, 0.9), (3.0, 0.95)):
        low = Fraction(exp_minus(Fraction(limit(epsilon, delta).units, UNIT), 120)[0], 1 << 120)
        assert low >= 1 - Fraction(repr(delta))
        assert Fraction(limit(epsilon, delta).units, UNIT) <= Fraction(repr(epsilon))
        assert limit(epsilon, delta).units >= min(epsilon, -math.log1p(-delta)) * UNIT * (1 - 1e-12) - 2


@small
@given(seeds, st.floats(0.05, 0.9))
def test_no_output_is_larger_than_users_times_the_limit(seed: int, delta: float) -> None:
    """The two lines of optimal.md by which the paper's tables are infeasible."""
    held = random_holdings(25, 12, seed)
    bound = limit(10.0, delta)
    goal = objective("size", held.totals)
    rows = packing(held, bound, goal)
    most = held.users * bound.units / UNIT
    assert relax(rows, goal, whole=False).value <= most
    assert solve(rows, goal).value <= most


@small
@given(seeds, st.floats(0.05, 0.5), st.floats(1.1, 4.0))
def test_the_relaxed_optimum_is_proportional_to_the_limit(seed: int, share: float, factor: float) -> None:
    held = random_holdings(20, 10, seed)
    goal = objective("size", held.totals)
    one, other = (
        relax(
            packing(held, PairLimit(round(share * each * UNIT), Fraction(0)), goal), goal, whole=False, tolerance=1e-7
        )
        for each in (1.0, factor)
    )
    assert other.value == pytest.approx(factor * one.value, rel=1e-3)
    assert one.value <= one.bound <= one.value * 1.001


@small
@given(seeds, st.floats(0.2, 0.8), st.sampled_from(names))
def test_small_problems_are_solved_to_their_optimum(seed: int, delta: float, name: str) -> None:
    """Against all whole counts there are; the bound is one, and HiGHS agrees."""
    rows, goal, found = solved(random_holdings(7, 6, seed, mean=3), limit(10.0, delta), name)
    best = max(goal.value(counts) for counts in every_choice(rows))
    assert rows.holds(found.counts)
    assert found.value == best
    assert found.bound >= best
    proved = by_highs(rows, goal, 10)
    assert proved.counts is not None
    assert rows.holds(proved.counts)
    assert best - 1 <= proved.value <= best <= proved.bound + 1e-5


@small
@given(seeds, st.integers(1, 4))
def test_frequent_pairs_come_as_close_as_they_can(seed: int, size: int) -> None:
    held = random_holdings(6, 6, seed, mean=3)
    bound = limit(10.0, 0.7)
    largest = largest_output(held, bound)
    if largest.value < size:
        return
    goal = objective("frequent", held.totals, support=0.15, output_size=size)
    rows = packing(held, bound, goal)
    found = solve(rows, goal, begun=largest.counts)
    choices = [counts for counts in every_choice(rows) if counts.sum() == size]
    best = max(goal.value(counts) for counts in choices)
    assert rows.holds(found.counts)
    assert found.counts.sum() == size
    assert found.bound >= best - 1e-12
    # A local search, so the optimum is not certain; but one row of the output is the least that can be off.
    assert found.value >= best - 2 / size
    assert found.value <= best + 1e-12


@small
@given(seeds)
def test_a_joint_objective_weighs_the_others(seed: int) -> None:
    held = random_holdings(6, 6, seed, mean=3)
    goal = objective(
        "joint", held.totals, support=0.15, output_size=4, weights={"size": 1, "diversity": 2, "frequent": 1}
    )
    rows = packing(held, limit(10.0, 0.7), goal)
    found = solve(rows, goal)
    choices = [counts for counts in every_choice(rows) if counts.sum() <= 4]
    best = max(goal.value(counts) for counts in choices)
    assert rows.holds(found.counts)
    assert found.bound >= best - 1e-12
    assert found.counts.sum() <= 4
    assert best - 0.5 <= found.value <= best + 1e-12


@small
@given(seeds, st.floats(0.05, 0.9), st.sampled_from(names))
def test_never_below_the_floored_relaxation_nor_below_elimination(seed: int, delta: float, name: str) -> None:
    rows, goal, found = solved(random_holdings(60, 25, seed), limit(10.0, delta), name)
    assert rows.holds(found.counts)
    assert found.value >= goal.value(found.floored)
    if name == "diversity":
        assert found.value >= goal.value(eliminate(rows))
    assert found.value <= found.bound
    assert 0 <= found.gap < 1


def test_elimination_is_the_paper_s_algorithm_2() -> None:
    """Drop the pair with the largest t until all constraints hold, one after another, as the paper writes it."""
    for seed in range(20):
        held = random_holdings(40, 15, seed)
        goal = objective("diversity", held.totals)
        rows = packing(held, limit(LOG2, 0.5), goal)
        order = np.argsort(heaviest(rows), kind="stable")
        kept = np.ones(rows.pairs, dtype=np.int64)
        for pair in order[::-1]:
            if (rows.loads(kept) <= rows.capacity).all():
                break
            kept[pair] = 0
        assert eliminate(rows).tolist() == kept.tolist()


@small
@given(seeds, st.floats(0.1, 2.0), st.floats(0.1, 0.9))
def test_more_budget_never_allows_less(seed: int, epsilon: float, delta: float) -> None:
    """Monotone in both parameters: what fits a smaller limit fits a larger one."""
    held = random_holdings(12, 8, seed)
    assert limit(epsilon, delta).units <= limit(epsilon * 1.5, delta).units
    assert limit(epsilon, delta).units <= limit(epsilon, min(0.99, delta * 1.1)).units
    _, _, less = solved(held, limit(epsilon, delta))
    rows, goal, more = solved(held, limit(epsilon * 1.5, min(0.99, delta * 1.1)))
    assert rows.holds(less.counts)
    assert more.bound >= less.value
    assert relax(rows, goal, whole=False, tolerance=1e-7).bound >= less.relaxed.value


def test_exchange_and_fill_never_break_a_row() -> None:
    for seed in range(10):
        held = random_holdings(80, 30, seed)
        goal = objective("size", held.totals)
        rows = packing(held, limit(LOG2, 0.5), goal)
        begun = fill(rows, goal, np.arange(rows.pairs), np.zeros(rows.pairs, dtype=np.int64))
        better = exchange(rows, goal, begun, 5_000)
        assert rows.holds(begun)
        assert rows.holds(better)
        assert better.sum() >= begun.sum()
        # Nothing fits any more.
        assert not any(rows.holds(better + (np.arange(rows.pairs) == pair)) for pair in range(rows.pairs))


def test_draws_have_the_means_of_a_multinomial() -> None:
    held = toy()
    runs = 4_000
    drawn = np.zeros(held.count.size)
    randomness = Randomness(seed=3)
    counts = np.array([1, 5, 2])
    index = {(int(p), int(u)): i for i, (p, u) in enumerate(zip(held.pair, held.user, strict=True))}
    for _ in range(runs):
        for pair, user, count in zip(*sample(held, counts, randomness), strict=True):
            drawn[index[int(pair), int(user)]] += count
    share = held.count / held.totals[held.pair]
    trials = runs * counts[held.pair]
    # Five standard deviations of each: a chance of 1e-6 to fail if the law is right, and of nothing to pass if not.
    assert (np.abs(drawn - trials * share) <= 5 * np.sqrt(trials * share * (1 - share))).all()


def test_a_user_appears_as_often_as_the_constraint_says_and_no_more_often_than_delta() -> None:
    """optimal.md, paper variant: the chance to appear is 1 - exp(-sum x log t), at most delta."""
    held = random_holdings(30, 20, 5)
    delta, runs = 0.5, 4_000
    rows, _, found = solved(held, limit(10.0, delta))
    assert found.value > 3
    appeared = np.zeros(held.users)
    randomness = Randomness(seed=9)
    for _ in range(runs):
        appeared[np.unique(sample(held, found.counts, randomness)[1])] += 1
    chance = -np.expm1(-rows.loads(found.counts)[: held.users] / UNIT)
    assert (chance <= delta).all()
    # Hoeffding: one of twenty users further off than this has a chance below 1e-6.
    off = math.sqrt(math.log(2 * held.users / 1e-6) / (2 * runs))
    assert np.abs(appeared / runs - chance).max() <= off
    assert appeared.max() / runs <= delta + off


def test_names_are_fresh_and_tell_users_apart() -> None:
    user = np.array([7, 7, 3, 9, 3])
    first, second = (named(user, Randomness()).to_pylist() for _ in range(2))
    assert [first.index(name) for name in first] == [0, 0, 2, 3, 2]
    assert not set(first) & set(second)
    assert all(len(name) == 16 and int(name, 16) >= 0 for name in first)
    # In no order: of 200 users, names that ascend with users would be one case in 200!.
    names = named(np.arange(200), Randomness(seed=1)).to_pylist()
    assert names != sorted(names)


def test_a_share_that_just_fits_is_no_matter_of_rounding() -> None:
    """Two users with half of a pair each: either appears with a chance of exactly 1/2."""
    halves = of_matrix(np.array([[3, 3, 0, 0], [0, 0, 5, 5], [0, 1, 1, 0]]))
    goal = objective("size", halves.totals)
    for epsilon, delta, found in (
        (LOG2, 0.5, 2),
        (1.0, 0.5, 2),
        (LOG2, 0.8, 2),
        (math.log(2), 0.5, 2),  # the float is below the logarithm; 1 - e^-epsilon, as stated, is 0.5
        (0.69314718056, 0.5, 2),
        (0.6931471805599, 0.5, 0),
        (1.0, 0.4999999999999999, 0),
    ):
        rows = packing(halves, limit(epsilon, delta), goal)
        assert solve(rows, goal).value == found
    tenths = of_matrix(np.ones((1, 10), dtype=np.int64))
    assert solve(packing(tenths, limit(1.0, 0.1), goal), objective("size", tenths.totals)).value == 1


def test_a_pair_needs_one_over_delta_users() -> None:
    """With x >= 1, delta is at least the largest share that one user has of the pair."""
    held = of_matrix(np.ones((1, 10), dtype=np.int64))
    assert least_delta(held) == pytest.approx(1 / 10)
    method = PaperOptimal(epsilon=1, delta=0.09, variant="paper")
    with pytest.raises(
        InputError, match=r"private, not for publication: .* needs at least delta 0\.1 and epsilon 0\.10"
    ):
        method.solve(held)
    assert PaperOptimal(epsilon=1, delta=0.11, variant="paper").solve(held).value == 1


def test_what_cannot_be_is_said() -> None:
    held = toy()
    frequent = {"epsilon": LOG2, "delta": 0.5, "objective": "frequent", "variant": "paper"}
    with pytest.raises(InputError, match=r"no pair reaches support 0\.9; the largest is 0\.78"):
        PaperOptimal(**frequent, support=0.9, output_size=1).solve(held)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"output_size 2 is above .* has 1 rows, and none has more than 1"):
        PaperOptimal(**frequent, support=0.1, output_size=2).solve(held)  # type: ignore[arg-type]
