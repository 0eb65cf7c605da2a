"""The order in which every method releases: look at the budget, count the log, charge the ledger, then draw."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method, mechanisms_of
from querycloak.privacy.ledger import Ledger
from querycloak.releases import accounting
from querycloak.releases.release import Release, describe_log
from querycloak.releases.tables import Table


def require_budget(method: Method, ledger: Ledger | None, population: str | None) -> None:
    """Refuse before anything is read what the ledger would refuse later."""
    accounting.require_budget(ledger, population, method.proven())


def make_release(
    method: Method,
    log: SearchLog,
    draw: Callable[[], Mapping[str, Table]],
    *,
    counts: str,
    remarks: Sequence[str] = (),
    ledger: Ledger | None,
    population: str | None,
    seeded: bool,
) -> Release:
    """Charge, and only then draw."""
    parameters = method.parameters()
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
        seeded=seeded,
        accounting=paid,
        remarks=tuple(remarks),
        log={"format": log.format, **describe_log(log.source.choices)},
    )
