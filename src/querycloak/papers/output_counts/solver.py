"""From constraints and an objective to output counts, with a certified gap (optimal.md, steps 3 and 4)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from querycloak.methods.optimal.holdings import Holdings
from querycloak.methods.optimal.objectives import FloatArray, Objective, objective
from querycloak.papers.output_counts.constraints import Packing, PairLimit, packing
from querycloak.papers.output_counts.linear_relaxation import Relaxation, relax
from querycloak.papers.output_counts.whole_counts import eliminate, exchange, fill, heaviest
from querycloak.privacy.sampling.randomness import IntArray

_NEARLY_WHOLE = 1e-4
_FEW_ENTRIES = 200_000
"""Counts of users and pairs up to which the simplex method takes seconds."""
_ROUNDS_PER_UNIT, _ROUNDS_PER_ENTRY, _ENOUGH_ROUNDS, _MOST_ROUNDS = 200, 100, 200_000, 3_000_000


@dataclass(frozen=True, eq=False)
class Solution:
    """Whole counts and what is known about better ones; all of it is private output.

    relaxed: the optimum of the paper's linear program, a vertex. floored: what flooring it leaves.
    bound: no whole counts within the constraints are worth more.
    """

    counts: IntArray
    value: float
    relaxed: Relaxation
    floored: IntArray
    bound: float

    @property
    def gap(self) -> float:
        """Distance of the value from the best, as a share of the bound (for a distance, absolute)."""
        missing = max(0.0, self.bound - self.value)
        return missing / self.bound if self.bound > 0 else missing

    def remark(self, name: str) -> str:
        """One line for the person who runs it."""
        what = {"size": "rows", "diversity": "distinct pairs", "queries": "distinct queries"}.get(name)
        if what is not None:
            return f"{self.value:,.0f} {what}; no choice has more than {self.bound:,.0f} (gap {self.gap:.1%})"
        if name == "frequent":
            return f"sum of support distances {-self.value:.4f}; no choice has less than {max(0.0, -self.bound):.4f}"
        return f"value {self.value:.4f}; no choice has more than {self.bound:.4f}"


def solve(rows: Packing, goal: Objective, *, begun: IntArray | None = None) -> Solution:
    """The best counts that we find: never worth less than the floored relaxation, nor than SPE where it applies.

    On large logs the relaxation is PDLP's, which is no vertex, and rounded down it keeps less than a vertex.
    """
    relaxed = relax(rows, goal, whole=False, vertex=rows.row.size <= _FEW_ENTRIES)
    tight = relax(rows, goal, whole=True)
    floored = _floored(rows, relaxed)
    starts = [counts for counts in _candidates(rows, goal, relaxed, tight, floored, begun) if rows.holds(counts)]
    if goal.total_exact:
        starts = [counts for counts in starts if int(counts.sum()) == goal.total]
    starts.sort(key=goal.value, reverse=True)
    # Two beginnings, for a search may end where the other does not.
    best = max((exchange(rows, goal, begin, _rounds(rows, begin)) for begin in starts[:2]), key=goal.value)
    bound = min(relaxed.bound, tight.bound)
    if goal.size == 1.0:  # a number of rows or pairs: whole
        bound = float(math.floor(bound + 1e-6))
    return Solution(best, goal.value(best), relaxed, floored, max(bound, goal.value(best)))


def solve_by_floor(rows: Packing, goal: Objective) -> Solution:
    """As published for O-UMP and F-UMP: the linear program, rounded down; a total that was asked for is missed."""
    relaxed = relax(rows, goal, whole=False, vertex=True)
    floored = _floored(rows, relaxed)
    return Solution(floored, goal.value(floored), relaxed, floored, max(relaxed.bound, goal.value(floored)))


def solve_by_spe(rows: Packing, goal: Objective) -> Solution:
    """As published for D-UMP: drop the pair that tells most of one user until all constraints hold."""
    relaxed = relax(rows, goal, whole=True)
    counts = eliminate(rows)
    return Solution(
        counts, goal.value(counts), relaxed, _floored(rows, relaxed), max(relaxed.bound, goal.value(counts))
    )


def _floored(rows: Packing, relaxed: Relaxation) -> IntArray:
    """The counts of a relaxation rounded down; what is a whole number but for the solver's error counts as one."""
    nearly: IntArray = np.floor(relaxed.counts + _NEARLY_WHOLE).astype(np.int64)
    return within_rows(rows, np.minimum(nearly, rows.most))


def within_rows(rows: Packing, counts: IntArray) -> IntArray:
    """The counts without the units that overload a row by a solver's tolerance: the heaviest unit of each goes."""
    counts = counts.copy()
    owner = np.repeat(np.arange(rows.pairs), np.diff(rows.starts))
    loads = rows.loads(counts)
    while (loads > rows.capacity).any():
        worst = int(np.argmax(loads - rows.capacity))
        entries = np.flatnonzero((rows.row == worst) & (counts[owner] > 0))
        pair = int(owner[entries[np.argmax(rows.weight[entries])]])
        counts[pair] -= 1
        own = slice(rows.starts[pair], rows.starts[pair + 1])
        loads[rows.row[own]] -= rows.weight[own]
    return counts


def _rounds(rows: Packing, begun: IntArray) -> int:
    """More where there is more to exchange; a few seconds' worth at most."""
    few = min(_ROUNDS_PER_ENTRY * rows.row.size, _ENOUGH_ROUNDS)
    return min(max(_ROUNDS_PER_UNIT * int(begun.sum()), few), _MOST_ROUNDS)


def _candidates(
    rows: Packing, goal: Objective, relaxed: Relaxation, tight: Relaxation, floored: IntArray, begun: IntArray | None
) -> Iterator[IntArray]:
    nothing = np.zeros(rows.pairs, dtype=np.int64)
    lightest = np.argsort(heaviest(rows), kind="stable")
    cheapest = np.lexsort((heaviest(rows), tight.price))
    if not goal.total_exact:
        yield _completed(rows, goal, lightest, eliminate(rows) if goal.most == 1 and goal.total is None else nothing)
        yield _completed(rows, goal, cheapest, nothing)
    for relaxation in (relaxed, tight):
        whole = floored if relaxation is relaxed else np.floor(relaxation.counts + _NEARLY_WHOLE).astype(np.int64)
        whole = whole if rows.holds(whole) else np.floor(relaxation.counts).astype(np.int64)
        largest = np.lexsort((tight.price, _fractions(relaxation.counts)))
        yield _completed(rows, goal, np.concatenate([largest, cheapest]), whole)
    if begun is not None:
        yield _completed(rows, goal, cheapest, _trimmed(begun, goal))


def _fractions(counts: FloatArray) -> FloatArray:
    """Largest fraction first."""
    return np.floor(counts + _NEARLY_WHOLE) - counts


def _completed(rows: Packing, goal: Objective, order: IntArray, begun: IntArray) -> IntArray:
    counts = fill(rows, goal, order, begun)
    if goal.total_exact:
        # What costs nothing first, then whatever fits, until the total is reached.
        rare = order[goal.goal[order] < 0]
        counts = fill(rows, goal, rare, counts, gainful=False)
        counts = fill(rows, goal, order, counts, gainful=False)
    return counts


def _trimmed(counts: IntArray, goal: Objective) -> IntArray:
    """The counts without as many units as exceed the total, first where more than the goal was reached."""
    if goal.total is None:
        return counts
    allowed = np.where(goal.goal >= 0, np.floor(goal.goal), 0).astype(np.int64)
    kept = np.minimum(counts, allowed)
    surplus = counts - kept
    short = goal.total - int(kept.sum())
    if short < 0:
        return _first_units(kept, goal.total)
    return kept + _first_units(surplus, short)


def _first_units(counts: IntArray, number: int) -> IntArray:
    ends = np.cumsum(counts)
    kept: IntArray = np.clip(number - (ends - counts), 0, counts)
    return kept


def largest_output(holdings: Holdings, bound: PairLimit) -> Solution:
    """O-UMP: the most rows that can come out."""
    goal = objective("size", holdings.totals)
    return solve(packing(holdings, bound, goal), goal)
