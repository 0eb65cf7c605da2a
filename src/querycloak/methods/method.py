"""Base of every method: a frozen value that promises before it reads, and the order in which all methods release.

Promise, count, pay, draw. A method says how to count a log and how to draw from what was counted; `Method.release`
does it in that order, and no method can change it: counting sees no randomness, and a method that draws or pays
elsewhere is stopped (privacy/order.py).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import getattr_static
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, Self, final, runtime_checkable

from querycloak.errors import ParameterError
from querycloak.methods.option import TakesFormerNames, current_options, option, options_of, options_text
from querycloak.privacy.explanation import cautions_of
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import one_of
from querycloak.releases.row_kinds import RowKind
from querycloak.sentence import Sentence

if TYPE_CHECKING:  # a guarantee is computed without loading an engine
    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.accounting.composition import Composed
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.accounting.gaussian_filter import GaussianCost
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy
    from querycloak.privacy.ledger.accounts import Account
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.privacy.ledger.payment import Bill, Payment
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.releases.release import Release
    from querycloak.releases.tables import Table

Variant = Literal["default", "paper"]
DRAWN_TOTAL = "total"
"""A parameter on cards that is a released number, no setting: releases of one method differ in it."""


@dataclass(frozen=True)
class Drawn:
    """Released tables, and the statements on them."""

    tables: Mapping[str, Table]
    counts: str
    """Kind of counts, a key of `releases.release.COUNTS`."""
    rows: RowKind = RowKind.ASKED
    """Kind of the rows of a table `log`."""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    """Parameters that the draw chose, such as a bound; "auto" or None before."""
    remarks: Sequence[str | Sentence] = ()
    """Private remarks for the person who runs it."""
    reach: Mapping[str, TableAccuracy] = field(default_factory=dict)
    """Accuracy of counts that only the draw decides, by table."""
    draws: Sequence[Draw] | None = None
    """The draws that were made, where the promise named several plans; None if they are those of the promise."""
    unprotected: tuple[str, ...] | None = None
    """Unprotected facts of the setting that the draw chose; None if nothing was left to choose."""


class AuditLogs(NamedTuple):
    """Two neighbouring logs for `audit method`: rows in AOL's format (user, query, time, rank, url; tabs between)."""

    name: str
    others: Sequence[str]
    """The rows of the smaller log."""
    added: Sequence[str]
    """The rows of the user whom the larger log has, too."""


@runtime_checkable
class Counted(Protocol):
    """A log, read and counted, waiting to be paid for."""

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw; called once, after the release was paid for."""
        ...


@dataclass(frozen=True)
class CountedRows:
    """Rows or keys that are settled before the draw, which is one function of them: names, or nothing at all."""

    drawn: Callable[[Randomness], Drawn]

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw."""
        return self.drawn(randomness)


class MethodClass(TakesFormerNames):
    """Metaclass of methods: `Clicks(variant="paper", ...)` makes a value of that variant's class."""

    if not TYPE_CHECKING:

        def __call__(cls, *given: Any, **named: Any) -> Any:  # noqa: N805
            """A value of the class or, if its variant has one (methods/registry.py), of the variant's class."""
            from querycloak.methods.registry import variant_class

            options = current_options(cls, named)
            return type.__call__(variant_class(cls, options), *given, **options)


@dataclass(frozen=True, kw_only=True)
class Method(metaclass=MethodClass):
    """One way of releasing a log.

    A method is a frozen dataclass whose options are fields made by `option`. Its guarantee follows from them alone.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    """Summary in one line."""
    explains_queries: ClassVar[bool] = False
    """True if it can show what protects a query (`explain`)."""
    drawn_with: ClassVar[Sequence[str]] = ()
    """Modules that only the draw uses; they are loaded before a release is paid."""
    variant: str = option("default", help="There is only one: default.")

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        for name in (*final_names(), "__getattribute__"):
            if getattr_static(cls, name) is not getattr_static(Method, name):
                raise TypeError(f"{cls.__name__} must not define {name}: every method is released the same way")
        listed = options_text(cls)
        if listed:
            cls.__doc__ = f"{cls.__doc__}\n\n    Options:\n{listed}\n    "

    def check_choices(self) -> None:
        """Refuse a word that an option does not list; call it first when the method is made."""
        for each in options_of(type(self)):
            value, accepted = vars(self)[each.name], each.choices
            if each.name == "variant" and not accepted:
                accepted = ("default",)
            elif each.kinds or value is None:
                continue
            one_of(each.name, value, accepted)

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Everything that decides the release, as plain values: given and solved parameters."""

    def claimed(self) -> Guarantee | None:
        """Guarantee that a paper claims, from the parameters alone; None if no paper claims more than is proven."""
        return None

    @abstractmethod
    def proven(self) -> Guarantee:
        """Proven guarantee, from the parameters alone."""

    @abstractmethod
    def count(self, log: SearchLog) -> Counted:
        """Read the log and count. Nothing may be drawn or paid here."""

    def draws(self) -> Sequence[Draw]:
        """Draws of a release, for tight composition; empty: only the guarantee counts."""
        return ()

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Release probabilities of the keys of each table; several if the log decides which one applies.

        A table is absent if the number of users that a key needs is not known before any data.
        """
        return {}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of the counts of each table, before any data; empty if the method does not state it."""
        return {}

    @final
    @classmethod
    def for_users(cls, users: int, /, **options: Any) -> Self:
        """The method at the smallest epsilon, to three digits, with which keys of this many users come out (95 %)."""
        from querycloak.methods.accuracy_target import AccuracyTarget, method_for

        return method_for(cls, AccuracyTarget(users), options)

    @final
    @classmethod
    def for_error(cls, error: int, /, *, at_users: int, **options: Any) -> Self:
        """Solve as `for_users` does, for keys of `at_users` users, with counts within `error` (95 %)."""
        from querycloak.methods.accuracy_target import AccuracyTarget, method_for

        return method_for(cls, AccuracyTarget(at_users, error), options)

    def audit_logs(self) -> Iterable[AuditLogs]:
        """Neighbouring logs on which the guarantee might fail, for `audit method`.

        Empty: only the audit's own, whose users ask queries of the method's public lists (fields that hold a
        `PublicList`) or, if it has none, made-up ones.
        """
        return ()

    def accounted(self, accounting: str) -> Self:  # noqa: ARG002
        """The method that a ledger with this accounting (sum or gaussian) pays for; itself once it is such a method."""
        return self

    def check_account(self, account: Account | None) -> None:
        """Refuse an account that cannot pay for these options; None stands for a release without a ledger."""

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that a log must be read with."""
        return ()

    @property
    def campaign(self) -> int | None:
        """Number of queries of each user that one charge pays for, over all releases; None: each release pays."""
        return None

    def same_campaign(self, parameters: Mapping[str, Any]) -> bool:  # noqa: ARG002
        """True if an earlier charge with these parameters, and the same numbers, pays for this method, too."""
        return True

    @property
    def series(self) -> bool:
        """Whether a plan for a series pays, of which this is one release."""
        return False

    def check_inputs(self) -> None:
        """Check that the public files and names in the options exist; no log is read."""

    def cautions(self) -> Sequence[str | Sentence]:
        """Warnings about these parameters."""
        return ()

    def explain(self, log: SearchLog, query: str) -> Any:  # noqa: ARG002
        """Protection of a query: private output."""
        raise ParameterError(f"{self.name} cannot say what protects a query; affinity can")

    @final
    def warnings(self, population_size: int | None = None) -> list[str | Sentence]:
        """All warnings, also those about the numbers of the guarantee."""
        return [*cautions_of(self.proven(), population_size), *self.cautions()]

    @final
    def options(self) -> dict[str, Any] | None:
        """The options that were given, as cards hold them; the method can be made again from them.

        None if one of them names a file.
        """
        given = {each: vars(self)[each.name] for each in options_of(type(self))}
        chosen = {each: value for each, value in given.items() if value != each.default}
        if any(each.names_file for each in chosen):
            return None
        return {each.recorded_name: each.recorded_value(value) for each, value in chosen.items()}

    @final
    def describe(self) -> dict[str, Any]:
        """Content of `guarantee --json` and of card.json."""
        claimed = self.claimed()
        return {
            "method": self.name,
            "variant": self.variant,
            "parameters": self.parameters(),
            "claimed": claimed and claimed.to_json(),
            "proven": self.proven().to_json(),
        }

    @final
    def composition(self, releases: int = 1, at_delta: float | None = None, *, paid_gate: bool = False) -> Composed:
        """Cost of several such releases together, by sums and by privacy-loss distributions.

        paid_gate: each stands behind the gate of `release`.
        """
        from querycloak.methods.paid_gate import DRAW, gated
        from querycloak.privacy.accounting.composition import composed_releases

        if not paid_gate:
            return composed_releases(self.proven(), self.recorded_draws(), releases, at_delta)
        draws = [*self.recorded_draws(), DRAW.to_json()] if self.recorded_draws() else []
        return composed_releases(gated(self.proven()), draws, releases, at_delta)

    @final
    def bill(self) -> Bill:
        """Cost of a release, as the ledger records it."""
        return self.bill_for(self.proven(), self.parameters())

    @final
    def payment(self, ledger: Ledger | None, population: str | None) -> Payment:
        """Payment of a release: none, a charge, a campaign that may have been charged before, or a series."""
        from querycloak.privacy.ledger.payment import payment_of

        return payment_of(ledger, population, self.bill())

    @final
    def paid_by(self, ledger: Ledger | None, population: str | None) -> Self:
        """The method with the accounting of this account; unchanged without a ledger."""
        if ledger is None or population is None:
            return self
        from querycloak.privacy.ledger.payment import accounting_of

        return self.accounted(accounting_of(ledger, population))

    @final
    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
        composition: Composed | None = None,
        population_size: int | None = None,
        paid_gate: bool = False,
        chosen_on_log: bool = False,
        run: str | None = None,
        unprotected: Sequence[str] = (),
    ) -> Release:
        """Release the log: check the budget, count, check the rows, pay, and only then draw.

        paid_gate: for epsilon 0.02 more, refuse a log that has, with noise, fewer than 196 users; a refusal costs
        these 0.02 alone. chosen_on_log: the card says that parameters were chosen after looking at the log. run: a
        random name by which a killed run finds its charge again. unprotected: facts that the circumstances of
        this release reveal, for its card.
        """
        from querycloak.methods.releasing import Circumstances, release

        circumstances = Circumstances(
            ledger=ledger,
            population=population,
            randomness=randomness,
            composition=composition,
            population_size=population_size,
            paid_gate=paid_gate,
            chosen_on_log=chosen_on_log,
            run=run,
            unprotected=unprotected,
        )
        return release(self.paid_by(ledger, population), log, circumstances)

    @final
    def cost(self, proven: Guarantee, draws: Sequence[Draw] | None) -> GaussianCost:
        """Cost of the draws under a Gaussian limit."""
        from querycloak.privacy.accounting.gaussian_filter import cost_of

        return cost_of(proven, self.recorded_draws() if draws is None else [each.to_json() for each in draws])

    @final
    def bill_for(self, proven: Guarantee, parameters: Mapping[str, Any]) -> Bill:
        """Cost of a release with this promise, as the ledger records it."""
        from querycloak.privacy.ledger.payment import Bill

        return Bill(
            self.name,
            proven,
            {**parameters, "mechanisms": self.recorded_draws()},
            self.campaign,
            self.same_campaign,
            self.series,
        )

    @final
    def recorded_draws(self) -> list[dict[str, Any]]:
        """Draws as charges record them."""
        return [each.to_json() for each in self.draws()]


def final_names() -> list[str]:
    """The functions of `Method` that no method may define again, because they are marked as final."""
    return [name for name, member in vars(Method).items() if getattr_static(member, "__final__", False)]
