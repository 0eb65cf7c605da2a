"""`auto`: part of epsilon chooses selection and bound, the rest releases (proof: calibration/bound_choice.md)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from querycloak.errors import ParameterError
from querycloak.methods.keys.plans import Selection
from querycloak.methods.unprotected import with_any_bound
from querycloak.privacy.budget import Budget, Given
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import recorded_selection
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import refuse, share
from querycloak.privacy.sampling.exact import rounded_down, stated
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.key_tables import TablesAtAnyBound
    from querycloak.methods.keys.method import KeysMethod
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy

AUTO = "auto"
BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
DEFAULT_SHARE = 0.01


class Choice(NamedTuple):
    """A bound, and the selection that goes with it; None leaves that to the options or to a formula."""

    bound: int
    selection: Selection | None = None

    def __str__(self) -> str:
        return f"{self.selection} {self.bound}" if self.selection else str(self.bound)

    @property
    def recorded(self) -> str:
        """As cards hold it."""
        return f"{recorded_selection(self.selection)} {self.bound}" if self.selection else str(self.bound)


CHOICES = (Choice(1, "laplace"), Choice(16, "multi-round"), Choice(256, "multi-round"))
"""No other selection or bound did clearly better than the best of these on any log that was tried (bound_choice.md)."""
WITHOUT_ROUNDS = (Choice(1, "laplace"), Choice(8, "gaussian"), Choice(32, "gaussian"), Choice(256, "weighted"))
"""For budgets too small for scouting rounds."""
ANY_BOUND = tuple(Choice(bound) for bound in BOUNDS)
"""Where the selection is given."""


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

    def reach(self) -> Mapping[str, TableAccuracy]:
        """What its counts are worth."""
        ...

    def reads(self) -> object:
        """What decides, beside the log, what users may add before a bound."""
        ...

    def contributions(self, log: SearchLog) -> Mapping[str, ir.Table]:
        """What users may add to each table, before a plan's bound."""
        ...


@dataclass(frozen=True)
class AutoBound:
    """The public side of the choice: how epsilon is divided, and the plans among which to choose."""

    given: Budget
    share: float
    at_choice: Callable[[Choice, float], Planned] = field(compare=False)  # of a method; it is that which is compared
    choices: tuple[Choice, ...] = CHOICES
    claimed: None = None

    @property
    def plans(self) -> Mapping[str, TablePlan]:
        """There are none yet."""
        raise ParameterError(
            Sentence("{max_keys_per_user:auto} is chosen when the log is released: there is no plan before that")
        )

    @property
    def budget(self) -> tuple[float, float]:
        """What choosing spends of epsilon, and what is left for the release; together at most epsilon."""
        left = rounded_down(stated(self.given.epsilon) * (1 - stated(self.share)))
        return rounded_down(stated(self.given.epsilon) - stated(left)), left

    @cached_property
    def payable(self) -> tuple[tuple[Choice, Planned], ...]:
        """The method at each choice that the budget can pay."""
        found: list[tuple[Choice, Planned]] = []
        failures: list[ParameterError] = []
        for choice in self.choices:
            try:
                found.append((choice, self._within_budget(self.at_choice(choice, self.budget[1]))))
            except ParameterError as failure:
                failures.append(failure)
        if not found:
            raise failures[0]
        return tuple(found)

    def candidates(self) -> list[Planned]:
        """The methods among which to choose."""
        return [method for _, method in self.payable]

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
            f"epsilon {choosing:g} chooses by the exponential mechanism how keys are selected and how many of a user "
            f"count, of these: {', '.join(str(choice) for choice, _ in self.payable)} "
            "(privacy/calibration/bound_choice.md); whichever it is, noise and threshold are solved "
            f"for epsilon {left:g} and this delta, and the two add up",
            with_any_bound([_weakest(method) for method in self.candidates()]),
        )

    def draws(self) -> Sequence[Draw]:
        """The choice, and a release of which only its budget is known beforehand."""
        from querycloak.privacy.accounting.draws import Anything

        return [Anything(self.budget[0]), Anything(self.budget[1], self.given.delta)]

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """How keys of each table come out, at every bound that may be chosen."""
        listed = [each.plans for each in self.candidates()]
        return {table: [plans[table].route() for plans in listed] for table in listed[0]}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """What the counts of each table are worth, over all bounds that may be chosen."""
        from querycloak.methods.counted_users import at_some_bound

        listed = [each.plans for each in self.candidates()]
        return {table: at_some_bound(table, [plans[table] for plans in listed]) for table in listed[0]}

    def count(self, log: SearchLog, method: KeysMethod) -> TablesAtAnyBound:
        """Keep the contributions: they are read to choose, and again to release."""
        from querycloak.methods.keys.key_tables import count_at_chosen_bound

        others = {each.reads(): each for each in self.candidates() if each.reads() != method.reads()}
        held = {method.reads(): method.contributions(log)}
        held |= {kind: each.contributions(log) for kind, each in others.items()}
        return count_at_chosen_bound(log.engine, self, method.reads(), held, method.keys, method.published)

    def parameters(self) -> dict[str, Any]:
        """What decides the choice."""
        laws = {method.parameters()["selection"] for method in self.candidates()}
        return {
            "selection": laws.pop() if len(laws) == 1 else AUTO,
            "per_user": AUTO,
            "auto_choices": [choice.recorded for choice, _ in self.payable],
            "auto_share": self.share,
        }


def auto_bound(
    given: Given,
    auto_share: float | None,
    at_choice: Callable[[Choice, float], Planned],
    *,
    any_selection: bool,
) -> AutoBound:
    """How selection and bound are chosen, if they can be; any_selection: whether the selection is open too."""
    if not isinstance(given, Budget):
        raise ParameterError(
            Sentence(
                "{max_keys_per_user:auto} needs the budget ({epsilon}, {delta}): noise and threshold follow the bound"
            )
        )
    part = DEFAULT_SHARE if auto_share is None else auto_share
    checked = share("auto_share", part, "give the part of epsilon that chooses, such as 0.01")
    chooser = AutoBound(given, checked, at_choice, CHOICES if any_selection else ANY_BOUND)
    if any_selection and not any(choice.selection == "multi-round" for choice, _ in chooser.payable):
        chooser = AutoBound(given, checked, at_choice, WITHOUT_ROUNDS)
    _ = chooser.payable  # a budget that cannot pay anything is refused here
    return chooser


def _weakest(method: Planned) -> TablePlan:
    return min(method.plans.values(), key=lambda plan: plan.accounts_for(1))


def check_given_bound(max_keys_per_user: object, auto_share: object) -> None:
    """Refuse what goes with `auto` alone."""
    if isinstance(max_keys_per_user, str):
        refuse("max_keys_per_user", f"a whole number or {AUTO}", max_keys_per_user, "leave it out for the default")
    if auto_share is not None:
        raise ParameterError(
            Sentence("{auto_share} is the price of {max_keys_per_user:auto}; leave it out where the bound is given")
        )
