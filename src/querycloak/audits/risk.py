"""Shares with their uncertainty, and the risk: what an attack gains beyond what it gains on people outside the log.

As Anonymeter measures it (Giomi, Boenisch, Wehmeyer and Tasnadi, PoPETs 2023): risk = (main - control) / (1 - control),
where main is the share of attacks that succeed on people in the log, control that on people who are not. The
uncertainty of a share is Wilson's, that of the risk follows by error propagation.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

Z_95 = 1.959963984540054  # both sides of a normal law, 95 %


@dataclass(frozen=True)
class Share:
    """A share of cases: as counted, and Wilson's centre with half the width of its 95 % interval."""

    value: float
    centre: float
    error: float
    cases: int

    @classmethod
    def of(cls, hits: float, cases: int) -> Share:
        """A number of hits among a number of cases; ties that count half make hits that are not whole."""
        if cases <= 0:
            return cls(0.0, 0.5, 0.5, 0)
        squared = Z_95 * Z_95
        centre = (hits + squared / 2) / (cases + squared)
        error = Z_95 / (cases + squared) * math.sqrt(hits * (cases - hits) / cases + squared / 4)
        return cls(hits / cases, centre, error, cases)

    @classmethod
    def mean(cls, shares: Sequence[Share]) -> Share:
        """The mean of shares of the same people in several draws of noise; a single one as it is.

        Its error has two sources: these people may be luckier than others, and so may these draws (Student's t).
        """
        if len(shares) == 1:
            return shares[0]
        from scipy.stats import t

        number = len(shares)
        by_people = statistics.fmean(each.error for each in shares)
        by_draws = t.ppf(0.975, number - 1) * statistics.stdev(each.value for each in shares) / math.sqrt(number)
        value = statistics.fmean(each.value for each in shares)
        centre = statistics.fmean(each.centre for each in shares)
        return cls(value, centre, math.hypot(by_people, float(by_draws)), sum(each.cases for each in shares))

    @classmethod
    def exactly(cls, value: float) -> Share:
        """A share that is known, such as the chance of a guess."""
        return cls(value, value, 0.0, 0)


@dataclass(frozen=True)
class Risk:
    """What an attack gains beyond what anybody can do, with its 95 % interval; 0 is nothing, 1 everything."""

    value: float
    low: float
    high: float


def risk(main: Share, control: Share) -> Risk:
    """Return the risk; below 0 is 0."""
    value = _residual(main.value, control.value)
    centre = _residual(main.centre, control.centre)
    left = max(1 - control.centre, 1e-12)
    by_main = main.error / left
    by_control = control.error * (main.centre - 1) / left**2
    error = math.hypot(by_main, by_control)
    # Wilson's centre lies nearer to one half than the share itself, which must stay within its own interval.
    return Risk(_unit(value), _unit(min(centre - error, value)), _unit(max(centre + error, value)))


def _residual(main: float, control: float) -> float:
    return (main - control) / (1 - control) if control < 1 else 0.0


def _unit(number: float) -> float:
    return min(max(number, 0.0), 1.0)
