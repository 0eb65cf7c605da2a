"""The order in which every method releases: look at the budget, count the log, charge the ledger, then draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method, check_budget, mechanisms_of
from querycloak.privacy.books import payment as accounting
from querycloak.privacy.books.ledger import Ledger
from querycloak.privacy.chance.randomness import Randomness
from querycloak.releases.release import Release, describe_log
from querycloak.releases.tables import Table


@dataclass(frozen=True)
class Run:
    """One release on its way: what is released how, who pays, and what it draws with."""

    method: Method
    log: SearchLog
    ledger: Ledger | None
    population: str | None
    drawing: Randomness

    @classmethod
    def begin(
        cls,
        method: Method,
        log: SearchLog,
        ledger: Ledger | None,
        population: str | None,
        randomness: Randomness | None,
    ) -> Run:
        """Refuse before anything is read what the ledger would refuse later."""
        check_budget(method, ledger, population)
        return cls(method, log, ledger, population, randomness or Randomness())

    def finish(
        self,
        draw: Callable[[], Mapping[str, Table]],
        *,
        counts: str,
        rows: str = "asked",
        remarks: Sequence[str] = (),
        paid: accounting.Accounting | None = None,
    ) -> Release:
        """Charge, unless it is paid already, and only then draw."""
        method, parameters = self.method, self.method.parameters()
        if paid is None:
            recorded = {**parameters, "mechanisms": mechanisms_of(method)}
            paid = accounting.charge(
                self.ledger, self.population, method.proven(), method=method.name, parameters=recorded
            )
        return Release(
            method=method.name,
            variant=method.variant,
            parameters=parameters,
            claimed=method.claimed(),
            proven=method.proven(),
            tables=draw(),
            counts=counts,
            rows=rows,
            seeded=not self.drawing.private,
            accounting=paid,
            remarks=tuple(remarks),
            log={"format": self.log.format, **describe_log(self.log.source.choices)},
        )
