"""Noisy counts of (query, url) pairs (proof: clicks.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import ParameterError
from querycloak.methods.keys.auto_bound import AUTO, BoundChooser, check_auto
from querycloak.methods.method import VARIANTS, budget_or_knobs, checked_choice
from querycloak.methods.unprotected import of_paper_variant, with_thresholds
from querycloak.privacy.chance.noise import Gaussian, Laplace, Noise
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.prices.one_draw import Plan, checked_bound, paper_guarantees, price
from querycloak.privacy.prices.paper_knobs import paper_knobs
from querycloak.privacy.prices.selection import (
    PER_USER,
    PRIORS,
    SELECTIONS,
    TablePlan,
    checked_budget,
    default_selection,
    plan_parameters,
    plan_tables,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.privacy.chance.randomness import Randomness
    from querycloak.privacy.composing.draws import Mechanism
    from querycloak.releases.release import Release

KEY = ("query", "url")
PAPER_PER_USER = 4


@dataclass(frozen=True, kw_only=True)
class Clicks:
    """Release the pairs that enough users clicked, each with a noisy number of users.

    Give the budget (epsilon, delta), or the knobs (noise, threshold): scale of Laplace or sigma of Gaussian noise,
    and the count that a pair must exceed.
    """

    name: ClassVar[str] = "clicks"

    epsilon: float | None = None
    delta: float | None = None
    noise: float | None = None
    threshold: int | None = None
    selection: str | None = None
    priors: str | None = None
    per_user: int | str | None = None
    auto_share: float | None = None
    two_draws: bool = False
    variant: str = "default"
    _plan: TablePlan | None = field(init=False, repr=False)
    _guarantees: tuple[Guarantee | None, Guarantee] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_choice("variant", self.variant, VARIANTS)
        if self.selection is not None:
            checked_choice("selection", self.selection, SELECTIONS)
        if self.priors is not None:
            checked_choice("priors", self.priors, PRIORS)
        given = budget_or_knobs(
            {"epsilon": self.epsilon, "delta": self.delta}, {"noise": self.noise, "threshold": self.threshold}
        )
        claimed: Guarantee | None = None
        plan: TablePlan | None = None
        check_auto(self.per_user, self.auto_share, given, self.variant)
        if self.per_user == AUTO:
            proven = self.chooser.guarantee(with_thresholds())
        elif self.variant == "paper":
            plan, claimed, proven = self._paper_plan(given)
        else:
            plan = self._solved_plan(given)
            proven = plan.guarantee(with_thresholds(plan))
        object.__setattr__(self, "_plan", plan)
        object.__setattr__(self, "_guarantees", (claimed, proven))

    @property
    def plan(self) -> TablePlan:
        """Noise, threshold and bound, where they are known before the data."""
        if self._plan is None:
            raise ParameterError("per_user auto is chosen when the log is released: there is no plan before that")
        return self._plan

    @property
    def plans(self) -> Mapping[str, TablePlan]:
        """The plan of its one table."""
        return {"clicks": self.plan}

    @property
    def chooser(self) -> BoundChooser:
        """How `auto` finds its bound."""
        return BoundChooser(self.epsilon, self.delta, self.auto_share, self.at_bound)  # type: ignore[arg-type]

    def at_bound(self, bound: int, epsilon: float | None = None) -> Clicks:
        """The same method at this bound, perhaps with another epsilon."""
        return replace(self, per_user=bound, auto_share=None, epsilon=epsilon or self.epsilon)

    def _bound(self, law: str) -> int:
        default = PAPER_PER_USER if law == "paper" else PER_USER[law]
        return checked_bound(self.per_user if self.per_user is not None else default)

    def _solved_plan(self, given: str) -> TablePlan:
        if given == "budget":
            epsilon, delta = checked_budget(self.epsilon, self.delta)
            known = None if self.per_user is None else checked_bound(self.per_user)
            law = self.selection or default_selection(epsilon, delta, known, two_draws=self.two_draws)
            bound = {"clicks": self._bound(law or "gaussian")}
            return plan_tables(
                epsilon, delta, bound, selection=law, two_draws=self.two_draws, priors=self.priors is not None
            ).plans["clicks"]
        if self.selection in ("weighted", "rounds"):
            raise ParameterError(f"selection {self.selection} has many knobs: give the budget (epsilon, delta) instead")
        noise = noise_of(self.selection or "laplace", self.noise)
        fresh = noise if self.two_draws else None
        return price(noise, self.threshold, self._bound(self.selection or "laplace"), fresh=fresh)  # type: ignore[arg-type]

    def _paper_plan(self, given: str) -> tuple[Plan, Guarantee, Guarantee]:
        if self.selection not in (None, "laplace") or self.two_draws or self.priors:
            raise ParameterError(
                "the paper variant has Laplace noise and two draws of its own: leave those options out"
            )
        bound = self._bound("paper")
        if given == "knobs":
            noise, threshold = Laplace(self.noise), self.threshold  # type: ignore[arg-type]
        else:
            noise, threshold = paper_knobs(self.epsilon, self.delta, bound)  # type: ignore[arg-type]
        claimed, proven = paper_guarantees(noise, threshold, bound)  # type: ignore[arg-type]
        plan = Plan(noise, threshold, bound, proven.epsilon, proven.delta, noise)  # type: ignore[arg-type]
        return plan, claimed, replace(proven, unprotected=of_paper_variant(plan))

    def parameters(self) -> dict[str, Any]:
        """What was given and what was solved for."""
        solved = self.chooser.parameters() if self.per_user == AUTO else plan_parameters(self.plan)
        return {**solved, "priors": self.priors}

    def mechanisms(self) -> list[Mechanism]:
        """What is drawn, for whoever adds up."""
        from querycloak.privacy.composing.draws import mechanism_of

        return self.chooser.mechanisms() if self.per_user == AUTO else [mechanism_of(self.plan)]

    def claimed(self) -> Guarantee | None:
        """What Zhang and Yang say, in the paper variant."""
        return self._guarantees[0]

    def proven(self) -> Guarantee:
        """What clicks.md proves."""
        return self._guarantees[1]

    def contributions(self, log: SearchLog) -> ir.Table:
        """What each user may add: a row for each 1 that is counted."""
        from querycloak.methods.keys.contribution_bounding import first_records, once_per_key

        if self.variant == "paper":
            return first_records(log.clicks, self.plan.per_user)
        keys = once_per_key(log.clicks, KEY)
        if self.priors is None:
            return keys
        from querycloak.methods.keys.public_priors import with_prior

        return with_prior(log.engine, keys, "query")

    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Count, charge, draw."""
        from querycloak.methods.keys.partition_selection import count, count_records, counts_of
        from querycloak.methods.releasing import Run

        run = Run.begin(self, log, ledger, population, randomness)
        if self.per_user == AUTO:
            from querycloak.methods.keys.auto_bound_draw import release_at_chosen_bound

            keys = {"clicks": self.contributions(log)}
            return release_at_chosen_bound(run, self.chooser, keys, {"clicks": KEY})
        counting = count_records if self.variant == "paper" else count
        counted = counting(log.engine, self.contributions(log), KEY, self.plan)
        log.checked()
        return run.finish(lambda: {"clicks": counted.release(run.drawing).table}, counts=counts_of(self.plan))


def noise_of(law: str, size: object) -> Noise:
    """The noise of this law; its size is the scale of Laplace or the sigma of Gaussian noise."""
    return Laplace(size) if law == "laplace" else Gaussian(size)  # type: ignore[arg-type]
