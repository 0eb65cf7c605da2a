"""The order in which every method releases: look at the budget, count the log, charge the ledger, then draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method, check_budget
from querycloak.privacy.accounting import Plan
from querycloak.privacy.ledger import Ledger
from querycloak.releases.accounting import Accounting, charge, mechanisms
from querycloak.releases.release import Release, describe_log
from querycloak.releases.tables import Table


def require_budget(method: Method, ledger: Ledger | None, population: str | None) -> None:
    """Refuse before anything is read what the ledger would refuse later."""
    if (ledger is None) != (population is None):
        raise ParameterError("a ledger and a population go together: --ledger FILE --population NAME")
    if ledger is not None and population is not None:
        check_budget(method, ledger, population)


def make_release(
    method: Method,
    log: SearchLog,
    draw: Callable[[], Mapping[str, Table]],
    *,
    counts: str,
    plans: Sequence[Plan] = (),
    ledger: Ledger | None,
    population: str | None,
    seeded: bool,
    paid: Accounting | None = None,
) -> Release:
    """Charge, unless it is paid already, and only then draw."""
    parameters = method.parameters()
    if paid is None:
        laws = [law for plan in plans for law in mechanisms(plan)]
        paid = charge(
            ledger, population, method.proven(), method=method.name, parameters={**parameters, "mechanisms": laws}
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
        log={"format": log.format, **describe_log(log.source.choices)},
    )
