"""Keys of one user alone through all rounds (selection.md, claims 3 and 6): by enumeration and in 60 digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from decimal import Decimal, localcontext
from functools import cache

import numpy as np
import pytest

from querycloak.privacy.accounting.draws import GaussianRounds, recorded_draws
from querycloak.privacy.calibration.gaussian import gaussian_delta
from querycloak.privacy.calibration.own_keys import Floor, _passing, added_by, mean_own_keys, own_keys
from querycloak.privacy.calibration.selection import plan_tables, together
from querycloak.privacy.calibration.weighted import GRID, WeightedPlan
from querycloak.privacy.sampling.noise import Gaussian

DIGITS = 60
ROUNDS = [
    (Floor(Gaussian(150.0), 120), Floor(Gaussian(140.0), 250), Floor(Gaussian(60.0), 330)),
    (Floor(Gaussian(700.0), 500), Floor(Gaussian(700.0), 1200), Floor(Gaussian(300.0), 900)),
    (Floor(Gaussian(90.0), 60), Floor(Gaussian(200.0), 900)),
    (Floor(Gaussian(60.0), -50), Floor(Gaussian(50.0), 300)),
]


def exact_tail(sigma: float, m: int) -> Decimal:
    """Pr[Z >= m] of the discrete Gaussian, summed until nothing is left in 60 digits; call it in their context."""
    twice = 2 * Decimal(sigma) ** 2
    weights = [(-(Decimal(z) ** 2) / twice).exp() for z in range(math.ceil(17 * sigma) + 1)]
    whole = 2 * sum(weights) - 1
    above = sum(weights[max(m, 1 - m) :], Decimal(0)) / whole
    return above if m > 0 else 1 - above


@pytest.mark.parametrize(("sigma", "limit"), [(40.0, 30), (40.0, 400), (25.0, -60), (33.3, 255)])
def test_chances_to_pass_a_round_in_sixty_digits(sigma: float, limit: int) -> None:
    """Never too small, and too large by less than a part in 10^7; limits above and below the weight."""
    with localcontext(prec=DIGITS):
        passing = _passing(Floor(Gaussian(sigma), limit))
        for weight in (0, 1, 29, 30, 31, 100, 255, 256):
            exact = exact_tail(sigma, limit + 1 - weight)
            assert exact <= Decimal(float(passing[weight])) <= exact * (1 + Decimal("1e-7")) + Decimal("1e-40")


def worst_mean(rounds: Sequence[Floor], keys: int, step: int = 16) -> float:
    """The most own keys that come out on average: every way to share out weight anew, given how many are left."""
    grid = range(0, GRID + 1, step)
    ways = {
        n: [each for each in itertools.combinations_with_replacement(grid, n) if sum(w * w for w in each) <= GRID**2]
        for n in range(1, keys + 1)
    }

    @cache
    def most(place: int, left: int) -> float:
        if left == 0:
            return 0.0
        if place == len(rounds):
            return float(left)
        chance = _passing(rounds[place])
        after = np.array([most(place + 1, n) for n in range(left + 1)])
        best = 0.0
        for weights in ways[left]:
            law = np.ones(1)
            for weight in weights:
                law = np.convolve(law, [1 - chance[weight], chance[weight]])
            best = max(best, float(law @ after))
        return best

    return most(0, keys)


@pytest.mark.parametrize("rounds", ROUNDS)
@pytest.mark.parametrize("keys", [1, 3])
def test_no_sharing_out_of_weight_beats_the_mean_number_of_own_keys(rounds: Sequence[Floor], keys: int) -> None:
    """Claim 6, A': against an adversary who sees what is left after each round and divides the weight anew."""
    worst, bound = worst_mean(rounds, keys), mean_own_keys(rounds, keys)
    assert worst <= bound <= 2 * worst
    in_decision = own_keys(rounds[-1].noise, rounds[-1].limit, keys, equal=False)
    assert bound < in_decision * 1.01  # a floor that all pass gives nothing


def test_the_mean_number_recomputed_from_the_note() -> None:
    """A' in 60 digits, by the recursion as selection.md states it, with prices of its own."""
    rounds = [Floor(Gaussian(40.0), 30), Floor(Gaussian(44.0), 80), Floor(Gaussian(20.0), 330)]
    with localcontext(prec=DIGITS):
        left = Decimal(16)
        for noise, limit in rounds:
            chances = [exact_tail(noise.sigma, limit + 1 - w) for w in range(0, GRID + 1, 4)]
            squares = [Decimal(w) ** 2 / GRID**2 for w in range(0, GRID + 1, 4)]
            prices = [Decimal(0)] + [chances[-1] * Decimal(2) ** (Decimal(k) / 8) for k in range(-100, 9)]
            left = min(
                a * min(Decimal(1), left) + left * max(c - a * s for c, s in zip(chances, squares, strict=True))
                for a in prices
            )
        # Every fourth weight is tried, so this may be a little too small; prices differ.
        assert left * Decimal("0.97") <= Decimal(mean_own_keys(rounds, 16)) <= left * Decimal("1.03")


def laws_of_one_own_key(rounds: Sequence[Floor], numbers: Sequence[int]) -> tuple[np.ndarray, np.ndarray]:
    """What a user of one own key may bring about, with and without: the scout's number, and whether the key came out.

    The scout's number is seen by the enumeration, so this is the most that any observer sees.
    """
    scout, decision = rounds
    sigma = scout.noise.sigma
    laws = []
    for load in (GRID, 0):
        law = np.exp(-0.5 * ((np.asarray(numbers) - load) / sigma) ** 2)
        laws.append(law / law.sum())
    out = _passing(decision)[GRID] * (np.asarray(numbers) > scout.limit)
    return np.concatenate([laws[0] * (1 - out), laws[0] * out]), np.concatenate([laws[1], np.zeros(len(numbers))])


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 6.0, 20.0])
def test_delta_of_one_own_key_by_enumeration(epsilon: float) -> None:
    """Claim 6 in both directions, where the decision alone would need far more; the mean alone is needed."""
    rounds = (Floor(Gaussian(400.0), 900), Floor(Gaussian(300.0), 700))
    having, without = laws_of_one_own_key(rounds, range(-3000, 3300))
    squared = GRID**2 / (400.0**2 - 3)
    x = added_by(rounds[1].noise, rounds[1].limit, 1, rounds[:1])
    bound = together(epsilon, GaussianRounds(squared, x, averaged=True))
    for p, q in ((having, without), (without, having)):
        assert float(np.maximum(p - math.exp(epsilon) * q, 0).sum()) <= bound
    own = float(having[len(having) // 2 :].sum())
    assert own <= x / (1 - x) <= 1.2 * own
    assert x < 0.2 * own_keys(rounds[1].noise, rounds[1].limit, 1, equal=False)


def test_tables_and_releases_multiply_what_own_keys_add() -> None:
    """Claim 6, several tables: H + product of (1 + x) - 1, never the smaller form of claim 4."""
    draws = [GaussianRounds(0.01, 0.02, averaged=True), GaussianRounds(0.02, 0.03, averaged=True)]
    product = math.prod(1 / (1 - draw.own_keys) for draw in draws) - 1
    exact = product + gaussian_delta(0.03, 1.0)
    assert exact <= together(1.0, *draws) <= exact * 1.05
    assert together(1.0, *draws) > together(1.0, *(GaussianRounds(d.squared_loss, d.own_keys) for d in draws))
    losses = draws[0].losses() + draws[1].losses()
    assert math.exp(float(losses.own)) - 1 == pytest.approx(product)
    assert list(recorded_draws([draw.to_json() for draw in draws])) == draws


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-6), (3.0, math.exp(-10)), (8.0, 2.25e-7)])
@pytest.mark.parametrize("table", ["queries", "clicks"])
def test_plans_take_the_mean_and_keep_their_delta(table: str, epsilon: float, delta: float) -> None:
    planned = plan_tables(epsilon, delta, {table: 256}, selection="multi-round")
    plan = planned.plans[table]
    assert isinstance(plan, WeightedPlan)
    drawn = plan.draw()
    assert drawn.averaged
    assert planned.delta <= delta
    in_decision = own_keys(plan.noise, plan.threshold, plan.per_user, equal=False)
    assert plan.rows_of_one_user / (1 - in_decision) <= drawn.own_keys / (1 - drawn.own_keys) <= delta
    assert in_decision > delta / 2  # the decision alone would not keep half of delta for own keys
    assert plan.parameters()["own_keys"] == "rounds"
