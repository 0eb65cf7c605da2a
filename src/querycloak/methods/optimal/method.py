"""Releases in the log's own schema (proof: optimal.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import ParameterError
from querycloak.methods.forcing_accounts import several_accounts
from querycloak.methods.method import Counted, Method, Variant
from querycloak.methods.optimal.plan import TOTAL, SyntheticPlan, plan_synthetic
from querycloak.methods.option import option
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.budget import Budget
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import natural, refuse, share
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.optimal.noisy_tables import NoisyTables
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy
    from querycloak.privacy.sampling.randomness import Randomness

WEIGHTS = ("size", "diversity", "frequent")
PER_USER, LINKED_PER_USER = 256, 4
"""Best bounds on the synthetic standard log at (8, 1e-7); logs with few searches per user need smaller ones."""
_MOST_PER_USER = 1000
_FITTED = (
    "The margin is that of a pair's noisy total, before totals are fitted to how many pairs made-up users have; an "
    "objective other than size changes totals on purpose, and there is no margin then.",
    "Every user is made up. A spurious row is here a pair that no user of the log clicked.",
)


@dataclass(frozen=True, kw_only=True)
class Optimal(Method):
    """Release rows of user, query, url and count, with counts that are best for an objective.

    The default makes synthetic users from noisy pairs, associations and numbers of pairs per user. The paper variant
    (querycloak.papers.hong2012) draws real users for output counts that a program optimises under every user's
    constraint.
    """

    name = "optimal"
    summary = "Made-up users in the log's own schema."
    # The second is what numba loads when it compiles for the first time.
    drawn_with = ("querycloak.methods.optimal.made_up_users", "numba.core.runtime.context")

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
    total_share: float | None = option(
        help="Default variant: part of the privacy loss for a noisy total, by which shares of it are computed; 0.01 if "
        "not given (none where it would drown in noise), 0 for none.",
    )
    solver: Literal["best", "floor", "spe"] | None = option(
        help="Paper variant: how its programs are solved. best (if not given): whole counts with a certified gap; "
        "floor: the linear program rounded down, as published; spe: the published heuristic, for diversity."
    )
    variant: Variant = option("default", help="paper: as published, to compare with.")
    given: Budget = field(init=False, repr=False)
    weighting: Mapping[str, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        if self.epsilon is None or self.delta is None:
            raise ParameterError.of(
                "{epsilon} and {delta} must be given: the budget, such as {epsilon:8} and {delta:1e-7}"
            )
        object.__setattr__(self, "given", Budget(self.epsilon, self.delta))
        self._check_objective()
        object.__setattr__(self, "weighting", _weighting(self.weights) if self.objective == "joint" else {})
        self.check_bounds()

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
        self.check_solver()

    def check_solver(self) -> None:
        """Refuse a solver: only the paper variant solves programs."""
        if self.solver is not None:
            refuse("solver", "left out", self.solver, Sentence("it goes with {variant:paper}"))

    def _must_be_given(self, name: str, meaning: str) -> ParameterError:
        chosen = Parameter("objective", self.objective)
        message = Sentence(
            "{name} must be given with {chosen}: {meaning}", name=Parameter(name), chosen=chosen, meaning=meaning
        )
        return ParameterError(message, parameter=name, rule="given", way_out=meaning)

    def check_bounds(self) -> None:
        """Refuse bounds on a user's pairs that are no numbers, or a budget that they do not allow."""
        _ = self.plan

    @cached_property
    def plan(self) -> SyntheticPlan:
        """The noise of the three tables that synthetic users are made from."""
        per_user = PER_USER if self.max_keys_per_user is None else self.max_keys_per_user
        linked = LINKED_PER_USER if self.linked_per_user is None else self.linked_per_user
        natural("max_keys_per_user", per_user, "say how many pairs one user may add to", most=_MOST_PER_USER)
        natural("linked_per_user", linked, "say how many of a user's pairs are linked", most=_MOST_PER_USER)
        readable = self.objective in ("size", "frequent") or self.output_size is None
        if self.total_share is not None:
            return plan_synthetic(self.given, per_user, linked, self._checked_share(readable=readable))
        try:
            return plan_synthetic(self.given, per_user, linked, TOTAL if readable else 0.0)
        except ParameterError:  # the noise of a total would be beyond all use, or that of other tables is
            return plan_synthetic(self.given, per_user, linked)

    def _checked_share(self, *, readable: bool) -> float:
        """The share given for the total; refused where the objective changes shares on purpose."""
        if self.total_share is not None and self.total_share != 0:
            share("total_share", self.total_share, "give a small share, such as 0.01, or 0 for no total")
            if not readable:
                way_out = Sentence("with {output_size}, {objective:size} and {objective:frequent} keep shares")
                refuse("total_share", "left out or 0", self.total_share, way_out)
        return float(self.total_share or 0)

    @property
    def wanted(self) -> dict[str, Any]:
        """The objective as parameters of a card."""
        return {
            "objective": self.objective,
            "support": self.support,
            "output_size": self.output_size,
            "weights": dict(self.weighting) or None,
        }

    def parameters(self) -> dict[str, Any]:
        """Given options, and the numbers computed from them."""
        return {
            **self.wanted,
            **self.plan.pairs.parameters(),
            "linked_per_user": self.plan.linked_per_user,
            "link_noise": self.plan.link_noise and self.plan.link_noise.sigma,
            "link_threshold": self.plan.link_threshold,
            "size_noise": self.plan.size_noise.sigma,
            **({} if self.plan.total_noise is None else {"total_noise": self.plan.total_noise.sigma}),
        }

    def proven(self) -> Guarantee:
        """Guarantee that optimal.md proves."""
        unprotected = (*ALWAYS, several_accounts(self.plan.pairs.forced_out))
        return user_guarantee(self.plan.epsilon, self.plan.delta, self._because(self.plan), unprotected)

    def _because(self, budget: SyntheticPlan) -> str:
        linked = ""
        if budget.link_noise is not None:
            linked = (
                f"; any two of a user's first {budget.linked_per_user} released pairs are an association, whose count "
                f"gets noise of sigma {budget.link_noise.sigma:g} and comes out above {budget.link_threshold}"
            )
        total = ""
        if budget.total_noise is not None:
            total = (
                f"; the number of pairs that users hold, at most {budget.per_user} each, gets noise of sigma "
                f"{budget.total_noise.sigma:g}"
            )
        return (
            f"pairs: {budget.pairs.guarantee().because}{linked}{total}; the numbers of users by how many pairs they "
            f"have get noise of sigma {budget.size_noise.sigma:g}; all these draws add up exactly to (epsilon, delta), "
            "and users are made up from what they give (methods/optimal/optimal.md)"
        )

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Pairs must pass a threshold before users are made up."""
        return {"log": [self.plan.pairs.route()]}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy by the noise of pairs."""
        from querycloak.methods.counted_users import alone, cut_off
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        plan = self.plan
        own = plan.pairs.rows_of_one_user
        accuracy = TableAccuracy.of_route(
            self.routes()["log"][0],
            "1 in every row: a made-up user has the pair; the rows of a pair add up to the users who clicked it, each "
            f"counted for the first {plan.counted_per_user} released pairs only; plus {plan.count_noise.words}",
            notes=[*_FITTED, *self._read_shares(), cut_off("clicks", plan.per_user), alone(own)],
        )
        return {"log": accuracy if self.objective == "size" else replace(accuracy, margin95=None)}

    def _read_shares(self) -> list[str]:
        noise = self.plan.total_noise
        if noise is None:
            return []
        return [
            "Shares: the rows of a pair, divided by the total among the parameters of this card, are its share of all "
            "pairs that people clicked, missing ones included; 95 % of totals are off by at most "
            f"{1.96 * noise.sigma:,.0f}."
        ]

    def draws(self) -> Sequence[Draw]:
        """Draws, recorded for the composition of several releases."""
        return self.plan.draws()

    def count(self, log: SearchLog) -> Counted:
        """Bound every user of the log."""
        from querycloak.methods.optimal.noisy_tables import BoundedPairs

        return BoundedPairs.of(self, self.plan, log)

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
            whole=tables.whole,
        )
        user, pair = deal(reconcile(tables.count, tables.sizes, wanted), tables, randomness)
        return log_table(tables.pairs, pair, named(user, randomness), np.ones(pair.size, dtype=np.int64))


def _weighting(text: str | None) -> dict[str, float]:
    """The weights in a text such as size=1,diversity=0.5; those left out are 0. None: all are 1."""
    if text is None:
        return dict.fromkeys(WEIGHTS, 1.0)
    rule, way_out = "such as size=1,diversity=0.5,frequent=2", "name weights of size, diversity or frequent"
    numbers: dict[str, float] = {}
    for part in str(text).split(","):
        name, _, number = (piece.strip() for piece in part.partition("="))
        if name not in WEIGHTS or name in numbers:
            refuse("weights", rule, text, way_out)
        try:
            numbers[name] = float(number)
        except ValueError:
            refuse("weights", rule, text, way_out)
        if not 0 <= numbers[name] < math.inf:
            refuse("weights", "finite numbers of at least 0", text, way_out)
    if not any(numbers.values()):
        refuse("weights", "above 0 for one of them at least", text, way_out)
    return numbers
