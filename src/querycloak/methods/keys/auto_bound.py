"""`--per-user auto`: a small part of epsilon chooses the bound, the rest releases (proof: prices/bound_choice.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from querycloak.errors import ParameterError
from querycloak.methods.unprotected import with_any_bound
from querycloak.privacy.budget import Budget, Given
from querycloak.privacy.chance.exact import rounded_down, stated
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import refuse, share
from querycloak.privacy.prices.table_plan import TablePlan
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.engines import Engine
    from querycloak.methods.keys.key_tables import Keys, Publish, TablesAtAnyBound
    from querycloak.privacy.composing.draws import Draw
    from querycloak.privacy.prices.reach import Route
    from querycloak.privacy.prices.table_reach import TableReach

AUTO = "auto"
BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEFAULT_SHARE = 0.02


class Planned(Protocol):
    """A method whose plans are known."""

    @property
    def plans(self) -> Mapping[str, TablePlan]:
        """Noise, threshold and bound of each table."""
        ...

    def parameters(self) -> dict[str, Any]:
        """What the card says."""
        ...

    def proven(self) -> Guarantee:
        """What it guarantees alone."""
        ...

    def reach(self) -> Mapping[str, TableReach]:
        """What its counts are worth."""
        ...


@dataclass(frozen=True)
class AutoBound:
    """The public side of the choice: how epsilon is divided, and the plans among which to choose."""

    given: Budget
    share: float
    at_bound: Callable[[int, float], Planned] = field(compare=False)  # of a method; it is that which is compared
    unprotected: tuple[str, ...]
    claimed: None = None

    @property
    def plans(self) -> Mapping[str, TablePlan]:
        """There are none yet."""
        raise ParameterError(
            Sentence("{per_user:auto} is chosen when the log is released: there is no plan before that")
        )

    @property
    def budget(self) -> tuple[float, float]:
        """What choosing spends of epsilon, and what is left for the release; together at most epsilon."""
        left = rounded_down(stated(self.given.epsilon) * (1 - stated(self.share)))
        return rounded_down(stated(self.given.epsilon) - stated(left)), left

    def candidates(self) -> list[Planned]:
        """The method at each bound that the budget can pay."""
        found: list[Planned] = []
        failures: list[ParameterError] = []
        for bound in BOUNDS:
            try:
                found.append(self._within_budget(self.at_bound(bound, self.budget[1])))
            except ParameterError as failure:
                failures.append(failure)
        if not found:
            raise failures[0]
        return found

    def largest_candidate(self) -> Planned | None:
        """The method at the largest bound that the budget can pay."""
        for bound in reversed(BOUNDS):
            with suppress(ParameterError):
                return self.at_bound(bound, self.budget[1])
        return None

    def _within_budget(self, method: Planned) -> Planned:
        """The method, after one more look: the proof needs every candidate to keep to what is left."""
        epsilon, delta = method.proven().numbers
        if epsilon > self.budget[1] or delta > self.given.delta:
            raise ParameterError("a bound's plan exceeds what is left of the budget; this is a bug in querycloak")
        return method

    @property
    def proven(self) -> Guarantee:
        """The same whatever is chosen."""
        choosing, left = self.budget
        return user_guarantee(
            self.given.epsilon,
            self.given.delta,
            f"epsilon {choosing:g} chooses by the exponential mechanism how many keys of a user count, of "
            f"those of {', '.join(map(str, BOUNDS))} that its options allow (privacy/prices/bound_choice.md); "
            "whichever it is, noise and threshold are solved "
            f"for epsilon {left:g} and this delta, and the two add up",
            self.unprotected,
        )

    def draws(self) -> Sequence[Draw]:
        """The choice, and a release of which only its budget is known beforehand."""
        from querycloak.privacy.composing.draws import Anything

        return [Anything(self.budget[0]), Anything(self.budget[1], self.given.delta)]

    def routes(self) -> Mapping[str, Sequence[Route]]:
        """How keys of each table come out, at every bound that may be chosen."""
        listed = [each.plans for each in self.candidates()]
        return {table: [plans[table].route() for plans in listed] for table in listed[0]}

    def reach(self) -> Mapping[str, TableReach]:
        """What the counts of each table are worth, over all bounds that may be chosen."""
        from querycloak.methods.counted_users import at_some_bound

        listed = [each.reach() for each in self.candidates()]
        return {table: at_some_bound(table, [each[table] for each in listed]) for table in listed[0]}

    def count(
        self, engine: Engine, contributions: Mapping[str, ir.Table], keys: Keys, published: Publish
    ) -> TablesAtAnyBound:
        """Keep the contributions: they are read to choose, and again to release."""
        from querycloak.methods.keys.key_tables import count_at_chosen_bound

        return count_at_chosen_bound(engine, self, contributions, keys, published)

    def parameters(self) -> dict[str, Any]:
        """What decides the choice."""
        return {"per_user": AUTO, "per_user_choices": list(BOUNDS), "auto_share": self.share}


def auto_bound(
    given: Given, auto_share: float | None, variant: str, at_bound: Callable[[int, float], Planned]
) -> AutoBound:
    """How the bound is chosen, if it can be."""
    if variant == "paper":
        raise ParameterError(
            Sentence("the paper variant has no way of choosing a bound: give {per_user} a number, not auto")
        )
    if not isinstance(given, Budget):
        raise ParameterError(
            Sentence("{per_user:auto} needs the budget ({epsilon}, {delta}): noise and threshold follow the bound")
        )
    part = DEFAULT_SHARE if auto_share is None else auto_share
    checked = share("auto_share", part, "give the part of epsilon that chooses the bound, such as 0.02")
    chooser = AutoBound(given, checked, at_bound, ())
    smallest = at_bound(BOUNDS[0], chooser.budget[1])  # a budget that cannot pay it is refused here
    largest = chooser.largest_candidate() or smallest
    return replace(chooser, unprotected=with_any_bound(_weakest(smallest), _weakest(largest)))


def _weakest(method: Planned) -> TablePlan:
    return min(method.plans.values(), key=lambda plan: plan.accounts_for(1))


def check_given_bound(per_user: object, auto_share: object) -> None:
    """Refuse what goes with `auto` alone."""
    if isinstance(per_user, str):
        refuse("per_user", f"a whole number or {AUTO}", per_user, "leave it out for the default")
    if auto_share is not None:
        raise ParameterError(
            Sentence("{auto_share} is the price of {per_user:auto}; leave it out where the bound is given")
        )
