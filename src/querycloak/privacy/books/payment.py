"""Whether and where a release was paid for: the charge comes before the first draw, the completion after the rename."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from querycloak import fault
from querycloak.errors import ParameterError, QuerycloakError
from querycloak.privacy.books.ledger import Account, Ledger
from querycloak.privacy.guarantee import Guarantee


@dataclass(frozen=True)
class Accounting:
    """The charge that paid for a release, or that there was none."""

    population: str | None = None
    charge: int | None = None
    # Where to note that the release was made; a release loaded again has none.
    ledger: Ledger | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if (self.population is None) != (self.charge is None):
            raise ParameterError("accounting must have both a population and a charge, or neither")

    def to_json(self) -> dict[str, Any] | str:
        """As it stands on the card."""
        if self.charge is None:
            return "not accounted"
        return {"population": self.population, "charge": self.charge}

    @classmethod
    def from_json(cls, value: object) -> Accounting:
        """What `to_json` wrote."""
        if value == "not accounted":
            return cls()
        if isinstance(value, Mapping) and set(value) == {"population", "charge"}:
            return cls(str(value["population"]), int(value["charge"]))
        raise ParameterError("accounting must be 'not accounted', or a population and a charge")

    def announce(self, digest: str, folder: Path) -> None:
        """Note in the ledger where the release is about to be, in case that nobody lives to complete it."""
        if self.ledger is None or self.charge is None:
            return
        # A ledger that fails here must not cost a release that is paid for; `complete` will say that it fails.
        with fault.around("announce"), suppress(QuerycloakError):
            self.ledger.announce(self.charge, digest, folder)

    def complete(self, digest: str) -> None:
        """Note in the ledger that the release is there."""
        if self.ledger is None or self.charge is None:
            return
        problem: QuerycloakError
        try:
            with fault.around("complete"):
                self.ledger.complete(self.charge, digest)
            return
        except QuerycloakError as error:
            problem = type(error)(
                "the release is written and charged, but the ledger shows no release for charge "
                f"{self.charge}: {error}; querycloak ledger show looks for it again"
            )
        raise problem


NOT_ACCOUNTED = Accounting()


def payer(ledger: Ledger | None, population: str | None) -> tuple[Ledger, str] | None:
    """Who pays for a release: a population in a ledger, or nobody."""
    if ledger is None and population is None:
        return None
    if ledger is None or population is None:
        raise ParameterError(
            "a ledger and a population go together; say which ledger, and who is behind the log: "
            "--ledger FILE --population NAME"
        )
    return ledger, population


def require_budget(ledger: Ledger | None, population: str | None, guarantee: Guarantee) -> Account | None:
    """The account that would pay, if any; what it cannot pay is refused, and nothing is written."""
    paying = payer(ledger, population)
    return paying and paying[0].check(paying[1], guarantee)


def charge(
    ledger: Ledger | None,
    population: str | None,
    guarantee: Guarantee,
    *,
    method: str,
    parameters: Mapping[str, Any],
) -> Accounting:
    """Pay for a release; call it after everything is checked and before anything is drawn."""
    paying = payer(ledger, population)
    if paying is None:
        return NOT_ACCOUNTED
    with fault.around("charge"):
        made = paying[0].charge(paying[1], guarantee, method=method, parameters=parameters)
    return Accounting(paying[1], made.id, paying[0])
