"""Testing without sampling: the values before noise in both neighbours, compared with the bounds stated.

It finds what no number of runs can: weights that are rounded up, filters in the wrong order, policies of unbounded
sensitivity, cells that are skipped, a delta that misses one value. It sees centres and laws, not the draws: only
sampling can find noise that is too small, or a threshold that is not applied as written.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from querycloak.audits.guarantees.mechanism import Data, ExactMechanism, Pair
from querycloak.audits.guarantees.steps import Number, Past, Step
from querycloak.privacy.explanation import group_delta
from querycloak.privacy.guarantee import Guarantee

OWN_KEYS, DELTA_OF_KEYS = "chance of own keys", "delta of which keys come out"
_ROUNDING = 1e-9
"""Chances are products of floats; lengths and counts are whole."""
_MOST_CELLS = 12


@dataclass(frozen=True)
class ExactFinding:
    """A number that a proof bounds, and its bound; `refuted` if it exceeds the bound."""

    instrument: str
    neighbours: str
    refuted: bool
    statement: str
    step: str
    measure: str
    value: float
    stated: float

    def to_json(self) -> Mapping[str, Any]:
        """The values that `audit method --json` shows."""
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
        """Worst finding of every step and measure, over all outcomes of earlier steps."""
        worst: dict[tuple[str, str], ExactFinding] = {}
        first = mechanism.steps(pair.having, Past()), mechanism.steps(pair.without, Past())
        for past in pasts(*first):
            having, without = first
            if past != Past():
                having, without = (mechanism.steps(data, past) for data in (pair.having, pair.without))
            for finding in _findings(having, without, pair, stated):
                before = worst.get((finding.step, finding.measure))
                if before is None or finding.value - finding.stated > before.value - before.stated:
                    worst[finding.step, finding.measure] = finding
        return list(worst.values())


def pasts(having: Sequence[Step], without: Sequence[Step]) -> list[Past]:
    """Possible outcomes of earlier steps: everything; a part; everything, with keys of both logs looking heavy.

    having, without: the steps of both logs if everything came out.
    """
    common = [set(one.centres) & set(other.centres) for one, other in zip(having, without, strict=False)]
    moved = [
        {cell for cell in cells if one.centres[cell] != other.centres[cell]}
        for cells, one, other in zip(common, having, without, strict=False)
    ]
    heavy = [
        Past("what the user touched looked heavy", lightened=frozenset().union(*moved)),
        Past("what both logs hold looked heavy", lightened=frozenset().union(*common)),
    ]
    parts = [Past("three in four came out", 0.75), Past("one in three came out", 1 / 3)]
    # Where nothing looked heavy, everything came out as in the first.
    return [Past(), *parts, *(past for past in heavy if past.lightened)]


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
    epsilon, delta = stated.numbers
    most = group_delta(pair.accounts, epsilon, delta) if pair.accounts > 1 else delta
    for group, loss in own.items():
        yield _finding(pair, Step(group or "all steps"), OWN_KEYS, -math.expm1(-loss), most)
    for one, other in zip(having, without, strict=True):
        delta_of_keys = _delta_by_keys(one, other, pair.accounts * epsilon)
        if delta_of_keys is not None:
            yield _finding(pair, one, DELTA_OF_KEYS, delta_of_keys, most)


def _distances(having: Step, without: Step, pair: Pair[Data]) -> Iterator[ExactFinding]:
    moved = _changes(having, without).values()
    accounts = pair.accounts
    yield _finding(pair, having, "L1", sum(moved), accounts * having.l1)
    # Lengths of several users add up, so squares grow with the square of their number.
    yield _finding(pair, having, "L2 squared", sum(each * each for each in moved), accounts**2 * having.l2_squared)
    yield _finding(pair, having, "one cell", max(moved, default=0), accounts * having.most)


def _changes(having: Step, without: Step) -> dict[str, Fraction]:
    """Change of each cell between the two logs."""
    cells = {*having.centres, *without.centres}
    return {cell: abs(Fraction(having.centres.get(cell, 0)) - Fraction(without.centres.get(cell, 0))) for cell in cells}


def _own_chance(having: Step, without: Step) -> float:
    """The chance that any cell comes out that one of the two logs does not have at all."""
    if having.passes is None and (having.threshold is None or having.noise is None):
        return 0.0
    cells = {*having.centres} ^ {*without.centres}
    missed = 0.0
    for cell in cells:
        centre = int(having.centres.get(cell, 0) or without.centres.get(cell, 0))
        before = max(step.passed_before.get(cell, 1.0) for step in (having, without) if cell in step.centres)
        missed += math.log1p(-min(before * _passes(having, centre), 1 - 2.0**-53))
    return -math.expm1(missed)


def _delta_by_keys(having: Step, without: Step, epsilon: float) -> float | None:
    """The delta at epsilon of the set of released cells, if a probability decides each; the larger of both directions.

    None if noise decides, or if the two logs differ in too many cells to enumerate.
    """
    moved = [cell for cell, change in _changes(having, without).items() if change]
    if having.passes is None or without.passes is None or len(moved) > _MOST_CELLS:
        return None
    laws = []
    for step in (having, without):
        law = np.ones(1)
        for cell in moved:
            chance = _passes(step, int(step.centres.get(cell, 0)))
            law = np.concatenate([law * (1 - chance), law * chance])
        laws.append(law)
    grown = math.exp(min(epsilon, 700.0))
    return max(float(np.maximum(one - grown * other, 0).sum()) for one, other in (laws, laws[::-1]))


def _passes(step: Step, centre: int) -> float:
    """The chance that a cell of this centre comes out."""
    if step.passes is not None:
        return step.passes(centre)
    if step.threshold is None or step.noise is None:
        return 1.0
    above = step.noise.tail(step.threshold + 1 - centre).up()
    if not step.tie_probability:
        return above
    return (1 - step.tie_probability) * above + step.tie_probability * step.noise.tail(step.threshold - centre).up()


def _finding(pair: Pair[Data], step: Step, measure: str, value: Number, most: Number) -> ExactFinding:
    measured, stated = float(value), float(most)
    refuted = measured > stated * (1 + _ROUNDING) if measure in (OWN_KEYS, DELTA_OF_KEYS) else value > most
    statement = f"{step.name}: {measure} is {measured:.6g}, stated is {stated:.6g}"
    return ExactFinding("exact", pair.name, refuted, statement, step.name, measure, measured, stated)
