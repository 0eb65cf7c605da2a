"""The order in which every method releases: look at the budget, count the log, charge the ledger, then draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method
from querycloak.privacy.accounting import Plan
from querycloak.privacy.ledger import Ledger
from querycloak.releases.accounting import charge, mechanisms
from querycloak.releases.release import Release, describe_log
from querycloak.releases.tables import Table


def require_budget(method: Method, ledger: Ledger | None, population: str | None) -> None:
    """Refuse before anything is read what the ledger would refuse later."""
    if (ledger is None) != (population is None):
        raise ParameterError("a ledger and a population go together: --ledger FILE --population NAME")
    if ledger is not None and population is not None:
        ledger.check(population, method.proven())


def make_release(
    method: Method,
    log: SearchLog,
    draw: Callable[[], Mapping[str, Table]],
    *,
    counts: str,
    plans: Sequence[Plan] = (),
    laws: Sequence[Mapping[str, Any]] = (),
    remarks: Sequence[str] = (),
    ledger: Ledger | None,
    population: str | None,
    seeded: bool,
) -> Release:
    """Charge, and only then draw."""
    parameters = method.parameters()
    drawn = [*laws, *(law for plan in plans for law in mechanisms(plan))]
    paid = charge(
        ledger, population, method.proven(), method=method.name, parameters={**parameters, "mechanisms": drawn}
    )
    return Release(
        method=method.name,
        variant=method.variant,
        parameters=parameters,
        claimed=method.claimed(),
        proven=method.proven(),
        tables=draw(),
        counts=counts,
        seeded=seeded,
        accounting=paid,
        remarks=tuple(remarks),
        log={"format": log.format, **describe_log(log.source.choices)},
    )
