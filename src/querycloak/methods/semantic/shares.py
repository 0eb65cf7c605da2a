"""Loss of one draw if a user has several: an equal share, or more if a delta pays (semantic.md, claim 5)."""

from __future__ import annotations

import math
from functools import lru_cache

__all__ = ["MOST_LOSS", "share_of"]

MOST_LOSS = 40.0
"""Of one draw: beyond it integer weights tell candidates no further apart."""


@lru_cache(maxsize=256)
def share_of(epsilon: float, delta: float | None, draws: int) -> float:
    """The loss of each of this number of draws, all of which together keep the budget; rounded down."""
    equal = math.nextafter(epsilon / draws, 0.0)
    if delta is None or draws == 1 or equal >= MOST_LOSS:
        return min(equal, MOST_LOSS)
    from querycloak.privacy.accounting.privacy_loss import Losses
    from querycloak.privacy.calibration.bisection import bisected

    def exceeds(share: float) -> bool:
        return (Losses.of_guarantee(share, 0.0) * draws).delta_at(epsilon) > delta

    most = min(epsilon, MOST_LOSS)
    if not exceeds(most):
        return most
    return max(equal, bisected(exceeds, equal, most, precision=1e-4)[0])
