"""Draws as charges record them, and what they lose (composition.md, claims 2 to 4)."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given, settings

from querycloak.privacy.accounting.draws import Anything, Draw, Histogram, PublicCounts, losses_of
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.calibration.selection import plan_tables, together
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.sampling.noise import Gaussian, Laplace
from tests.unit.privacy.examples import draws
from tests.unit.privacy.privacy_oracles import divergence, one_key, one_key_two_draws, values_for


def pair_of(kind: Histogram, own: bool) -> tuple[Any, Any]:
    """The laws with the user and without of one key that he adds to, unique to him or shared with thirty others."""
    counts = (1, None) if own else (31, 30)
    values = values_for(kind.noise, [30, 31])
    if kind.published_noise is None:
        return tuple(one_key(count, kind.noise, kind.threshold, values) for count in counts)  # type: ignore[return-value]
    return tuple(one_key_two_draws(count, kind.noise, kind.published_noise, kind.threshold, values) for count in counts)  # type: ignore[return-value]


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
        if not any(kind.published_noise for kind in kinds):
            assert bound <= 2.2 * worst + 1e-3


def test_many_counts_changed_by_one_do_not_cover_one_changed_by_many() -> None:
    """Claim 4: why the paper's variant takes part by its guarantee alone."""
    values = values_for(Laplace(1.0), [30, 34])
    moved = [tuple(one_key(count, Laplace(1.0), -(10**9), values) for count in (34, 30))]
    assert divergence(moved, 3.0) > 2 * Losses({Laplace(1.0): 4}).delta_at(3.0)  # type: ignore[arg-type]
    assert Losses.of_guarantee(4.0, 0.0).delta_at(3.0) >= divergence(moved, 3.0)  # type: ignore[arg-type]


@pytest.mark.parametrize(("epsilon", "delta"), [(8.0, 2.25e-7), (1.0, 1e-6), (0.5, 1e-8)])
@pytest.mark.parametrize("selection", ["weighted", "multi-round"])
def test_rounds_of_gaussian_noise_cost_what_selection_says(epsilon: float, delta: float, selection: str) -> None:
    """Claim 4: mu^2 and own keys add up as selection.md, claim 4, has it; the grid adds a little."""
    plan = plan_tables(epsilon, delta, {"clicks": 64}, selection=selection).plans["clicks"]
    assert isinstance(plan, WeightedPlan)
    for n in (1, 5):
        exact = together(epsilon * n, *[plan.draw()] * n)
        bound = (plan.draw().losses() * n).delta_at(epsilon * n)
        assert exact * (1 - 1e-6) <= bound <= exact * 1.02


@given(draws())
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
