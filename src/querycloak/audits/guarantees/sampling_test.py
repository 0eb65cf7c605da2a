"""Testing by sampling: the largest epsilon that runs of a mechanism on two neighbours prove.

For a pair P, Q and each direction one event is chosen on one half of the runs and judged on the other. With p_low and
q_up one-sided Clopper-Pearson bounds of its probability under the one and the other, every (epsilon, delta) that holds
has p_low <= e^epsilon q_up + delta. So epsilon is at least ln((p_low - delta) / q_up), except with a chance of 10^-6
over all pairs, directions and bounds together. If that is below 0, it shows nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from querycloak.audits.guarantees.events import CandidateEvent, Event, Features, candidates
from querycloak.audits.guarantees.mechanism import Data, Mechanism, Outcomes, Pair, PairFinding
from querycloak.privacy.explanation import group_delta
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural
from querycloak.privacy.sampling.exact import stated as as_written

__all__ = ["SamplingFinding", "SamplingTester", "ceiling", "epsilon_low", "level"]

ERROR = 1e-6
"""The chance that anything that is shown is wrong, over all pairs together."""
_BOUNDS_PER_PAIR = 4
_CLOSER_LOOKS = 40


def level(pairs: int) -> float:
    """The chance by which each bound may fail: two directions and two bounds for every pair."""
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
class SamplingFinding(PairFinding):
    """Lower bound of epsilon that sampling shows on one pair, at this delta, by this event."""

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
        """As `audit method --json` shows it."""
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
        """The same for outcomes that are there already."""
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
            "sampling", pair.name, shown > allowed, statement,
            shown, delta, allowed, pair.accounts, statement, self.runs, self.judged, (one, other),
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
