"""One budget for three noisy tables and a total, from the parameters alone (proof: optimal.md, default variant)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from querycloak.errors import EngineError, ParameterError
from querycloak.privacy.accounting.draws import Draw, GaussianRounds, Histogram, PublicCounts
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.bisection import bisected, smallest_integer
from querycloak.privacy.calibration.deltas import any_passes, tail_bounds
from querycloak.privacy.calibration.gaussian import SMOOTHING, largest_loss, squared_loss
from querycloak.privacy.calibration.weighted import ROUNDS_OF_PARTS, WEIGHTED, WeightedPlan, plan_weighted
from querycloak.privacy.sampling.exact import four_digits_up
from querycloak.privacy.sampling.noise import LARGEST_NOISE, Gaussian

PAIRS, LINKS, SIZES = 0.85, 0.13, 0.02
"""Shares of the privacy loss, chosen on the synthetic standard log; sizes are few and large and need the least."""
TOTAL = 0.01
"""Share of the privacy loss for the total: a tenth of mu, so its noise is ten times that of a lone draw."""
COUNTED_PER_USER = 16
"""Number of released pairs that a user counts for, and so the most that a made-up user holds."""
FEW = 8
"""Up to this bound on a user's pairs there are no preselection rounds: they would change few weights."""
_OWN_KEYS = 0.5
"""Share of delta for keys of a single user, half for pairs and half for associations; the rest is for noise."""
_LEAST, _PRECISION = 0.01, 1e-3


@dataclass(frozen=True)
class SyntheticPlan:
    """Selection and counts of pairs, noise and threshold of associations, noise of sizes and of the total; their delta.

    total_noise: None if there is no total.
    """

    epsilon: float
    delta: float
    linked_per_user: int
    pairs: WeightedPlan
    link_noise: Gaussian | None
    link_threshold: int | None
    size_noise: Gaussian
    total_noise: Gaussian | None = None

    @property
    def per_user(self) -> int:
        """Number of pairs of one user that count for the selection."""
        return self.pairs.per_user

    @property
    def counted_per_user(self) -> int:
        """Number of released pairs that one user counts for."""
        return self.pairs.counted_per_user

    @property
    def count_noise(self) -> Gaussian:
        """The noise of the published counts of pairs."""
        if self.pairs.counting is None:
            raise EngineError("pairs of synthetic users need counts; this is a bug in querycloak")
        return self.pairs.counting

    @property
    def links_per_user(self) -> int:
        """Number of associations that one user may add to."""
        return self.linked_per_user * (self.linked_per_user - 1) // 2

    def draws(self) -> list[Draw]:
        """Draws, recorded for composition; sizes have public keys and so no threshold."""
        drawn: list[Draw] = [self.pairs.draw()]
        if self.link_noise is not None and self.link_threshold is not None:
            drawn.append(Histogram(self.link_noise, self.link_threshold, self.links_per_user))
        drawn.append(PublicCounts(self.size_noise, 1))
        if self.total_noise is not None:
            drawn.append(GaussianRounds(squared_loss(self.total_noise, self.per_user**2), 0.0))
        return drawn


@lru_cache(maxsize=64)
def plan_synthetic(given: Budget, per_user: int, linked_per_user: int, total_share: float = 0.0) -> SyntheticPlan:
    """The least noise, in fixed proportions, whose tables stay within (epsilon, delta) together.

    total_share: share of the privacy loss for the total; 0 for none.
    """

    def planned(share: float) -> SyntheticPlan:
        plan = _with_loss(most * share * (1 - total_share), given, per_user, linked_per_user)
        if total_share:
            plan = replace(plan, total_noise=_total_noise(most * share * total_share, per_user))
        return replace(plan, delta=joint_delta(plan))

    # The noise alone may lose this much; how much of it is left beside the chances of own keys is tried.
    most = largest_loss(given.epsilon, given.delta * (1 - _OWN_KEYS))
    whole = planned(1.0)
    if whole.delta <= given.delta:
        return whole
    least, _ = bisected(lambda share: planned(share).delta > given.delta, _LEAST, 1.0, precision=_PRECISION)
    return planned(least)


def joint_delta(plan: SyntheticPlan) -> float:
    """The delta of all tables at the plan's epsilon, by the privacy-loss distribution of all of them."""
    return sum((draw.losses() for draw in plan.draws()), start=Losses()).delta_at(plan.epsilon)


def _with_loss(squared: float, given: Budget, per_user: int, linked_per_user: int) -> SyntheticPlan:
    counted = min(per_user, COUNTED_PER_USER)
    linked = min(counted, linked_per_user)
    links = linked * (linked - 1) // 2
    own = given.delta * _OWN_KEYS / (2 if links else 1)
    # Without associations their share goes to the pairs.
    spend = GaussianRounds(squared * (PAIRS if links else PAIRS + LINKS), own)
    shares = ROUNDS_OF_PARTS if per_user > FEW else WEIGHTED
    link_noise = _noise(squared * LINKS, links) if links else None
    return SyntheticPlan(
        epsilon=given.epsilon,
        delta=given.delta,
        linked_per_user=linked,
        pairs=plan_weighted(spend, per_user, counted, shares, given.epsilon, given.delta, parts="query"),
        link_noise=link_noise,
        link_threshold=_threshold(link_noise, links, own) if link_noise else None,
        size_noise=_noise(squared * SIZES, 1),
    )


def _total_noise(squared: float, per_user: int) -> Gaussian:
    """Noise of one number that a user changes by up to per_user (optimal.md, default, 3)."""
    return _checked_noise(math.sqrt(per_user**2 / squared + SMOOTHING))


def _noise(squared: float, changed: int) -> Gaussian:
    return _checked_noise(math.sqrt(changed / squared))


def _checked_noise(least: float) -> Gaussian:
    sigma = four_digits_up(least)
    if sigma > LARGEST_NOISE:
        raise ParameterError(
            f"the budget must allow noise of at most {LARGEST_NOISE:,}, it needs Gaussian noise of sigma {sigma:.3g}; "
            "raise epsilon or delta, or lower the numbers per user"
        )
    return Gaussian(sigma)


def _threshold(noise: Gaussian, keys: int, most: float) -> int:
    """The smallest K above 0 at which keys of one user alone come out with at most this chance."""
    return smallest_integer(lambda threshold: any_passes(tail_bounds(noise, threshold)[1], keys) <= most, above=0)
