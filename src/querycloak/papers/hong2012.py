"""O-UMP, F-UMP and D-UMP of Hong, Vaidya, Lu and Wu (EDBT 2012): the paper variant of `optimal`.

Output counts are computed from the log under every user's constraint, then real users are drawn for them. The guarantee
is proven for the drawing only (methods/optimal/optimal.md, paper variant).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from querycloak.errors import InputError
from querycloak.extras import COMPARE, require
from querycloak.methods.method import Drawn
from querycloak.methods.optimal.method import Optimal
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.budget import Budget
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import refuse
from querycloak.privacy.sampling.exact import exp_minus, rounded_up, stated
from querycloak.releases.row_kinds import RowKind
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.holdings import Holdings
    from querycloak.methods.optimal.objectives import Objective
    from querycloak.papers.output_counts.constraints import Packing, PairLimit
    from querycloak.papers.output_counts.solver import Solution
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy
    from querycloak.privacy.sampling.randomness import IntArray, Randomness

_UNPROTECTED_BY_SAMPLING = (
    "how often each pair comes out, and which pairs: computed from the log without noise",
    "what users who are drawn did: all rows of a drawn user stand under one name",
    "that nothing could be released, or not as much as was asked: an error says so to the person who runs it",
)
_BITS = 128


@dataclass(frozen=True, kw_only=True)
class PaperOptimal(Optimal):
    """Real users drawn for output counts that a program optimises under every user's constraint."""

    def check_solver(self) -> None:
        """Refuse a solver that the paper does not have for the objective."""
        if self.solver == "spe" and self.objective != "diversity":
            refuse("solver", "best or floor", self.solver, Sentence("spe goes with {objective:diversity}"))
        if self.solver == "floor" and self.objective not in ("size", "frequent", "diversity"):
            refuse("solver", "best", self.solver, "the paper has no linear program for this objective")

    def check_bounds(self) -> None:
        """Refuse bounds: the paper bounds nobody's contribution."""
        given = {"max_keys_per_user": self.max_keys_per_user, "linked_per_user": self.linked_per_user}
        for name, value in given.items():
            if value is not None:
                refuse(name, "left out in the paper variant", value, "it bounds nobody's contribution")
        if self.total_share is not None:
            refuse("total_share", "left out in the paper variant", self.total_share, "it draws no noise")

    def parameters(self) -> dict[str, Any]:
        """Given options."""
        chosen = {} if self.solver is None else {"solver": self.solver}
        return {"epsilon": self.epsilon, "delta": self.delta, **self.wanted, **chosen}

    def claimed(self) -> Guarantee | None:
        """Claim of Hong, Vaidya, Lu and Wu."""
        because = "as stated by Hong, Vaidya, Lu and Wu, EDBT 2012 (probabilistic differential privacy)"
        return user_guarantee(self.epsilon, self.delta, because)

    def proven(self) -> Guarantee:
        """Guarantee of the drawing that optimal.md proves."""
        chance = chance_to_appear(self.given)
        # A pair that n users clicked alike may have a row once each of them is drawn with a chance of at most 1/n.
        accounts = (
            f"what several accounts of one person do together: {math.ceil(1 / stated(chance)):,} bring out one text of "
            "their choice, for certain, if the program gives it a row; which texts have rows depends on the whole log"
        )
        return Guarantee(
            kind="sampling-only",
            unit="user",
            neighbours="add-remove-user",
            epsilon=0.0,
            delta=chance,
            unprotected=(*ALWAYS, accounts, *_UNPROTECTED_BY_SAMPLING),
            because="given how often each pair comes out, which is computed from the log, delta is the largest chance "
            "that a user of the log is drawn and appears under a made-up name; unless it is far below one divided by "
            "the number of users, it protects nobody (methods/optimal/optimal.md)",
        )

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Empty, because there is no threshold."""
        return {}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """No figures, because the log decides which pairs come out."""
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        note = "Which pairs come out, and how often, is computed from the log: nothing can be said before."
        return {"log": TableAccuracy("how often this user was drawn for the pair", notes=(note,))}

    def draws(self) -> Sequence[Draw]:
        """Empty, because no noise is drawn."""
        return []

    def count(self, log: SearchLog) -> SolvedPairs:
        """Solve for the output counts."""
        require(COMPARE, "optimal as published", ("ortools",))
        from querycloak.methods.optimal.holdings import of_log

        holdings = of_log(log)
        return SolvedPairs(self, holdings, self.solve(holdings))

    def solve(self, holdings: Holdings) -> Solution:
        """The output counts of the paper variant; they, and every error here, are private output."""
        from querycloak.methods.optimal.holdings import PRIVATE
        from querycloak.methods.optimal.objectives import objective
        from querycloak.papers.output_counts.constraints import least_delta, limit, packing
        from querycloak.papers.output_counts.solver import largest_output, solve

        bound = limit(self.given.epsilon, self.given.delta)
        goal = objective(
            self.objective, holdings.totals, support=self.support, output_size=self.output_size, weights=self.weighting
        )
        rows = packing(holdings, bound, goal)
        if not rows.most.any():
            least = least_delta(holdings)
            raise InputError.of(
                "{private} with this budget no pair at all can be released; that needs at least {delta} "
                "{least:.4g} and {epsilon} {loss:.4g}",
                private=PRIVATE,
                least=least,
                loss=-math.log1p(-least),
            )
        if self.support is not None and not (goal.goal >= 0).any():
            raise InputError.of(
                "{private} no pair reaches {support} {asked:g}; the largest is {largest:.4g}",
                private=PRIVATE,
                asked=self.support,
                largest=_largest(holdings),
            )
        if self.solver in ("floor", "spe"):
            return self._solve_as_published(holdings, bound, rows, goal)
        if not goal.total_exact:
            solution = solve(rows, goal)
            if self.objective != "joint":  # which may want fewer
                self._check_reached(solution)
            return solution
        largest = largest_output(holdings, bound)
        self._check_reached(largest)
        return solve(rows, goal, begun=largest.counts)

    def _solve_as_published(self, holdings: Holdings, bound: PairLimit, rows: Packing, goal: Objective) -> Solution:
        from querycloak.methods.optimal.objectives import objective
        from querycloak.papers.output_counts.constraints import packing
        from querycloak.papers.output_counts.solver import solve_by_floor, solve_by_spe

        if self.solver == "spe":
            return solve_by_spe(rows, goal)
        if goal.total_exact:  # the paper's |O| is at most the optimum of the largest output's linear program
            size = objective("size", holdings.totals)
            largest = solve_by_floor(packing(holdings, bound, size), size)
            self._check_reached(replace(largest, value=largest.relaxed.value))
        return solve_by_floor(rows, goal)

    def _check_reached(self, largest: Solution) -> None:
        from querycloak.methods.optimal.holdings import PRIVATE

        if self.output_size is not None and largest.value < self.output_size:
            raise InputError.of(
                "{private} {output_size} {asked:,} is above what the constraints allow: the largest output found "
                "has {reached:,} rows, and none has more than {most:,}",
                private=PRIVATE,
                asked=self.output_size,
                reached=int(largest.value),
                most=int(largest.bound),
            )


@dataclass(frozen=True)
class SolvedPairs:
    """Pairs of each user, and the released count of each pair."""

    method: PaperOptimal
    holdings: Holdings
    solution: Solution

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw users for the counts."""
        from querycloak.methods.optimal.made_up_users import log_table, named

        pair, user, count = sample(self.holdings, self.solution.counts, randomness)
        table = log_table(self.holdings.keys, pair, named(user, randomness), count)
        remark = self.solution.remark(self.method.objective)
        return Drawn({"log": table}, counts="sampled", rows=RowKind.DRAWN, remarks=[remark])


def sample(holdings: Holdings, counts: IntArray, randomness: Randomness) -> tuple[IntArray, IntArray, IntArray]:
    """Pair, user and count after drawing x_ij users for each pair, each with probability c_ijk / c_ij."""
    _, pair, user, count = sample_runs(holdings, counts, randomness, 1)
    return pair, user, count


def sample_runs(
    holdings: Holdings, counts: IntArray, randomness: Randomness, runs: int
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Run, pair, user and count of several independent draws."""
    import numpy as np

    pair = np.tile(np.repeat(np.arange(holdings.pairs), counts), runs)
    # Lay all counts end to end: a uniform place within a pair's stretch falls on user k with probability c_ijk / c_ij.
    ends = np.cumsum(holdings.count)
    begins = np.concatenate([[0], ends])[holdings.starts[:-1]]
    place = begins[pair] + randomness.below_each(holdings.totals[pair])
    run = np.repeat(np.arange(runs), int(counts.sum()))
    drawn, number = np.unique(run * len(ends) + np.searchsorted(ends, place, side="right"), return_counts=True)
    entry = drawn % len(ends)
    return drawn // len(ends), holdings.pair[entry], holdings.user[entry], number.astype(np.int64)


def _largest(holdings: Holdings) -> float:
    return float(holdings.totals.max()) / holdings.size


def chance_to_appear(given: Budget) -> float:
    """1 - exp(-min(epsilon, log(1/(1-delta)))), rounded up to a float: log 2 as a float gives 1/2."""
    low, _ = exp_minus(stated(given.epsilon), _BITS)
    return min(given.delta, rounded_up(1 - Fraction(low, 1 << _BITS)))
