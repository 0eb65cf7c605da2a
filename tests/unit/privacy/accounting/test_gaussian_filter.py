"""The filter over Gaussian loss (filter.md): costs, limits, and adversaries who choose after looking."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from querycloak.privacy.accounting.draws import Anything, GaussianRounds, Histogram, OneOf, PublicCounts, recorded_draws
from querycloak.privacy.accounting.gaussian_filter import (
    FALSE_ALARMS,
    GaussianCost,
    GaussianLimit,
    cost_of,
    squared_loss_of_pure,
)
from querycloak.privacy.calibration.deltas import hockey_stick
from querycloak.privacy.calibration.gaussian import gaussian_delta
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.sampling.noise import Gaussian, Laplace


def test_pure_dp_as_gaussian_dp() -> None:
    """mu^2 = (2 Phi^-1(e^eps/(1+e^eps)))^2: 1.52 at epsilon 1 (golden, METHODS.md); at most 8 epsilon."""
    assert squared_loss_of_pure(1.0) == pytest.approx(1.52, abs=5e-3)
    for epsilon in (1e-3, 0.1, 1.0, 5.0, 30.0, 500.0):
        exact = (2 * norm.isf(1 / (1 + math.exp(epsilon)))) ** 2
        assert exact <= squared_loss_of_pure(epsilon) <= exact * (1 + 1e-9)
    assert squared_loss_of_pure(601.0) <= 8 * 601 * 1.001
    assert squared_loss_of_pure(0.0) == 0.0


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0])
def test_randomised_response_is_dominated(epsilon: float) -> None:
    """At every e the divergence of randomised response is at most that of its mu (claim 1)."""
    keep = 1 / (1 + math.exp(-epsilon))
    for e in [epsilon * step / 20 for step in range(21)]:
        exact = max(0.0, keep - math.exp(e) * (1 - keep))
        assert exact <= gaussian_delta(squared_loss_of_pure(epsilon), e)


def adversary(limit: float, epsilon: float, choices: tuple[float, ...], steps: int) -> float:
    """Return the largest divergence at epsilon of anybody who chooses each release of randomised response, or to stop,
    after looking at all earlier outputs, while the sum of mu^2 stays within the limit: by enumeration."""

    @cache
    def best(loss: float, left: float, step: int) -> float:
        stop = max(0.0, 1 - math.exp(epsilon - loss))
        if step == steps:
            return stop
        values = [stop]
        for choice in choices:
            cost = squared_loss_of_pure(choice)
            if cost <= left:
                keep = 1 / (1 + math.exp(-choice))
                rest = round(left - cost, 12)
                values.append(
                    keep * best(round(loss + choice, 9), rest, step + 1)
                    + (1 - keep) * best(round(loss - choice, 9), rest, step + 1)
                )
        return max(values)

    return best(0.0, limit, 0)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("limit", [0.3, 0.65, 1.6])
def test_adaptive_adversaries_stay_within_the_limit(epsilon: float, limit: float) -> None:
    """Claim 2, step 1: dear releases only where cheap ones went well gain no more than M allows."""
    reached = adversary(limit, epsilon, (0.1, 0.25, 0.5, 0.8), 7)
    assert 0 < reached <= gaussian_delta(limit, epsilon) or reached == 0.0


def menus_of(limit: float, epsilon: float, steps: int, part: float) -> float:
    """Return the largest divergence at epsilon of anybody who chooses, after looking, among MENUS (choice, plan, plan).

    A randomised response of epsilon `choice` says which plan is drawn. The dearest plan is reserved, and the reserve is
    lowered to the plan that was drawn (filter.md, "Why the dearest plan is reserved"): enumerated from the note alone.
    part: the share of the true cost that the filter adds up; 1 as the note says.
    """
    costs = {pure: part * float(2 * norm.isf(1 / (1 + math.exp(pure)))) ** 2 for menu in MENUS for pure in menu}

    def drawn(pure: float, loss: float, left: float, step: int) -> float:
        keep = 1 / (1 + math.exp(-pure))
        up, down = best(round(loss + pure, 9), left, step), best(round(loss - pure, 9), left, step)
        return keep * up + (1 - keep) * down

    @cache
    def best(loss: float, left: float, step: int) -> float:
        values = [max(0.0, 1 - math.exp(epsilon - loss))]
        for choice, first, second in MENUS if step < steps else ():
            rest = left - costs[choice]
            if max(costs[first], costs[second]) <= rest:
                keep = 1 / (1 + math.exp(-choice))
                # Each outcome of the choice is followed by its plan, and by what the lowered reserve leaves.
                one = drawn(first, round(loss + choice, 9), round(rest - costs[first], 12), step + 1)
                other = drawn(second, round(loss - choice, 9), round(rest - costs[second], 12), step + 1)
                values.append(keep * one + (1 - keep) * other)
        return max(values)

    return best(0.0, limit, 0)


MENUS = ((0.05, 0.6, 0.1), (0.1, 0.4, 0.3), (0.02, 0.8, 0.05))


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
@pytest.mark.parametrize("limit", [0.65, 1.3])
def test_a_reserve_that_is_lowered_after_the_choice_keeps_the_limit(epsilon: float, limit: float) -> None:
    """Claim 2: plans whose cost the log chooses, reserved and lowered, gain no more than M allows."""
    assert menus_of(limit, epsilon, 4, part=1.0) <= gaussian_delta(limit, epsilon)


def test_the_enumeration_of_menus_has_power() -> None:
    """A filter that adds up a tenth of the true cost is caught."""
    assert menus_of(0.65, 1.0, 4, part=0.1) > gaussian_delta(0.65, 1.0)


def test_the_enumeration_has_power() -> None:
    """A filter that adds up half of the true cost lets adversaries through: the test above would see it."""
    assert adversary(1.3, 1.0, (0.1, 0.25, 0.5, 0.8), 7) > gaussian_delta(0.65 / 2, 1.0)


@pytest.mark.parametrize("sigma", [1.6, 2.0, 4.5, 12.0])
@pytest.mark.parametrize("keys", [1, 3])
def test_integer_noise_of_few_counts_is_dominated(sigma: float, keys: int) -> None:
    """Claim 1: at every e the exact divergence of discrete Gaussian counts is at most that of mu, plus the slack."""
    cost = cost_of(user_guarantee(1.0, 1e-6, "as promised"), [PublicCounts(Gaussian(sigma), keys).to_json()])
    for e in (0.0, 0.1, 0.5, 1.0, 2.0, 4.0):
        exact = hockey_stick(Gaussian(sigma), keys, e) if e else hockey_stick(Gaussian(sigma), keys, 1e-9)
        assert exact <= gaussian_delta(cost.squared, e) + cost.exceptions + 1e-9 * (not e)


def test_one_of_several_plans_costs_the_largest_of_each_part() -> None:
    dear, other = GaussianRounds(0.05, 1e-7), Histogram(Gaussian(5.0), 24, 1)
    promise = user_guarantee(1.0, 1e-6, "as promised")
    draw = OneOf(((dear,), (other,)), 1.0, 1e-6)
    (again,) = recorded_draws([draw.to_json()])
    assert again == draw
    parts = [cost_of(promise, [each.to_json()]) for each in (dear, other)]
    reserve, largest = cost_of(promise, [draw.to_json()]), parts[0].largest(parts[1])
    for name in ("squared", "own", "exceptions"):
        assert getattr(largest, name) <= getattr(reserve, name) <= getattr(largest, name) * (1 + 1e-9)
    # A plan without a cost of its own costs what all plans guarantee.
    small = OneOf(((dear,), (Histogram(Gaussian(1.2), 8, 4),)), 1.0, 1e-6)
    assert cost_of(promise, [small.to_json()]).squared == pytest.approx(squared_loss_of_pure(1.0))
    assert draw.losses() == Anything(1.0, 1e-6).losses()


def test_costs_of_draws() -> None:
    promise = user_guarantee(1.0, 1e-6, "as promised")
    rounds = GaussianRounds(0.05, 1e-7)
    assert cost_of(promise, [rounds.to_json()]).squared == pytest.approx(0.05)
    assert cost_of(promise, [rounds.to_json()]).own == pytest.approx(1e-7)
    histogram = Histogram(Gaussian(12.0), 63, 8)
    cost = cost_of(promise, [histogram.to_json()])
    assert cost.squared == pytest.approx(8 / (144 - 1.5))
    assert 0 < cost.own < 1e-5
    laplace = Histogram(Laplace(1.0), 14, 1)
    assert cost_of(promise, [laplace.to_json()]).squared == pytest.approx(squared_loss_of_pure(1.0))
    unknown = cost_of(promise, [{"kind": "of a later version"}])
    assert unknown == cost_of(promise, None) == cost_of(promise, [Anything(1.0, 1e-6).to_json()])
    # Noise too small to be a function of continuous noise: the guarantee alone counts.
    assert cost_of(promise, [Histogram(Gaussian(1.2), 8, 4).to_json()]) == unknown


def test_twelve_months_within_a_limit() -> None:
    """A limit of (3.25, 2.4e-5), a quarter of delta for own keys: M is at most .65; one Laplace release exceeds it."""
    limit = GaussianLimit(3.25, 2.4e-5)
    assert 0.5 < limit.squared <= 0.65
    assert not limit.admits(GaussianCost(squared_loss_of_pure(1.0)))
    month = GaussianCost(limit.squared / 12.001, 4e-7, 1e-17)
    assert limit.more(GaussianCost(), month) == 12
    assert limit.epsilon_of(sum([month] * 12, start=GaussianCost())) <= 3.25
    assert limit.more(GaussianCost(), GaussianCost(1e-9, limit.additive / 2.5)) == 2


@given(st.lists(st.tuples(st.floats(0, 0.1), st.floats(0, 1e-6), st.floats(0, 1e-6)), max_size=8))
def test_sums_never_fall_below_the_exact_ones(costs: list[tuple[float, float, float]]) -> None:
    total = sum((GaussianCost(*each) for each in costs), start=GaussianCost())
    for name, place in (("squared", 0), ("own", 1), ("exceptions", 2)):
        assert getattr(total, name) >= math.fsum(each[place] for each in costs)
    assert GaussianCost.from_json(total.to_json()) == total


def test_a_reserve_covers_either_plan() -> None:
    dear, cheap = GaussianCost(0.2, 1e-7, 0.0), GaussianCost(0.1, 1e-6, 1e-9)
    reserve = dear.largest(cheap)
    assert (reserve.squared, reserve.own, reserve.exceptions) == (0.2, 1e-6, 1e-9)


@pytest.mark.parametrize("squared", [0.01, 0.65, 4.0])
@pytest.mark.parametrize("false_alarms", FALSE_ALARMS)
def test_the_trade_off_curve_is_the_conjugate_of_the_deltas(squared: float, false_alarms: float) -> None:
    """Claim 3 against its definition: the least of exp(e) alpha + delta(e) over a grid of e, which lies above."""
    cost = GaussianCost(squared, 1e-6, 1e-9)
    mu, e = math.sqrt(squared), np.arange(-9, 9, 0.01)
    deltas = norm.cdf(-e / mu + mu / 2) - np.exp(e) * norm.cdf(-e / mu - mu / 2)
    least = float(np.min(np.exp(e) * false_alarms + deltas))
    curve = cost.detected_at_most(false_alarms) - cost.additive
    assert curve - 1e-11 <= least <= curve + 1e-4


def test_a_release_that_costs_nothing_helps_nobody_to_detect() -> None:
    assert 0.01 <= GaussianCost().detected_at_most(0.01) < 0.01 + 1e-9
    assert GaussianCost(math.inf).trade_off() == []
