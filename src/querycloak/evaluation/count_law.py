"""Probability law of a published count given the true one, from a release's card alone."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError, QuerycloakError
from querycloak.methods.registry import METHODS
from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage, TableAccuracy, at_least
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from querycloak.releases.release import Release

FloatArray = NDArray[np.float64]
_TWO_SIDED_95 = 1.959963984540054
"""The 97.5 % point of the normal law: a 95 % margin is this many standard deviations."""


@dataclass(frozen=True)
class CountLaw:
    """Noise of a published count, and the chance that a key is published at all.

    noise: None if counts are exact. threshold: a count is published only above it, by the same draw; None if another
    draw selects. tie_probability: the chance of a count that equals the threshold. route: the selection; None if the
    card does not determine it: then every key may be absent.
    """

    noise: Noise | None
    threshold: int | None = None
    tie_probability: float = 0.0
    route: ReleaseProbability | None = None
    least_users: int | None = None
    """Users from which a rule without noise publishes every key; None if there is no such rule."""

    def beyond(self, probability: float) -> int:
        """Return a distance that noise exceeds, on either side, with at most this probability."""
        if self.noise is None:
            return 0
        if isinstance(self.noise, Laplace):
            return math.ceil(self.noise.size * math.log(2 / probability)) + 1
        return math.ceil(self.noise.size * math.sqrt(2 * math.log(4 / probability))) + 1

    @property
    def steady_from(self) -> int:
        """The true count from which the threshold no longer shapes the published count; 0 without threshold."""
        return 0 if self.threshold is None else self.threshold + self._reach + 1

    def published(self, true: int) -> tuple[int, FloatArray]:
        """Return the smallest published count considered and the probabilities from there on, given publication."""
        if self.noise is None:
            return true, np.ones(1)
        values = np.arange(-self._reach, self._reach + 1) + true
        law = self._masses.copy()
        if self.threshold is not None:
            law[values < self.threshold] = 0.0
            law[values == self.threshold] *= self.tie_probability
            if law.sum() <= 0:  # a true count far below: the first values above the threshold, as likely as noise says
                return self._far_below(true, self.noise)
        return int(values[0]), law / law.sum()

    def _far_below(self, true: int, noise: Noise) -> tuple[int, FloatArray]:
        """Noise beyond a distant threshold: geometric for Laplace; for Gaussian at least as short."""
        start = (self.threshold or 0) + 1
        size = noise.size if isinstance(noise, Laplace) else noise.size**2 / (start - true)
        ratio = math.exp(-1 / size)
        law = ratio ** np.arange(math.ceil(40 * size) + 1)
        return start, law / law.sum()

    def plausible(self, count: int, probability: float) -> tuple[int, int]:
        """Return the smallest and largest true count under which `count` is not rarer, either way, than this."""
        slack = self.beyond(probability)
        if self.threshold is None:
            return max(0, count - slack), count + slack
        # Given that it passed a threshold, a count may lie further above its true count.
        lower = range(max(0, count - slack))
        low = bisect_left(lower, probability / 2, key=lambda true: self._published_at_least(count, true))
        return low, count + slack

    def _published_at_least(self, count: int, true: int) -> float:
        start, law = self.published(true)
        return float(law[max(0, count - start) :].sum())

    def at_least(self, count: int, true: int) -> float:
        """Return an upper bound of the chance that at least `count` is published for this true count."""
        return float(count <= true) if self.noise is None else at_least(self.noise, count - true)[1]

    def absent(self, true: int) -> float:
        """Return an upper bound of the chance that no row is published for this true count."""
        if self.least_users is not None:
            return float(true < self.least_users)
        return 1.0 if self.route is None else 1.0 - self.route.comes_out(true * self.route.least)

    @property
    def _reach(self) -> int:
        return self.beyond(1e-12)

    @cached_property
    def _masses(self) -> FloatArray:
        size = self.noise.size if self.noise is not None else 1.0
        places = np.arange(-self._reach, self._reach + 1)
        exponents = np.abs(places) / size if isinstance(self.noise, Laplace) else 0.5 * (places / size) ** 2
        masses: FloatArray = np.exp(-exponents)
        masses /= masses.sum()
        return masses


def count_law(release: Release, table: str) -> CountLaw:
    """Return the law of a table's counts, made again from the options on the card."""
    accuracy = release.reach.get(table)
    if release.counts == "exact":
        least = accuracy.users50 if accuracy is not None else None
        return CountLaw(None, least_users=None if least is None else least.high)
    route = _route(release, table, accuracy)
    if route is not None:
        return _law_of_route(route)
    if accuracy is None or accuracy.margin95 is None:
        raise ParameterError(f"the card does not say how exact the counts of {table} are; nothing can be compared")
    return CountLaw(Gaussian(max(accuracy.margin95.high / _TWO_SIDED_95, 1e-3)))


def _law_of_route(route: ReleaseProbability) -> CountLaw:
    if route.published_noise is not None:
        return CountLaw(route.published_noise, route=route)
    last = route.stages[-1]
    if not isinstance(last, Stage):
        raise ParameterError("the release has no counts to compare; release it with counts")
    return CountLaw(last.noise, last.threshold, last.tie_probability, route)


def _route(release: Release, table: str, accuracy: TableAccuracy | None) -> ReleaseProbability | None:
    """Return the selection of a table; where the log chose it, the one whose accuracy stands on the card."""
    if release.method not in METHODS or release.options is None:
        return None
    try:
        routes = METHODS[release.method](**release.options).routes().get(table, ())
    except (QuerycloakError, TypeError):
        return None
    for route in routes:
        same = TableAccuracy.of_route(route, "")
        if accuracy is None or (same.margin95, same.users50, same.users95) == (
            accuracy.margin95, accuracy.users50, accuracy.users95,
        ):  # fmt: skip
            return route
    return None
