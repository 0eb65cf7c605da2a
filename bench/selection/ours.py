"""Our selections on the same arrays: the plans are the product's own, only the engine is left out.

A test holds that a simulated selection and a released one are the same where noise decides nothing.
"""

from __future__ import annotations

import numpy as np

from bench.selection.holdings import Holdings, Ints
from bench.selection.renyi import RenyiPurse
from querycloak.privacy.calibration.gaussian import squared_loss
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import FULL_INTEREST, GRID, PreselectionRound, WeightedPlan, interest_of
from querycloak.privacy.sampling.noise import Laplace, Noise


def select(held: Holdings, plan: TablePlan, draw: np.random.Generator, decision: RenyiPurse | None = None) -> Ints:
    """The keys that come out; with `decision`, by its chances in place of the plan's last noise."""
    if isinstance(plan, WeightedPlan):
        totals = _totals(held, plan, draw)
        if decision is None:
            return _above(totals, plan.noise, plan.threshold, draw)
        return np.flatnonzero((totals > 0) & decision.passes(totals / GRID, plan.per_user, draw))
    if not isinstance(plan, HistogramPlan):
        raise TypeError(f"no selection is known for a {type(plan).__name__}")
    counts = np.bincount(held.first(plan.per_user).key, minlength=held.keys)
    return _above(counts, plan.noise, plan.threshold, draw, tie_probability=plan.tie_probability)


def _above(totals: Ints, noise: Noise, threshold: int, draw: np.random.Generator, tie_probability: float = 0.0) -> Ints:
    """The keys above the threshold, and by a coin those at the threshold."""
    noisy = totals + drawn(noise, totals.size, draw)
    at = (noisy == threshold) & (draw.random(totals.size) < tie_probability)
    return np.flatnonzero((totals > 0) & ((noisy > threshold) | at))


def drawn(noise: Noise, number: int, draw: np.random.Generator) -> Ints:
    """Integer noise of this law, good enough for a bench."""
    if isinstance(noise, Laplace):
        passing = -np.expm1(-1 / noise.scale)
        return draw.geometric(passing, number) - draw.geometric(passing, number)
    return np.rint(noise.sigma * draw.standard_normal(number)).astype(np.int64)


def scouting_loss(plan: TablePlan) -> float:
    """The mu^2 of the rounds before the decision."""
    return sum(squared_loss(scout.noise, GRID**2) for scout in plan.scouts) if isinstance(plan, WeightedPlan) else 0.0


def _totals(held: Holdings, plan: WeightedPlan, draw: np.random.Generator) -> Ints:
    """Scouts of parts and of keys, then the weights that decide (privacy/calibration/selection.md)."""
    kept = held.first(plan.per_user)
    if not plan.scouts:
        return _votes(kept, np.full(kept.key.size, FULL_INTEREST))
    known = np.full(held.keys, FULL_INTEREST)
    for scout in plan.scouts:
        if scout.parts is not None:
            kept = kept.kept(_with_all_parts(kept, scout, draw)[kept.key])
            continue
        loads = _votes(kept, known[kept.key])
        noisy = loads + drawn(scout.noise, loads.size, draw)
        known = interest_of(known, noisy, plan)
        kept = kept.kept((noisy > scout.floor)[kept.key])
    return _votes(kept, known[kept.key])


def _with_all_parts(kept: Holdings, scout: PreselectionRound, draw: np.random.Generator) -> np.ndarray:
    """Of every key whether the scout lets all of its parts pass."""
    parts = np.arange(kept.keys)[:, None] if kept.parts is None else kept.parts  # a key may be its only part
    number, mine = int(parts.max(initial=0)) + 1, parts[kept.key]
    entries = np.unique((kept.user[:, None] * number + mine)[mine >= 0])  # a part counts once for each user
    user, part = entries // number, entries % number
    each = np.floor(GRID / np.sqrt(np.bincount(user, minlength=kept.users)))[user]
    noisy = np.bincount(part, each, minlength=number) + drawn(scout.noise, number, draw)
    return np.asarray(np.all((parts < 0) | (noisy > scout.floor)[parts], axis=1))


def _weights(kept: Holdings, interest: Ints) -> Ints:
    """Whole weights of length GRID at most."""
    squared = np.bincount(kept.user, interest * interest, minlength=kept.users)[kept.user]
    return np.floor(GRID * interest / np.sqrt(squared)).astype(np.int64)


def _votes(kept: Holdings, interest: Ints) -> Ints:
    return np.bincount(kept.key, _weights(kept, interest), minlength=kept.keys).astype(np.int64)
