"""The order in which every method releases: look at the budget, count the log, charge the ledger, then draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method, check_budget, mechanisms_of
from querycloak.privacy.ledger import Ledger
from querycloak.releases import accounting
from querycloak.releases.release import Release, describe_log
from querycloak.releases.tables import Table


def require_budget(method: Method, ledger: Ledger | None, population: str | None) -> None:
    """Refuse before anything is read what the ledger would refuse later."""
    check_budget(method, ledger, population)


def make_release(
    method: Method,
    log: SearchLog,
    draw: Callable[[], Mapping[str, Table]],
    *,
    counts: str,
    rows: str = "asked",
    remarks: Sequence[str] = (),
    ledger: Ledger | None,
    population: str | None,
    seeded: bool,
    paid: accounting.Accounting | None = None,
) -> Release:
    """Charge, unless it is paid already, and only then draw."""
    parameters = method.parameters()
    if paid is None:
        recorded = {**parameters, "mechanisms": mechanisms_of(method)}
        paid = accounting.charge(ledger, population, method.proven(), method=method.name, parameters=recorded)
    return Release(
        method=method.name,
        variant=method.variant,
        parameters=parameters,
        claimed=method.claimed(),
        proven=method.proven(),
        tables=draw(),
        counts=counts,
        rows=rows,
        seeded=seeded,
        accounting=paid,
        remarks=tuple(remarks),
        log={"format": log.format, **describe_log(log.source.choices)},
    )
