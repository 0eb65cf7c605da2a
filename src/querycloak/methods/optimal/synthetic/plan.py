"""One budget for three noisy tables, from the parameters alone (proof: optimal.md, default variant)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from querycloak.errors import ParameterError
from querycloak.privacy.budget import Budget
from querycloak.privacy.chance.exact import four_digits_up
from querycloak.privacy.chance.noise import LARGEST_NOISE, Gaussian
from querycloak.privacy.prices.bisection import largest_number, smallest_integer
from querycloak.privacy.prices.deltas import any_passes
from querycloak.privacy.prices.hockey_stick import tail_bounds, zcdp_delta

if TYPE_CHECKING:
    from querycloak.privacy.composing.draws import Draw

PAIRS, LINKS, SIZES = 0.85, 0.13, 0.02
"""Shares of the privacy loss, chosen on the synthetic standard log; sizes are few and large and need the least."""
_NOISE_SHARE = 0.5
"""Of delta, for the noise; the rest is for keys of a single user, in equal parts for pairs and associations."""
_ROUNDING = 2.0**-40
_STEP = 0.999


@dataclass(frozen=True)
class SyntheticPlan:
    """Noise and thresholds of pairs and associations, noise of sizes, and the delta that they have together."""

    epsilon: float
    delta: float
    per_user: int
    linked_per_user: int
    pair_noise: Gaussian
    pair_threshold: int
    link_noise: Gaussian | None
    link_threshold: int | None
    size_noise: Gaussian

    @property
    def links_per_user(self) -> int:
        """How many associations one user may add to."""
        return self.linked_per_user * (self.linked_per_user - 1) // 2

    def draws(self) -> list[Draw]:
        """What is drawn, for whoever adds up; sizes have public keys and so no threshold."""
        from querycloak.privacy.composing.draws import Histogram, PublicCounts

        drawn: list[Draw] = [Histogram(self.pair_noise, self.pair_threshold, self.per_user)]
        if self.link_noise is not None and self.link_threshold is not None:
            drawn.append(Histogram(self.link_noise, self.link_threshold, self.links_per_user))
        return [*drawn, PublicCounts(self.size_noise, 1)]


def plan_synthetic(given: Budget, per_user: int, linked_per_user: int) -> SyntheticPlan:
    """The least noise, in fixed proportions, whose three tables stay within (epsilon, delta) together."""
    epsilon, delta = given.epsilon, given.delta
    linked = min(per_user, linked_per_user)
    rho = largest_number(lambda loss: zcdp_delta(loss, epsilon) <= delta * _NOISE_SHARE, ratio=1.0001)
    while True:
        budget = _with_loss(rho, epsilon, delta, per_user, linked)
        reached = joint_delta(budget)
        if reached <= delta:
            return SyntheticPlan(**{**vars(budget), "delta": reached})
        rho *= _STEP


def joint_delta(budget: SyntheticPlan) -> float:
    """The delta at the budget's epsilon, rounded up: own keys that come out, and the noise on shared ones."""
    own, loss, rho = 0.0, 0.0, 1 / (2 * budget.size_noise.sigma**2)
    tables = [(budget.pair_noise, budget.pair_threshold, budget.per_user)]
    if budget.link_noise is not None and budget.link_threshold is not None:
        tables.append((budget.link_noise, budget.link_threshold, budget.links_per_user))
    for noise, threshold, keys in tables:
        passes = tail_bounds(noise, threshold)[1]
        if passes >= 1:
            return 1.0
        own += any_passes(passes, keys)
        loss -= keys * math.log1p(-passes)
        rho += keys / (2 * noise.sigma**2)
    return min(
        1.0, (own + zcdp_delta(rho * (1 + _ROUNDING), budget.epsilon - loss * (1 + _ROUNDING))) * (1 + _ROUNDING)
    )


def _with_loss(rho: float, epsilon: float, delta: float, per_user: int, linked: int) -> SyntheticPlan:
    links = linked * (linked - 1) // 2
    own = delta * (1 - _NOISE_SHARE) / (2 if links else 1)
    # Without associations their share goes to the pairs.
    pair_noise = _noise(per_user, rho * (PAIRS if links else PAIRS + LINKS))
    link_noise = _noise(links, rho * LINKS) if links else None
    return SyntheticPlan(
        epsilon=epsilon,
        delta=delta,
        per_user=per_user,
        linked_per_user=linked,
        pair_noise=pair_noise,
        pair_threshold=_threshold(pair_noise, per_user, own),
        link_noise=link_noise,
        link_threshold=_threshold(link_noise, links, own) if link_noise else None,
        size_noise=_noise(1, rho * SIZES),
    )


def _noise(changed: int, rho: float) -> Gaussian:
    sigma = four_digits_up(math.sqrt(changed / (2 * rho)))
    if sigma > LARGEST_NOISE:
        raise ParameterError(
            f"the budget must allow noise of at most {LARGEST_NOISE:,}, it needs Gaussian noise of sigma {sigma:.3g}; "
            "raise epsilon or delta, or lower the numbers per user"
        )
    return Gaussian(sigma)


def _threshold(noise: Gaussian, keys: int, most: float) -> int:
    """The smallest K above 0 at which keys of one user alone come out with at most this chance."""
    return smallest_integer(lambda threshold: any_passes(tail_bounds(noise, threshold)[1], keys) <= most, above=0)
