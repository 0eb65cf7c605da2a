"""Weighted selection by enumeration: no neighbours lie further apart than the plan says (selection.md)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.deltas import hockey_stick, tail_bounds
from querycloak.privacy.calibration.gaussian import gaussian_delta, squared_loss
from querycloak.privacy.calibration.own_keys import own_keys
from querycloak.privacy.calibration.selection import plan_tables, together
from querycloak.privacy.calibration.weighted import GRID, PreselectionRound, WeightedPlan, interest_of
from querycloak.privacy.sampling.noise import Gaussian

Numbers = NDArray[np.int64]
Law = NDArray[np.float64]


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
            assert plan.counting is not None
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
    assert ONE_ROUND.counting is not None
    assert noise > gaussian_delta(squared_loss(ONE_ROUND.counting, 1) * 0.6, 0.3)


SCOUTED = WeightedPlan((PreselectionRound(Gaussian(250.0), 200),), Gaussian(150.0), 800, 2, Gaussian(3.0), 1, 1.0, 0.1)


def numbers_and_laws(loads: tuple[int, int]) -> tuple[Numbers, Law, Law]:
    """What the scout may see of a key with one load or the other, and how likely it is."""
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


PARTS_OF = {"x y": ("x", "y"), "x z": ("x", "z")}


def keys_with_all_parts(passed: list[str]) -> list[str]:
    """Nobody new asks z: what the scout saw of it has one law in both logs, and may be fixed."""
    return [key for key, parts in PARTS_OF.items() if {*parts} <= {*passed, "z"}]


@pytest.mark.parametrize("turned", [False, True])
def test_a_scout_of_parts_by_enumeration(turned: bool) -> None:
    """Claim 5: every pair of the scout's numbers for x and y; the added user divides a whole weight among them."""
    scout = replace(SCOUTED.scouts[0], parts="queries")
    others, added = [["x y"], ["x z"], ["x z"]], ["x y"]
    each = math.isqrt(GRID * GRID // 2)
    loads = {"x": (4 * each, 3 * each), "y": (2 * each, each)}
    seen = {part: numbers_and_laws(both) for part, both in loads.items()}
    sides = (others, [*others, added]) if turned else ([*others, added], others)
    for threshold, epsilon in itertools.product((420, 1800), (1.0, 4.0)):
        plan = replace(SCOUTED, scouts=(scout,), threshold=threshold)
        total = sum(
            _given_what_passed(sides, seen, passed, plan, epsilon, turned, keys_with_all_parts)
            for passed in itertools.product((False, True), repeat=2)
        )
        assert 1e-9 < total <= together(epsilon, plan.draw())


def _given_what_passed(
    sides: tuple[list[list[str]], list[list[str]]],
    seen: dict[str, tuple[Numbers, Law, Law]],
    passed: tuple[bool, ...],
    plan: WeightedPlan,
    epsilon: float,
    turned: bool,
    left: Callable[[list[str]], list[str]] = list,
) -> float:
    """The part of the divergence in which the scout let just these keys pass, or parts of the keys that are left."""
    interests = dict.fromkeys(left([key for key, went in zip(seen, passed, strict=True) if went]), 1024)
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


@pytest.mark.parametrize(("table", "most"), [("queries", GRID**2), ("clicks", GRID**2), ("sessions", GRID**2 // 2)])
def test_bounds_at_which_no_key_or_part_would_have_weight_are_refused(table: str, most: int) -> None:
    words = f"must be at most {most:,} with weights, it would be {most + 1:,}: each would weigh nothing"
    with pytest.raises(ParameterError, match=words):
        plan_tables(8.0, 1e-6, {table: most + 1}, selection="multi-round")
    plan = plan_tables(8.0, 1e-6, {table: most}, selection="multi-round").plans[table]
    assert plan.route().least >= 1
    assert plan.accounts_for(most) > 0


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (8.0, 2.25e-7)])
def test_public_priors_pay_for_weights_that_differ(epsilon: float, delta: float) -> None:
    """Weights follow priors in the first round, so claim 3 has its bound for any weights, in plan and draw."""
    plan = plan_tables(epsilon, delta, {"queries": 256}, selection="weighted", priors=True).plans["queries"]
    alike = plan_tables(epsilon, delta, {"queries": 256}, selection="weighted").plans["queries"]
    assert isinstance(plan, WeightedPlan)
    assert isinstance(alike, WeightedPlan)
    any_weights, equal = (own_keys(plan.noise, plan.threshold, 256, equal=equal) for equal in (False, True))
    assert plan.draw().own_keys == any_weights > equal
    assert alike.draw().own_keys == own_keys(alike.noise, alike.threshold, 256, equal=True)
    assert plan.threshold > alike.threshold
    assert together(epsilon, plan.draw()) <= delta
    assert plan.draw().own_keys <= delta / 2 < replace(plan, threshold=alike.threshold).draw().own_keys
