"""Payment of a release: the charge comes before the first draw, the completion after the rename."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, final

from querycloak.errors import ChargeGone, OrderError, ParameterError, QuerycloakError
from querycloak.files import fault
from querycloak.privacy import order
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.accounts import Charge
from querycloak.privacy.ledger.ledger import RUN, Account, Ledger
from querycloak.privacy.parameters import natural, of_kind
from querycloak.privacy.sampling.randomness import random_name
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from querycloak.privacy.accounting.gaussian_filter import GaussianCost

Counted = TypeVar("Counted")


@dataclass(frozen=True)
class Accounting:
    """The charge that paid for a release; population and charge are None if none did."""

    population: str | None = None
    charge: int | None = None
    run: str | None = None
    """Random name of the run, which no other charge has; None for charges of earlier versions."""
    taken: int = field(default=0, repr=False, compare=False)
    """Number of this release in a series; 0 if its charge pays for no series. Not on the card."""
    # The ledger that records the completion; None for a release that was loaded.
    ledger: Ledger | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.population is None) != (self.charge is None):
            raise ParameterError("accounting must have both a population and a charge, or neither")

    def to_json(self) -> dict[str, Any] | str:
        """The entry on the card."""
        if self.charge is None:
            return "not accounted"
        named = {} if self.run is None else {"run": self.run}
        return {"population": self.population, "charge": self.charge, **named}

    @classmethod
    def from_json(cls, value: object) -> Accounting:
        """Inverse of `to_json`."""
        if value == "not accounted":
            return cls()
        if isinstance(value, Mapping) and {"population", "charge"} <= set(value) <= {"population", "charge", "run"}:
            return cls(str(value["population"]), int(value["charge"]), value.get("run"))
        raise ParameterError("accounting must be 'not accounted', or a population and a charge")

    @contextmanager
    def staying(self) -> Iterator[None]:
        """Errors in this block also say that the charge stays."""
        try:
            yield
        except QuerycloakError as error:
            if self.charge is not None and not isinstance(error, OrderError | ChargeGone):
                error.sentence = Sentence(
                    "{problem}; charge {charge} to {population!r} stays; another release is charged again",
                    problem=error.sentence,
                    charge=self.charge,
                    population=self.population,
                )
            raise

    def lower(self, cost: GaussianCost) -> None:
        """Lower the reserve of a charge to what was drawn; a ledger that fails here keeps the reserve."""
        if self.ledger is not None and self.charge is not None:
            with fault.around("lower"), suppress(QuerycloakError):
                self.ledger.lower(self.charge, cost)

    def announce(self, digest: str, folder: Path) -> None:
        """Note in the ledger where the release is about to be, in case the process dies before `complete`.

        A ledger that does not hold the charge any more is a ChargeGone: what nobody paid for is not published.
        """
        if self.ledger is None or self.charge is None:
            return
        with fault.around("announce"):
            self.ledger.confirm(self.charge, self.run, self.taken)
            # A ledger that cannot be written must not cost a release that is paid for; `complete` says that it fails.
            with suppress(QuerycloakError):
                self.ledger.announce(self.charge, digest, folder)

    def complete(self, digest: str) -> None:
        """Note in the ledger that the release is there."""
        if self.ledger is None or self.charge is None:
            return
        problem: QuerycloakError
        try:
            with fault.around("complete"):
                self.ledger.confirm(self.charge, self.run, self.taken)
                self.ledger.complete(self.charge, digest)
            return
        except ChargeGone as error:
            problem = ChargeGone.of("the release is written, but {problem}", problem=error.sentence)
        except QuerycloakError as error:
            problem = type(error)(
                Sentence(
                    "the release is written and charged, but the ledger shows no release for charge {charge}: "
                    "{problem}; {show} looks for it again",
                    charge=self.charge,
                    problem=error.sentence,
                    show=self.ledger.how_to_show(),
                )
            )
        raise problem


NOT_ACCOUNTED = Accounting()


@dataclass(frozen=True)
class Bill:
    """Cost of a release, and what the ledger records of it.

    campaign: how many queries of each user one charge pays for, in one release or in several; None if the charge pays
    for one release alone. same_terms: whether an earlier charge with these parameters began the same campaign; None if
    the guarantee's numbers decide alone.
    """

    method: str
    guarantee: Guarantee
    parameters: Mapping[str, Any]
    campaign: int | None = None
    same_terms: Callable[[Mapping[str, Any]], bool] | None = None
    series: bool = False
    """Whether a plan for a series has paid."""

    def __post_init__(self) -> None:
        if self.campaign is not None:
            natural("campaign", self.campaign, "say how many queries of each user are paid for")

    def began(self, charge: Charge) -> bool:
        """True if this charge began the bill's campaign; asked of charges whose guarantee has the same numbers."""
        same = self.same_terms is None or self.same_terms(charge.parameters)
        return charge.method == self.method and same


class CountedByUser(ABC):
    """Counts of each user's own queries, for a campaign: each user pays for their own."""

    @abstractmethod
    def asked(self, key: str) -> tuple[list[str], NDArray[np.int64]]:
        """The users, each under a hash with this key, and how many queries of each are asked for."""

    @abstractmethod
    def allowing(self, key: str, names: list[str], allowed: NDArray[np.int64]) -> Self:
        """The counted value, limited to this number of queries of each user; names are those of `asked`."""


@dataclass(frozen=True)
class Paid(Generic[Counted]):
    """A release that is paid for: the charge, and what may be drawn from."""

    accounting: Accounting
    counted: Counted
    again: bool = False
    """True if an earlier run paid and ended before its release was in place: then this is the second draw."""


class Payment(ABC):
    """Payment of one release. It can be paid once."""

    def __init__(self) -> None:
        self._used = False

    @abstractmethod
    def check(self) -> Account | None:
        """The account that would pay, if any; raises what paying would raise, and writes nothing."""

    @property
    def is_prepaid(self) -> bool:
        """True if an earlier release has paid for this one."""
        return False

    @final
    def pay(self, counted: Counted) -> Paid[Counted]:
        """Pay for what was counted, before anything is drawn."""
        order.check_may_pay()
        if self._used:
            raise OrderError("a release must be paid once, and this one has been: this is a bug in the method")
        self._used = True
        return self._pay(counted)

    @abstractmethod
    def _pay(self, counted: Counted) -> Paid[Counted]: ...


class NobodyPays(Payment):
    """Payment without a ledger: the card says "not accounted"."""

    def check(self) -> None:
        """Refuse nothing; there is no account."""

    def _pay(self, counted: Counted) -> Paid[Counted]:
        return Paid(NOT_ACCOUNTED, counted)


class ChargePayment(Payment):
    """One charge for one release.

    run: a random name for the run that pays; the caller keeps it to start a killed run again. The charge of that
    run then pays for its second try, as long as no release came of it (ledger.md, "Drawn again"). None: a new name.
    """

    def __init__(self, ledger: Ledger, population: str, bill: Bill, run: str | None = None) -> None:
        super().__init__()
        self._ledger, self._population, self._bill, self._run = ledger, population, bill, run
        self._name = random_name() if run is None else run

    def check(self) -> Account:
        """The account, which has enough left, or has paid for this run before."""
        if self._paid_before() is not None:
            return self._ledger.trusted(self._population)
        return self._ledger.check(self._population, self._bill.guarantee, self._bill.parameters)

    @property
    def is_prepaid(self) -> bool:
        """Whether this run paid before it was killed."""
        return self._paid_before() is not None

    def _pay(self, counted: Counted) -> Paid[Counted]:
        before = self._paid_before()
        number = self._charge() if before is None else before
        accounting = Accounting(self._population, number, self._name, ledger=self._ledger)
        return Paid(accounting, counted, again=before is not None)

    def _charge(self) -> int:
        bill = self._bill
        with fault.around("charge"):
            made = self._ledger.charge(
                self._population, bill.guarantee, method=bill.method, parameters={**bill.parameters, RUN: self._name}
            )
        return made.id

    def _paid_before(self) -> int | None:
        """The charge of this run, if it paid and no release came of it.

        A reserve that was lowered to what the first draw chose does not cover another draw: that run pays again.
        """
        if self._run is None:
            return None
        charges = self._ledger.trusted(self._population).charges
        paid = [charge for charge in charges if charge.parameters.get(RUN) == self._run]
        if any(charge.releases or charge.guarantee != self._bill.guarantee for charge in paid):
            raise OrderError("the charge of this run has paid for another release: start a new run")
        return next((charge.id for charge in paid if charge.lowered is None), None)


class CampaignPayment(ChargePayment):
    """One charge for all releases of a campaign; then each user pays, query by query."""

    def __init__(self, ledger: Ledger, population: str, bill: Bill, queries: int) -> None:
        super().__init__(ledger, population, bill)
        from querycloak.privacy.ledger.campaigns import Spending

        self._spending, self._queries = Spending(ledger), queries

    @property
    def is_prepaid(self) -> bool:
        """True if an earlier release has begun this campaign."""
        return self._spending.has_campaign(self._population, self._bill.guarantee, self._queries, self._bill.began)

    def check(self) -> Account:
        """The account, which has enough left or has paid before."""
        return self._ledger.show(self._population)[0] if self.is_prepaid else super().check()

    def _pay(self, counted: Counted) -> Paid[Counted]:
        if not isinstance(counted, CountedByUser):
            raise OrderError("a campaign needs each user's queries (CountedByUser): this is a bug in the method")
        campaign = self._spending.campaign(
            self._population, self._bill.guarantee, self._queries, self._charge, self._bill.began
        )
        names, numbers = counted.asked(campaign.key)
        allowed = self._spending.spend(campaign, names, numbers)
        charges = {charge.id: charge for charge in self._ledger.show(self._population)[0].charges}
        run = charges[campaign.charge].parameters.get(RUN) if campaign.charge in charges else self._name
        accounting = Accounting(self._population, campaign.charge, run, ledger=self._ledger)
        return Paid(accounting, counted.allowing(campaign.key, names, allowed))


class SeriesPayment(Payment):
    """One release of a series that was charged whole before."""

    def __init__(self, ledger: Ledger, population: str, bill: Bill) -> None:
        super().__init__()
        self._ledger, self._population, self._bill = ledger, population, bill

    @property
    def is_prepaid(self) -> bool:
        """True: the plan has paid."""
        return True

    def check(self) -> Account:
        """The account whose plan has a release left that draws the same."""
        from querycloak.privacy.ledger.series import begun_series, check_follows

        account = self._ledger.trusted(self._population)
        check_follows(begun_series(account, self._ledger), self._bill.parameters)
        return account

    def _pay(self, counted: Counted) -> Paid[Counted]:
        from querycloak.privacy.ledger.series import begun_series

        charge = begun_series(self.check(), self._ledger)
        with fault.around("charge"):
            taken = self._ledger.take(charge.id, int(charge.parameters["releases"]))
        run = charge.parameters.get(RUN)
        return Paid(Accounting(self._population, charge.id, run, taken, self._ledger), counted)


def accounting_of(ledger: Ledger, population: str) -> str:
    """Accounting of a population: sum or gaussian."""
    of_kind("ledger", ledger, Ledger, "a ledger", "querycloak.Ledger(FILE) opens one")
    of_kind("population", population, str, "a name", "say who is behind the log")
    return ledger.show(population)[0].terms.accounting


def payment_of(ledger: Ledger | None, population: str | None, bill: Bill, run: str | None = None) -> Payment:
    """Payment of a release with this bill: none, a charge, a campaign, or one release of a series."""
    if ledger is None and population is None:
        return NobodyPays()
    if ledger is None or population is None:
        raise ParameterError.of(
            "{ledger} and {population} go together: say which ledger pays, and who is behind the log"
        )
    of_kind("ledger", ledger, Ledger, "a ledger", "querycloak.Ledger(FILE) opens one")
    of_kind("population", population, str, "a name", "say who is behind the log")
    if bill.series:
        return SeriesPayment(ledger, population, bill)
    if bill.campaign is None:
        return ChargePayment(ledger, population, bill, run)
    return CampaignPayment(ledger, population, bill, bill.campaign)
