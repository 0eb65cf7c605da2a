"""Margins, numbers of users and expected rows: the claims of privacy/calibration/accuracy.md."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.privacy.calibration.accuracy import (
    LIKELY,
    Range,
    ReleaseProbability,
    Stage,
    StageOfParts,
    TableAccuracy,
    at_least,
    margin,
    rows_of_one_user,
    spurious_rows,
    within,
)
from querycloak.privacy.calibration.histogram import release
from querycloak.privacy.calibration.selection import PER_USER, plan_tables
from querycloak.privacy.calibration.weighted import FULL_INTEREST, GRID, LEAST_INTEREST, WeightedPlan
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from querycloak.privacy.sampling.randomness import Randomness
from tests.unit.privacy.privacy_oracles import law, surprising

HALF = Fraction(1, 2)
NOISES = st.one_of(st.floats(0.05, 40).map(Laplace), st.floats(0.3, 60).map(Gaussian))


def chances(noise: Noise) -> dict[int, float]:
    reach, weights = law(noise)
    return dict(zip(range(-reach, reach + 1), weights.tolist(), strict=True))


def slow_margin(noise: Noise) -> int:
    """Adds up the law outwards from 0."""
    listed, m = chances(noise), 0
    inside = listed[0]
    while inside < 0.95:
        m += 1
        inside += listed[m] + listed[-m]
    return m


def slow_chance(total: int, stages: tuple[Stage, ...]) -> float:
    product = 1.0
    for stage in stages:
        product *= sum(chance for z, chance in chances(stage.noise).items() if total + z > stage.threshold)
    return product


@given(noise=NOISES)
@settings(max_examples=200, deadline=None)
def test_the_margin_is_the_least_that_holds(noise: Noise) -> None:
    assert margin(noise) == slow_margin(noise)
    assert within(noise, margin(noise)) >= 0.95 * (1 - 1e-12)


@given(noise=NOISES, m=st.integers(-200, 200))
@settings(max_examples=200, deadline=None)
def test_tails_on_both_sides_enclose_the_law(noise: Noise, m: int) -> None:
    low, high = at_least(noise, m)
    chance = noise.tail(m)
    assert low <= chance.up()
    assert chance.down() <= high
    assert high - low < 1e-9


@given(
    scouts=st.lists(st.tuples(st.floats(0.5, 20), st.integers(0, 30)), max_size=2),
    noise=NOISES,
    threshold=st.integers(0, 60),
    weight=st.integers(1, 9),
)
@settings(max_examples=150, deadline=None)
def test_users_are_the_first_that_suffice(
    scouts: list[tuple[float, int]], noise: Noise, threshold: int, weight: int
) -> None:
    """Against a loop over 1, 2, 3, ... users and sums over the law."""
    stages = (*(Stage(Gaussian(sigma), floor) for sigma, floor in scouts), Stage(noise, threshold))
    route = ReleaseProbability(stages, most=weight, least=weight)
    for probability in (HALF, LIKELY):
        found = route.users(probability)
        assert found.low == found.high
        assert slow_chance(found.low * weight, stages) >= float(probability) - 1e-9
        if found.low > 1:
            assert slow_chance((found.low - 1) * weight, stages) < float(probability) + 1e-9


@given(noise=NOISES, threshold=st.integers(0, 400))
@settings(max_examples=100, deadline=None)
def test_one_draw_needs_one_more_than_the_threshold(noise: Noise, threshold: int) -> None:
    assert ReleaseProbability((Stage(noise, threshold),)).users(HALF) == Range(threshold + 1, threshold + 1)


# Noise and threshold of the budget (8, 2.25e-7) at bounds 1, 8 and 32; the numbers of users follow by hand
# from Pr[Z >= -m]: with b = 1/8 noise is 0 with probability .99933; with b = 1, q = .3679, Pr[Z >= -2] = 1 - q^3/(1+q)
# = .9636 and Pr[Z >= -1] = .9011; sigma 3.9: Pr[Z >= -6] = .9523, Pr[Z >= -5] = .9208; 1.96 x 3.9 = 7.6.
@pytest.mark.parametrize(
    ("noise", "threshold", "margin95", "users50", "users95"),
    [(Laplace(1 / 8), 2, 0, 3, 3), (Laplace(1.0), 18, 3, 19, 21), (Gaussian(3.9), 23, 8, 24, 30)],
)
def test_golden_numbers_of_one_draw(noise: Noise, threshold: int, margin95: int, users50: int, users95: int) -> None:
    route = ReleaseProbability((Stage(noise, threshold),))
    assert route.margin == margin95
    assert route.users(HALF).low == users50
    assert route.users(LIKELY).low == users95


def test_weights_make_a_range_and_more_stages_more_users() -> None:
    decision = Stage(Gaussian(283.3), 1765)
    alone = ReleaseProbability((decision,), most=256, least=16)
    assert alone.users(HALF).low == 7  # 1765/256 = 6.9
    assert alone.users(HALF).high == 111  # 1765/16 = 110.3
    scouted = ReleaseProbability(
        (Stage(Gaussian(400.6), 401), Stage(Gaussian(400.6), 701), decision), most=256, least=16
    )
    assert scouted.users(LIKELY).low >= alone.users(LIKELY).low
    assert scouted.users(LIKELY).high >= alone.users(LIKELY).high
    assert scouted.comes_out(1766) < alone.comes_out(1766)


@pytest.mark.parametrize(
    ("noise", "published_noise"), [(Laplace(1.0), None), (Gaussian(3.9), None), (Gaussian(2.0), Laplace(3.0))]
)
def test_a_release_does_what_is_said(noise: Noise, published_noise: Noise | None) -> None:
    """Claims 1 to 3 against the mechanism itself, drawn 40,000 times."""
    threshold, runs = 15, 40_000
    route = ReleaseProbability((Stage(noise, threshold),), published_noise=published_noise)
    users, margin95 = route.users(LIKELY).low, route.margin
    drawn = release([users], noise, threshold, Randomness(7), runs=runs, published_noise=published_noise)
    assert not surprising(drawn.count.size, runs, route.comes_out(users))
    near = int((np.abs(drawn.count - users) <= margin95).sum())
    assert not surprising(near, runs, route.hits(users, margin95))
    fewer = release([users - 1], noise, threshold, Randomness(8), runs=runs, published_noise=published_noise)
    assert fewer.count.size < drawn.count.size


@given(noise=NOISES, threshold=st.integers(0, 40), users=st.integers(1, 90), error=st.integers(0, 60))
@settings(max_examples=150, deadline=None)
def test_hits_are_counts_that_are_there_and_near(noise: Noise, threshold: int, users: int, error: int) -> None:
    slow = sum(p for z, p in chances(noise).items() if users + z > threshold and abs(z) <= error)
    assert ReleaseProbability((Stage(noise, threshold),)).hits(users, error) == pytest.approx(slow, abs=1e-9)
    published_noise = ReleaseProbability((Stage(noise, threshold),), published_noise=Laplace(2.0))
    inside = sum(p for z, p in chances(Laplace(2.0)).items() if abs(z) <= error)
    assert published_noise.hits(users, error) == pytest.approx(
        slow_chance(users, (Stage(noise, threshold),)) * inside, abs=1e-9
    )


@given(noise=NOISES, threshold=st.integers(0, 40), users=st.integers(1, 90), error=st.integers(0, 60))
@settings(max_examples=100, deadline=None)
def test_what_hits_is_within_both_numbers(noise: Noise, threshold: int, users: int, error: int) -> None:
    route = ReleaseProbability((Stage(noise, threshold),), most=3)
    if Fraction(route.hits(users, error)) >= LIKELY:
        assert route.margin <= error
        assert route.users(LIKELY).high <= users


def test_spurious_rows_and_of_one_user() -> None:
    # b = 1, K = 5, one own key each: q^5/(1+q) = 4.93e-3 (histogram.md).
    assert rows_of_one_user(Laplace(1.0), 5, 1) == pytest.approx(4.93e-3, rel=1e-3)
    assert spurious_rows(Laplace(1.0), 5, 1000) == pytest.approx(1000 * math.exp(-6) / (1 + math.exp(-1)), rel=1e-9)
    drawn = release([], Laplace(1.0), 5, Randomness(3), zeros=1000, runs=400)
    assert not surprising(drawn.count.size, 400_000, spurious_rows(Laplace(1.0), 5, 1000) / 1000)


def test_ranges_are_written_and_read() -> None:
    assert Range(3, 3).to_json() == 3
    assert Range(3, 40).to_json() == [3, 40]
    assert Range.over([Range(3, 8), Range(5, 40)]) == Range(3, 40)
    assert [Range.from_json(each.to_json()) for each in (Range(3, 3), Range(3, 40))] == [Range(3, 3), Range(3, 40)]
    assert (str(Range(3, 3)), str(Range(3, 4000))) == ("3", "3 to 4,000")
    for bad in ([4, 3], "many", [1, 2, 3], -1, None):
        with pytest.raises(ParameterError):
            Range.from_json(bad)


def test_what_is_no_route_is_refused() -> None:
    with pytest.raises(ParameterError, match="stages must hold at least one draw"):
        ReleaseProbability(())
    with pytest.raises(ParameterError, match="least"):
        ReleaseProbability((Stage(Laplace(1.0), 3),), least=0)
    with pytest.raises(ParameterError, match="most"):
        ReleaseProbability((Stage(Laplace(1.0), 3),), most=1, least=2)
    with pytest.raises(ParameterError, match="probability must be above 0 and below 1"):
        ReleaseProbability((Stage(Laplace(1.0), 3),)).users(Fraction(1))


def test_what_a_table_reaches_is_written_and_read() -> None:
    one = TableAccuracy.of_route(ReleaseProbability((Stage(Laplace(1.0), 18),)), "users", notes=["first"])
    assert one.to_json() == {
        "counts": "users", "margin95": 3, "users50": 19, "users95": 21, "spurious": 0.0, "notes": ["first"],
    }  # fmt: skip
    weighted = ReleaseProbability((Stage(Gaussian(283.3), 1765),), most=256, least=16, published_noise=Gaussian(6.494))
    two = TableAccuracy.of_route(weighted, "users", spurious=0.5)
    both = TableAccuracy.over([one, two], "either", notes=["chosen later"])
    assert both.to_json() == {
        "counts": "either", "margin95": [3, 13], "users50": [7, 111], "users95": [9, 140], "spurious": 0.5,
        "notes": ["chosen later"],
    }  # fmt: skip
    nothing = TableAccuracy("rows").with_notes("no count")
    rule = TableAccuracy.of_rule("users", Range(5, 5))
    for each in (one, two, both, nothing, rule):
        assert TableAccuracy.from_json(each.to_json()) == each
    with pytest.raises(ParameterError, match="reach must be an object with the keys counts, "):
        TableAccuracy.from_json({"counts": "users"})


# Numbers of the defaults: (epsilon, delta) and selection to the margin and the users of clicks; the ranges of rounds
# and weighted run from users of this key alone to users of 256 keys. Those of rounds were recomputed from noise,
# floors and threshold to 50 digits by a program of its own (accuracy.md, claims 1 and 2); a slow one is below.
@pytest.mark.parametrize(
    ("epsilon", "delta", "selection", "margin95", "users50", "users95"),
    [
        (1.0, 1e-6, "laplace", 3, Range(15, 15), Range(17, 17)),
        (1.0, 1e-6, "gaussian", 47, Range(131, 131), Range(170, 170)),
        (1.0, 1e-6, "weighted", 77, Range(29, 462), Range(37, 590)),
        (1.0, 1e-6, "multi-round", 77, Range(37, 589), Range(48, 770)),
        (3.0, math.exp(-10), "multi-round", 24, Range(11, 167), Range(14, 224)),
        (8.0, 2.25e-7, "laplace", 0, Range(3, 3), Range(3, 3)),
        (8.0, 2.25e-7, "gaussian", 8, Range(24, 24), Range(30, 30)),
        (8.0, 2.25e-7, "multi-round", 13, Range(7, 110), Range(9, 138)),
    ],
)
def test_golden_numbers_of_the_defaults(
    epsilon: float, delta: float, selection: str, margin95: int, users50: Range, users95: Range
) -> None:
    plan = plan_tables(epsilon, delta, {"clicks": PER_USER[selection]}, selection=selection).plans["clicks"]
    found = TableAccuracy.of_route(plan.route(), "users")
    assert found.margin95 == Range(margin95, margin95)
    assert (found.users50, found.users95) == (users50, users95)
    # What delta allows is what own keys take at most.
    assert plan.rows_of_one_user <= delta * (1 + 1e-6)
    assert plan.route().users(HALF).low >= plan.enough_users - 1


@pytest.mark.parametrize("keys", [1, 2, 7, 64, 256])
def test_users_of_equal_interest_give_what_the_ends_of_the_range_say(keys: int) -> None:
    """A user of this key alone gives all weight, whatever scouts leave of its interest; one of l keys 1/sqrt(l)."""
    plan = plan_tables(8.0, 2.25e-7, {"clicks": keys}, selection="multi-round").plans["clicks"]
    route = plan.route()
    assert len(route.stages) == 4  # a scout of queries, two of pairs, the decision
    for interest in (LEAST_INTEREST, 100, 777, FULL_INTEREST):
        weights = [math.isqrt(GRID * GRID * interest**2 // (keys * interest**2)) for _ in range(keys)]
        assert weights == [route.least] * keys
    assert route.most == GRID
    assert (route.least == GRID) == (keys == 1)


@pytest.mark.parametrize("budget", [(1.0, 1e-6), (8.0, 2.25e-7)])
@pytest.mark.parametrize(("table", "bound", "parts"), [("clicks", 4, 1), ("clicks", 256, 1), ("sessions", 128, 2)])
def test_users_of_rounds_by_adding_up(budget: tuple[float, float], table: str, bound: int, parts: int) -> None:
    """From noise, floors and threshold of the plan alone: users of this key whose parts are frequent, and of l keys.

    Those divide a weight among l keys, and among as many parts as these have at most.
    """
    plan = plan_tables(*budget, {table: bound}, selection="multi-round").plans[table]
    assert isinstance(plan, WeightedPlan)
    of_parts, *others = [Stage(scout.noise, scout.floor) for scout in plan.scouts]
    keys = (*others, Stage(plan.noise, plan.threshold))
    of_key, of_part = math.isqrt(GRID**2 // bound), math.isqrt(GRID**2 // (parts * bound))

    def best(users: int) -> float:
        return slow_chance(users * GRID, keys)

    def worst(users: int) -> float:
        return slow_chance(users * of_key, keys) * slow_chance(users * of_part, (of_parts,)) ** parts

    for probability in (HALF, LIKELY):
        found = plan.route().users(probability)
        assert best(found.low - 1) < probability <= best(found.low)
        assert worst(found.high - 1) < probability <= worst(found.high)


def test_of_a_scout_of_parts_others_may_help() -> None:
    """A key comes out more easily if others have its parts: the fewest users are those of the other rounds."""
    plan = plan_tables(1.0, 1e-6, {"sessions": 128}, selection="multi-round").plans["sessions"]
    route = plan.route()
    first = route.stages[0]
    assert isinstance(first, StageOfParts)
    assert (first.parts, first.of_key, first.of_part) == (2, 22, 16)  # 256 over the roots of 128 and of 256
    assert first.passes(5 * 22) == pytest.approx(first.stage.passes(5 * 16) ** 2)
    without = replace(route, stages=route.stages[1:])
    assert route.users(HALF).low == without.users(HALF).low
    assert route.users(HALF).high > without.users(HALF).high
