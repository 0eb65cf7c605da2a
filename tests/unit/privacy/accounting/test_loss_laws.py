"""Laws of the privacy loss: never below the exact divergence (composition.md, claim 4)."""

from __future__ import annotations

import pytest

from querycloak.privacy.accounting import loss_laws
from querycloak.privacy.accounting import privacy_loss as losses
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.calibration.hockey_stick import hockey_stick
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise

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
