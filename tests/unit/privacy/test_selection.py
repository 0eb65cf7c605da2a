"""Weighted selection: claims 1 to 4 of privacy/prices/selection.md, by exact enumeration where logs are tiny enough."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.privacy.chance.noise import Gaussian
from querycloak.privacy.chance.randomness import Randomness
from querycloak.privacy.composing.draws import GaussianRounds
from querycloak.privacy.prices.gaussian import gaussian_delta, largest_loss, noise_for, squared_loss
from querycloak.privacy.prices.hockey_stick import hockey_stick, tail_bounds
from querycloak.privacy.prices.selection import SELECTIONS, default_selection, parse_split, plan_tables, together
from querycloak.privacy.prices.weighted import GRID, Scout, WeightedPlan, interest_of, own_keys

BUDGETS = [(8.0, 2.25e-7), (1.0, 1e-6), (3.0, math.exp(-10)), (0.2, 1e-5), (30.0, 1e-9)]


@pytest.mark.parametrize(("squared", "epsilon"), [(1.9, 8.0), (0.05, 1.0), (4.0, 0.5), (1.0, -0.3), (2.0, 0.0)])
def test_the_formula_of_claim_2(squared: float, epsilon: float) -> None:
    """Against the mean of [1 - e^(epsilon - loss)]_+ over a normal loss, summed in small steps."""
    mu = math.sqrt(squared)
    loss = np.linspace(squared / 2 - 14 * mu, squared / 2 + 14 * mu, 4_000_001)
    density = np.exp(-0.5 * ((loss - squared / 2) / mu) ** 2) / (mu * math.sqrt(2 * math.pi))
    gain = np.maximum(0.0, -np.expm1(epsilon - loss))
    expected = float((density * gain).sum() * (loss[1] - loss[0]))
    assert gaussian_delta(squared, epsilon) == pytest.approx(expected, rel=1e-7)


@given(
    sigma=st.floats(1.8, 60),
    changed=st.integers(1, 40),
    epsilon=st.floats(0.01, 12),
)
@settings(max_examples=150, deadline=None)
def test_integer_noise_costs_no_more_than_claims_1_and_2_say(sigma: float, changed: int, epsilon: float) -> None:
    """The exact law of sums of discrete Gaussians (histogram.md, claim 3) stays below the continuous bound."""
    noise = Gaussian(sigma)
    bound = gaussian_delta(squared_loss(noise, changed), epsilon)
    exact = hockey_stick(noise, changed, epsilon)
    assert exact <= bound * (1 + 1e-7) + 1e-100


def test_little_is_lost_on_the_grid() -> None:
    for epsilon, delta in BUDGETS:
        noise = Gaussian(noise_for(largest_loss(epsilon, delta), GRID**2))
        assert squared_loss(noise, GRID**2) <= largest_loss(epsilon, delta) * (1 + 1e-9)
        # One key that moves by GRID: the exact law needs as much, to a thousandth.
        wider = Gaussian(noise.sigma * 0.999)
        assert gaussian_delta(GRID**2 / wider.sigma**2, epsilon) > delta


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_largest_loss_is_the_largest(epsilon: float, delta: float) -> None:
    squared = largest_loss(epsilon, delta)
    assert gaussian_delta(squared, epsilon) <= delta < gaussian_delta(squared * (1 + 1e-6), epsilon)


def test_noise_too_small_for_claim_1_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"sigma must be above 1\.73"):
        squared_loss(Gaussian(1.7), 1)
    with pytest.raises(ParameterError, match="delta must be above 1e-18"):
        largest_loss(1.0, 1e-19)


def chance_of_own_keys(noise: Gaussian, threshold: int, weights: Sequence[int]) -> float:
    none = 1.0
    for weight in weights:
        none *= 1 - tail_bounds(noise, threshold + 1 - weight)[1]
    return 1 - none


@pytest.mark.parametrize(("sigma", "threshold"), [(60.0, 500), (200.0, 1200), (90.0, 400), (400.0, 1500)])
def test_no_weights_of_one_user_beat_the_bound_on_own_keys(sigma: float, threshold: int) -> None:
    """Claim 3, against every way of sharing out weight among three keys on a coarser grid."""
    noise = Gaussian(sigma)
    coarse = [(a, b, c) for a in range(0, 257, 8) for b in range(0, a + 1, 8) for c in range(0, b + 1, 8)]
    fitting = [[w for w in each if w] for each in coarse if sum(w * w for w in each) <= GRID**2]
    worst = max(chance_of_own_keys(noise, threshold, each) for each in fitting)
    bound = own_keys(noise, threshold, 3, equal=False)
    assert worst <= bound <= 2 * worst
    equal = own_keys(noise, threshold, 3, equal=True)
    by_number = max(chance_of_own_keys(noise, threshold, [math.isqrt(GRID**2 // n)] * n) for n in (1, 2, 3))
    assert by_number * (1 - 1e-6) <= equal <= min(bound, by_number * (1 + 1e-6))


def weights_of(interests: Sequence[int]) -> list[int]:
    """floor(GRID h / length), in integers: what methods/weighing._weighed must compute."""
    length = sum(h * h for h in interests)
    return [math.isqrt(GRID * GRID * h * h // length) for h in interests]


def decided(
    users: Sequence[Sequence[str]], interests: dict[str, int], plan: WeightedPlan
) -> tuple[dict[str, float], dict[str, int]]:
    """For each key its chance to come out, and its weight."""
    total: dict[str, int] = {}
    for keys in users:
        kept = [key for key in keys if key in interests]
        for key, weight in zip(kept, weights_of([interests[key] for key in kept]), strict=True):
            if weight:
                total[key] = total.get(key, 0) + weight
    passing = {key: _tail(plan.noise, plan.threshold + 1 - weight) for key, weight in total.items()}
    return passing, total


def _tail(noise: Gaussian, m: int) -> float:
    return tail_bounds(noise, m)[1] if m >= 0 else 1 - tail_bounds(noise, 1 - m)[1]


def counts_of(users: Sequence[Sequence[str]], chosen: Sequence[str], plan: WeightedPlan) -> list[int]:
    kept = [[key for key in keys if key in chosen][: plan.counted_per_user] for keys in users]
    return [sum(key in keys for keys in kept) for key in chosen]


def divergence_of_decision_and_counts(
    more: Sequence[Sequence[str]],
    less: Sequence[Sequence[str]],
    interests: dict[str, int],
    plan: WeightedPlan,
    epsilon: float,
) -> float:
    """sup_S P(S) - e^epsilon Q(S) over sets of keys that come out and their noisy counts, for two logs."""
    first, second = (decided(users, interests, plan)[0] for users in (more, less))
    keys, total = sorted({*first, *second}), 0.0
    for size in range(len(keys) + 1):
        for chosen in itertools.combinations(keys, size):
            p, q = (
                math.prod(law.get(key, 0.0) if key in chosen else 1 - law.get(key, 0.0) for key in keys)
                for law in (first, second)
            )
            changed = sum(
                abs(a - b) for a, b in zip(counts_of(more, chosen, plan), counts_of(less, chosen, plan), strict=True)
            )
            if p == 0:
                continue
            loss = epsilon + math.log(q / p) if q else -math.inf
            total += p if loss == -math.inf else p * max(0.0, _changed_counts(plan.counting, changed, loss))
    return total


def _changed_counts(noise: Gaussian, changed: int, epsilon: float) -> float:
    return max(0.0, -math.expm1(epsilon)) if changed == 0 else hockey_stick(noise, changed, epsilon)


ONE_ROUND = WeightedPlan((), Gaussian(90.0), 560, 4, Gaussian(3.0), 2, 1.0, 0.1)
LOGS = [
    ([], ["x"]),
    ([["x"]], ["x"]),
    ([["x", "y"], ["x"]], ["x", "y"]),
    ([["x"], ["x"], ["x"]], ["x", "own"]),
    ([["x", "y"], ["y"], ["y"]], ["y", "x", "own"]),
    ([["x"], ["x"], ["y"]], ["own", "other", "x", "y"]),
    ([["x"] for _ in range(4)], ["own", "other", "third", "x"]),
]


@pytest.mark.parametrize(("others", "added"), LOGS)
@pytest.mark.parametrize("threshold", [300, 420, 560])
def test_one_round_by_enumeration(others: list[list[str]], added: list[str], threshold: int) -> None:
    """Claim 4: every set of keys that comes out, every count, both directions, several epsilons."""
    plan = WeightedPlan((), ONE_ROUND.noise, threshold, 4, ONE_ROUND.counting, 2, 1.0, 0.1)
    interests = dict.fromkeys(["x", "y", "own", "other", "third"], 1)
    for epsilon in (0.1, 1.0, 3.0, 6.0):
        bound = together(epsilon, plan.draw())
        for more, less in (([*others, added], others), (others, [*others, added])):
            assert divergence_of_decision_and_counts(more, less, interests, plan, epsilon) <= bound


def test_the_enumeration_would_catch_a_bound_that_is_too_small() -> None:
    """Own keys alone need what claim 3 says: half of it would be too little. And noise what claim 2 says."""
    others, added = [["x"] for _ in range(4)], ["own"]
    interests = {"x": 1, "own": 1}
    drawn = ONE_ROUND.draw()
    own = divergence_of_decision_and_counts([*others, added], others, interests, ONE_ROUND, 12.0)
    assert drawn.own_keys / 2 < own <= together(12.0, drawn)
    many = [["x"] for _ in range(40)]  # far above the threshold: only the count tells
    noise = divergence_of_decision_and_counts([*many, ["x"]], many, interests, ONE_ROUND, 0.3)
    assert noise > gaussian_delta(squared_loss(ONE_ROUND.counting, 1) * 0.6, 0.3)


SCOUTED = WeightedPlan((Scout(Gaussian(250.0), 200),), Gaussian(150.0), 800, 2, Gaussian(3.0), 1, 1.0, 0.1)
Numbers = NDArray[np.int64]
Law = NDArray[np.float64]


def numbers_and_laws(loads: tuple[int, int]) -> tuple[Numbers, Law, Law]:
    """What the scout may see of a bucket with one load or the other, and how likely it is."""
    noise = SCOUTED.scouts[0].noise
    numbers = np.arange(min(loads) - int(6 * noise.sigma), max(loads) + int(6 * noise.sigma))
    weights = [np.exp(-0.5 * ((numbers - load) / noise.sigma) ** 2) for load in loads]
    return numbers, weights[0] / weights[0].sum(), weights[1] / weights[1].sum()


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 5.0])
@pytest.mark.parametrize("turned", [False, True])
def test_a_scout_that_weighs_a_heavy_key_by_enumeration(epsilon: float, turned: bool) -> None:
    """Claims 2 to 4: every number of the scout for x, and with it every weight that others give x in round two."""
    others, added = [["x", "z"], ["x", "z"], ["x"], ["x"]], ["x"]
    more = [*others, added]
    loads = tuple(decided(users, {"x": 1, "z": 1}, SCOUTED)[1]["x"] for users in (more, others))
    numbers, first, second = numbers_and_laws((loads[0], loads[1]))
    p, q = (second, first) if turned else (first, second)
    sides = (others, more) if turned else (more, others)
    total = 0.0
    for number, likely, unlikely in zip(numbers.tolist(), p.tolist(), q.tolist(), strict=True):
        # Nobody new holds z: what the scout saw there has one law in both logs, and may be fixed.
        interests = {"z": 1024}
        if number > SCOUTED.scouts[0].floor:
            interests["x"] = int(interest_of(np.array([1024]), np.array([number]), SCOUTED)[0])
        loss = epsilon + math.log(unlikely / likely)
        total += likely * divergence_of_decision_and_counts(*sides, interests, SCOUTED, loss)
    assert 1e-5 < total <= together(epsilon, SCOUTED.draw())


@pytest.mark.parametrize(
    ("others", "added"),
    [([["x"], ["x"]], ["x", "own"]), ([["x", "y"], ["y"]], ["x", "y"]), ([["x"]], ["own", "other"])],
)
@pytest.mark.parametrize("turned", [False, True])
def test_two_scouted_keys_by_enumeration(others: list[list[str]], added: list[str], turned: bool) -> None:
    """Claims 2 to 4: every pair of the scout's numbers; what it gives up, the second round does not see."""
    more, (one, other) = [*others, added], added
    plan = replace(SCOUTED, threshold=1800)  # so high that no key is too heavy for full interest
    low = replace(SCOUTED, threshold=420)  # so low that keys of one user do pass
    held = [decided(users, {one: 1, other: 1}, plan)[1] for users in (more, others)]
    seen = {key: numbers_and_laws((held[0].get(key, 0), held[1].get(key, 0))) for key in added}
    sides = (others, more) if turned else (more, others)
    for each, epsilon in itertools.product((plan, low), (1.0, 4.0)):
        total = sum(
            _given_what_passed(sides, seen, passed, each, epsilon, turned)
            for passed in itertools.product((False, True), repeat=2)
        )
        assert total <= together(epsilon, each.draw())


def _given_what_passed(
    sides: tuple[list[list[str]], list[list[str]]],
    seen: dict[str, tuple[Numbers, Law, Law]],
    passed: tuple[bool, ...],
    plan: WeightedPlan,
    epsilon: float,
    turned: bool,
) -> float:
    """The part of the divergence in which the scout let just these keys pass."""
    interests = {key: 1024 for key, went in zip(seen, passed, strict=True) if went}
    floor = plan.scouts[0].floor
    parts = []
    for (numbers, first, second), went in zip(seen.values(), passed, strict=True):
        inside = (numbers > floor) == went
        parts.append(((second if turned else first)[inside], (first if turned else second)[inside]))
    p = np.multiply.outer(parts[0][0], parts[1][0])
    loss = np.add.outer(*(np.log(after / before) for before, after in parts))
    # The divergence is convex in epsilon, so straight lines between its values lie above it.
    grid = np.linspace(-60, 60, 481)
    values = [divergence_of_decision_and_counts(*sides, interests, plan, float(e)) for e in grid]
    return float((p * np.interp(epsilon + loss, grid, values)).sum())


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
@pytest.mark.parametrize("selection", ["weighted", "rounds"])
def test_plans_keep_within_their_budget_and_use_it(epsilon: float, delta: float, selection: str) -> None:
    plans = plan_tables(epsilon, delta, {"clicks": 256}, selection=selection)
    plan = plans.plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    assert 0.95 * delta < together(epsilon, plan.draw()) == plans.delta <= delta
    assert plan.parameters()["selection"] == selection
    drawn = plan.draw()
    assert isinstance(drawn, GaussianRounds)
    assert gaussian_delta(drawn.squared_loss, epsilon) + drawn.own_keys <= delta


def test_tables_share_one_budget_better_than_two_budgets_add_up() -> None:
    both = plan_tables(16, 1.13e-7, {"clicks": 256, "sessions": 256}, selection="rounds")
    alone = plan_tables(8, 1.13e-7 / 2, {"clicks": 256}, selection="rounds")
    assert both.delta <= 1.13e-7
    assert both.plans["clicks"].threshold < 0.85 * alone.plans["clicks"].threshold
    uneven = plan_tables(
        16, 1.13e-7, {"clicks": 256, "sessions": 256}, selection="rounds", split={"clicks": 1, "sessions": 3}
    )
    assert uneven.delta <= 1.13e-7
    assert uneven.plans["sessions"].threshold < both.plans["sessions"].threshold < uneven.plans["clicks"].threshold
    laplace = plan_tables(
        16, 1.13e-7, {"clicks": 1, "sessions": 4}, selection="laplace", split={"clicks": 1, "sessions": 3}
    )
    assert (laplace.epsilon, laplace.plans["clicks"].epsilon, laplace.plans["sessions"].epsilon) == (16, 4, 12)
    assert laplace.delta <= 1.13e-7


def test_golden_plans() -> None:
    """Our own figures: sigma and threshold in weights, sigma of counts; they change only with the formulas."""
    solved = {
        selection: plan_tables(8, 2.25e-7, {"clicks": 256}, selection=selection).plans["clicks"].parameters()
        for selection in ("weighted", "rounds")
    }
    assert [round(solved["weighted"][name], 3) for name in ("noise", "threshold", "counting_noise")] == [
        0.782, 5.051, 6.494,
    ]  # fmt: skip
    assert [round(solved["rounds"][name], 3) for name in ("noise", "threshold", "counting_noise")] == [
        1.107, 6.895, 6.494,
    ]  # fmt: skip


def test_a_budget_too_small_for_weights_is_refused_or_leads_elsewhere() -> None:
    assert default_selection(0.05, 1e-9, None) is None
    assert default_selection(8, 1e-16, None) is None
    with pytest.raises(ParameterError, match="raise epsilon or delta, or take another selection"):
        plan_tables(0.05, 1e-9, {"clicks": 256}, selection="rounds")
    with pytest.raises(ParameterError, match="delta must be at least 1e-15 for selection='weighted', got 1e-16"):
        plan_tables(8, 1e-16, {"clicks": 256}, selection="weighted")


def test_the_default_follows_a_formula() -> None:
    """At (8, 2.25e-7) few keys per user want one draw, many want rounds; nobody's data is asked."""
    assert [default_selection(8, 2.25e-7, bound) for bound in (1, 2, 4, 16, 32, 256, None)] == [
        None, None, None, "rounds", "rounds", "rounds", "rounds",
    ]  # fmt: skip
    assert default_selection(8, 2.25e-7, None, two_draws=True) is None


@pytest.mark.parametrize("text", ["clicks", "clicks=0", "clicks=1,clicks=2", "clicks=-1", "clicks=1.5", "=1,", ""])
def test_a_split_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(ParameterError, match="split must be"):
        parse_split(text)


def test_splits_name_every_table() -> None:
    assert parse_split("clicks=1, sessions=2") == {"clicks": 1, "sessions": 2}
    with pytest.raises(ParameterError, match="a part for each of clicks, sessions"):
        plan_tables(1, 1e-6, {"clicks": 1, "sessions": 4}, split={"clicks": 1})
    with pytest.raises(ParameterError, match=f"selection must be one of {', '.join(SELECTIONS)}, got 'best'"):
        plan_tables(1, 1e-6, {"clicks": 1}, selection="best")
    with pytest.raises(ParameterError, match="counts with fresh noise anyway"):
        plan_tables(1, 1e-6, {"clicks": 1}, selection="rounds", two_draws=True)


def test_many_draws_have_the_law_of_few() -> None:
    """`Randomness.many` against the exact law, with the operating system's generator: chi-square over 41 cells."""
    noise, draws = Gaussian(6.0), 400_000
    values, counts = np.unique(np.clip(Randomness().many(noise, draws), -20, 20), return_counts=True)
    seen = dict(zip(values.tolist(), counts.tolist(), strict=True))
    inner = {z: noise.pmf(z).up() for z in range(-19, 20)}
    outer = noise.tail(20).up()
    expected = {**inner, -20: outer, 20: outer}
    chi = sum((seen.get(z, 0) - draws * p) ** 2 / (draws * p) for z, p in expected.items())
    assert chi < 110  # 40 degrees of freedom: exceeded once in 10^7
    shifted = sum((seen.get(z, 0) - draws * expected.get(z + 1, 1e-9)) ** 2 / (draws * p) for z, p in expected.items())
    assert shifted > 1000
