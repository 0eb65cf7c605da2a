"""Noise for counts of keys that are public already, beside a plan for new ones (proof: methods/keys/known_keys.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from querycloak.privacy.accounting.draws import Draw, GaussianRounds, PublicCounts
from querycloak.privacy.accounting.gaussian_filter import COUNTS_SMOOTHING, cost_of
from querycloak.privacy.calibration.gaussian_histogram import spend_of
from querycloak.privacy.calibration.selection import together
from querycloak.privacy.guarantee import user_guarantee
from querycloak.privacy.sampling.exact import four_digits_up
from querycloak.privacy.sampling.noise import Gaussian

__all__ = ["KNOWN_PER_USER", "known_draw", "total_delta"]

KNOWN_PER_USER = 16
"""Known keys of one user that count if nothing else is asked for, as with counts of selected keys."""


def known_draw(epsilon: float, delta: float, share: float, per_user: int = KNOWN_PER_USER) -> PublicCounts:
    """Return the counts of known keys that take this share of the budget's squared loss."""
    squared = spend_of(epsilon, delta).squared_loss * share * (1 - 1e-9)
    sigma = four_digits_up(math.sqrt(per_user / squared * (1 + 2.0**-38) + COUNTS_SMOOTHING))
    return PublicCounts(Gaussian(sigma), per_user)


def total_delta(epsilon: float, draws: Sequence[Draw]) -> float:
    """Return the delta at epsilon of draws of Gaussian noise together, rounded up (selection.md, claims 4 and 6)."""
    cost = cost_of(user_guarantee(epsilon, None, "draws of Gaussian noise"), [draw.to_json() for draw in draws])
    own = -math.expm1(-cost.own) * (1 + 2.0**-40) + cost.exceptions
    averaged = any(isinstance(draw, GaussianRounds) and draw.averaged for draw in draws)
    return together(epsilon, GaussianRounds(cost.squared, own, averaged))
