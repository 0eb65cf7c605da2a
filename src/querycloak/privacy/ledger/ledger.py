"""Spending on each population across runs: one SQLite file, charged before anything is drawn (ledger.md)."""

import getpass
import json
import os
import re
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from querycloak.errors import BudgetRefused, ChargeGone, InputError, ParameterError
from querycloak.privacy import order
from querycloak.privacy.accounting.gaussian_filter import GaussianCost, cost_of
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger import journal
from querycloak.privacy.ledger.accounts import Account, Charge, cost_read
from querycloak.privacy.ledger.ledger_reader import LIMIT, LedgerReader, check_population, default_path
from querycloak.privacy.ledger.sqlite import version_of
from querycloak.privacy.ledger.terms import changed_terms
from querycloak.privacy.parameters import number_above_zero, refuse, share
from querycloak.sentence import Action

__all__ = ["Account", "Charge", "Ledger", "default_path"]

RUN = "run"
"""Parameter of a charge: the random name of its run, which also stands on the card of its release."""


class Ledger(LedgerReader):
    """The file that all runs share; every method opens it, does one thing and closes it.

    `LedgerReader` has the methods that change nothing.
    """

    def set_limit(
        self,
        population: str,
        epsilon: float,
        delta: float,
        *,
        by: str | None = None,
        why: str | None = None,
        accounting: str | None = None,
        additive_share: float | None = None,
    ) -> Account:
        """Set the total that may be spent on a population; earlier charges stay.

        The journal keeps every change: its time, who made it (the name of the account that runs this, if not given),
        and why. A limit is raised only with a reason. accounting: sum (if not given) or gaussian. additive_share: for
        gaussian, the part of delta for own keys (0.25 if not given). The first charge fixes both.
        """
        check_population(population)
        epsilon = number_above_zero("epsilon", epsilon, "give the most that may be spent in all, such as 8")
        if isinstance(delta, bool) or delta != 0:
            delta = share("delta", delta, "give the most that may be spent in all, such as 1e-6, or 0 for none")
        why = why.strip() or None if why is not None else None
        with self._file.writing(create=True) as connection:
            before = connection.execute(LIMIT, (population,)).fetchone()
            if why is None and before is not None and (epsilon > float(before[0]) or delta > float(before[1])):
                raise self._unexplained(population, before)
            terms = changed_terms(
                None if before is None else self._terms(connection, population),
                accounting,
                additive_share,
                charged=_is_charged(connection, population),
                population=population,
            )
            terms.limit(epsilon, float(delta))
            limit = {"population": population, "epsilon": repr(epsilon), "delta": repr(float(delta))}
            connection.execute(
                "INSERT INTO populations (name, epsilon, delta, terms) VALUES (?, ?, ?, ?) ON CONFLICT (name) DO "
                "UPDATE SET epsilon = excluded.epsilon, delta = excluded.delta, terms = excluded.terms",
                (*limit.values(), terms.written()),
            )
            limit |= {} if terms.is_sum else {"terms": terms.written()}
            journal.append(connection, {"what": "limit", **limit, "by": by or _account_name(), "why": why})
            return self._account(connection, population)

    def _unexplained(self, population: str, before: tuple[str, str]) -> ParameterError:
        return ParameterError.of(
            "population {name!r} has a limit of epsilon {epsilon} and delta {delta}; raising it needs a reason, "
            "which is kept; add {reason}",
            name=population,
            epsilon=before[0],
            delta=before[1],
            reason=Action("why=REASON", ("--because", "REASON")),
        )

    def charge(
        self,
        population: str,
        guarantee: Guarantee,
        *,
        method: str,
        parameters: Mapping[str, Any],
        check: Callable[[Account], object] = lambda _: None,
    ) -> Charge:
        """Charge a population. The charge is on the disk when this returns; nothing may be drawn before.

        check: raises an error if this account must not be charged; no other charge comes between it and this one.
        """
        order.check_may_pay()
        check_population(population)
        written, made, promised = _json(parameters), journal.now(), _json(guarantee.to_json())
        reserved = cost_of(guarantee, parameters.get("mechanisms"))
        cost = _json(reserved.to_json()) if reserved.to_card() else ""
        with self._file.writing() as connection:
            account = self._account(connection, population)
            self._require_unchanged(connection)
            check(account)
            account.require(guarantee, self.how_to_set(population, raised=True), parameters.get("mechanisms"))
            row = (population, made, method, promised, written, cost)
            connection.execute(
                "INSERT INTO charges (population, made, method, guarantee, parameters, cost) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
            (number,) = connection.execute("SELECT last_insert_rowid()").fetchone()
            digest = journal.row_digest(*row)
            entry = {"what": "charge", "charge": number, "population": population, "guarantee": promised, "row": digest}
            journal.append(connection, entry)
        parameters = MappingProxyType(json.loads(written))
        return Charge(number, population, made, method, guarantee, parameters, reserved=reserved if cost else None)

    def take(self, charge: int, releases: int) -> int:
        """Begin one release of a series: its number is on the disk when this returns; refused after the last one."""
        order.check_may_pay()
        with self._file.writing() as connection:
            self._require_unchanged(connection)
            (begun,) = connection.execute("SELECT count(*) FROM taken WHERE charge = ?", (charge,)).fetchone()
            if begun >= releases:
                raise BudgetRefused(f"the plan of charge {charge} has no releases left: all {releases} were begun")
            connection.execute("INSERT INTO taken VALUES (?, ?, ?)", (charge, begun + 1, journal.now()))
            journal.append(connection, {"what": journal.TAKEN, "charge": charge, "number": begun + 1})
        return int(begun) + 1

    def lower(self, charge: int, cost: GaussianCost) -> None:
        """Lower the reserve of a charge to what was drawn, once; a sum of epsilons has no reserve, and stays."""
        with self._file.writing() as connection:
            row = connection.execute("SELECT population, cost FROM charges WHERE id = ?", (charge,)).fetchone()
            if row is None or self._terms(connection, row[0]).is_sum:
                return
            reserved, before = (
                cost_read(row[1]),
                connection.execute("SELECT 1 FROM lowered WHERE charge = ?", (charge,)),
            )
            if reserved is None or before.fetchone() or reserved.largest(cost) != reserved:
                refuse("cost", "no more than what was reserved, and lowered once", None, "charge it anew")
            written = _json(cost.to_json())
            connection.execute("INSERT INTO lowered VALUES (?, ?)", (charge, written))
            journal.append(connection, {"what": journal.LOWERED, "charge": charge, "cost": written})

    def complete(self, charge: Charge | int, release_digest: str) -> None:
        """Record the digest of the release that a charge paid for; a draw saved in two formats has two records."""
        number = charge.id if isinstance(charge, Charge) else charge
        with self._file.writing() as connection:
            _check_charge(connection, number, release_digest)
            known = connection.execute(
                "SELECT 1 FROM releases WHERE charge = ? AND digest = ?", (number, release_digest)
            ).fetchone()
            if known is None:
                connection.execute("INSERT INTO releases VALUES (?, ?)", (number, release_digest))
                entry = {"what": "release", "charge": number, "digest": release_digest}
                journal.append(connection, {**entry, **_announced_folder(connection, number, release_digest)})
            connection.execute("DELETE FROM announced WHERE charge = ? AND digest = ?", (number, release_digest))

    def confirm(self, charge: int, run: str | None, taken: int = 0) -> None:
        """Raise ChargeGone unless the ledger still holds this charge: another file may have taken its place meanwhile.

        taken: the number of a release in a series, which must be there, too; 0 without a series.
        """
        row, begun, problem = None, True, "it was replaced, by an older copy or by another ledger"
        try:
            with self._file.reading() as connection:
                row = connection.execute("SELECT parameters FROM charges WHERE id = ?", (charge,)).fetchone()
                if taken and row is not None:
                    number = "SELECT 1 FROM taken WHERE charge = ? AND number = ?"
                    begun = connection.execute(number, (charge, taken)).fetchone() is not None
        except InputError as error:
            problem = str(error)
        if row is None or json.loads(row[0]).get(RUN) != run or not begun:
            raise ChargeGone(
                f"the ledger {str(self.path)!r} does not hold charge {charge} of this run any more: {problem}; "
                "what was drawn is not published; put back the ledger that was charged, and release again"
            )

    def announce(self, charge: Charge | int, release_digest: str, folder: Path) -> None:
        """Record the folder of a release before it is written: its charge can then be completed if the process dies."""
        number = charge.id if isinstance(charge, Charge) else charge
        with self._file.writing() as connection:
            _check_charge(connection, number, release_digest)
            row = (number, release_digest, os.fsdecode(folder))
            connection.execute("INSERT OR REPLACE INTO announced VALUES (?, ?, ?)", row)

    def note_spending(self, charge: int, number: int, mark: str) -> None:
        """Record the last entry of a campaign's spending record, so that an older copy of it is recognised."""
        with self._file.writing() as connection:
            journal.append(connection, {"what": journal.SPENT, "charge": charge, "number": number, "mark": mark})

    def verify(self) -> list[str]:
        """Signs that something other than querycloak changed the ledger or its spending record; empty if none."""
        from querycloak.privacy.ledger.campaigns import Spending

        with self._file.reading() as connection:
            signs = journal.problems(connection) if version_of(connection) >= 3 else []
        return [*signs, *Spending(self).problems()]


def _is_charged(connection: sqlite3.Connection, population: str) -> bool:
    return connection.execute("SELECT 1 FROM charges WHERE population = ?", (population,)).fetchone() is not None


def _account_name() -> str:
    """The name of the account that runs this; a container may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}"


def _announced_folder(connection: sqlite3.Connection, charge: int, digest: str) -> dict[str, str]:
    """The folder that was announced for a release, for its entry in the journal; empty if none was."""
    row = connection.execute("SELECT folder FROM announced WHERE charge = ? AND digest = ?", (charge, digest))
    announced = row.fetchone()
    return {} if announced is None else {"folder": announced[0]}


def _check_charge(connection: sqlite3.Connection, number: int, digest: str) -> None:
    if not re.fullmatch("[0-9a-f]{64}", digest):
        refuse("release_digest", "a SHA-256 in hexadecimal", digest, "give the digest of card.json")
    if connection.execute("SELECT 1 FROM charges WHERE id = ?", (number,)).fetchone() is None:
        refuse("charge", "one that this ledger holds", number, "use the ledger that was charged")


def _json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(values), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        pass
    raise ParameterError(
        "parameters must be plain values (texts, finite numbers, lists, mappings) to stand in a ledger"
    )
