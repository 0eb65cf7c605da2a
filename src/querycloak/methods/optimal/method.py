"""Releases in the log's own schema (proof: optimal.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import InputError, ParameterError
from querycloak.extras import COMPARE, require
from querycloak.methods.method import Counted, Method, Variant
from querycloak.methods.optimal.plan import SyntheticPlan, plan_synthetic
from querycloak.methods.option import option
from querycloak.methods.unprotected import ALWAYS, several_accounts, with_thresholds
from querycloak.privacy.budget import Budget
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import natural, refuse, share
from querycloak.privacy.sampling.exact import exp_minus, rounded_up, stated
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.holdings import Holdings
    from querycloak.methods.optimal.noisy_tables import NoisyTables
    from querycloak.methods.optimal.objectives import Objective
    from querycloak.methods.optimal.paper.constraints import Limit, Packing
    from querycloak.methods.optimal.paper.solver import Solution
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy
    from querycloak.privacy.sampling.randomness import Randomness

WEIGHTS = ("size", "diversity", "frequent")
PER_USER, LINKED_PER_USER = 256, 4
"""What keeps most of the synthetic standard log at (8, 1e-7); fewer per user suit logs of people who search little."""
_MOST_PER_USER = 1000
_UNPROTECTED_BY_SAMPLING = (
    "how often each pair comes out, and which pairs: computed from the log without noise",
    "what users who are drawn did: all rows of a drawn user stand under one name",
    "that nothing could be released, or not as much as was asked: an error says so to the person who runs it",
)
_FITTED = (
    "The margin is that of a pair's noisy total, before totals are fitted to how many pairs made-up users have; an "
    "objective other than size changes totals on purpose, and there is no margin then.",
    "Every user is made up. That nobody asked for a row means here that nobody clicked the pair.",
)
_BITS = 128


@dataclass(frozen=True, kw_only=True)
class Optimal(Method):
    """Release rows of user, query, url and count, with counts that are best for an objective.

    The default makes synthetic users from noisy pairs, associations and numbers of pairs per user. The paper variant
    draws real users for output counts that a program optimises under every user's constraint.
    """

    name = "optimal"
    summary = "Made-up users in the log's own schema."

    epsilon: float | None = option(help="Budget: epsilon, the limit on what a release tells about one user.")
    delta: float | None = option(
        help="Budget: delta, the part of the guarantee that epsilon does not cover; far below 1/users."
    )
    objective: Literal["size", "frequent", "diversity", "queries", "joint"] = option(
        "size",
        help="What counts are chosen for: many rows, supports of frequent pairs, distinct pairs, distinct queries, or"
        " several at once.",
    )
    support: float | None = option(
        help="For frequent and joint: a pair is frequent if it has at least this share of all clicks."
    )
    output_size: int | None = option(
        help="How many rows to release, if a row with count n is n rows; must be given for frequent and joint."
    )
    weights: str | None = option(
        help="For joint, such as size=1,diversity=0.5,frequent=2. What is not named is 0; without any, all are 1."
    )
    max_keys_per_user: int | None = option(
        formerly="per_user",
        help="Default variant: how many pairs of one user count; 256 if not given. Fewer are better if people search "
        "little.",
    )
    linked_per_user: int | None = option(
        help="Default variant: how many released pairs of a user count for associations; 4 if not given."
    )
    solver: Literal["best", "floor", "spe"] | None = option(
        help="Paper variant: how its programs are solved. best (if not given): whole counts with a certified gap; "
        "floor: the linear program rounded down, as published; spe: the published heuristic, for diversity."
    )
    variant: Variant = option("default", help="paper: as published, to compare with.")
    given: Budget = field(init=False, repr=False)
    plan: SyntheticPlan | None = field(init=False, repr=False)
    weighting: Mapping[str, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        if self.epsilon is None or self.delta is None:
            raise ParameterError(
                Sentence("{epsilon} and {delta} must be given: the budget, such as {epsilon:8} and {delta:1e-7}")
            )
        object.__setattr__(self, "given", Budget(self.epsilon, self.delta))
        self._check_objective()
        object.__setattr__(self, "weighting", _weighting(self.weights) if self.objective == "joint" else {})
        object.__setattr__(self, "plan", self._plan())

    def _check_objective(self) -> None:
        distant = self.objective in ("frequent", "joint")
        if self.output_size is not None:
            natural("output_size", self.output_size, "say how many rows to release, counting each as its count")
        elif distant:
            raise self._must_be_given("output_size", "how many rows to release")
        if distant and self.support is None:
            raise self._must_be_given("support", "from which share of all clicks on a pair is frequent, such as 0.002")
        if self.support is not None:
            share("support", self.support, "give the share of all clicks that makes a pair frequent, such as 0.002")
            if not distant:
                refuse(
                    "support",
                    "left out",
                    self.support,
                    Sentence("it goes with {objective:frequent} and {objective:joint}"),
                )
        if self.weights is not None and self.objective != "joint":
            refuse("weights", "left out", self.weights, Sentence("they go with {objective:joint}"))
        if self.solver is not None and self.variant != "paper":
            refuse("solver", "left out", self.solver, Sentence("it goes with {variant:paper}"))
        if self.solver == "spe" and self.objective != "diversity":
            refuse("solver", "best or floor", self.solver, Sentence("spe goes with {objective:diversity}"))
        if self.solver == "floor" and self.objective not in ("size", "frequent", "diversity"):
            refuse("solver", "best", self.solver, "the paper has no linear program for this objective")

    def _must_be_given(self, name: str, meaning: str) -> ParameterError:
        chosen = Parameter("objective", self.objective)
        said = Sentence(
            "{name} must be given with {chosen}: {meaning}", name=Parameter(name), chosen=chosen, meaning=meaning
        )
        return ParameterError(said, parameter=name, rule="given", way_out=meaning)

    def _plan(self) -> SyntheticPlan | None:
        given = {"max_keys_per_user": self.max_keys_per_user, "linked_per_user": self.linked_per_user}
        if self.variant == "paper":
            for name, value in given.items():
                if value is not None:
                    refuse(name, "left out in the paper variant", value, "it bounds nobody's contribution")
            return None
        per_user = PER_USER if self.max_keys_per_user is None else self.max_keys_per_user
        linked = LINKED_PER_USER if self.linked_per_user is None else self.linked_per_user
        natural("max_keys_per_user", per_user, "say how many pairs one user may add to", most=_MOST_PER_USER)
        natural("linked_per_user", linked, "say how many of a user's pairs are linked", most=_MOST_PER_USER)
        return plan_synthetic(self.given, per_user, linked)

    def parameters(self) -> dict[str, Any]:
        """What was given, and what was computed from it."""
        given = {
            "objective": self.objective,
            "support": self.support,
            "output_size": self.output_size,
            "weights": dict(self.weighting) or None,
        }
        if self.plan is None:
            chosen = {} if self.solver is None else {"solver": self.solver}
            return {"epsilon": self.epsilon, "delta": self.delta, **given, **chosen}
        return {
            **given,
            **self.plan.pairs.parameters(),
            "linked_per_user": self.plan.linked_per_user,
            "link_noise": self.plan.link_noise and self.plan.link_noise.sigma,
            "link_threshold": self.plan.link_threshold,
            "size_noise": self.plan.size_noise.sigma,
        }

    def claimed(self) -> Guarantee | None:
        """What Hong, Vaidya, Lu and Wu say, in the paper variant."""
        if self.variant != "paper":
            return None
        because = "as stated by Hong, Vaidya, Lu and Wu, EDBT 2012 (probabilistic differential privacy)"
        return user_guarantee(self.epsilon, self.delta, because)

    def proven(self) -> Guarantee:
        """What optimal.md proves."""
        if self.plan is None:
            return self._proven_of_sampling()
        unprotected = with_thresholds(self.plan.pairs)
        return user_guarantee(self.plan.epsilon, self.plan.delta, self._because(self.plan), unprotected)

    def _because(self, budget: SyntheticPlan) -> str:
        linked = ""
        if budget.link_noise is not None:
            linked = (
                f"; any two of a user's first {budget.linked_per_user} released pairs are an association, whose count "
                f"gets noise of sigma {budget.link_noise.sigma:g} and comes out above {budget.link_threshold}"
            )
        return (
            f"pairs: {budget.pairs.guarantee().because}{linked}; the numbers of users by how many pairs they have "
            f"get noise of sigma {budget.size_noise.sigma:g}; all these draws add up exactly to (epsilon, delta), and "
            "users are made up from what they give (methods/optimal/optimal.md)"
        )

    def _proven_of_sampling(self) -> Guarantee:
        chance = chance_to_appear(self.given)
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

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Pairs must pass a threshold before users are made up; the paper variant has no threshold."""
        return {} if self.plan is None else {"log": [self.plan.pairs.route()]}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """What the noise of pairs gives; nothing in the paper variant, where the log decides what comes out."""
        from querycloak.methods.counted_users import alone, cut_off
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        if self.plan is None:
            note = "Which pairs come out, and how often, is computed from the log: nothing can be said before."
            return {"log": TableAccuracy("how often this user was drawn for the pair", notes=(note,))}
        plan = self.plan
        own = plan.pairs.rows_of_one_user
        found = TableAccuracy.of_route(
            self.routes()["log"][0],
            "1 in every row: a made-up user has the pair; the rows of a pair add up to the users who clicked it, each "
            f"counted for the first {plan.counted_per_user} released pairs only; plus {plan.count_noise.words}",
            notes=[*_FITTED, cut_off("clicks", plan.per_user), alone(own)],
        )
        return {"log": found if self.objective == "size" else replace(found, margin95=None)}

    def draws(self) -> Sequence[Draw]:
        """What is drawn, so that several releases can be added up."""
        return [] if self.plan is None else self.plan.draws()

    def count(self, log: SearchLog) -> Counted:
        """Bound the log, or solve for the output counts of the paper's variant."""
        if self.plan is not None:
            from querycloak.methods.optimal.noisy_tables import BoundedPairs

            return BoundedPairs.of(self, self.plan, log)
        require(COMPARE, "optimal as published")
        from querycloak.methods.optimal.paper.solver import SolvedPairs

        return SolvedPairs.of(self, log)

    def made_up(self, tables: NoisyTables, randomness: Randomness) -> pa.Table:
        """The rows of synthetic users: post-processing of the noisy tables."""
        import numpy as np

        from querycloak.methods.optimal.degree_sequences import reconcile
        from querycloak.methods.optimal.made_up_users import deal, log_table, named
        from querycloak.methods.optimal.objectives import free_objective

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

    def solve(self, held: Holdings) -> Solution:
        """The output counts of the paper variant; they, and every error here, are private output."""
        from querycloak.methods.optimal.holdings import PRIVATE
        from querycloak.methods.optimal.objectives import objective
        from querycloak.methods.optimal.paper.constraints import least_delta, limit, packing
        from querycloak.methods.optimal.paper.solver import largest_output, solve

        bound = limit(self.given.epsilon, self.given.delta)
        goal = objective(
            self.objective, held.totals, support=self.support, output_size=self.output_size, weights=self.weighting
        )
        rows = packing(held, bound, goal)
        if not rows.most.any():
            least = least_delta(held)
            raise InputError(
                Sentence(
                    "{private} with this budget no pair at all can be released; that needs at least {delta} "
                    "{least:.4g} and {epsilon} {loss:.4g}",
                    private=PRIVATE,
                    least=least,
                    loss=-math.log1p(-least),
                )
            )
        if self.support is not None and not (goal.goal >= 0).any():
            raise InputError(
                Sentence(
                    "{private} no pair reaches {support} {asked:g}; the largest is {largest:.4g}",
                    private=PRIVATE,
                    asked=self.support,
                    largest=_largest(held),
                )
            )
        if self.solver in ("floor", "spe"):
            return self._solve_as_published(held, bound, rows, goal)
        if not goal.total_exact:
            solution = solve(rows, goal)
            if self.objective != "joint":  # which may want fewer
                self._check_reached(solution)
            return solution
        largest = largest_output(held, bound)
        self._check_reached(largest)
        return solve(rows, goal, begun=largest.counts)

    def _solve_as_published(self, held: Holdings, bound: Limit, rows: Packing, goal: Objective) -> Solution:
        from querycloak.methods.optimal.objectives import objective
        from querycloak.methods.optimal.paper.constraints import packing
        from querycloak.methods.optimal.paper.solver import solve_by_floor, solve_by_spe

        if self.solver == "spe":
            return solve_by_spe(rows, goal)
        if goal.total_exact:  # the paper's |O| is at most the optimum of the largest output's linear program
            size = objective("size", held.totals)
            largest = solve_by_floor(packing(held, bound, size), size)
            self._check_reached(replace(largest, value=largest.relaxed.value))
        return solve_by_floor(rows, goal)

    def _check_reached(self, largest: Solution) -> None:
        from querycloak.methods.optimal.holdings import PRIVATE

        if self.output_size is not None and largest.value < self.output_size:
            raise InputError(
                Sentence(
                    "{private} {output_size} {asked:,} is above what the constraints allow: the largest output found "
                    "has {found:,} rows, and none has more than {most:,}",
                    private=PRIVATE,
                    asked=self.output_size,
                    found=int(largest.value),
                    most=int(largest.bound),
                )
            )


def _largest(held: Holdings) -> float:
    return float(held.totals.max()) / held.size


def chance_to_appear(given: Budget) -> float:
    """1 - exp(-min(epsilon, log(1/(1-delta)))), rounded up to a float: log 2 as a float gives 1/2."""
    low, _ = exp_minus(stated(given.epsilon), _BITS)
    return min(given.delta, rounded_up(1 - Fraction(low, 1 << _BITS)))


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
