"""Composing tightly: every bound above an enumeration or an exact oracle, and close to it (composition.md)."""

from __future__ import annotations

import itertools
import json
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.methods.clicks.method import Clicks
from querycloak.privacy.books.accounts import Account, Charge
from querycloak.privacy.chance.exact import stated
from querycloak.privacy.chance.noise import Gaussian, Laplace, Noise
from querycloak.privacy.composing import loss_laws
from querycloak.privacy.composing import privacy_loss as losses
from querycloak.privacy.composing.composition import composed
from querycloak.privacy.composing.draws import (
    Anything,
    Draw,
    GaussianRounds,
    Histogram,
    PublicCounts,
    losses_of,
)
from querycloak.privacy.composing.privacy_loss import Losses
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.prices.histogram_plan import price
from querycloak.privacy.prices.hockey_stick import hockey_stick
from querycloak.privacy.prices.selection import plan_tables, together
from querycloak.privacy.prices.weighted import WeightedPlan
from tests.unit.privacy.privacy_oracles import divergence, one_key, one_key_two_draws, values_for

NOISES: list[Noise] = [Laplace(0.5), Laplace(2.0), Laplace(10.0), Gaussian(0.6), Gaussian(1.4), Gaussian(3.9)]


@pytest.mark.parametrize("noise", NOISES, ids=str)
@pytest.mark.parametrize("points", [64, 1 << 13])
def test_one_law_is_never_below_the_exact_divergence(
    noise: Noise, points: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Claims 4 and 5, on a coarse grid and on ours; where it is ours, nearly equal."""
    monkeypatch.setattr(losses, "POINTS", points)
    for s in (1, 3, 12):
        together = Losses({noise: s})
        for e in (0.0, 0.05, 0.7, 2.0, 6.0):
            exact = hockey_stick(noise, s, e)  # held against an exact oracle to nine digits in test_deltas.py
            bound = together.delta_at(e)
            assert bound >= exact * (1 - 1e-8)
            if points > 64 and exact > 1e-9:
                assert bound <= exact * 1.01 + 1e-3 * s / points


@pytest.mark.parametrize(("sigma", "s"), [(2.0, 1), (3.9, 32), (30.0, 7), (400.0, 1000)])
def test_atoms_put_together_only_add(sigma: float, s: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claim 5: blocks of neighbouring atoms stand at the largest of their losses."""
    for e in (0.0, 0.3, 3.0):
        true = hockey_stick(Gaussian(sigma), s, e)
        monkeypatch.setattr(loss_laws, "MOST_ATOMS", 1 << 20)
        fine = Losses({Gaussian(sigma): s}).delta_at(e)
        monkeypatch.setattr(loss_laws, "MOST_ATOMS", 50)
        coarse = Losses({Gaussian(sigma): s}).delta_at(e)
        assert coarse >= fine * (1 - 1e-9) - 1e-30  # what is cut at the ends
        assert true * (1 - 1e-9) <= fine <= true * 1.001 + 1e-9


@pytest.mark.parametrize(("noise", "s"), [(Laplace(3.0), 1 << 21), (Gaussian(1.0), 1 << 15)])
def test_what_is_too_large_for_a_law_is_taken_at_its_worst(noise: Noise, s: int) -> None:
    together = Losses({noise: s})
    if isinstance(noise, Laplace):
        assert together.epsilon_at(1e-6) == pytest.approx(s / 3.0, rel=1e-2)
    else:
        assert together.epsilon_at(0.5) is None
        assert together.delta_at(50.0) == 1.0


def pair_of(kind: Histogram, own: bool) -> tuple[Any, Any]:
    """The laws with the user and without of one key that he adds to, unique to him or shared with thirty others."""
    counts = (1, None) if own else (31, 30)
    values = values_for(kind.noise, [30, 31])
    if kind.fresh is None:
        return tuple(one_key(count, kind.noise, kind.threshold, values) for count in counts)  # type: ignore[return-value]
    return tuple(one_key_two_draws(count, kind.noise, kind.fresh, kind.threshold, values) for count in counts)  # type: ignore[return-value]


@pytest.mark.parametrize(
    "kinds",
    [
        (Histogram(Laplace(0.5), 4, 2), Histogram(Laplace(0.7), 3, 1)),
        (Histogram(Gaussian(1.0), 3, 1), Histogram(Laplace(0.5), 2, 1)),
        (Histogram(Gaussian(0.8), 2, 2), Histogram(Gaussian(1.3), 5, 1)),
        (Histogram(Laplace(0.6), 3, 1, Laplace(0.4)), Histogram(Gaussian(0.9), 3, 1)),
    ],
    ids=str,
)
def test_thresholded_histograms_against_every_choice_of_keys(kinds: tuple[Histogram, ...]) -> None:
    """Claims 1 to 3: all ways in which the user's keys are his own or shared, by enumeration of all outcomes."""
    together = sum((kind.losses() for kind in kinds), start=Losses())
    keys = [kind for kind in kinds for _ in range(kind.per_user)]
    choices = [
        [pair_of(kind, own) for kind, own in zip(keys, owns, strict=True)]
        for owns in itertools.product((False, True), repeat=len(keys))
    ]
    for e in (0.0, 0.5, 1.5, 3.0, 5.0):
        worst = max(divergence(choice, e) for choice in choices)
        bound = together.delta_at(e)
        assert bound >= worst - 1e-12
        # Claim 3: at most about twice, and something for the grid; two draws also hide their first draw.
        if not any(kind.fresh for kind in kinds):
            assert bound <= 2.2 * worst + 1e-3


def test_many_counts_changed_by_one_do_not_cover_one_changed_by_many() -> None:
    """Claim 4: why the paper's variant takes part by its guarantee alone."""
    values = values_for(Laplace(1.0), [30, 34])
    moved = [tuple(one_key(count, Laplace(1.0), -(10**9), values) for count in (34, 30))]
    assert divergence(moved, 3.0) > 2 * Losses({Laplace(1.0): 4}).delta_at(3.0)  # type: ignore[arg-type]
    assert Losses.of_guarantee(4.0, 0.0).delta_at(3.0) >= divergence(moved, 3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("together", "at", "peer", "compositions"),
    [
        (Losses({Gaussian(3.9): 32}), 1e-6, 7.504856677416801, 32),
        (Losses({Gaussian(3.9): 32}), 1e-9, 9.35760835931586, 32),
        (Losses({Gaussian(23.9): 384}), 1e-5, 3.485345945386768, 384),
        (Losses({Gaussian(23.9): 384}), 1e-8, 4.638849605105397, 384),
        (Losses({Laplace(10): 365}), 1e-6, 10.313864609391837, 365),
        (Losses({Laplace(2): 52}), 1e-6, 20.893795382790696, 52),
        (Losses({Gaussian(23.9): 192, Gaussian(12): 24, Laplace(10): 4}), 1e-5, 3.0784845670441214, 220),
        (Losses({Gaussian(1.4): 4, Laplace(0.5): 2}) + Losses.of_guarantee(0.3, 1e-7), 1e-6, 11.428850625612553, 7),
    ],
)
def test_the_same_on_dp_accounting(together: Losses, at: float, peer: float, compositions: int) -> None:
    """dp-accounting 0.6.0, privacy_loss_distribution.from_discrete_gaussian_mechanism, from_discrete_laplace_mechanism

    and from_privacy_parameters, value_discretization_interval 1e-5 (1e-4 for Laplace alone), which it may add once for
    each composition; ours adds what its own grid does.
    """
    found = together.epsilon_at(at)
    assert found is not None
    assert peer - compositions * 1e-5 <= found <= peer * (1 + 1e-6)


@pytest.mark.parametrize(("epsilon", "delta"), [(8.0, 2.25e-7), (1.0, 1e-6), (0.5, 1e-8)])
@pytest.mark.parametrize("selection", ["weighted", "rounds"])
def test_rounds_of_gaussian_noise_cost_what_selection_says(epsilon: float, delta: float, selection: str) -> None:
    """Claim 4: mu^2 and own keys add up as selection.md, claim 4, has it; the grid adds a little."""
    plan = plan_tables(epsilon, delta, {"clicks": 64}, selection=selection).plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    for n in (1, 5):
        exact = together(epsilon * n, *[plan.draw()] * n)
        bound = (plan.draw().losses() * n).delta_at(epsilon * n)
        assert exact * (1 - 1e-6) <= bound <= exact * 1.02


def mechanisms() -> st.SearchStrategy[Draw]:
    noises = st.sampled_from([Laplace(2.0), Laplace(5.5), Gaussian(3.0), Gaussian(17.25)])
    histograms = st.builds(Histogram, noises, st.integers(60, 90), st.integers(1, 5), st.none() | noises)
    counts = st.builds(PublicCounts, noises, st.integers(1, 5))
    rounds = st.builds(GaussianRounds, st.floats(1e-3, 0.5), st.floats(1e-12, 1e-6))
    return histograms | counts | rounds | st.builds(Anything, st.floats(0.01, 1), st.sampled_from([0.0, 1e-9, 1e-7]))


@given(mechanisms(), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_n_of_one_kind_are_one_of_n_times_as_many(mechanism: Draw, n: int) -> None:
    one_by_one = sum((mechanism.losses() for _ in range(n)), start=Losses())
    at_once = mechanism.losses() * n
    assert one_by_one == at_once
    assert one_by_one.epsilon_at(1e-5) == at_once.epsilon_at(1e-5)
    if isinstance(mechanism, Histogram) and mechanism.fresh is None:
        wider = Histogram(mechanism.noise, mechanism.threshold, n * mechanism.per_user).losses()
        assert wider.changed == at_once.changed
        assert float(wider.own) == pytest.approx(float(at_once.own), rel=1e-12)


@given(st.lists(mechanisms(), min_size=1, max_size=4), st.floats(0, 3))
@settings(max_examples=40, deadline=None)
def test_more_never_costs_less_and_the_order_does_not_matter(listed: list[Draw], e: float) -> None:
    forwards, backwards = (
        sum((each.losses() for each in order), start=Losses()) for order in (listed, list(reversed(listed)))
    )
    assert forwards.delta_at(e) == backwards.delta_at(e)
    fewer = sum((each.losses() for each in listed[1:]), start=Losses())
    assert fewer.delta_at(e) <= forwards.delta_at(e) * (1 + 1e-3) + 1e-6  # each grid has its own width
    assert forwards.delta_at(e + 0.5) <= forwards.delta_at(e)


@given(mechanisms())
@settings(deadline=None)
def test_a_charge_keeps_what_it_drew(mechanism: Draw) -> None:
    written = json.loads(json.dumps([mechanism.to_json()]))
    promised = Guarantee(
        kind="approximate-dp", unit="user", neighbours="add-remove-user", epsilon=9, delta=1e-3, because="x"
    )
    assert losses_of(promised, written) == mechanism.losses()


@pytest.mark.parametrize(
    "recorded",
    [
        None,
        [],
        "histogram",
        7,
        [{"kind": "of tomorrow"}],
        [{"noise": "laplace", "scale": 1.0, "threshold": 9, "per_user": 4}],
        [Histogram(Laplace(1.0), 9, 4).to_json(), {"kind": "histogram"}],
        [Histogram(Laplace(1.0), 9, 4).to_json() | {"per_user": 0}],
        [Histogram(Laplace(1.0), 9, 4).to_json() | {"kind": "weighted"}],
        [{"kind": "any", "epsilon": -1, "delta": 0}],
    ],
)
def test_what_is_not_understood_counts_by_its_guarantee(recorded: Any) -> None:
    promised = Guarantee(
        kind="approximate-dp", unit="user", neighbours="add-remove-user", epsilon=2, delta=1e-6, because="x"
    )
    assert losses_of(promised, recorded) == Losses.of_guarantee(2, 1e-6)


def test_a_syntactic_rule_adds_nothing_and_a_hopeless_threshold_everything() -> None:
    rule = Guarantee(kind="syntactic", unit="user", neighbours=None, k=5, because="x")
    assert losses_of(rule, [Anything(1.0).to_json()]) == Losses()
    assert Losses().epsilon_at(1e-9) == 0.0
    assert Losses.of_guarantee(0.0, 1e-7).delta_at(0.0) == 1e-7
    assert Histogram(Gaussian(900.0), 0, 999_999).losses().delta_at(5.0) == 1.0
    # Noise beyond the largest that we know is taken as the largest.
    assert Losses.of_guarantee(1e-9, 0.0).epsilon_at(1e-6) == pytest.approx(1 / 2**14, rel=0.04)


@pytest.mark.parametrize(
    "unknown",
    [
        {"kind": "sparse-vector", "epsilon": 1.0},
        {"kind": "public-counts", "noise": {"law": "student", "sigma": 900.0}, "per_user": 1},
        {"kind": "public-counts", "noise": {"law": "gaussian"}, "per_user": 1},
        {"kind": "gaussian-rounds", "squared_loss": -1.0, "own_keys": 0.0},
        {},
    ],
)
def test_a_record_that_this_version_does_not_know_counts_by_its_guarantee(unknown: dict[str, Any]) -> None:
    promised = user_guarantee(2.0, 1e-6, "x")
    known = PublicCounts(Gaussian(900.0), 1).to_json()
    assert losses_of(promised, [known]) != Losses.of_guarantee(2.0, 1e-6)
    assert losses_of(promised, [known, unknown]) == Losses.of_guarantee(2.0, 1e-6)


def releases(plan: Any, n: int) -> Account:
    promised = plan.guarantee()
    recorded = {"mechanisms": [plan.draw().to_json()]}
    charges = tuple(Charge(i, "shop", "now", "clicks", promised, recorded) for i in range(n))
    return Account("shop", 100.0, 1e-3, charges)


def test_a_year_of_months() -> None:
    """Twelve Gaussian releases cost about the root of twelve; twelve of Laplace noise still their sum."""
    gaussian = releases(Clicks(epsilon=1, delta=1e-6, per_user=32, selection="gaussian").plans["clicks"], 12).composed()
    assert (gaussian.epsilon_sum, gaussian.delta) == (12.0, 2 * gaussian.delta_sum)
    assert gaussian.below_the_sum
    assert gaussian.epsilon == 3.441
    laplace = releases(Clicks(epsilon=0.5, delta=1e-8, per_user=1).plans["clicks"], 12).composed()
    assert not laplace.below_the_sum
    daily = releases(Clicks(epsilon=0.1, delta=1e-9, per_user=1).plans["clicks"], 365).composed()
    assert (daily.epsilon_sum, daily.epsilon) == (36.5, 10.70)


def test_n_charges_equal_one_of_n_releases() -> None:
    plan = price(Gaussian(12), 63, 8, epsilon=1.0)
    once = composed(plan.draw().losses() * 7, 7 * stated(plan.epsilon), 7 * stated(plan.delta))
    assert releases(plan, 7).composed() == once


def test_the_delta_can_be_named() -> None:
    account = releases(price(Gaussian(12), 63, 8, epsilon=1.0), 20)
    at = [account.composed(delta) for delta in (1e-4, 1e-3)]
    assert at[0].epsilon is not None
    assert at[1].epsilon is not None
    assert at[0].epsilon > at[1].epsilon
    assert account.composed(1e-12).epsilon is None
    assert not account.composed(1e-12).below_the_sum
    said = account.composed(1e-4).to_json()
    assert said["sum"]["epsilon"] == 20.0
    assert said["privacy_loss_distribution"]["below_the_sum"]
    assert "fixed beforehand" in said["privacy_loss_distribution"]["condition"]
    for bad in (0, 1, -1, float("nan"), True):
        with pytest.raises(ParameterError, match="at_delta must be a number above 0 and below 1"):
            account.composed(bad)


@given(st.lists(mechanisms(), min_size=1, max_size=3), st.sampled_from([1e-7, 1e-5, 1e-3]))
@settings(max_examples=40, deadline=None)
def test_the_epsilon_that_is_shown_is_within_its_delta(listed: list[Draw], at_delta: float) -> None:
    losses = sum((each.losses() for each in listed), start=Losses())
    shown = composed(losses, Fraction(1), Fraction(0), at_delta).epsilon
    exact = losses.epsilon_at(at_delta)
    assert (shown is None) == (exact is None)
    if shown is not None and exact is not None:
        assert losses.delta_at(shown) <= at_delta
        assert shown == float(f"{shown:.4g}")
        assert shown <= exact * 1.001 + 1e-12


def test_sums_are_not_touched_by_it() -> None:
    """The limit is about sums: an account that has spent its epsilon refuses, however small the tighter figure."""
    account = releases(Clicks(epsilon=1, delta=1e-6, per_user=32, selection="gaussian").plans["clicks"], 12)
    assert account.spent[0] == Fraction(12)
