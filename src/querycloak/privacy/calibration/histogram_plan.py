"""The plan of a thresholded histogram: from noise, threshold and bound to a guarantee (proof: histogram.md)."""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from querycloak.privacy.accounting.draws import Anything, Histogram
from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage, rows_of_one_user
from querycloak.privacy.calibration.bisection import FOUR_DIGITS, smallest_number
from querycloak.privacy.calibration.deltas import any_passes, histogram_delta, laplace_delta, tail_bounds
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.parameters import (
    LARGEST_EPSILON,
    checked_bound,
    number_above_zero,
    refuse,
    whole,
)
from querycloak.privacy.sampling.exact import four_digits_up, rounded_up, stated
from querycloak.privacy.sampling.noise import Laplace, Noise
from querycloak.sentence import Sentence

LEAST_EPSILON = 1e-9
"""Lower end of the search for an epsilon."""


@dataclass(frozen=True)
class HistogramPlan(TablePlan):
    """A thresholded histogram: noise, threshold and bound, and the guarantee that follows.

    published_noise: that of the second draw; None if the draw that decides is published.
    """

    noise: Noise
    threshold: int
    per_user: int
    epsilon: float
    delta: float
    published_noise: Noise | None = None
    tie_probability: float = 0.0
    """The chance of a key whose noisy count is the threshold itself."""
    times: Times | None = None
    """Bound on one user's clicks in the second draw if clicks are counted; None if users are."""

    @property
    def selection(self) -> str:
        """The law of the noise that decides."""
        return self.noise.law

    @property
    def counts(self) -> str:
        """Kind of counts: the numbers that decide are published, or fresh draws."""
        return "one-draw" if self.published_noise is None else "fresh-draw"

    def parameters(self) -> dict[str, Any]:
        """Return the parameters on the card."""
        return {
            "selection": self.selection,
            "noise": self.noise.size,
            "threshold": self.threshold,
            "coin": self.tie_probability or None,
            "per_user": self.per_user,
            "two_draws": self.published_noise is not None,
            "fresh_noise": None if self.published_noise is None else self.published_noise.size,
        }

    def draw(self) -> Histogram | Anything:
        """Return its draws, as a charge records them; of counts of clicks only the guarantee (claim 9)."""
        if self.times is not None:
            return Anything(self.epsilon, self.delta)
        return Histogram(self.noise, self.threshold, self.per_user, self.published_noise, self.tie_probability)

    def gain(self, keys: int) -> Fraction:
        """Return 1 for each key that counts, over the count that a key needs."""
        return min(keys, self.per_user) / (self.threshold + 1 - stated(self.tie_probability))

    def route(self) -> ReleaseProbability:
        """Return one stage; every user adds 1."""
        return ReleaseProbability(
            (Stage(self.noise, self.threshold, self.tie_probability),), published_noise=self.published_noise
        )

    @property
    def rows_of_one_user(self) -> float:
        """The bound on keys, times the chance of a key with a count of 1."""
        return rows_of_one_user(self.noise, self.threshold, self.per_user, self.tie_probability)

    def _because(self) -> str:
        published = "and this noisy count is published"
        if self.published_noise is not None and self.times is not None:
            most = f"at most {self.times.per_key} of a user for a key and {self.times.per_user} in all"
            published = f"and its clicks, {most}, are published with fresh {self.published_noise.words}"
        elif self.published_noise is not None:
            published = f"and a second count is published, with fresh {self.published_noise.words}"
        tie = f" (or, with probability {self.tie_probability:g}, equals it)" if self.tie_probability else ""
        keys = f"{self.per_user} key{'s' * (self.per_user > 1)}"
        return (
            f"each user counts once per key, for at most {keys}; a key comes out if its count, with "
            f"{self.noise.words}, exceeds {self.threshold}{tie}, {published} (privacy/calibration/histogram.md)"
        )


def price(
    noise: Noise,
    threshold: int,
    per_user: int,
    *,
    published_noise: Noise | None = None,
    epsilon: float | None = None,
    tie_probability: float = 0.0,
) -> HistogramPlan:
    """Return what a given noise and threshold guarantee, perhaps with a tie probability (Laplace noise only).

    Gaussian noise has a delta for every epsilon. Unless one is given, it is the smallest epsilon at which
    delta is what the threshold alone makes it.
    """
    threshold = whole("threshold", threshold, "give the count K that a key must exceed", least=0)
    per_user = checked_bound(per_user)
    if published_noise is not None and type(published_noise) is not type(noise):
        refuse(
            "published_noise",
            "noise of the same law as the first",
            published_noise,
            "take Laplace twice or Gaussian twice",
        )
    if epsilon is not None:
        epsilon = number_above_zero(
            "epsilon", epsilon, "give a number such as 1, or leave it out", most=LARGEST_EPSILON
        )
    if isinstance(noise, Laplace) and (published_noise is None or isinstance(published_noise, Laplace)):
        plan = _laplace_price(noise, threshold, per_user, published_noise, epsilon, tie_probability)
    else:
        plan = _gaussian_price(noise, threshold, per_user, published_noise, epsilon)
    check_delta(plan.delta, threshold)
    return plan


def check_delta(delta: float, threshold: int) -> None:
    """Refuse a threshold so low that delta reaches 1: it promises nothing."""
    if delta >= 1:
        rule = f"high enough for delta to stay below 1 (it is {delta:.3g})"
        refuse("threshold", rule, threshold, Sentence("raise {threshold} or lower {noise}"))


def _laplace_price(
    noise: Laplace,
    threshold: int,
    per_user: int,
    published_noise: Laplace | None,
    epsilon: float | None,
    tie_probability: float,
) -> HistogramPlan:
    exact = per_user / Fraction(noise.scale) + (per_user / Fraction(published_noise.scale) if published_noise else 0)
    if epsilon is None or stated(epsilon) >= exact:
        delta = laplace_delta(noise, threshold, per_user, tie_probability)
        return HistogramPlan(
            noise, threshold, per_user, epsilon or rounded_up(exact), delta, published_noise, tie_probability
        )
    if published_noise is not None and published_noise != noise:
        refuse("epsilon", f"at least {rounded_up(exact)!r} for two different scales", epsilon, "or leave it out")
    delta = histogram_delta(
        noise, threshold, per_user, epsilon, draws=2 if published_noise else 1, tie_probability=tie_probability
    )
    return HistogramPlan(noise, threshold, per_user, epsilon, delta, published_noise, tie_probability)


def _gaussian_price(
    noise: Noise, threshold: int, per_user: int, published_noise: Noise | None, epsilon: float | None
) -> HistogramPlan:
    if published_noise is not None and published_noise != noise:
        refuse(
            "published_noise",
            f"the same noise as the first, {noise}",
            published_noise,
            "two Gaussian draws share one sigma",
        )
    draws = 2 if published_noise else 1
    check_delta(any_passes(tail_bounds(noise, threshold)[1], per_user), threshold)
    if epsilon is None:
        epsilon = _least_epsilon(noise, threshold, per_user, draws)
    delta = histogram_delta(noise, threshold, per_user, epsilon, draws=draws)
    return HistogramPlan(noise, threshold, per_user, epsilon, delta, published_noise)


def _least_epsilon(noise: Noise, threshold: int, per_user: int, draws: int) -> float:
    """Return the smallest epsilon, to four digits, at which noise adds nothing to the threshold's delta."""
    least_delta = max(any_passes(tail_bounds(noise, threshold)[1], per_user), 1e-130)

    def fits(epsilon: float) -> bool:
        return histogram_delta(noise, threshold, per_user, epsilon, draws=draws, most=least_delta) <= least_delta

    return four_digits_up(smallest_number(fits, ratio=FOUR_DIGITS, floor=LEAST_EPSILON))
