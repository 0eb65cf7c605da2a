"""The tables and figures of Hong et al. (EDBT 2012) as data: what they print, what can be, what we reach.

All values are computed from the log without noise: private output, unless the log is synthetic.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querycloak.evaluation.tasks.pairs import diff_ratio
from querycloak.methods.optimal.holdings import Holdings
from querycloak.methods.optimal.objectives import Objective, objective
from querycloak.papers.hong2012 import sample
from querycloak.papers.output_counts.constraints import UNIT, Packing, PairLimit, limit, packing
from querycloak.papers.output_counts.solver import Solution, solve
from querycloak.papers.output_counts.whole_counts import eliminate, exchange
from querycloak.privacy.sampling.randomness import IntArray, Randomness
from querycloak.reproduction.exact_programs import by_highs
from querycloak.reproduction.hong2012_printed import (
    DELTAS,
    EXP_EPSILONS,
    LARGEST,
    PAPER_PAIRS,
    PAPER_USERS,
    PROOF,
    SIZES,
    SUPPORTS,
    TABLE_4,
    TABLE_5,
    TABLE_6,
    TABLE_7A,
    TABLE_7B,
)

_TOLERANCE = 1e-5
"""Largest error of a bound that HiGHS proves in floats."""
_ROUNDS = 200_000


@dataclass
class OptimalTables:
    """Tables 4 to 7 and figures 3 to 6 for one log; programs that several of them share are solved once."""

    holdings: Holdings
    seconds: float = 10.0
    _solved: dict[tuple[Any, ...], Solution] = field(default_factory=dict, repr=False)

    def all(self, randomness: Randomness) -> dict[str, Any]:
        """Every table and figure by name, as plain values."""
        return {
            "log": self.log(),
            "proof": list(PROOF),
            "table_4": self.table_4(),
            "table_5_and_6": self.table_5_and_6(),
            "table_7": self.table_7(),
            "figure_3_a_and_b": self.figure_3(),
            "figure_4": self.figure_4(),
            "figure_5": self.figure_5(),
            "figure_6": self.figure_6(randomness),
        }

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
        for exp_epsilon, printed in zip(EXP_EPSILONS, TABLE_4, strict=True):
            for delta, claimed in zip(DELTAS, printed, strict=True):
                bound = _limit(exp_epsilon, delta)
                most = PAPER_USERS * bound.units / UNIT
                solution = self.largest(bound)
                rows.append(
                    {
                        "exp_epsilon": exp_epsilon,
                        "delta": delta,
                        "claimed": claimed,
                        "claimed_at_most": most,
                        "claimed_feasible": claimed <= most,
                        "users_times_limit": self.holdings.users * bound.units / UNIT,
                        "relaxed": solution.relaxed.value,
                        "relaxed_at_most": solution.relaxed.bound,
                        "relaxed_floored": int(solution.floored.sum()),
                        "found": int(solution.value),
                        "at_most": int(solution.bound),
                    }
                )
        return rows

    def table_5_and_6(self) -> list[dict[str, Any]]:
        """Recall and support distances of F-UMP at e^epsilon = 2, delta = 0.5; figure 3(c) is the average distance.

        The printed output sizes cannot be had, so each becomes the same share of what can.
        """
        bound = _limit(2.0, 0.5)
        largest = self.largest(bound)
        rows = []
        for i, support in enumerate(SUPPORTS):
            for j, printed_size in enumerate(SIZES):
                size = max(1, round(printed_size / LARGEST * largest.value))
                rows.append(
                    {
                        "support": support,
                        "claimed_size": printed_size,
                        "claimed_recall": TABLE_5[i][j],
                        "claimed_distance": TABLE_6[i][j],
                        "claimed_at_most": PAPER_USERS * bound.units / UNIT,
                        **self._frequent(bound, support, size),
                    }
                )
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
                    "exp_epsilon": exp_epsilon,
                    "delta": delta,
                    "claimed_share": share,
                    "claimed_pairs": round(claimed),
                    "claimed_at_most": most,
                    "claimed_feasible": claimed <= most,
                    "pairs": self.holdings.pairs,
                    **self._diverse(bound),
                }
            )
        return rows

    def figure_3(self) -> list[dict[str, Any]]:
        """Recall and sum of support distances over (epsilon, delta), at one output size; none where it is too large."""
        size = max(1, round(SIZES[0] / LARGEST * self.largest(_limit(2.0, 0.5)).value))
        return [
            {
                "exp_epsilon": exp_epsilon,
                "delta": delta,
                **self._frequent(_limit(exp_epsilon, delta), 1 / 500, size),
            }
            for exp_epsilon in EXP_EPSILONS
            for delta in DELTAS
        ]

    def figure_4(self) -> list[dict[str, Any]]:
        """The share of distinct pairs over (epsilon, delta): by the paper's elimination, and by ours."""
        rows = []
        for exp_epsilon in EXP_EPSILONS:
            for delta in DELTAS:
                bound = _limit(exp_epsilon, delta)
                goal = objective("diversity", self.holdings.totals)
                solution = self._most_diverse(bound)
                rows.append(
                    {
                        "exp_epsilon": exp_epsilon,
                        "delta": delta,
                        "spe": int(eliminate(packing(self.holdings, bound, goal)).sum()) / self.holdings.pairs,
                        "ours": solution.value / self.holdings.pairs,
                        "at_most": solution.bound / self.holdings.pairs,
                    }
                )
        return rows

    def figure_5(self) -> list[dict[str, Any]]:
        """Seconds that each solver takes for D-UMP: at the paper's (1.7, 1e-3), and where something can come out."""
        rows = []
        for exp_epsilon, delta in ((1.7, 1e-3), (2.0, 0.5)):
            goal = objective("diversity", self.holdings.totals)
            constraints = packing(self.holdings, _limit(exp_epsilon, delta), goal)
            works: dict[str, Callable[[], IntArray]] = {
                "spe": lambda c=constraints: eliminate(c),  # type: ignore[misc]
                "ours": lambda c=constraints, g=goal: solve(c, g).counts,  # type: ignore[misc]
                "highs": lambda c=constraints, g=goal: self._by_highs(c, g),  # type: ignore[misc]
            }
            for name, work in works.items():
                start = time.perf_counter()
                counts = work()
                taken = time.perf_counter() - start
                rows.append(
                    {
                        "exp_epsilon": exp_epsilon,
                        "delta": delta,
                        "solver": name,
                        "seconds": taken,
                        "at_most_seconds": None if name in ("spe", "ours") else self.seconds,
                        "pairs": int(counts.sum()),
                    }
                )
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

    def _most_diverse(self, bound: PairLimit) -> Solution:
        goal = objective("diversity", self.holdings.totals)
        return self._solve(("diversity", bound), packing(self.holdings, bound, goal), goal)

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
        goal = objective("diversity", self.holdings.totals)
        constraints = packing(self.holdings, bound, goal)
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
