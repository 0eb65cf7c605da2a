"""Testing by sampling: the largest epsilon that runs of a mechanism on two neighbours prove.

For a pair P, Q and each direction one event is chosen on one half of the runs and judged on the other. With p_low and
q_up one-sided Clopper-Pearson bounds of its probability under the one and the other, every (epsilon, delta) that holds
has p_low <= e^epsilon q_up + delta. So epsilon is at least ln((p_low - delta) / q_up), except with a chance of 10^-6
over all pairs, directions and bounds together. If that is below 0, it shows nothing.

The power of the test, the probability that it shows a fault that exists, follows from the plan alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv
from scipy.stats import binom, norm

from querycloak.audits.guarantees.events import CandidateEvent, Event, Features, candidates
from querycloak.audits.guarantees.mechanism import Data, Mechanism, Outcomes, Pair
from querycloak.privacy.calibration.accuracy import Stage
from querycloak.privacy.calibration.histogram_plan import HistogramPlan
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.explanation import group_delta
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural
from querycloak.privacy.sampling.exact import stated as as_written
from querycloak.privacy.sampling.noise import Laplace

ERROR = 1e-6
"""The chance that anything that is shown is wrong, over all pairs together."""
_BOUNDS_PER_PAIR = 4
_CLOSER_LOOKS = 40


def level(pairs: int) -> float:
    """The probability with which each bound may fail: two directions and two bounds for every pair."""
    return ERROR / (_BOUNDS_PER_PAIR * pairs)


def ceiling(judged: int, pairs: int) -> float:
    """The largest epsilon that this number of judged runs can show."""
    return max(0.0, math.log(judged / -math.log(level(pairs))))


def epsilon_low(
    happened: ArrayLike, other: ArrayLike, judged: float, delta: float, alpha: float
) -> NDArray[np.float64]:
    """The epsilon proven by an event that happened this often in the judged runs of one data set, and of the other."""
    p, q = np.asarray(happened, dtype=np.float64), np.asarray(other, dtype=np.float64)
    low = np.where(p > 0, betaincinv(np.maximum(p, 1e-9), judged - p + 1, alpha), 0.0)
    up = np.where(q < judged, betaincinv(q + 1, np.maximum(judged - q, 1e-9), 1 - alpha), 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        shown = np.log((low - delta) / up)
    return np.where((low > delta) & (shown > 0), shown, 0.0)


@dataclass(frozen=True)
class SamplingFinding:
    """Lower bound of epsilon that sampling shows on one pair, by this event; `refuted` if it exceeds `allowed`."""

    neighbours: str
    refuted: bool
    epsilon: float
    delta: float
    allowed: float
    accounts: int
    event: str
    runs: int
    judged: int
    happened: tuple[int, int]
    """Number of judged runs with the event, under the likely and the unlikely law."""

    @property
    def per_account(self) -> float:
        """Epsilon for one account, to compare pairs by."""
        return self.epsilon / self.accounts

    def to_json(self) -> Mapping[str, Any]:
        """The values that `audit method --json` shows."""
        return {
            "neighbours": self.neighbours,
            "accounts": self.accounts,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "allowed": self.allowed,
            "event": self.event,
            "judged": self.judged,
            "happened": list(self.happened),
        }


@dataclass(frozen=True)
class SamplingTester:
    """Tests by sampling.

    runs: of each data set; one half chooses the event, the other judges it. pairs: number of pairs tested in all.
    """

    runs: int
    pairs: int

    def __post_init__(self) -> None:
        natural("runs", self.runs, "say how often to draw, such as 20,000")
        natural("pairs", self.pairs, "say how many pairs are tested in all")

    @property
    def judged(self) -> int:
        """The runs that judge."""
        return self.runs // 2

    @property
    def ceiling(self) -> float:
        """The largest epsilon that can be shown."""
        return ceiling(self.judged, self.pairs)

    def test(self, mechanism: Mechanism[Data], pair: Pair[Data], stated: Guarantee) -> Sequence[SamplingFinding]:
        """One finding: the better of the two directions."""
        having, without = (mechanism.outcomes(data, self.runs) for data in (pair.having, pair.without))
        return [self.judge(having, without, pair, stated)]

    def judge(self, having: Outcomes, without: Outcomes, pair: Pair[Data], stated: Guarantee) -> SamplingFinding:
        """The finding on outcomes that were drawn already: the better of the two directions."""
        epsilon, delta = stated.numbers
        allowed = float(pair.accounts * as_written(epsilon))
        if pair.accounts > 1:  # which rounds up to what people can read
            delta = group_delta(pair.accounts, epsilon, delta)
        names = ("with the user", "without the user")
        if stated.neighbours == "replace-query":
            names = ("with the queries that replace others", "with the queries that are replaced")
        directions = [((having, without), names[0]), ((without, having), names[1])]
        return max(
            (self._direction(*both, pair, allowed, delta, where) for both, where in directions),
            key=lambda finding: finding.epsilon,
        )

    def _direction(
        self, likely: Outcomes, unlikely: Outcomes, pair: Pair[Data], allowed: float, delta: float, where: str
    ) -> SamplingFinding:
        features = Features.of(likely, unlikely, self.runs - self.judged)
        event = self._chosen(features, delta)
        one, other = (int(event.happened(side).sum()) for side in features.judging())
        shown = float(epsilon_low(one, other, self.judged, delta, level(self.pairs)))
        statement = f"{event}; more likely {where}" if shown else "nothing is shown"
        return SamplingFinding(
            pair.name, shown > allowed, shown, delta, allowed, pair.accounts, statement, self.runs, self.judged,
            (one, other),
        )  # fmt: skip

    def _chosen(self, features: Features, delta: float) -> Event:
        """The event that would show most, by the runs that choose."""
        events = candidates(features)
        rough = [self._rough(each, delta) for each in events]
        best = np.argsort(rough)[::-1][:_CLOSER_LOOKS]
        alpha = level(self.pairs)
        shown = [
            float(
                epsilon_low(events[i].likely * self.judged, events[i].unlikely * self.judged, self.judged, delta, alpha)
            )
            for i in best
        ]
        chosen: CandidateEvent = events[best[int(np.argmax(shown))]]
        return chosen.event

    def _rough(self, candidate: CandidateEvent, delta: float) -> float:
        """About what `epsilon_low` gives, without its integrals, so that hundreds of candidates are ranked fast."""
        deviations = math.sqrt(-2 * math.log(level(self.pairs)))
        p = candidate.likely - deviations * math.sqrt(max(candidate.likely, 1e-9) / self.judged)
        q = candidate.unlikely + deviations * math.sqrt(candidate.unlikely / self.judged)
        return math.log(max(p - delta, 1e-12)) - math.log(q - math.log(level(self.pairs)) / self.judged)


_TAIL = 1e-9
_POINTS = 81
_BISECTIONS = 24
_LIKELY = 0.95
_EVENTS = 10
_STEPS = 8
_BEYOND_CEILING = 3.0
"""Largest excess over the ceiling of an epsilon that runs show, cut at the ceiling."""


def power(likely: float, unlikely: float, tester: SamplingTester, epsilon: float, delta: float) -> float:
    """The chance that an event of these probabilities shows more than epsilon."""
    judged, alpha = tester.judged, level(tester.pairs)
    others = np.arange(binom.ppf(_TAIL, judged, unlikely), binom.isf(_TAIL, judged, unlikely) + 1)
    up = np.where(others < judged, betaincinv(others + 1, np.maximum(judged - others, 1e-9), 1 - alpha), 1.0)
    needed = delta + math.exp(min(epsilon, 700.0)) * up
    # The least number of times that the event must happen, found by halving: its lower bound grows with it.
    low, high = np.zeros(len(others)), np.full(len(others), judged + 1.0)
    for _ in range(_BISECTIONS):
        middle = np.floor((low + high) / 2)
        enough = betaincinv(np.maximum(middle, 1e-9), np.maximum(judged - middle + 1, 1e-9), alpha) > needed
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return float((binom.pmf(others, judged, unlikely) * binom.sf(high - 1, judged, likely)).sum())


def smallest_shown(tester: SamplingTester, stated: Guarantee) -> float:
    """The smallest epsilon that the runs would have shown to exceed the stated one, with a chance of 95 %.

    For the event that is best suited: one that has this very epsilon at the stated delta. Infinite if no epsilon would
    be shown: the stated one is above the ceiling, or near it.
    """
    epsilon, delta = stated.numbers
    most = tester.ceiling + _BEYOND_CEILING

    def is_shown(larger: float) -> bool:
        events = [(float(p), float(p - delta) * math.exp(-larger)) for p in np.geomspace(0.01, 0.999, _EVENTS)]
        return any(power(p, q, tester, epsilon, delta) >= _LIKELY for p, q in events if q > 0)

    if epsilon >= most or not is_shown(most):
        return math.inf
    low, high = epsilon, most
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if is_shown(middle) else (middle, high)
    return high


def power_if_noise_is_halved(plan: TablePlan, shared: int, tester: SamplingTester, stated: Guarantee) -> float:
    """The chance to show that published counts have half their noise, by a user with this number of shared keys."""
    epsilon, delta = stated.numbers
    if isinstance(plan, WeightedPlan) and plan.counting is not None:
        events = _gaussian_events(math.sqrt(min(shared, plan.counted_per_user)) * 2 / plan.counting.sigma)
    elif isinstance(plan, HistogramPlan) and isinstance(plan.noise, Laplace):
        events = _laplace_events(plan.noise.scale / 2, shared)
    elif isinstance(plan, HistogramPlan):
        events = _gaussian_events(math.sqrt(shared) * 2 / plan.noise.size)
    else:
        return 0.0
    return max(power(p, q, tester, epsilon, delta) for p, q in events)


def power_if_threshold_is_off_by_one(plan: TablePlan, own: int, tester: SamplingTester, stated: Guarantee) -> float:
    """The chance to show that keys come out at a threshold of one less, by a user with this number of own keys."""
    epsilon, delta = stated.numbers
    if not isinstance(plan, HistogramPlan):
        return 0.0
    passes = Stage(plan.noise, plan.threshold - 1, plan.tie_probability).passes(1)
    return power(-math.expm1(own * math.log1p(-passes)), 0.0, tester, epsilon, delta)


def _laplace_events(scale: float, keys: int) -> Iterable[tuple[float, float]]:
    """Chances, under both laws, that 1, 2, ... or more keys exceed the middle between their two centres."""
    up = 1 / (1 + math.exp(-1 / scale))
    return [
        (float(binom.sf(least - 1, keys, up)), float(binom.sf(least - 1, keys, 1 - up))) for least in range(1, keys + 1)
    ]


def _gaussian_events(distance: float) -> Iterable[tuple[float, float]]:
    """Chances, under both laws, that the sum of all counts reaches a point; distance: of the centres, in deviations."""
    points = np.linspace(-1, distance + 3, _POINTS)
    return [(float(norm.sf(point - distance)), float(norm.sf(point))) for point in points]
