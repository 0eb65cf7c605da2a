"""From constraints and an objective to output counts, with a certified gap (optimal.md, steps 3 and 4).

The linear relaxation is solved by PDLP or the simplex method; upper bounds hold whatever a solver returned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from querycloak.methods.optimal.holdings import Holdings
from querycloak.methods.optimal.objectives import FloatArray, Objective, objective
from querycloak.papers.output_counts.constraints import Packing, PairLimit, packing
from querycloak.papers.output_counts.whole_counts import eliminate, exchange, fill, heaviest
from querycloak.privacy.sampling.randomness import IntArray

TOLERANCE = 1e-4
SECONDS = 100.0
_WORTH_A_THREAD = 100_000
_ROUNDING = 1e-9
"""More than what float sums over millions of terms lose; bounds are widened by it."""


@dataclass(frozen=True, eq=False)
class Relaxation:
    """Counts that satisfy every row, the price of each pair, and a bound on every solution's value."""

    counts: FloatArray
    price: FloatArray
    value: float
    bound: float


def relax(
    packing: Packing, objective: Objective, *, whole: bool, vertex: bool = False, tolerance: float = TOLERANCE
) -> Relaxation:
    """Solve the relaxation.

    whole: no count exceeds what a whole number could be; the paper does not do this. vertex: by the simplex method, as
    in the paper: a vertex has few fractions, so rounding it down loses least. It is slow on large logs.
    """
    reach = packing.most.astype(np.float64) if whole else _reach(packing, objective)
    shares = packing.weight / packing.capacity[packing.row]
    owner = np.repeat(np.arange(packing.pairs, dtype=np.int64), np.diff(packing.starts))
    counts: FloatArray
    pair, width, slope = _pieces(objective, reach)
    if pair.size == 0:
        dual = np.zeros(packing.capacity.size + 1)
        counts = np.zeros(packing.pairs)
    else:
        by = _simplex if vertex else _pdlp
        pieces, dual = by(_Program(packing, objective, shares, owner, pair, width, slope), tolerance)
        counts = np.bincount(pair, pieces, minlength=packing.pairs).astype(np.float64)
        counts = _within(packing, objective, shares, owner, np.minimum(counts, reach))
    price: FloatArray = np.bincount(owner, shares * dual[packing.row], minlength=packing.pairs).astype(np.float64)
    if objective.total:
        price = price + dual[-1] / objective.total
    bound = _bound(objective, price, float(dual.sum()), reach, whole=whole)
    return Relaxation(counts, price, _relaxed_value(objective, counts), bound)


def _reach(packing: Packing, objective: Objective) -> FloatArray:
    """Largest count of a single pair, as a real number."""
    if packing.pairs == 0:
        return np.zeros(0)
    alone = np.minimum.reduceat(packing.capacity[packing.row] / packing.weight, packing.starts[:-1])
    return np.minimum(alone, np.inf if objective.most is None else float(objective.most))


def _pieces(objective: Objective, reach: FloatArray) -> tuple[IntArray, FloatArray, FloatArray]:
    """Pair, width and slope of the straight pieces of every pair's concave value, in ascending order."""
    first = np.where(objective.diversity > 0, np.minimum(1.0, reach), reach)
    second = np.where(objective.goal >= 0, np.minimum(objective.goal, reach), reach)
    low, high = np.minimum(first, second), np.maximum(first, second)
    edges = np.stack([np.zeros_like(reach), low, high, reach])
    middle, width = (edges[:-1] + edges[1:]) / 2, np.diff(edges, axis=0)
    towards = np.where(objective.goal >= 0, np.where(middle < objective.goal, 1.0, -1.0), 0.0)
    slope = objective.size + objective.diversity * (middle < 1) + objective.distance * towards
    pair = np.broadcast_to(np.arange(reach.size, dtype=np.int64), width.shape)
    kept = width > 0
    return pair[kept], width[kept], slope[kept]


class _Program(NamedTuple):
    """The linear program of the relaxation; piece i takes from pair `pair[i]`, `owner` is the pair of each entry."""

    packing: Packing
    objective: Objective
    shares: FloatArray
    owner: IntArray
    pair: IntArray
    width: FloatArray
    slope: FloatArray

    def matrix(self) -> Any:
        """The share of each row that each piece takes; the last row is the total, if there is one."""
        from scipy import sparse

        shape = (self.packing.capacity.size, self.packing.pairs)
        matrix = sparse.csc_matrix((self.shares, (self.packing.row, self.owner)), shape=shape)[:, self.pair]
        if self.objective.total:
            total = np.full((1, self.pair.size), 1 / self.objective.total)
            matrix = sparse.vstack([matrix, sparse.csc_matrix(total)])
        return sparse.csc_matrix(matrix)


def _simplex(program: _Program, tolerance: float) -> tuple[FloatArray, FloatArray]:
    """A vertex by HiGHS, and for every row a dual that is not negative; PDLP's answer if HiGHS takes too long."""
    from scipy.optimize import linprog

    packing, objective, width, matrix = program.packing, program.objective, program.width, program.matrix()
    exact = objective.total is not None and objective.total_exact
    below, equal = (matrix[:-1], matrix[-1:]) if exact else (matrix, None)
    solved = linprog(
        -program.slope,
        A_ub=below,
        b_ub=np.ones(below.shape[0]),
        A_eq=equal,
        b_eq=None if equal is None else np.ones(1),
        bounds=np.stack([np.zeros(width.size), width], axis=1),
        method="highs-ds",
        options={"time_limit": SECONDS},
    )
    if solved.status != 0:
        return _pdlp(program, tolerance)
    dual = np.zeros(packing.capacity.size + 1)
    dual[: below.shape[0]] = np.maximum(-solved.ineqlin.marginals, 0.0)
    if exact:
        dual[-1] = -solved.eqlin.marginals[0]
    return np.clip(solved.x, 0.0, width), dual


def _pdlp(program: _Program, tolerance: float) -> tuple[FloatArray, FloatArray]:
    """Result of PDLP: pieces within their widths, and for every row a dual that is not negative."""
    # Imported here: they take a second, which a guarantee alone must not cost.
    from ortools.pdlp import solvers_pb2
    from ortools.pdlp.python import pdlp

    packing, objective, width, matrix = program.packing, program.objective, program.width, program.matrix()
    rows = matrix.shape[0]
    quadratic = pdlp.QuadraticProgram()
    quadratic.objective_vector = -program.slope
    quadratic.constraint_matrix = matrix
    lower = np.full(rows, -np.inf)
    if objective.total and objective.total_exact:
        lower[-1] = 1.0
    quadratic.constraint_lower_bounds, quadratic.constraint_upper_bounds = lower, np.ones(rows)
    quadratic.variable_lower_bounds, quadratic.variable_upper_bounds = np.zeros(width.size), width
    settings = solvers_pb2.PrimalDualHybridGradientParams(num_threads=2 if program.shares.size > _WORTH_A_THREAD else 1)
    wanted = settings.termination_criteria.simple_optimality_criteria
    wanted.eps_optimal_relative = wanted.eps_optimal_absolute = tolerance
    settings.termination_criteria.time_sec_limit = SECONDS
    solved = pdlp.primal_dual_hybrid_gradient(quadratic, settings)
    dual = np.zeros(packing.capacity.size + 1)
    dual[:rows] = -solved.dual_solution
    free = objective.total is not None and objective.total_exact
    dual[:-1] = np.maximum(dual[:-1], 0.0)
    dual[-1] = dual[-1] if free else max(dual[-1], 0.0)
    return np.clip(solved.primal_solution, 0.0, width), dual


def _within(
    packing: Packing, objective: Objective, shares: FloatArray, owner: IntArray, counts: FloatArray
) -> FloatArray:
    """The counts, shrunk by the little that a solver's tolerance may have overloaded rows."""
    loads = np.bincount(packing.row, shares * counts[owner], minlength=packing.capacity.size)
    most = max(1.0, float(loads.max(initial=0.0)))
    if objective.total and not objective.total_exact:
        most = max(most, float(counts.sum()) / objective.total)
    return counts / most


def _bound(objective: Objective, price: FloatArray, dual_sum: float, reach: FloatArray, *, whole: bool) -> float:
    """The Lagrangian bound: for any duals, no counts within the rows are worth more.

    A pair's value less its price is concave and straight between a few points, so one of those is its largest.
    """
    goal = np.maximum(objective.goal, 0.0)
    points = [np.zeros_like(reach), np.minimum(1.0, reach), reach]
    points += (
        [np.minimum(np.floor(goal), reach), np.minimum(np.ceil(goal), reach)] if whole else [np.minimum(goal, reach)]
    )
    best = np.full(reach.size, -np.inf)
    for point in points:
        best = np.maximum(best, _each(objective, point) - price * point)
    terms = np.concatenate([best, [dual_sum]])
    return float(terms.sum()) + _ROUNDING * float(np.abs(terms).sum())


def _each(objective: Objective, counts: FloatArray) -> FloatArray:
    """The relaxed value of each pair's count."""
    apart = np.where(objective.goal >= 0, np.abs(counts - objective.goal), 0.0)
    worth: FloatArray = (
        objective.size * counts + objective.diversity * np.minimum(counts, 1.0) - objective.distance * apart
    )
    return worth


def _relaxed_value(objective: Objective, counts: FloatArray) -> float:
    return float(_each(objective, counts).sum())


_NEARLY_WHOLE = 1e-4
_FEW_ENTRIES = 200_000
"""Counts of users and pairs up to which the simplex method takes seconds."""
_ROUNDS_PER_UNIT, _ROUNDS_PER_ENTRY, _ENOUGH_ROUNDS, _MOST_ROUNDS = 200, 100, 200_000, 3_000_000


_COUNTED = {
    "size": ("row", "rows"),
    "diversity": ("distinct pair", "distinct pairs"),
    "queries": ("distinct query", "distinct queries"),
}


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
        """The solution as one line of text."""
        one, several = _COUNTED.get(name, ("", ""))
        if several:
            what = one if self.value == 1 else several
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
    # Two beginnings: one search may end where the other goes on.
    best = max((exchange(rows, goal, begin, _rounds(rows, begin)) for begin in starts[:2]), key=goal.value)
    bound = min(relaxed.bound, tight.bound)
    if goal.size == 1.0:  # a number of rows or pairs: whole
        bound = float(math.floor(bound + 1e-6))
    return Solution(best, goal.value(best), relaxed, floored, max(bound, goal.value(best)))


def solve_by_floor(rows: Packing, goal: Objective) -> Solution:
    """The published solution of O-UMP and F-UMP: the linear program, rounded down, which misses a required total."""
    relaxed = relax(rows, goal, whole=False, vertex=True)
    floored = _floored(rows, relaxed)
    return Solution(floored, goal.value(floored), relaxed, floored, max(relaxed.bound, goal.value(floored)))


def solve_by_spe(rows: Packing, goal: Objective) -> Solution:
    """The published solution of D-UMP: drop the most revealing pair until all constraints hold."""
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
