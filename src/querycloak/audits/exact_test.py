"""The instrument that needs no sampling: what noise is added to in both neighbours, against the bounds stated.

It catches what no number of runs can: weights that are rounded up, filters in the wrong order, policies of unbounded
sensitivity, cells that are passed over, a delta that misses one value. It sees centres and laws, not the draws: whether
noise is as large as it is said to be, and whether a threshold is applied as it is written, is for sampling to find.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from querycloak.audits.mechanism import Data, ExactMechanism, Finding, Pair
from querycloak.methods.noiseless import Number, Past, Step
from querycloak.privacy.explanation import group_delta
from querycloak.privacy.guarantee import Guarantee

__all__ = ["ExactFinding", "ExactTester", "pasts"]

_ROUNDING = 1e-9
"""Chances are products of floats; lengths and counts are whole."""


@dataclass(frozen=True)
class ExactFinding(Finding):
    """A number that a proof bounds, and its bound."""

    step: str
    measure: str
    value: float
    stated: float

    def to_json(self) -> Mapping[str, Any]:
        """As `audit method --json` shows it."""
        return {
            "instrument": self.instrument,
            "neighbours": self.neighbours,
            "step": self.step,
            "measure": self.measure,
            "value": self.value,
            "stated": self.stated,
            "holds": not self.refuted,
        }


@dataclass(frozen=True)
class ExactTester:
    """Tests by what noise is added to."""

    def test(self, mechanism: ExactMechanism[Data], pair: Pair[Data], stated: Guarantee) -> Sequence[ExactFinding]:
        """For every step and measure the worst that was found, whatever earlier steps released."""
        worst: dict[tuple[str, str], ExactFinding] = {}
        for past in pasts(mechanism, pair):
            having, without = (mechanism.steps(data, past) for data in (pair.having, pair.without))
            for finding in _findings(having, without, pair, stated):
                before = worst.get((finding.step, finding.measure))
                if before is None or finding.value - finding.stated > before.value - before.stated:
                    worst[finding.step, finding.measure] = finding
        return list(worst.values())


def pasts(mechanism: ExactMechanism[Data], pair: Pair[Data]) -> list[Past]:
    """What earlier steps may have released: everything; a part; all, but what both logs hold looked heavy."""
    first = Past()
    having, without = (mechanism.steps(data, first) for data in (pair.having, pair.without))
    common = [set(one.centres) & set(other.centres) for one, other in zip(having, without, strict=False)]
    moved = [
        {cell for cell in cells if one.centres[cell] != other.centres[cell]}
        for cells, one, other in zip(common, having, without, strict=False)
    ]
    return [
        first,
        Past("three in four came out", 0.75),
        Past("one in three came out", 1 / 3),
        Past("what the user touched looked heavy", lightened=frozenset().union(*moved)),
        Past("what both logs hold looked heavy", lightened=frozenset().union(*common)),
    ]


def _findings(
    having: Sequence[Step], without: Sequence[Step], pair: Pair[Data], stated: Guarantee
) -> Iterator[ExactFinding]:
    own: dict[str, float] = {}
    for one, other in zip(having, without, strict=True):
        yield from (each for each in _distances(one, other, pair) if each.stated < math.inf)
        for each in (one, other):
            for limit in each.limits:
                yield _finding(pair, each, limit.what, limit.value, limit.most)
        own[one.group] = own.get(one.group, 0.0) - math.log1p(-min(_own_chance(one, other), 1 - 2.0**-53))
    # A group of accounts may bring out its own keys more often: group_delta says how often.
    most = group_delta(pair.accounts, *stated.numbers) if pair.accounts > 1 else stated.numbers[1]
    for group, loss in own.items():
        yield _finding(pair, Step(group or "all steps"), "chance of own keys", -math.expm1(-loss), most)


def _distances(having: Step, without: Step, pair: Pair[Data]) -> Iterator[ExactFinding]:
    moved = _moved(having, without)
    accounts = pair.accounts
    yield _finding(pair, having, "L1", sum(moved), accounts * having.l1)
    # Lengths of several users add up, so squares grow with the square of their number.
    yield _finding(pair, having, "L2 squared", sum(each * each for each in moved), accounts**2 * having.l2_squared)
    yield _finding(pair, having, "one cell", max(moved, default=0), accounts * having.most)


def _moved(having: Step, without: Step) -> list[Fraction]:
    cells = {*having.centres, *without.centres}
    return [abs(Fraction(having.centres.get(cell, 0)) - Fraction(without.centres.get(cell, 0))) for cell in cells]


def _own_chance(having: Step, without: Step) -> float:
    """The chance that any cell comes out that one of the two logs does not have at all."""
    if having.passes is None and (having.threshold is None or having.noise is None):
        return 0.0
    cells = {*having.centres} ^ {*without.centres}
    missed = 0.0
    for cell in cells:
        centre = int(having.centres.get(cell, 0) or without.centres.get(cell, 0))
        missed += math.log1p(-min(_passes(having, centre), 1 - 2.0**-53))
    return -math.expm1(missed)


def _passes(step: Step, centre: int) -> float:
    """The chance that a cell of this centre comes out."""
    if step.passes is not None:
        return step.passes(centre)
    if step.threshold is None or step.noise is None:
        return 1.0
    above = step.noise.tail(step.threshold + 1 - centre).up()
    if not step.coin:
        return above
    return (1 - step.coin) * above + step.coin * step.noise.tail(step.threshold - centre).up()


def _finding(pair: Pair[Data], step: Step, measure: str, value: Number, most: Number) -> ExactFinding:
    found, stated = float(value), float(most)
    refuted = found > stated * (1 + _ROUNDING) if measure == "chance of own keys" else value > most
    statement = f"{step.name}: {measure} is {found:.6g}, stated is {stated:.6g}"
    return ExactFinding("exact", pair.name, refuted, statement, step.name, measure, found, stated)
