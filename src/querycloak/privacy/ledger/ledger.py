"""Spending on each population across runs: one SQLite file, charged before anything is drawn (ledger.md)."""

import getpass
import json
import os
import re
import sqlite3
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from querycloak.errors import BudgetRefused, ChargeGone, InputError, ParameterError, QuerycloakError
from querycloak.privacy import order
from querycloak.privacy.accounting.gaussian_filter import GaussianCost, cost_of
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger import journal
from querycloak.privacy.ledger.accounts import Account, Charge, charge_read, cost_read, limit_read
from querycloak.privacy.ledger.ledger_schema import KIND, RESTORE
from querycloak.privacy.ledger.sqlite import SqliteFile, version_of
from querycloak.privacy.ledger.terms import Terms, changed_terms
from querycloak.privacy.parameters import number_above_zero, path_of, refuse, share
from querycloak.sentence import Action, Sentence

__all__ = ["Account", "Charge", "Ledger", "default_path"]

LONGEST_NAME = 100
RUN = "run"
"""Parameter of a charge: the random name that only this charge has, on the card of its release, too."""
LIMIT = "SELECT epsilon, delta FROM populations WHERE name = ?"
DIGESTS = "(SELECT group_concat(digest) FROM releases WHERE charge = id)"
CHARGES = f"SELECT id, made, method, guarantee, parameters, {DIGESTS} FROM charges WHERE population = ? ORDER BY id"
TAKEN = "SELECT charge, count(*) FROM taken GROUP BY charge"
COSTS = """SELECT id, charges.cost, lowered.cost FROM charges LEFT JOIN lowered ON lowered.charge = id
    WHERE population = ?"""


class Ledger:
    """The file that all runs share; every method opens it, does one thing and closes it."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, wait_seconds: float = 30.0) -> None:
        self.path = path_of("ledger", path) if path is not None else default_path()
        self._named = path is not None
        wait = number_above_zero("wait_seconds", wait_seconds, "say how long to wait for other runs")
        self._file = SqliteFile(self.path, KIND, wait_seconds=wait)

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
        """Set what may be spent on a population in all; what is spent already stays spent.

        The journal keeps every change: its time, who made it (the name of the account that runs this, if not given),
        and why. A limit is raised only with a reason. accounting: sum (if not given) or gaussian, of which
        additive_share is the part of delta for own keys (0.25 if not given); both are fixed with the first charge.
        """
        _check_name(population)
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
        return ParameterError(
            Sentence(
                "population {name!r} has a limit of epsilon {epsilon} and delta {delta}; raising it needs a reason, "
                "which is kept; add {reason}",
                name=population,
                epsilon=before[0],
                delta=before[1],
                reason=Action("why=REASON", ("--because", "REASON")),
            )
        )

    def how_to_set(self, population: str, *, raised: bool = False) -> Action:
        """The call and the command with which the owner of this ledger sets a limit, or raises one."""
        limit = ("--epsilon", "E", "--delta", "D", *(("--because", "REASON") if raised else ()), *self._option())
        # A name that begins like an option goes last, behind the sign that ends options.
        words = (*limit, "--", population) if population.startswith("-") else (population, *limit)
        call = f"{self._call()}.set_limit({population!r}, epsilon=E, delta=D{', why=REASON' if raised else ''})"
        return Action(call, ("querycloak", "ledger", "set", *words))

    def how_to_show(self) -> Action:
        """Advice: the command that shows this ledger, also with releases that it does not know of yet."""
        call = f"querycloak.releases.folder.reconcile({self._call()})"
        return Action(call, ("querycloak", "ledger", "show", *self._option()))

    def _option(self) -> tuple[str, ...]:
        return ("--ledger", str(self.path)) if self._named else ()

    def _call(self) -> str:
        return f"Ledger({str(self.path)!r})" if self._named else "Ledger()"

    def check(
        self, population: str, guarantee: Guarantee, parameters: Mapping[str, Any] = MappingProxyType({})
    ) -> Account:
        """The account that would pay; raises what `charge` would raise, and writes nothing."""
        account = self.trusted(population)
        account.require(guarantee, self.how_to_set(population, raised=True), parameters.get("mechanisms"))
        return account

    def trusted(self, population: str) -> Account:
        """The account of a population in a ledger that nothing else has changed; else an InputError."""
        _check_name(population)
        with self._file.reading() as connection:
            account = self._account(connection, population)
            self._require_unchanged(connection)
            return account

    def _require_unchanged(self, connection: sqlite3.Connection) -> None:
        signs = journal.problems(connection) if version_of(connection) >= 3 else []
        if signs:
            raise InputError(
                Sentence(
                    "the ledger {path!r} was changed by other means than querycloak, so it pays for nothing: "
                    "{sign}{more}; {verify} lists all signs; {restore}",
                    path=str(self.path),
                    sign=signs[0],
                    more=f" (and {len(signs) - 1} more)" if len(signs) > 1 else "",
                    verify=Action("Ledger.verify()", ("querycloak", "ledger", "verify", *self._option())),
                    restore=RESTORE,
                )
            )

    def charge(self, population: str, guarantee: Guarantee, *, method: str, parameters: Mapping[str, Any]) -> Charge:
        """Spend: when this returns, the charge is on the disk, and only then may anything be drawn."""
        order.check_may_pay()
        _check_name(population)
        written, made, promised = _json(parameters), journal.now(), _json(guarantee.to_json())
        reserved = cost_of(guarantee, parameters.get("mechanisms"))
        cost = _json(reserved.to_json()) if reserved.to_card() else ""
        with self._file.writing() as connection:
            account = self._account(connection, population)
            self._require_unchanged(connection)
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
        """Note that a release came of a charge; one draw saved in two formats is noted twice."""
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
                "what was drawn is not published; put the ledger back that was charged, and release again"
            )

    def announce(self, charge: Charge | int, release_digest: str, folder: Path) -> None:
        """Note where a release is about to be, so that its charge can be completed if its process dies."""
        number = charge.id if isinstance(charge, Charge) else charge
        with self._file.writing() as connection:
            _check_charge(connection, number, release_digest)
            row = (number, release_digest, os.fsdecode(folder))
            connection.execute("INSERT OR REPLACE INTO announced VALUES (?, ?, ?)", row)

    def announced(self) -> tuple[tuple[int, str, Path], ...]:
        """Charges that were never completed, with the digest of a card and the folder where it was about to be."""
        with self._file.reading() as connection:
            if version_of(connection) < 2:
                return ()
            rows = connection.execute("SELECT charge, digest, folder FROM announced ORDER BY charge, digest").fetchall()
        return tuple((number, digest, Path(folder)) for number, digest, folder in rows)

    def show(self, population: str | None = None) -> tuple[Account, ...]:
        """Return the accounts, by name; a ledger that does not exist yet has none."""
        if population is not None:
            _check_name(population)
        with self._file.reading() as connection:
            named = connection.execute("SELECT name FROM populations ORDER BY name").fetchall()
            names = [name for (name,) in named] if population is None else [population]
            return tuple(self._account(connection, name) for name in names)

    def note_spending(self, charge: int, number: int, mark: str) -> None:
        """Note how far the spending record of a campaign has come, so that an older copy of it is recognised."""
        with self._file.writing() as connection:
            journal.append(connection, {"what": journal.SPENT, "charge": charge, "number": number, "mark": mark})

    def spendings(self) -> dict[int, tuple[int, str]]:
        """For each campaign's charge, the number and the mark of its last spending."""
        with self._file.reading() as connection:
            return journal.spendings(connection) if version_of(connection) >= 3 else {}

    def limits(self, population: str) -> tuple[journal.Entry, ...]:
        """Every change of a population's limit: when, by whom and why; a ledger before version 3 kept none."""
        written = [entry for entry in self._entries() if entry.what["what"] == "limit"]
        return tuple(entry for entry in written if entry.what["population"] == population)

    def verify(self) -> list[str]:
        """Signs that something other than querycloak changed the ledger or its spending record; empty if none."""
        from querycloak.privacy.ledger.campaigns import Spending

        with self._file.reading() as connection:
            signs = journal.problems(connection) if version_of(connection) >= 3 else []
        return [*signs, *Spending(self).problems()]

    def notices(self) -> list[str]:
        """Facts that limit what `verify` can see, without being signs of a change."""
        with self._file.reading() as connection:
            version, charged = version_of(connection), connection.execute("SELECT 1 FROM charges").fetchone()
        if version < 3:
            return ["the ledger is of an older version and has no journal yet; the next change begins one"]
        if charged is not None and not self._entries():
            return ["the ledger holds charges and its journal is empty; the next change begins one"]
        if version < 4:
            return [
                "the journal is of an older version: it has no digests of whole charges yet; the next change adds them"
            ]
        return []

    def digest(self) -> str | None:
        """The digest of the last entry of the journal; a copy of it shows later whether entries are gone."""
        written = self._entries()
        return written[-1].digest if written else None

    def knows(self, digest: str) -> bool:
        """True if an entry of the journal has this digest."""
        return any(entry.digest == digest for entry in self._entries())

    def _entries(self) -> list[journal.Entry]:
        """All entries of the journal; none before version 3."""
        with self._file.reading() as connection:
            return list(journal.entries(connection)) if version_of(connection) >= 3 else []

    def _account(self, connection: sqlite3.Connection, population: str) -> Account:
        limit = connection.execute(LIMIT, (population,)).fetchone()
        if limit is None:
            named = [name for (name,) in connection.execute("SELECT name FROM populations")]
            close = get_close_matches(population, named, n=1)
            meant = f" (did you mean {close[0]!r}?)" if close else ""
            raise ParameterError(
                Sentence(
                    "population {name!r} has no limit in the ledger{meant}; set one first: {set_limit}",
                    name=population,
                    meant=meant,
                    set_limit=self.how_to_set(population),
                )
            )
        terms = self._terms(connection, population)
        rows = connection.execute(CHARGES, (population,)).fetchall()
        costs = connection.execute(COSTS, (population,)).fetchall() if version_of(connection) >= 5 else ()
        taken = dict(connection.execute(TAKEN).fetchall() if version_of(connection) >= 5 else ())
        try:
            folders = journal.folders(connection) if version_of(connection) >= 3 else {}
            known = {number: (cost_read(reserved), cost_read(lowered)) for number, reserved, lowered in costs}
            charges = tuple(
                charge_read(
                    population,
                    known.get(row[0], (None, None)),
                    tuple(folders.get(row[0], ())),
                    taken.get(row[0], 0),
                    *row,
                )
                for row in rows
            )
            return Account(population, limit_read(limit[0]), limit_read(limit[1]), charges, terms)
        except (ValueError, TypeError, QuerycloakError):
            problem = self._file.damaged()
        raise problem

    def _terms(self, connection: sqlite3.Connection, population: str) -> Terms:
        """Accounting of a population; refused if this version does not know it."""
        if version_of(connection) < 4:
            return Terms()
        (written,) = connection.execute("SELECT terms FROM populations WHERE name = ?", (population,)).fetchone()
        try:
            return Terms.read(written)
        except (ValueError, ParameterError):
            pass
        raise InputError(
            f"population {population!r} of the ledger {str(self.path)!r} is accounted in a way that this querycloak "
            "does not know (it knows sum and gaussian); use the newer querycloak that set its limit"
        )


def _is_charged(connection: sqlite3.Connection, population: str) -> bool:
    return connection.execute("SELECT 1 FROM charges WHERE population = ?", (population,)).fetchone() is not None


def _account_name() -> str:
    """The name of the account that runs this; a container may have none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        return f"user {os.getuid()}"


def default_path() -> Path:
    """Return $QUERYCLOAK_LEDGER, else a file in the user's data folder."""
    named = os.environ.get("QUERYCLOAK_LEDGER")
    if named:
        return Path(named)
    data = Path(os.environ.get("XDG_DATA_HOME") or "")
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "querycloak" / "ledger.sqlite"


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


def _check_name(population: object) -> None:
    fits = isinstance(population, str) and 0 < len(population) <= LONGEST_NAME and population.isprintable()
    if not fits or population != str(population).strip():
        # Not by `refuse`: one command takes the name by an option, another as it stands.
        rule = f"of 1 to {LONGEST_NAME} printable characters, without a blank at its ends"
        way_out = "name the people behind the log, such as shop-users"
        message = Sentence(
            "the name of a population must be {rule}, got {name!r}; {way_out}",
            rule=rule,
            name=population,
            way_out=way_out,
        )
        raise ParameterError(message, parameter="population", rule=rule, value=population, way_out=way_out)


def _json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(values), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        pass
    raise ParameterError(
        "parameters must be plain values (texts, finite numbers, lists, mappings) to stand in a ledger"
    )
