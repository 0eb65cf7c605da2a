"""The budget of a made-up log, recomputed from synthetic.md and selection.md with code of its own.

Everything starts from the numbers that `guarantee --json` prints. No calibration of querycloak takes part.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import norm

import querycloak as qc

GRID, SMOOTHING, MOST_KEYS = 256, 3.0, 1e12
LENGTHS = {"transitions": 1, "users": 1, "sessions": 4, "hours": 4, "pauses": 8, "kinds": 8, "sources": 8,
           "lengths": 8, "ranks": 8}  # fmt: skip
WEIGHTS = (np.arange(GRID + 1) / GRID) ** 2
PRICES = np.concatenate([[0.0], np.geomspace(1e-12, 1, 800)])
BUDGETS = [(1, 1e-6), (3, math.exp(-10)), (8, 1e-6)]
SELECTED = {"level-1": ("words", 3 / 6), "level-2": ("words", 2 / 6), "level-3": ("words", 1 / 6),
            "queries": ("queries", 1), "clicks": ("clicks", 1), "hosts": ("hosts", 1)}  # fmt: skip

Floats = NDArray[np.float64]


def passing(noise: float, floor: float) -> Floats:
    """Pr[w + Z > floor] for w = 0, 1, ..., GRID and discrete Gaussian Z, all in 256ths of a user's weight."""
    sigma, least = noise * GRID, round(floor * GRID) + 1
    reach = int(14 * sigma)
    mass = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma**2))
    tails = np.cumsum(mass[::-1])[::-1] / mass.sum()
    tail: Floats = tails[np.clip(least - np.arange(GRID + 1) + reach, 0, 2 * reach)]
    return tail


def left_after(passes: Floats, before: float) -> float:
    """selection.md, claim 6: A_j by A_(j-1)."""
    most = np.maximum((passes - PRICES[:, None] * WEIGHTS).max(axis=1), 0)
    return float((PRICES * min(1.0, before) + before * most).min())


def own_keys(part: dict[str, Any], per_user: int) -> float:
    """selection.md, claims 3 and 6: x = A/(1 - d)."""
    left = float(per_user)
    for noise, floor in zip(part["scout_noise"], part["scout_floor"], strict=True):
        left = left_after(passing(noise, floor), left)
    decision = passing(part["noise"], part["threshold"])
    left = left_after(decision, left)
    losses = -np.log1p(-decision)
    most = np.maximum((losses - PRICES[:, None] * WEIGHTS).max(axis=1), 0)
    always = -math.expm1(-float((PRICES + per_user * most).min()))
    return (left + per_user * MOST_KEYS / 2**64 * always) / (1 - always)


def squared_losses(parameters: dict[str, Any]) -> dict[str, float]:
    """synthetic.md: mu^2 of every part."""
    losses = {}
    for name in SELECTED:
        weighed = [*parameters[name]["scout_noise"], parameters[name]["noise"]]
        counts = parameters["counted_per_user"] / (parameters[name]["counting_noise"] ** 2 - SMOOTHING)
        losses[name] = sum(1 / (sigma**2 - SMOOTHING / GRID**2) for sigma in weighed) + counts
    for name, sigma in parameters["cells_noise"].items():
        losses[name] = LENGTHS[name] ** 2 / (sigma**2 - SMOOTHING)
    return losses


def exceeding(squared: float, epsilon: float) -> float:
    """H_mu(epsilon)."""
    mu = math.sqrt(squared)
    return float(norm.sf(epsilon / mu - mu / 2) - math.exp(epsilon) * norm.sf(epsilon / mu + mu / 2))


def delta_of(parameters: dict[str, Any], epsilon: float) -> float:
    """synthetic.md, *Claim*."""
    added = [own_keys(parameters[name], parameters["per_user"]) for name in SELECTED]
    return exceeding(sum(squared_losses(parameters).values()), epsilon) + math.prod(1 + x for x in added) - 1


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_all_parts_together_keep_the_budget(epsilon: float, delta: float) -> None:
    method = qc.Synthetic(epsilon=epsilon, delta=delta)
    parameters = method.parameters()
    proven = method.proven().delta
    assert proven is not None
    assert proven <= delta
    assert delta_of(parameters, epsilon) <= delta
    assert delta_of(parameters, epsilon) == pytest.approx(proven, rel=0.02)  # the two look at different prices


@pytest.mark.parametrize("broken", [{"threshold": 0.97}, {"noise": 0.7}, {"counting_noise": 0.7}])
def test_a_part_that_takes_more_is_seen(broken: dict[str, float]) -> None:
    parameters = qc.Synthetic(epsilon=3, delta=1e-6).parameters()
    part = parameters["queries"]
    changed = {**parameters, "queries": {**part, **{name: part[name] * factor for name, factor in broken.items()}}}
    assert delta_of(parameters, 3) <= 1e-6 < delta_of(changed, 3)


@pytest.mark.parametrize("split", [None, "words=60,hosts=20,ranks=4"])
def test_every_part_has_its_share(split: str | None) -> None:
    """synthetic.md, *The budget from this note alone*."""
    parameters = qc.Synthetic(epsilon=3, delta=1e-6, split=split).parameters()
    low, high = 1e-6, 9.0
    for _ in range(80):  # the largest mu^2 with H_mu(epsilon) <= delta/2
        middle = (low + high) / 2
        low, high = (middle, high) if exceeding(middle, 3) <= 0.5e-6 else (low, middle)
    shares, losses = parameters["shares"], squared_losses(parameters)
    for name, lost in losses.items():
        part, share = SELECTED.get(name, (name, 1))
        mine = low * share * shares[part] / sum(shares.values())
        assert 0.98 * mine < lost <= mine * (1 + 1e-9)
    for name, sigma in parameters["cells_noise"].items():
        least = math.sqrt(LENGTHS[name] ** 2 / (low * shares[name] / sum(shares.values())) + SMOOTHING)
        digits = 3 - math.floor(math.log10(least))
        assert sigma == pytest.approx(math.ceil(least * 10**digits) / 10**digits, rel=1e-9)
