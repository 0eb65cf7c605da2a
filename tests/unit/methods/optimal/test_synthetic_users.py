"""The default variant's budget and what it makes of noisy tables: laws of optimal.md."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.methods.optimal import made_up_users as synthesis
from querycloak.methods.optimal.degree_sequences import allocate, apportion, fits, graphical, reconcile
from querycloak.methods.optimal.made_up_users import deal
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.optimal.noisy_tables import NoisyTables
from querycloak.methods.optimal.objectives import free_objective
from querycloak.methods.optimal.plan import COUNTED_PER_USER, SyntheticPlan, joint_delta, plan_synthetic
from querycloak.privacy.accounting.draws import PublicCounts
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.weighted import GRID, WeightedPlan
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.privacy.sampling.randomness import Randomness
from tests.pages import ROOT

few = settings(max_examples=60, deadline=None)
counts_of_pairs = st.lists(st.integers(-3, 30), min_size=1, max_size=12)
numbers_of_users = st.lists(st.integers(-5, 20), min_size=1, max_size=6)


def tables(count: list[int], sizes: list[int], links: dict[tuple[int, int], int] | None = None) -> NoisyTables:
    names = [f"query {i // 2}" for i in range(len(count))], [f"http://{i}/" for i in range(len(count))]
    pairs = pa.table({"query": names[0], "url": names[1], "count": pa.array(count, pa.int64())})
    listed = links or {}
    return NoisyTables(
        pairs,
        np.array([one for one, _ in listed], dtype=np.int64),
        np.array([two for _, two in listed], dtype=np.int64),
        np.array(list(listed.values()), dtype=np.int64),
        np.array(sizes, dtype=np.int64),
    )


# The budget


def gaussian_pmf(sigma: float, reach: int = 60) -> np.ndarray:
    z = np.arange(-reach, reach + 1)
    weights = np.exp(-(z**2) / (2 * sigma**2))
    pmf: np.ndarray = weights / weights.sum()
    return pmf


def small_plan() -> SyntheticPlan:
    """Noise so small that outcomes can be enumerated: one round decides, three units of weight are a user's."""
    pairs = WeightedPlan((), Gaussian(200.0), 700, 2, Gaussian(2.5), 2, 2.0, 0.5)
    return SyntheticPlan(2.0, 0.5, 2, pairs, Gaussian(1.6), 5, Gaussian(2.0))


def test_the_joint_delta_covers_what_a_user_really_changes() -> None:
    """By enumeration: a user with one own and one shared pair, a count of it, an own association and a bin.

    Given which pairs came out the tables are independent, so the worst set of outputs is where the product of
    densities under D' exceeds e^eps times that under D, and the other way round.
    """
    plan = small_plan()
    stated = joint_delta(plan)
    weight = math.isqrt(GRID * GRID // 2)
    assert plan.link_noise is not None
    assert plan.link_threshold is not None
    # Every part as (law under D', law under D): what decides on a shared pair, an own pair, a count, and so on.
    parts = [
        _decision(plan.pairs, plan.pairs.threshold, weight),
        _own(gaussian_pmf(plan.pairs.noise.sigma, 2000), plan.pairs.threshold - weight),
        _moved(plan.count_noise),
        _own(gaussian_pmf(plan.link_noise.sigma), plan.link_threshold - 1),
        _moved(plan.size_noise),
    ]
    first, second = np.ones(1), np.ones(1)
    for with_user, without in parts:
        first, second = np.outer(first, with_user).ravel(), np.outer(second, without).ravel()
        kept = (first > 1e-11) | (second > 1e-11)
        first, second = first[kept], second[kept]
    adding = np.maximum(first - math.exp(2.0) * second, 0).sum()
    removing = np.maximum(second - math.exp(2.0) * first, 0).sum()
    assert max(adding, removing) <= stated
    assert stated <= 0.5
    assert adding > stated / 40  # not so generous that a wrong formula would hide behind it


def _decision(pairs: WeightedPlan, shared: int, weight: int) -> tuple[np.ndarray, np.ndarray]:
    """Whether a shared pair of this weight comes out, with and without the user."""
    pmf = gaussian_pmf(pairs.noise.sigma, 2000)
    passing = [pmf[2000 + pairs.threshold + 1 - total :].sum() for total in (shared + weight, shared)]
    return np.array([1 - passing[0], passing[0]]), np.array([1 - passing[1], passing[1]])


def _own(pmf: np.ndarray, lacking: int) -> tuple[np.ndarray, np.ndarray]:
    """A key of the user alone passes if noise exceeds what it lacks; without the user it cannot."""
    passes = pmf[pmf.size // 2 + lacking + 1 :].sum()
    return np.array([1 - passes, passes]), np.array([1.0, 0.0])


def _moved(noise: Gaussian) -> tuple[np.ndarray, np.ndarray]:
    pmf = gaussian_pmf(noise.sigma, 12)
    return np.append(0.0, pmf), np.append(pmf, 0.0)


@few
@given(st.floats(0.3, 12), st.floats(1e-9, 1e-2), st.integers(1, 40), st.integers(1, 10))
def test_a_plan_stays_within_its_budget(epsilon: float, delta: float, per_user: int, linked: int) -> None:
    budget = plan_synthetic(Budget(epsilon, delta), per_user, linked)
    assert budget.delta == joint_delta(budget) <= delta
    assert budget.epsilon == epsilon
    assert budget.linked_per_user == min(per_user, linked)
    assert (budget.link_noise is None) == (min(per_user, linked) == 1)
    assert bool(budget.pairs.scouts) == (per_user > 8)
    lower = replace(budget, pairs=replace(budget.pairs, threshold=budget.pairs.threshold - 64))
    assert joint_delta(lower) > budget.delta


def test_parts_add_up_exactly_where_zcdp_gave_noise_away() -> None:
    # By zCDP and a sum of deltas associations had sigma 5.106 and a threshold of 30 at (8, 1e-7).
    plan = plan_synthetic(Budget(8, 1e-7), 256, 4)
    assert plan.link_noise is not None
    assert plan.link_noise.sigma < 5.0
    assert plan.link_threshold is not None
    assert plan.link_threshold < 30
    assert plan.delta <= 1e-7


def test_mechanisms_name_every_table() -> None:
    plan = plan_synthetic(Budget(8, 1e-7), 16, 6)
    drawn = [draw.to_json() for draw in plan.draws()]
    assert [each["kind"] for each in drawn] == ["gaussian-rounds", "histogram", "public-counts"]
    assert plan.pairs.draw().to_json() == drawn[0]
    alone = [draw.to_json()["kind"] for draw in plan_synthetic(Budget(8, 1e-7), 16, 1).draws()]
    assert alone == ["gaussian-rounds", "public-counts"]


# The total


def test_a_total_that_one_user_moves_by_all_pairs_is_within_the_joint_delta() -> None:
    """By enumeration: the total of a user with l pairs beside the size and a count that the user changes by one."""
    per_user, epsilon = 6, 1.5
    noise = Gaussian(9.0)
    plan = replace(
        small_plan(), epsilon=epsilon, total_noise=noise, pairs=replace(small_plan().pairs, per_user=per_user)
    )
    alone = Losses() + plan.draws()[-1].losses()
    pmf = gaussian_pmf(noise.sigma, 120)
    with_user, without = np.append(np.zeros(per_user), pmf), np.append(pmf, np.zeros(per_user))
    for each in (with_user - math.exp(epsilon) * without, without - math.exp(epsilon) * with_user):
        exact = np.maximum(each, 0).sum()
        assert exact <= alone.delta_at(epsilon) <= 1.6 * exact
    # Beside a bin and a count of the same user, as one product of laws.
    parts = [(with_user, without), _moved(plan.size_noise), _moved(plan.count_noise)]
    first, second = np.ones(1), np.ones(1)
    for one, two in parts:
        first, second = np.outer(first, one).ravel(), np.outer(second, two).ravel()
    assert np.maximum(first - math.exp(epsilon) * second, 0).sum() <= joint_delta(plan)
    # A total that counted with a sensitivity of sqrt(l) would be caught.
    wrong = Losses() + PublicCounts(noise, per_user).losses()
    assert wrong.delta_at(epsilon) < np.maximum(with_user - math.exp(epsilon) * without, 0).sum()


@few
@given(st.floats(1, 12), st.floats(1e-9, 1e-2), st.integers(1, 40), st.floats(0.001, 0.5))
def test_a_plan_with_a_total_stays_within_its_budget(epsilon: float, delta: float, per_user: int, part: float) -> None:
    plan = plan_synthetic(Budget(epsilon, delta), per_user, 4, part)
    assert plan.delta == joint_delta(plan) <= delta
    assert plan.total_noise is not None
    assert plan.total_noise.sigma > per_user / math.sqrt(part) / 40


def test_without_a_total_the_plan_is_the_former_one() -> None:
    former = plan_synthetic(Budget(8, 1e-7), 256, 4)
    assert Optimal(epsilon=8, delta=1e-7, total_share=0).plan == former
    assert former.total_noise is None
    default = Optimal(epsilon=8, delta=1e-7)
    assert default.plan == plan_synthetic(Budget(8, 1e-7), 256, 4, 0.01)
    assert default.plan.count_noise.sigma < 1.02 * former.count_noise.sigma
    assert "total_noise" not in Optimal(epsilon=8, delta=1e-7, total_share=0).parameters()
    # Objectives that change shares on purpose spend nothing on it.
    assert Optimal(epsilon=8, delta=1e-7, objective="diversity", output_size=9).plan == former
    assert Optimal(epsilon=8, delta=1e-7, objective="diversity").plan == default.plan
    # Nor does a budget at which its noise would be beyond all use; asked for, it is refused.
    assert Optimal(epsilon=0.5, delta=1e-7).plan.total_noise is None
    with pytest.raises(ParameterError, match="the budget must allow noise of at most"):
        Optimal(epsilon=0.5, delta=1e-7, total_share=0.01)


def test_supports_are_shares_of_the_total_and_the_stated_one_follows_the_rows() -> None:
    counted = replace(tables([60, 30, 10], [40, 30]), total=1000)
    assert counted.stated_total(100) == {"total": 1000}
    assert counted.stated_total(50) == {"total": 500}
    assert counted.stated_total(0) == {"total": 1000}
    assert tables([60, 30, 10], [40, 30]).stated_total(100) == {}
    assert replace(counted, total=-7).stated_total(100) == {"total": 100}  # never less than the rows
    noisy = np.array([60, 30, 10])
    of_rows, of_all = (
        free_objective("frequent", noisy, np.arange(3), support=0.05, output_size=50, whole=whole).goal.tolist()
        for whole in (100, 1000)
    )
    assert of_rows == [30, 15, 5]
    assert of_all == [30, -1, -1]


# Counts and sizes


@few
@given(counts_of_pairs, numbers_of_users, st.sampled_from(["size", "diversity", "queries", "frequent", "joint"]),
       st.integers(1, 60))  # fmt: skip
def test_counts_and_sizes_always_fit(count: list[int], sizes: list[int], name: str, total: int) -> None:
    noisy = np.array(count, dtype=np.int64)
    goal = free_objective(
        name, noisy, np.arange(noisy.size) // 2, support=0.1, output_size=total, weights={"size": 1, "frequent": 1}
    )
    made = reconcile(noisy, np.array(sizes, dtype=np.int64), goal)
    people = sum(max(0, size) for size in sizes)
    assert made.pairs.sum() == made.users.sum() <= total
    assert (made.pairs <= np.maximum(noisy, 0)).all()
    assert (made.pairs <= people).all()
    assert made.pairs.sum() == min(total, np.clip(noisy, 0, people).sum(), people * len(sizes))
    assert made.users.size <= people
    if made.users.size:
        assert made.users.min() >= 1
        assert made.users.max() <= len(sizes)  # nobody holds more pairs than are counted of a user
        assert fits(made.pairs, made.users)


def test_nobody_holds_more_pairs_than_are_counted_of_a_user() -> None:
    """Noisy counts of pairs may need more than 16 of each user: rows are left out instead."""
    sizes, noisy = np.array([0] * (COUNTED_PER_USER - 1) + [10]), np.full(COUNTED_PER_USER + 4, 10)
    made = reconcile(noisy, sizes, free_objective("size", noisy, np.arange(noisy.size)))
    assert made.users.tolist() == [COUNTED_PER_USER] * 10
    assert COUNTED_PER_USER == 16
    assert "hold (16 at most)" in (ROOT / "docs" / "optimal.md").read_text()


def test_gale_and_ryser_by_trying() -> None:
    """Whether a dealing exists, against all dealings of three pairs to three users."""
    every = list(itertools.product(*[list(itertools.product((0, 1), repeat=3))] * 3))
    possible = {(tuple(np.sum(d, axis=0)), tuple(sorted(np.sum(d, axis=1), reverse=True))) for d in every}
    for counts in itertools.product(range(4), repeat=3):
        for sizes in itertools.product(range(4), repeat=3):
            if sorted(sizes, reverse=True) == list(sizes):
                said = fits(np.array(counts), np.array(sizes))
                assert said == ((counts, sizes) in possible), (counts, sizes)


@few
@given(st.lists(st.integers(1, 8), min_size=1, max_size=8), st.integers(0, 10**6))
def test_sizes_are_made_even_until_they_fit(counts: list[int], seed: int) -> None:
    random = np.random.default_rng(seed)
    pairs = np.array(counts, dtype=np.int64)
    people = int(random.integers(pairs.max(), pairs.sum() + 1))
    sizes = np.sort(1 + np.bincount(random.integers(0, min(2, people), pairs.sum() - people), minlength=people))[::-1]
    found = graphical(pairs, sizes.astype(np.int64))
    assert fits(pairs, found)
    assert found.sum() == sizes.sum()
    if fits(pairs, sizes):
        assert (found == sizes).all()


@few
@given(st.integers(0, 50), st.lists(st.tuples(st.floats(0, 5), st.integers(0, 9)), min_size=1, max_size=8))
def test_units_are_shared_out_in_proportion(number: int, given_: list[tuple[float, int]]) -> None:
    share, most = np.array([s for s, _ in given_]), np.array([m for _, m in given_], dtype=np.int64)
    found = apportion(number, share, most)
    assert (found <= most).all()
    assert found.sum() == min(number, most.sum())
    free = apportion(number, share, np.full(share.size, 10**6))
    if share.sum() > 0.1:
        assert (np.abs(free - number * share / share.sum()) <= 1).all()


@few
@given(counts_of_pairs, st.integers(1, 40), st.sampled_from(["frequent", "joint", "diversity"]))
def test_counts_without_constraints_are_optimal(count: list[int], total: int, name: str) -> None:
    """Against taking the most gainful unit, one after another."""
    noisy = np.array(count, dtype=np.int64)
    most = np.maximum(noisy, 0)
    total = min(total, int(most.sum()))
    if total == 0:
        return
    goal = free_objective(
        name, most, np.arange(most.size) // 2, support=0.1, output_size=total,
        weights={"size": 1, "diversity": 0.5, "frequent": 2},
    )  # fmt: skip
    greedy = np.zeros_like(most)
    for _ in range(total):
        better = [
            goal.value(greedy + (np.arange(most.size) == i)) if greedy[i] < most[i] else -1e9 for i in range(most.size)
        ]
        greedy[int(np.argmax(better))] += 1
    assert goal.value(allocate(goal, most, total)) == pytest.approx(goal.value(greedy))


def test_diversity_comes_first_and_then_proportion() -> None:
    noisy = np.array([60, 30, 10, 9, 8])
    query = np.array([0, 0, 0, 1, 2])
    pairs = allocate(free_objective("diversity", noisy, query, output_size=5), noisy, 5)
    assert pairs.tolist() == [1, 1, 1, 1, 1]
    queries = allocate(free_objective("queries", noisy, query, output_size=3), noisy, 3)
    assert queries.tolist() == [1, 0, 0, 1, 1]


# Dealing


@few
@given(counts_of_pairs, numbers_of_users, st.integers(0, 10**6))
def test_totals_equal_the_counts_exactly_and_nobody_has_a_pair_twice(
    count: list[int], sizes: list[int], seed: int
) -> None:
    noisy = np.array(count, dtype=np.int64)
    links = {(0, 1): 3, (0, noisy.size - 1): 2} if noisy.size > 2 else {}
    given_ = tables(count, sizes, links)
    made = reconcile(noisy, given_.sizes, free_objective("size", noisy, np.arange(noisy.size)))
    user, pair = deal(made, given_, Randomness(seed=seed))
    assert np.bincount(pair, minlength=noisy.size).tolist() == made.pairs.tolist()
    assert np.bincount(user, minlength=made.users.size).tolist() == made.users.tolist()
    assert len(set(zip(user.tolist(), pair.tolist(), strict=True))) == pair.size


@few
@given(counts_of_pairs, numbers_of_users, st.integers(0, 10**6))
def test_the_constructive_dealing_meets_every_total_too(count: list[int], sizes: list[int], seed: int) -> None:
    noisy = np.array(count, dtype=np.int64)
    made = reconcile(noisy, np.array(sizes, dtype=np.int64), free_objective("size", noisy, np.arange(noisy.size)))
    pair = synthesis._nested(made)
    user = np.repeat(np.arange(made.users.size), made.users)
    starts = np.concatenate([[0], np.cumsum(made.users)])
    for mixed in (False, True):
        if mixed and pair.size:
            synthesis._mix(pair, user, starts, np.array([seed], dtype=np.uint64), 200)
        assert np.bincount(pair, minlength=noisy.size).tolist() == made.pairs.tolist()
        assert len(set(zip(user.tolist(), pair.tolist(), strict=True))) == pair.size


def together(user: np.ndarray, pair: np.ndarray, one: int, two: int) -> int:
    return len(set(user[pair == one].tolist()) & set(user[pair == two].tolist()))


def test_associations_come_close_to_their_noisy_counts() -> None:
    """Pairs 0 and 1 go together, 2 and 3 do, across they do not; by chance all would be alike."""
    links = {(0, 1): 180, (2, 3): 150, (0, 2): 12, (1, 3): 8}
    given_ = tables([200, 200, 200, 200, 200], [100, 300, 100], links)
    made = reconcile(given_.count, given_.sizes, free_objective("size", given_.count, np.arange(5)))
    user, pair = deal(made, given_, Randomness(seed=4))
    for (one, two), target in links.items():
        assert abs(together(user, pair, one, two) - target) <= 3
    half = Optimal(epsilon=8, delta=1e-7, output_size=500).made_up(given_, Randomness(seed=4))
    rows = [(row["user"], row["url"]) for row in half.to_pylist()]
    both = {name for name, url in rows if url == "http://0/"} & {name for name, url in rows if url == "http://1/"}
    assert len(rows) == 500
    assert abs(len(both) - 90) <= 5


def test_nothing_in_is_nothing_out() -> None:
    method = Optimal(epsilon=8, delta=1e-7)
    for empty in (tables([], [3, 4]), tables([5, 6], [-3, 0])):
        made = method.made_up(empty, Randomness(seed=1))
        assert made.num_rows == 0
        assert made.schema.names == ["user", "query", "url", "count"]


def test_an_output_size_beyond_what_there_is_gives_what_there_is() -> None:
    method = Optimal(epsilon=8, delta=1e-7, objective="frequent", support=0.1, output_size=10_000)
    assert method.made_up(tables([30, 20, 9], [10, 20, 10]), Randomness(seed=1)).num_rows == 59


# Parameters


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "epsilon and delta must be given"),
        ({"epsilon": 1}, "epsilon and delta must be given"),
        ({"epsilon": 0, "delta": 1e-6}, "epsilon must be a finite number above 0, got 0"),
        ({"epsilon": 1, "delta": 1}, "delta must be a number above 0 and below 1, got 1"),
        ({"epsilon": 1, "delta": 1e-6, "variant": "new"}, "variant must be one of default, paper, got 'new'"),
        ({"epsilon": 1, "delta": 1e-6, "objective": "best"}, "objective must be one of size, frequent, diversity"),
        ({"epsilon": 1, "delta": 1e-6, "objective": "frequent"}, "output_size must be given with objective='frequent'"),
        ({"epsilon": 1, "delta": 1e-6, "objective": "joint", "output_size": 9}, "support must be given with"),
        ({"epsilon": 1, "delta": 1e-6, "support": 0.1}, "support must be left out, got 0.1"),
        ({"epsilon": 1, "delta": 1e-6, "objective": "frequent", "support": 2, "output_size": 9}, "support must be"),
        ({"epsilon": 1, "delta": 1e-6, "output_size": 0}, "output_size must be at least 1, got 0"),
        ({"epsilon": 1, "delta": 1e-6, "weights": "size=1"}, "weights must be left out"),
        ({"epsilon": 1, "delta": 1e-6, "max_keys_per_user": 0}, "max_keys_per_user must be at least 1, got 0"),
        ({"epsilon": 1, "delta": 1e-6, "linked_per_user": 0}, "linked_per_user must be at least 1, got 0"),
        ({"epsilon": 1, "delta": 0.1, "variant": "paper", "max_keys_per_user": 4}, "per_user must be left out"),
        ({"epsilon": 1, "delta": 1e-6, "total_share": 1}, "total_share must be a number above 0 and below 1, got 1"),
        ({"epsilon": 1, "delta": 1e-6, "total_share": -0.1}, "total_share must be"),
        ({"epsilon": 1, "delta": 1e-6, "total_share": 0.1, "objective": "queries", "output_size": 9}, "left out or 0"),
        ({"epsilon": 1, "delta": 0.1, "variant": "paper", "total_share": 0.1}, "total_share must be left out"),
        ({"epsilon": 1e-6, "delta": 1e-6}, "raise epsilon or delta, or lower the numbers per user"),
    ],
)  # fmt: skip
def test_optimal_refuses_what_makes_no_sense(options: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        Optimal(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("weights", ["", "size", "size=x", "speed=1", "size=1,size=2", "size=-1", "size=0", "size=inf"])
def test_weights_must_be_weights(weights: str) -> None:
    with pytest.raises(ParameterError, match="weights must be"):
        Optimal(epsilon=1, delta=1e-6, objective="joint", support=0.1, output_size=9, weights=weights)
    assert Optimal(
        epsilon=1, delta=1e-6, objective="joint", support=0.1, output_size=9, weights="size=1, frequent=0.5"
    ).parameters()["weights"] == {"size": 1.0, "frequent": 0.5}


def test_delta_of_the_paper_variant_is_the_chance_to_appear() -> None:
    """1 - exp(-min(epsilon, log(1/(1-delta)))), rounded up; epsilon is nothing given the output counts."""
    for epsilon, delta, chance in ((math.log(2), 0.8, 0.5), (8.0, 0.1, 0.1), (0.01, 0.5, 1 - math.exp(-0.01))):
        proven = Optimal(epsilon=epsilon, delta=delta, variant="paper").proven()
        assert (proven.kind, proven.epsilon) == ("sampling-only", 0.0)
        assert proven.delta == pytest.approx(chance, rel=1e-12)
        assert "delta is the largest chance that a user of the log is drawn and appears" in proven.because
