"""Releases in the log's own schema (proof: optimal.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import InputError, ParameterError
from querycloak.methods.method import VARIANTS, checked_choice
from querycloak.methods.optimal.synthetic.budget import Budget, plan_budget
from querycloak.methods.unprotected import ALWAYS, several_accounts
from querycloak.privacy.chance.exact import exp_minus, rounded_up, stated
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import natural, number_above_zero, refuse, share

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.paper.holdings import Holdings
    from querycloak.methods.optimal.paper.solver import Solution
    from querycloak.methods.optimal.synthetic.noisy_tables import NoisyTables
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.privacy.chance.randomness import Randomness
    from querycloak.privacy.composing.draws import Mechanism
    from querycloak.releases.release import Release
    from querycloak.releases.tables import Table

OBJECTIVES = ("size", "frequent", "diversity", "queries", "joint")
WEIGHTS = ("size", "diversity", "frequent")
PER_USER, LINKED_PER_USER = 64, 4
"""What keeps most of the synthetic standard log at (8, 1e-7); fewer per user suit logs of people who search little."""
_MOST_PER_USER = 1000
_UNPROTECTED_BY_SAMPLING = (
    "how often each pair comes out, and which pairs: computed from the log without noise",
    "what users who are drawn did: all rows of a drawn user stand under one name",
    "that nothing could be released, or not as much as was asked: an error tells whoever runs it",
)
_BITS = 128


@dataclass(frozen=True, kw_only=True)
class Optimal:
    """Release rows of user, query, url and count, with counts that are best for an objective.

    The default makes synthetic users from noisy pairs, associations and numbers of pairs per user. The paper variant
    draws real users for output counts that a program optimises under every user's constraint.
    """

    name: ClassVar[str] = "optimal"

    epsilon: float | None = None
    delta: float | None = None
    objective: str = "size"
    support: float | None = None
    output_size: int | None = None
    weights: str | None = None
    per_user: int | None = None
    linked_per_user: int | None = None
    variant: str = "default"
    budget: Budget | None = field(init=False, repr=False)
    weighting: Mapping[str, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_choice("variant", self.variant, VARIANTS)
        checked_choice("objective", self.objective, OBJECTIVES)
        if self.epsilon is None or self.delta is None:
            raise ParameterError("epsilon and delta must be given: the budget, such as epsilon 8 and delta 1e-7")
        number_above_zero("epsilon", self.epsilon, "give a number such as 1")
        share("delta", self.delta, "give a number such as 1e-7, far below one divided by the number of users")
        self._check_objective()
        object.__setattr__(self, "weighting", _weighting(self.weights) if self.objective == "joint" else {})
        object.__setattr__(self, "budget", self._budget())

    def _check_objective(self) -> None:
        distant = self.objective in ("frequent", "joint")
        if self.output_size is not None:
            natural("output_size", self.output_size, "say how many rows to release, counting each as its count")
        elif distant:
            raise ParameterError(f"output_size must be given with objective {self.objective}: how many rows to release")
        if distant and self.support is None:
            raise ParameterError(
                f"support must be given with objective {self.objective}: from which share of all clicks on a pair is "
                "frequent, such as 0.002"
            )
        if self.support is not None:
            share("support", self.support, "give the share of all clicks that makes a pair frequent, such as 0.002")
            if not distant:
                refuse("support", "left out", self.support, "it goes with the objectives frequent and joint")
        if self.weights is not None and self.objective != "joint":
            refuse("weights", "left out", self.weights, "they go with the objective joint")

    def _budget(self) -> Budget | None:
        given = {"per_user": self.per_user, "linked_per_user": self.linked_per_user}
        if self.variant == "paper":
            for name, value in given.items():
                if value is not None:
                    refuse(name, "left out in the paper variant", value, "it bounds nobody's contribution")
            return None
        per_user = PER_USER if self.per_user is None else self.per_user
        linked = LINKED_PER_USER if self.linked_per_user is None else self.linked_per_user
        natural("per_user", per_user, "say how many pairs one user may add to", most=_MOST_PER_USER)
        natural("linked_per_user", linked, "say how many of a user's pairs are linked", most=_MOST_PER_USER)
        return plan_budget(float(self.epsilon or 0), float(self.delta or 0), per_user, linked)

    def parameters(self) -> dict[str, Any]:
        """What was given and what was solved for."""
        given = {
            "objective": self.objective,
            "support": self.support,
            "output_size": self.output_size,
            "weights": dict(self.weighting) or None,
        }
        if self.budget is None:
            return {"epsilon": self.epsilon, "delta": self.delta, **given}
        return {
            **given,
            "per_user": self.budget.per_user,
            "linked_per_user": self.budget.linked_per_user,
            "noise": self.budget.pair_noise.sigma,
            "threshold": self.budget.pair_threshold,
            "link_noise": self.budget.link_noise and self.budget.link_noise.sigma,
            "link_threshold": self.budget.link_threshold,
            "size_noise": self.budget.size_noise.sigma,
        }

    def claimed(self) -> Guarantee | None:
        """What Hong, Vaidya, Lu and Wu say, in the paper variant."""
        if self.variant != "paper":
            return None
        because = "as stated by Hong, Vaidya, Lu and Wu, EDBT 2012 (probabilistic differential privacy)"
        return user_guarantee(self.epsilon, self.delta, because)

    def proven(self) -> Guarantee:
        """What optimal.md proves."""
        if self.budget is None:
            return self._proven_of_sampling()
        unprotected = (*ALWAYS, several_accounts(self.budget.pair_threshold + 1))
        return user_guarantee(self.budget.epsilon, self.budget.delta, self._because(self.budget), unprotected)

    def _because(self, budget: Budget) -> str:
        linked = ""
        if budget.link_noise is not None:
            linked = (
                f"; two of a user's first {budget.linked_per_user} released pairs are an association, noise of sigma "
                f"{budget.link_noise.sigma:g}, out above {budget.link_threshold}"
            )
        return (
            f"each user adds to at most {budget.per_user} pairs, discrete Gaussian noise of sigma "
            f"{budget.pair_noise.sigma:g}, out above {budget.pair_threshold}{linked}; numbers of pairs per user with "
            f"noise of sigma {budget.size_noise.sigma:g}; together (epsilon, delta); users are made up from these "
            "(methods/optimal/optimal.md)"
        )

    def _proven_of_sampling(self) -> Guarantee:
        chance = _chance_to_appear(float(self.epsilon or 0), float(self.delta or 0))
        # A pair that n users clicked alike may come out once each of them appears with a chance of at most 1/n.
        accounts = several_accounts(math.ceil(1 / stated(chance)))
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

    def mechanisms(self) -> list[Mechanism]:
        """What is drawn, for whoever adds up."""
        return [] if self.budget is None else self.budget.mechanisms()

    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Count, charge, draw."""
        from querycloak.methods.releasing import Run

        run = Run.begin(self, log, ledger, population, randomness)
        if self.budget is not None:
            draw, remarks = self._synthetic(log, run.drawing), list[str]()
        else:
            draw, remarks = self._sampled(log, run.drawing)
        counts, rows = ("sampled", "drawn") if self.budget is None else ("synthetic", "made-up")
        return run.finish(draw, counts=counts, rows=rows, remarks=remarks)

    def _synthetic(self, log: SearchLog, randomness: Randomness) -> Callable[[], Mapping[str, Table]]:
        """Bound the log; what is returned draws the noisy tables, and reads the log no more after that."""
        from querycloak.methods.optimal.synthetic.noisy_tables import bounded, draw_tables

        budget = self._planned()
        contributions = bounded(log, budget.per_user)
        log.checked()

        def draw() -> dict[str, Table]:
            tables = draw_tables(log.engine, contributions, budget, randomness)
            return {"log": self.made_up(tables, randomness)}

        return draw

    def made_up(self, tables: NoisyTables, randomness: Randomness) -> pa.Table:
        """The rows of synthetic users: post-processing of the noisy tables."""
        import numpy as np

        from querycloak.methods.optimal.drawn_rows import log_table, named
        from querycloak.methods.optimal.objectives import free_objective
        from querycloak.methods.optimal.synthetic.degree_sequences import reconcile
        from querycloak.methods.optimal.synthetic.made_up_users import deal

        query = tables.pairs["query"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        wanted = free_objective(
            self.objective,
            tables.count,
            query,
            support=self.support,
            output_size=self.output_size,
            weights=self.weighting,
        )
        user, pair = deal(reconcile(tables.count, tables.sizes, wanted), tables, randomness)
        return log_table(tables.pairs, pair, named(user, randomness), np.ones(pair.size, dtype=np.int64))

    def _sampled(self, log: SearchLog, randomness: Randomness) -> tuple[Callable[[], Mapping[str, Table]], list[str]]:
        """Solve for the output counts; what is returned draws users for them."""
        from querycloak.methods.optimal.drawn_rows import log_table, named, sample
        from querycloak.methods.optimal.paper.holdings import of_log

        held = of_log(log)
        solution = self.solve(held)

        def draw() -> dict[str, Table]:
            pair, user, count = sample(held, solution.counts, randomness)
            return {"log": log_table(held.keys, pair, named(user, randomness), count)}

        return draw, [solution.remark(self.objective)]

    def solve(self, held: Holdings) -> Solution:
        """The output counts of the paper variant; they, and every error here, are private output."""
        from querycloak.methods.optimal.objectives import objective
        from querycloak.methods.optimal.paper.constraints import least_delta, limit, packing
        from querycloak.methods.optimal.paper.holdings import PRIVATE
        from querycloak.methods.optimal.paper.solver import largest_output, solve

        bound = limit(float(self.epsilon or 0), float(self.delta or 0))
        goal = objective(
            self.objective, held.totals, support=self.support, output_size=self.output_size, weights=self.weighting
        )
        rows = packing(held, bound, goal)
        if not rows.most.any():
            least = least_delta(held)
            raise InputError(
                f"{PRIVATE} with this budget no pair at all can be released; that needs at least delta {least:.4g} and "
                f"epsilon {-math.log1p(-least):.4g}"
            )
        if self.support is not None and not (goal.goal >= 0).any():
            raise InputError(f"{PRIVATE} no pair reaches support {self.support:g}; the largest is {_largest(held):.4g}")
        if not goal.total_exact:
            solution = solve(rows, goal)
            if self.objective != "joint":  # which may want fewer
                self._check_reached(solution)
            return solution
        largest = largest_output(held, bound)
        self._check_reached(largest)
        return solve(rows, goal, begun=largest.counts)

    def _check_reached(self, largest: Solution) -> None:
        from querycloak.methods.optimal.paper.holdings import PRIVATE

        if largest.value < (self.output_size or 0):
            raise InputError(
                f"{PRIVATE} output_size {self.output_size:,} is above what the constraints allow: the largest output "
                f"found has {int(largest.value):,} rows, and none has more than {int(largest.bound):,}"
            )

    def _planned(self) -> Budget:
        if self.budget is None:
            raise TypeError("the paper variant has no noise to plan")
        return self.budget


def _largest(held: Holdings) -> float:
    return float(held.totals.max()) / held.size


def _chance_to_appear(epsilon: float, delta: float) -> float:
    """1 - exp(-min(epsilon, log(1/(1-delta)))), rounded up."""
    low, _ = exp_minus(stated(epsilon), _BITS)
    return min(delta, rounded_up(1 - Fraction(low, 1 << _BITS)))


def _weighting(text: str | None) -> dict[str, float]:
    """Size=1,diversity=0.5,frequent=2 as numbers; those left out are 0, and without any all are 1."""
    if text is None:
        return dict.fromkeys(WEIGHTS, 1.0)
    rule, way_out = "such as size=1,diversity=0.5,frequent=2", "name weights of size, diversity or frequent"
    found: dict[str, float] = {}
    for part in str(text).split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in WEIGHTS or name in found:
            refuse("weights", rule, text, way_out)
        try:
            found[name] = float(number)
        except ValueError:
            refuse("weights", rule, text, way_out)
        if not 0 <= found[name] < math.inf:
            refuse("weights", "finite numbers of at least 0", text, way_out)
    if not any(found.values()):
        refuse("weights", "above 0 for one of them at least", text, way_out)
    return found
