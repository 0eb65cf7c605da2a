"""Privacy-loss distributions of several draws together (composition.md, claims 1, 3 and 5)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from querycloak.privacy.accounting import privacy_loss as losses
from querycloak.privacy.accounting.draws import Draw, Histogram
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.calibration.deltas import hockey_stick
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from tests.unit.privacy.examples import draws


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


@given(draws(), st.integers(1, 9))
@settings(max_examples=40, deadline=None)
def test_n_of_one_kind_are_one_of_n_times_as_many(mechanism: Draw, n: int) -> None:
    one_by_one = sum((mechanism.losses() for _ in range(n)), start=Losses())
    at_once = mechanism.losses() * n
    assert one_by_one == at_once
    assert one_by_one.epsilon_at(1e-5) == at_once.epsilon_at(1e-5)
    if isinstance(mechanism, Histogram) and mechanism.published_noise is None:
        wider = Histogram(mechanism.noise, mechanism.threshold, n * mechanism.per_user).losses()
        assert wider.changed == at_once.changed
        assert float(wider.own) == pytest.approx(float(at_once.own), rel=1e-12)


@given(st.lists(draws(), min_size=1, max_size=4), st.floats(0, 3))
@settings(max_examples=40, deadline=None)
def test_more_never_costs_less_and_the_order_does_not_matter(listed: list[Draw], e: float) -> None:
    forwards, backwards = (
        sum((each.losses() for each in order), start=Losses()) for order in (listed, list(reversed(listed)))
    )
    assert forwards.delta_at(e) == backwards.delta_at(e)
    fewer = sum((each.losses() for each in listed[1:]), start=Losses())
    assert fewer.delta_at(e) <= forwards.delta_at(e) * (1 + 1e-3) + 1e-6  # each grid has its own width
    assert forwards.delta_at(e + 0.5) <= forwards.delta_at(e)


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
        monkeypatch.setattr(losses, "MOST_ATOMS", 1 << 20)
        fine = Losses({Gaussian(sigma): s}).delta_at(e)
        monkeypatch.setattr(losses, "MOST_ATOMS", 50)
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
