"""From options to a plan, before anything is read: noise, threshold and bound of each table of keys.

A plan is fixed, or one of several candidates is chosen on the log: part of epsilon then chooses selection and bound,
the rest releases (proof: calibration/bound_choice.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from querycloak.errors import ParameterError
from querycloak.privacy.budget import Budget, ExplicitNoise, Given
from querycloak.privacy.calibration.table_plan import TablePlan
from querycloak.privacy.calibration.weighted import recorded_selection
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import refuse, share
from querycloak.privacy.sampling.exact import rounded_down, stated
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from querycloak.sentence import Parameter

if TYPE_CHECKING:
    from querycloak.methods.keys.method import KeysMethod
    from querycloak.privacy.accounting.draws import Draw, PublicCounts
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy

Selection = Literal["laplace", "gaussian", "weighted", "multi-round"]
Priors = Literal["public"]
Counts = Literal["noisy", "none"]
Accounting = Literal["sum", "gaussian", "series"]
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
        """The text on cards."""
        return f"{recorded_selection(self.selection)} {self.bound}" if self.selection else str(self.bound)


CHOICES = (Choice(1, "laplace"), Choice(16, "multi-round"), Choice(256, "multi-round"))
"""No other selection or bound did clearly better than the best of these on any log that was tried (bound_choice.md)."""
GAUSSIAN_CHOICES = (Choice(1, "gaussian"), *CHOICES[1:])
"""Choices for ledgers that sum squared losses: Laplace noise costs several times more (accounting/filter.md)."""
WITHOUT_ROUNDS = (Choice(1, "laplace"), Choice(8, "gaussian"), Choice(32, "gaussian"), Choice(256, "weighted"))
"""Choices for budgets too small for preselection rounds."""
GAUSSIAN_WITHOUT_ROUNDS = (Choice(1, "gaussian"), *WITHOUT_ROUNDS[1:])
ANY_BOUND = tuple(Choice(bound) for bound in BOUNDS)
"""Choices if the selection is given."""


class Candidate(NamedTuple):
    """A choice, and the method with the plan that it gives."""

    choice: Choice
    method: KeysMethod


class SplitBudget(NamedTuple):
    """Epsilon divided between the choice of a plan and the release; the two add up to at most epsilon."""

    choosing: float
    releasing: float

    @classmethod
    def of(cls, epsilon: float, share_of_choice: float) -> SplitBudget:
        """Give this share of epsilon to the choice."""
        left = rounded_down(stated(epsilon) * (1 - stated(share_of_choice)))
        return cls(rounded_down(stated(epsilon) - stated(left)), left)


@dataclass(frozen=True)
class SelectionPlan:
    """Noise, threshold and bound of each table, or the candidates for them; and the guarantee, the same for each."""

    proven: Guarantee
    tables: Mapping[str, TablePlan] = field(default_factory=dict)
    """Plans by table; empty if the log decides between candidates."""
    claimed: Guarantee | None = None
    candidates: tuple[Candidate, ...] = ()
    """The plans among which to choose on the log; empty if the plan is fixed."""
    budget: SplitBudget | None = None
    auto_share: float | None = None
    known: PublicCounts | None = None
    """The counts of known keys beside the tables; None if there are none, or if a candidate has them."""
    for_filter: bool = False
    """True if the plans are for a ledger that adds up squared losses."""
    later: tuple[Draw, ...] = ()
    """Draws of tables that look at these."""

    @property
    def alternatives(self) -> Sequence[Mapping[str, TablePlan]]:
        """The plans by table: the fixed ones, or those of each candidate."""
        return [each.method.plans for each in self.candidates] or [self.tables]

    def fixed_tables(self) -> Mapping[str, TablePlan]:
        """The plans by table, if they are known before the log is read."""
        if self.candidates:
            raise ParameterError.of(
                "{max_keys_per_user:auto} is chosen when the log is released: there is no plan before that"
            )
        return self.tables

    def draws(self) -> Sequence[Draw]:
        """The draws of each table; if a candidate is chosen, the choice and a release of which the budget is known."""
        if self.budget is None:
            beside = () if self.known is None else (self.known,)
            return [*(plan.draw() for plan in self.tables.values()), *beside, *self.later]
        from querycloak.privacy.accounting.draws import Anything, OneOf

        releasing = self.budget.releasing, self.proven.numbers[1]
        if not self.for_filter:
            return [Anything(self.budget.choosing), Anything(*releasing)]
        plans = tuple(tuple(each.method.draws()) for each in self.candidates)
        return [Anything(self.budget.choosing), OneOf(plans, *releasing)]

    def draws_of(self, chosen: KeysMethod) -> Sequence[Draw] | None:
        """The draws once a candidate is chosen; None if a ledger has no use for them."""
        if self.budget is None or not self.for_filter:
            return None
        from querycloak.privacy.accounting.draws import Anything

        return [Anything(self.budget.choosing), *chosen.draws()]

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """The ways in which keys of each table come out, one for each alternative."""
        return {table: [plans[table].route() for plans in self.alternatives] for table in self.alternatives[0]}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """The accuracy of each table's counts, over all alternatives."""
        from querycloak.methods.counted_users import at_some_bound, of_plan

        if not self.candidates:
            return {table: of_plan(table, plan) for table, plan in self.tables.items()}
        plans = self.alternatives
        return {table: at_some_bound(table, [each[table] for each in plans]) for table in plans[0]}

    def choice_parameters(self) -> dict[str, Any]:
        """The parameters of the choice, as the card holds them."""
        laws = {each.method.parameters()["selection"] for each in self.candidates}
        return {
            "selection": laws.pop() if len(laws) == 1 else AUTO,
            "per_user": AUTO,
            "auto_choices": [each.choice.recorded for each in self.candidates],
            "auto_share": self.auto_share,
        }


def shared_and_own(solved: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Parameters of several tables: those that all share, then under each table's name those that are its own."""
    first = next(iter(solved.values()))
    shared = {name: value for name, value in first.items() if all(each[name] == value for each in solved.values())}
    own = {table: {name: each[name] for name in each if name not in shared} for table, each in solved.items()}
    return {**shared, **{table: parameters for table, parameters in own.items() if parameters}}


def chosen_on_log(method: KeysMethod, given: Given) -> SelectionPlan:
    """The plan of a method whose bound, and selection if it is open, are chosen on the log.

    For a Gaussian limit the candidates have Gaussian noise, and the ledger lowers their reserve after the choice.
    """
    if not isinstance(given, Budget):
        raise ParameterError.of(
            "{max_keys_per_user:auto} needs the budget ({epsilon}, {delta}): noise and threshold follow the bound"
        )
    part = DEFAULT_SHARE if method.auto_share is None else method.auto_share
    checked = share("auto_share", part, "give the part of epsilon that chooses, such as 0.01")
    budget = SplitBudget.of(given.epsilon, checked)
    choices = GAUSSIAN_CHOICES if method.for_filter else CHOICES
    candidates = _payable(method, given, budget, choices if method.any_selection else ANY_BOUND)
    if method.any_selection and not any(each.choice.selection == "multi-round" for each in candidates):
        without_rounds = GAUSSIAN_WITHOUT_ROUNDS if method.for_filter else WITHOUT_ROUNDS
        candidates = _payable(method, given, budget, without_rounds)
    proven = _proven_of_choice(given, budget, candidates)
    return SelectionPlan(proven, candidates=candidates, budget=budget, auto_share=checked, for_filter=method.for_filter)


def _payable(
    method: KeysMethod, given: Budget, budget: SplitBudget, choices: Sequence[Choice]
) -> tuple[Candidate, ...]:
    """The choices that the budget can pay, with their methods; a budget that can pay none is refused."""
    candidates: list[Candidate] = []
    failures: list[ParameterError] = []
    for choice in choices:
        try:
            candidates.append(Candidate(choice, _within(method.at_choice(choice, budget.releasing), given, budget)))
        except ParameterError as failure:
            failures.append(failure)
    if not candidates:
        raise failures[0]
    return tuple(candidates)


def _within(method: KeysMethod, given: Budget, budget: SplitBudget) -> KeysMethod:
    """The method, checked: the proof needs every candidate to keep to the epsilon that is left."""
    epsilon, delta = method.proven().numbers
    if epsilon > budget.releasing or delta > given.delta:
        raise ParameterError("a bound's plan exceeds what is left of the budget; this is a bug in querycloak")
    return method


def _proven_of_choice(given: Budget, budget: SplitBudget, candidates: Sequence[Candidate]) -> Guarantee:
    return user_guarantee(
        given.epsilon,
        given.delta,
        f"epsilon {budget.choosing:g} chooses by the exponential mechanism how keys are selected and how many of a "
        f"user count, of these: {', '.join(str(each.choice) for each in candidates)} "
        "(privacy/calibration/bound_choice.md); whichever it is, noise and threshold are solved "
        f"for epsilon {budget.releasing:g} and this delta, and the two add up",
    )


def noise_of(law: Selection, size: float) -> Noise:
    """The noise of this law; its size is the scale of Laplace or the sigma of Gaussian noise."""
    if law in ("weighted", "multi-round"):
        chosen = Parameter("selection", law)
        raise ParameterError.of(
            "{chosen} has several noises: give the budget ({epsilon}, {delta}) instead", chosen=chosen
        )
    return Laplace(size) if law == "laplace" else Gaussian(size)


def check_given_bound(max_keys_per_user: object, auto_share: object) -> None:
    """Refuse options that go with `auto` alone."""
    if isinstance(max_keys_per_user, str):
        refuse("max_keys_per_user", f"a whole number or {AUTO}", max_keys_per_user, "leave it out for the default")
    if auto_share is not None:
        raise ParameterError.of(
            "{auto_share} goes with {max_keys_per_user:auto}; leave it out where the bound is given"
        )


def check_counts(counts: Counts, given: Given, *, two_draws: bool) -> None:
    """Refuse keys without counts if counts decide, or if nothing would be gained."""
    if counts == "none" and (isinstance(given, ExplicitNoise) or two_draws):
        refuse_keys_alone()


def refuse_keys_alone() -> NoReturn:
    """Refuse to release keys without counts."""
    raise ParameterError.of(
        "{counts:none} is for a budget ({epsilon}, {delta}): leave {noise}, {threshold}, {two_draws} and the "
        "paper variant out"
    )
