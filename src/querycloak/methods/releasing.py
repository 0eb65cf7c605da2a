"""The order in which every method releases: look at the budget, count, check the rows, pay, and only then draw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple

from querycloak.errors import OrderError
from querycloak.extras import loading
from querycloak.logs.searchlog import SearchLog, check_log
from querycloak.methods.method import Counted, Drawn, Method
from querycloak.methods.paid_gate import DESCRIPTION, PaidGate, with_gate
from querycloak.methods.unprotected import (
    BAD_ROWS,
    CHOSEN_ON_LOG,
    DRAWN_AGAIN,
    KEPT_ROWS,
    with_unprotected,
)
from querycloak.privacy import order
from querycloak.privacy.accounting.composition import Composed
from querycloak.privacy.calibration.accuracy import TableAccuracy
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.payment import payment_of
from querycloak.privacy.parameters import of_kind, texts_of
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release, describe_log

_BUG = "this is a bug in the method"
_LOADED_FIRST = ("pyarrow.acero", "pyarrow.dataset", "querycloak.releases.saving")
"""Modules that every release uses only after it has paid."""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """Arguments of `Method.release` beside the log, which describes them."""

    ledger: Ledger | None
    population: str | None
    randomness: Randomness | None
    composition: Composed | None
    population_size: int | None
    paid_gate: bool
    chosen_on_log: bool
    run: str | None
    unprotected: Sequence[str]

    def checked(self) -> Randomness:
        """Random numbers of the release, new ones if none are given; arguments of other kinds are refused."""
        for name, switch in (("paid_gate", self.paid_gate), ("chosen_on_log", self.chosen_on_log)):
            of_kind(name, switch, bool, "True or False", "leave it out for False")
        of_kind("run", self.run, (str, type(None)), "a random name", "leave it out, unless a killed run continues")
        texts_of("unprotected", self.unprotected, "leave it out, or state what circumstances of the release reveal")
        if self.composition is not None:
            of_kind("composition", self.composition, Composed, "a composition", "method.composition() makes one")
        drawing = Randomness() if self.randomness is None else self.randomness
        of_kind("randomness", drawing, Randomness, "a Randomness", "leave it out: only tests and experiments give one")
        return drawing


class Promise(NamedTuple):
    """Statements of a method before it reads a log."""

    claimed: Guarantee | None
    proven: Guarantee
    parameters: Mapping[str, Any]
    warnings: tuple[str, ...]
    reach: Mapping[str, TableAccuracy]

    @classmethod
    def of(cls, method: Method, population_size: int | None) -> Promise:
        """The promise of a method: made once, before the log is read, then billed and put on the card."""
        claimed, proven, parameters = method.claimed(), method.proven(), method.parameters()
        return cls(claimed, proven, parameters, tuple(map(str, method.warnings(population_size))), method.reach())


def release(method: Method, log: SearchLog, given: Circumstances) -> Release:
    """Release a log by a method that this account pays for (`Method.paid_by`)."""
    check_log(log)
    drawing = given.checked()
    promise = Promise.of(method, given.population_size)
    bill = method.bill_for(promise.proven, {**promise.parameters, **log.source.choices.period()})
    payment = payment_of(given.ledger, given.population, bill, given.run)
    method.check_account(payment.check())
    gate = PaidGate.checked(bill, given.ledger, given.population) if given.paid_gate else None
    _load_for_draw(method, drawing)
    counted, users = _counted(method, log, gate, guaranteed=promise.proven.kind != "syntactic")
    if gate is not None:
        gate.require(users, drawing)
    with order.paying():
        paid = payment.pay(counted)
    with paid.accounting.staying(), order.drawing():
        drawn = paid.counted.draw(drawing)
    if not isinstance(drawn, Drawn):
        raise OrderError(f"draw must return Drawn(tables, counts): {_BUG} {method.name}")
    cost = method.cost(promise.proven, drawn.draws)
    if drawn.draws is not None:
        paid.accounting.lower(cost)
    if gate is not None:
        cost += gate.cost
    return _released(
        method,
        promise._replace(proven=_proven(promise.proven, drawn, log, given, again=paid.again)),
        drawn,
        log,
        given,
        seeded=not drawing.private,
        accounting=paid.accounting,
        gaussian_dp=cost.to_card() if promise.proven.covers_release else {},
    )


def _load_for_draw(method: Method, randomness: Randomness) -> None:
    """Load the modules of draws and of folders, so failures to load come before payment."""
    with loading("a release"):
        for name in (*_LOADED_FIRST, *method.drawn_with):
            import_module(name)
        randomness.make_ready()


def _counted(method: Method, log: SearchLog, gate: PaidGate | None, *, guaranteed: bool) -> tuple[Counted, int]:
    """Count the log and check its rows; also the number of users for a gate, 0 without one."""
    log.check_format()
    with order.counting():
        counted = method.count(log)
        log.check_agreement()
        log.checked(guaranteed=guaranteed)
        log.check_kept()
        users = 0 if gate is None else gate.count(log)
    if not isinstance(counted, Counted):
        raise OrderError(f"count must return something that has draw(randomness): {_BUG} {method.name}")
    return counted, users


def _released(
    method: Method, promise: Promise, drawn: Drawn, log: SearchLog, given: Circumstances, **more: Any
) -> Release:
    """Release of the drawn tables, with all statements of its card."""
    reach = {**promise.reach, **drawn.reach}
    gated = {"gate": DESCRIPTION} if given.paid_gate else {}
    return Release(
        method=method.name,
        variant=method.variant,
        parameters=_completed(promise.parameters, drawn.parameters),
        claimed=promise.claimed,
        proven=promise.proven,
        tables=drawn.tables,
        counts=drawn.counts,
        rows=drawn.rows,
        remarks=(*log.remarks(), *drawn.remarks),
        log={**log.describe(), **describe_log(log.source.choices), **gated},
        warnings=promise.warnings,
        reach={table: reach[table] for table in drawn.tables if table in reach},
        options=method.options(),
        check=log.check_unchanged,
        composition={} if given.composition is None else given.composition.to_json(),
        population_size=given.population_size,
        **more,
    )


def _proven(proven: Guarantee, drawn: Drawn, log: SearchLog, given: Circumstances, *, again: bool) -> Guarantee:
    """The promised guarantee, with what the setting that was drawn and the circumstances leave unprotected."""
    if drawn.unprotected is not None:
        proven = replace(proven, unprotected=drawn.unprotected)
    circumstances = (
        (BAD_ROWS, log.max_bad is not None),
        (KEPT_ROWS, log.empty_gate is not None and log.empty_gate.decides),
        (CHOSEN_ON_LOG, given.chosen_on_log),
        *((fact, True) for fact in given.unprotected),
        (DRAWN_AGAIN, again),
    )
    proven = with_gate(proven, paid_gate=given.paid_gate)
    return with_unprotected(proven, *(fact for fact, holds in circumstances if holds))


def _completed(promised: Mapping[str, Any], drawn: Mapping[str, Any]) -> dict[str, Any]:
    """Promise with the choices that the draw made where the promise left them open."""
    for name, value in drawn.items():
        if promised.get(name) not in (None, "auto", value):
            raise OrderError(f"{name} was settled before the draw, which must not change it: {_BUG}")
    return {**promised, **drawn}
