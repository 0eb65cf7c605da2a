"""Tables and figures of Hong et al. (EDBT 2012) as data: printed, possible and reached values.

Printed numbers come first, and why they cannot come from the paper's constraints. All others are computed from the log
without noise: private output, unless the log is synthetic.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.tasks.pairs import diff_ratio
from querycloak.methods.optimal.holdings import Holdings
from querycloak.methods.optimal.objectives import FloatArray, Objective, objective
from querycloak.papers.hong2012 import sample
from querycloak.papers.output_counts.constraints import UNIT, Packing, PairLimit, limit, packing
from querycloak.papers.output_counts.solver import Solution, solve, within_rows
from querycloak.papers.output_counts.whole_counts import eliminate, exchange
from querycloak.privacy.sampling.randomness import IntArray, Randomness

EXP_EPSILONS = (1.001, 1.01, 1.1, 1.4, 1.7, 2.0, 2.3)
DELTAS = (1e-4, 1e-3, 1e-2, 1e-1, 0.2, 0.5, 0.8)
_GRID = tuple(itertools.product(EXP_EPSILONS, DELTAS))
SUPPORTS = (1 / 1000, 1 / 750, 1 / 500, 1 / 250, 1 / 100)
SIZES = (3000, 4000, 5000, 6000, 7000, 8000)
LARGEST = 13_088
"""The paper's maximal output at e^epsilon = 2, delta = 0.5; its output sizes are shares of it."""
PAPER_USERS, PAPER_PAIRS = 1_980, 6_043
# AOL's part, 2,500 users drawn from it, and these without pairs of a single user.
TABLE_3 = {
    "size": (1_864_860, 237_786, 53_067),
    "users": (51_922, 2_500, PAPER_USERS),
    "queries": (583_084, 83_130, 4_971),
    "urls": (373_837, 82_076, 4_289),
    "pairs": (1_190_491, 163_681, PAPER_PAIRS),
}
FREQUENT = (127, 105, 70, 34, 15)
"""Number of frequent pairs at each support: the smallest of which the recalls of Table 5 are shares, but for two."""

# As printed; by e^epsilon, then by delta.
TABLE_4 = (
    (3759, 4007, 4007, 4007, 4007, 4007, 4007),
    (3759, 4007, 4879, 4879, 4879, 4879, 4879),
    (3759, 4007, 4891, 8382, 8382, 8382, 8382),
    (3759, 4007, 4891, 8874, 10445, 11419, 11419),
    (3759, 4007, 4891, 8874, 10445, 12438, 12438),
    (3759, 4007, 4891, 8874, 10445, 13088, 13088),
    (3759, 4007, 4891, 8874, 10445, 13088, 13901),
)
# By support, then by output size.
TABLE_5 = (
    (0.8873, 0.8189, 0.874, 0.8661, 0.8583, 0.8346),
    (0.8095, 0.8762, 0.8571, 0.8476, 0.8952, 0.8667),
    (0.9143, 0.9143, 0.9286, 0.9143, 0.8857, 0.8714),
    (0.9116, 0.8529, 0.8529, 0.8529, 0.8529, 0.8235),
    (0.933, 0.8667, 0.8, 0.8, 0.8, 0.7333),
)
TABLE_6 = (
    (0.0551, 0.085, 0.1058, 0.1279, 0.1485, 0.1785),
    (0.0549, 0.0854, 0.1116, 0.1271, 0.1477, 0.1767),
    (0.0559, 0.0865, 0.1048, 0.1247, 0.1448, 0.1716),
    (0.0555, 0.086, 0.1043, 0.1236, 0.1393, 0.161),
    (0.0574, 0.088, 0.1063, 0.1246, 0.1392, 0.1583),
)
# SPE's shares of pairs, at e^epsilon = 2 by delta, and at delta = 0.1 by e^epsilon; the other solvers lie close by.
TABLE_7A = {1e-3: 0.128, 1e-2: 0.181, 1e-1: 0.260, 0.2: 0.281, 0.5: 0.295, 0.8: 0.306}
TABLE_7B = {1.01: 0.177, 1.1: 0.257, 1.4: 0.260, 1.7: 0.260, 2.0: 0.260, 2.3: 0.260}
# The other solvers at the same points: bintprog, qsopt_ex, scip, feaspump.
TABLE_7_OTHERS = {
    (2.0, 1e-3): (0.096, 0.096, 0.095, 0.096),
    (2.0, 1e-2): (0.152, 0.152, 0.152, 0.152),
    (2.0, 1e-1): (0.238, 0.234, 0.237, 0.258),
    (2.0, 0.2): (0.268, 0.268, 0.268, 0.295),
    (2.0, 0.5): (0.289, 0.295, 0.295, 0.303),
    (2.0, 0.8): (0.295, 0.295, 0.295, 0.303),
    (1.01, 0.1): (0.146, 0.155, 0.146, 0.155),
    (1.1, 0.1): (0.225, 0.225, 0.214, 0.258),
    (1.4, 0.1): (0.238, 0.234, 0.231, 0.258),
    (1.7, 0.1): (0.238, 0.234, 0.231, 0.258),
    (2.3, 0.1): (0.238, 0.234, 0.231, 0.258),
}
SCIP_AGAIN = 0.231
"""Share of scip at (2, 0.1) in Table 7 (b); Table 7 (a) has another for the same point."""
PROOF = (
    "log t = -log(1 - c_ijk/c_ij) is at least c_ijk/c_ij, and for every pair these shares sum to 1 over its users.",
    "So the sum of all users' constraints bounds the number of rows by users x B, whatever the log.",
)


_TOLERANCE = 1e-5
"""Largest error of a bound that HiGHS proves in floats."""
_ROUNDS = 200_000


@dataclass
class OptimalTables:
    """Tables 3 to 7 and figures 3 to 6 for one log; programs that several of them share are solved once."""

    holdings: Holdings
    seconds: float = 10.0
    _solved: dict[tuple[Any, ...], Solution] = field(default_factory=dict, repr=False)

    def log(self) -> dict[str, int]:
        """Table 3, its last column: what is left without pairs of a single user."""
        return {
            "pairs": self.holdings.pairs,
            "users": self.holdings.users,
            "size": self.holdings.size,
            "queries": int(np.unique(self.holdings.query).size),
            **({} if self.holdings.keys is None else {"urls": len(self.holdings.keys["url"].unique())}),
        }

    def table_4(self) -> list[dict[str, Any]]:
        """The largest output: as printed, the most that any log of this many users allows, and this log's."""
        rows = []
        for (exp_epsilon, delta), claimed in zip(_GRID, itertools.chain(*TABLE_4), strict=True):
            bound = _limit(exp_epsilon, delta)
            most = PAPER_USERS * bound.units / UNIT
            solution = self.largest(bound)
            rows.append(
                {
                    "exp_epsilon": exp_epsilon, "delta": delta, "claimed": claimed, "claimed_at_most": most,
                    "claimed_feasible": claimed <= most,
                    "users_times_limit": self.holdings.users * bound.units / UNIT,
                    "relaxed": solution.relaxed.value, "relaxed_at_most": solution.relaxed.bound,
                    "relaxed_floored": int(solution.floored.sum()),
                    "found": int(solution.value), "at_most": int(solution.bound),
                }
            )  # fmt: skip
        return rows

    def table_5_and_6(self) -> list[dict[str, Any]]:
        """Recall and support distances of F-UMP at e^epsilon = 2, delta = 0.5; figure 3(c) is the average distance.

        The printed output sizes cannot be had, so each becomes the same share of what can.
        """
        bound = _limit(2.0, 0.5)
        largest = self.largest(bound)
        rows = []
        for support, recalls, distances in zip(SUPPORTS, TABLE_5, TABLE_6, strict=True):
            for printed_size, recall, distance in zip(SIZES, recalls, distances, strict=True):
                size = max(1, round(printed_size / LARGEST * largest.value))
                rows.append(
                    {
                        "support": support, "claimed_size": printed_size,
                        "claimed_recall": recall, "claimed_distance": distance,
                        "claimed_at_most": PAPER_USERS * bound.units / UNIT, **self._frequent(bound, support, size),
                    }
                )  # fmt: skip
        return rows

    def table_7(self) -> list[dict[str, Any]]:
        """Distinct pairs by several solvers: at e^epsilon = 2 by delta, and at delta = 0.1 by e^epsilon."""
        points = [(2.0, delta, share) for delta, share in TABLE_7A.items()]
        points += [(exp_epsilon, 0.1, share) for exp_epsilon, share in TABLE_7B.items() if exp_epsilon != 2.0]
        rows = []
        for exp_epsilon, delta, share in points:
            bound = _limit(exp_epsilon, delta)
            most = PAPER_USERS * bound.units / UNIT
            claimed = share * PAPER_PAIRS
            rows.append(
                {
                    "exp_epsilon": exp_epsilon, "delta": delta, "claimed_share": share, "claimed_pairs": round(claimed),
                    "claimed_at_most": most, "claimed_feasible": claimed <= most, "pairs": self.holdings.pairs,
                    **self._diverse(bound),
                }
            )  # fmt: skip
        return rows

    def figure_3(self) -> list[dict[str, Any]]:
        """Recall and sum of support distances over (epsilon, delta), at one output size; none where it is too large."""
        size = max(1, round(SIZES[0] / LARGEST * self.largest(_limit(2.0, 0.5)).value))
        return [
            {"exp_epsilon": e, "delta": delta, **self._frequent(_limit(e, delta), 1 / 500, size)} for e, delta in _GRID
        ]

    def figure_4(self) -> list[dict[str, Any]]:
        """The share of distinct pairs over (epsilon, delta): by the paper's elimination, and by ours."""
        pairs, rows = self.holdings.pairs, []
        for exp_epsilon, delta in _GRID:
            bound = _limit(exp_epsilon, delta)
            solution = self._most_diverse(bound)
            spe = int(eliminate(self._diversity(bound)[0]).sum())
            shares = {"spe": spe / pairs, "ours": solution.value / pairs, "at_most": solution.bound / pairs}
            rows.append({"exp_epsilon": exp_epsilon, "delta": delta, **shares})
        return rows

    def figure_5(self) -> list[dict[str, Any]]:
        """Seconds that each solver takes for D-UMP: at the paper's (1.7, 1e-3), and where something can come out."""
        rows = []
        for exp_epsilon, delta in ((1.7, 1e-3), (2.0, 0.5)):
            constraints, goal = self._diversity(_limit(exp_epsilon, delta))
            works: dict[str, Callable[[], IntArray]] = {
                "spe": lambda c=constraints: eliminate(c),  # type: ignore[misc]
                "ours": lambda c=constraints, g=goal: solve(c, g).counts,  # type: ignore[misc]
                "highs": lambda c=constraints, g=goal: self._by_highs(c, g),  # type: ignore[misc]
            }
            for name, work in works.items():
                start = time.perf_counter()
                counts = work()
                taken = time.perf_counter() - start
                limit_of = self.seconds if name == "highs" else None
                rows.append(
                    {
                        "exp_epsilon": exp_epsilon, "delta": delta, "solver": name, "seconds": taken,
                        "at_most_seconds": limit_of, "pairs": int(counts.sum()),
                    }
                )  # fmt: skip
        return rows

    def figure_6(self, randomness: Randomness, runs: int = 10) -> list[dict[str, Any]]:
        """Triplets of user and frequent pair by the error of their share: the mean of ten outputs, users kept."""
        bound = _limit(2.0, 0.5)
        largest = self.largest(bound)
        frequent = (self.holdings.totals / self.holdings.size >= 1 / 500)[self.holdings.pair]
        before = self.holdings.count / self.holdings.size
        entry = self.holdings.pair * self.holdings.users + self.holdings.user
        rows = []
        for printed_size in (4000, 6000):
            size = max(1, round(printed_size / LARGEST * largest.value))
            solution = self._fump(bound, 1 / 500, size)
            histogram = np.zeros(11)
            for counts in [] if solution is None else [solution.counts] * runs:
                pair, user, count = sample(self.holdings, counts, randomness)
                after = np.zeros(entry.size)
                after[np.searchsorted(entry, pair * self.holdings.users + user)] = count / size
                histogram += diff_ratio(before[frequent], after[frequent]) / runs
            rows.append({"claimed_size": printed_size, "size": size, "triplets_by_tenths": histogram.tolist()})
        return rows

    def largest(self, bound: PairLimit) -> Solution:
        """O-UMP at this limit."""
        goal = objective("size", self.holdings.totals)
        return self._solve(("size", bound), packing(self.holdings, bound, goal), goal)

    def _diversity(self, bound: PairLimit) -> tuple[Packing, Objective]:
        """The program D-UMP at this limit."""
        goal = objective("diversity", self.holdings.totals)
        return packing(self.holdings, bound, goal), goal

    def _most_diverse(self, bound: PairLimit) -> Solution:
        return self._solve(("diversity", bound), *self._diversity(bound))

    def _solve(self, key: tuple[Any, ...], rows: Packing, goal: Objective, begun: IntArray | None = None) -> Solution:
        """The better of our search and HiGHS's, with the smaller of both bounds; every exhibit takes it from here."""
        if key not in self._solved:
            ours, proved = solve(rows, goal, begun=begun), by_highs(rows, goal, self.seconds)
            bound = min(ours.bound, proved.bound)  # HiGHS's is infinite if it was stopped before it had one
            if goal.size == 1.0:
                bound = min(ours.bound, math.floor(bound + _TOLERANCE))
            if proved.counts is not None:
                better = exchange(rows, goal, proved.counts, _ROUNDS)
                if goal.value(better) > ours.value:
                    ours = replace(ours, counts=better, value=goal.value(better))
            self._solved[key] = replace(ours, bound=max(bound, ours.value))
        return self._solved[key]

    def _by_highs(self, rows: Packing, goal: Objective) -> IntArray:
        counts = by_highs(rows, goal, self.seconds).counts
        return np.zeros(rows.pairs, np.int64) if counts is None else counts

    def _fump(self, bound: PairLimit, support: float, size: int) -> Solution | None:
        largest = self.largest(bound)
        if largest.value < size:
            return None
        goal = objective("frequent", self.holdings.totals, support=support, output_size=size)
        rows = packing(self.holdings, bound, goal)
        return self._solve(("frequent", bound, support, size), rows, goal, begun=largest.counts)

    def _frequent(self, bound: PairLimit, support: float, size: int) -> dict[str, Any]:
        solution = self._fump(bound, support, size)
        frequent = self.holdings.totals / self.holdings.size >= support
        number = int(frequent.sum())
        row: dict[str, Any] = {"size": size, "frequent_pairs": number, "feasible": solution is not None}
        if solution is None or number == 0:
            return row
        again = solution.counts / size >= support
        return row | {
            "recall": int((frequent & again).sum()) / number,
            "precision": int((frequent & again).sum()) / max(1, int(again.sum())),
            "distance": -solution.value,
            "distance_at_least": max(0.0, -solution.bound),
            "average_distance": -solution.value / number,
            **self._floored(solution, frequent, size, support),
        }

    def _floored(self, solution: Solution, frequent: NDArray[np.bool_], size: int, support: float) -> dict[str, Any]:
        """The same for the paper's own way: the linear program, rounded down."""
        again = solution.floored / size >= support
        apart = np.abs(solution.floored / size - self.holdings.totals / self.holdings.size)[frequent]
        return {
            "floored_rows": int(solution.floored.sum()),
            "floored_recall": int((frequent & again).sum()) / int(frequent.sum()),
            "floored_distance": float(apart.sum()),
        }

    def _diverse(self, bound: PairLimit) -> dict[str, Any]:
        constraints, goal = self._diversity(bound)
        ours = self._most_diverse(bound)
        return {
            "spe": int(eliminate(constraints).sum()),
            "highs": int(self._by_highs(constraints, goal).sum()),
            "floor": int(ours.floored.sum()),
            "ours": int(ours.value),
            "at_most": int(ours.bound),
        }


def _limit(exp_epsilon: float, delta: float) -> PairLimit:
    return limit(math.log(exp_epsilon), delta)


@dataclass(frozen=True, eq=False)
class Proved:
    """Counts that a solver found, and the bound that it proved; counts are None if it found none in time.

    The bound is computed in floats, with the solver's tolerance of 1e-6.
    """

    counts: IntArray | None
    value: float
    bound: float


def by_highs(rows: Packing, goal: Objective, seconds: float) -> Proved:
    """Branch and bound by HiGHS, for objectives without a term for distinct pairs.

    Variables: the count of each pair that can come out at all and, for a distance, how far each frequent one is off.
    """
    from scipy import sparse
    from scipy.optimize import Bounds, LinearConstraint, milp

    if goal.diversity.any():
        raise TypeError("HiGHS is given sums of counts and of distances only")
    able = np.flatnonzero(rows.most)
    near = np.flatnonzero(goal.goal[able] >= 0) if goal.distance else np.zeros(0, np.int64)
    lost = goal.distance * float(goal.goal[(goal.goal >= 0) & (rows.most == 0)].sum())
    if able.size == 0:
        return Proved(np.zeros(rows.pairs, np.int64), -lost, -lost)
    owner = np.repeat(np.arange(rows.pairs), np.diff(rows.starts))
    shares = sparse.csr_matrix(
        (rows.weight / rows.capacity[rows.row], (rows.row, owner)), shape=(rows.capacity.size, rows.pairs)
    )[:, able]
    off = sparse.csr_matrix((np.ones(near.size), (np.arange(near.size), near)), shape=(near.size, able.size))
    unit, aims = sparse.identity(near.size, format="csr"), goal.goal[able][near]
    constraints = [
        LinearConstraint(sparse.hstack([shares, sparse.csr_matrix((shares.shape[0], near.size))]), -np.inf, 1.0)
    ]
    if near.size:
        constraints.append(LinearConstraint(sparse.hstack([off, -unit]), -np.inf, aims))
        constraints.append(LinearConstraint(sparse.hstack([off, unit]), aims, np.inf))
    if goal.total is not None:
        total = np.concatenate([np.ones(able.size), np.zeros(near.size)])[None]
        constraints.append(LinearConstraint(total, goal.total if goal.total_exact else -np.inf, goal.total))
    solved = milp(
        np.concatenate([np.full(able.size, -goal.size), np.full(near.size, goal.distance)]),
        constraints=constraints,
        integrality=np.concatenate([np.ones(able.size), np.zeros(near.size)]),
        bounds=Bounds(0, np.concatenate([rows.most[able].astype(np.float64), np.full(near.size, np.inf)])),
        options={"time_limit": seconds},
    )
    bound = math.inf if solved.mip_dual_bound is None else -float(solved.mip_dual_bound) - lost
    return Proved(*_counts(rows, goal, able, solved.x), bound)


def _counts(
    rows: Packing, goal: Objective, able: IntArray, solution: FloatArray | None
) -> tuple[IntArray | None, float]:
    """The whole counts of a solution within its tolerance, and their value; None if a total is missed by that."""
    if solution is None:
        return None, -math.inf
    counts = np.zeros(rows.pairs, dtype=np.int64)
    counts[able] = np.rint(solution[: able.size])
    counts = within_rows(rows, counts)
    if goal.total_exact and int(counts.sum()) != goal.total:
        return None, -math.inf
    return counts, goal.value(counts)
