"""What has been spent on whom, across runs: one SQLite file, charged before anything is drawn (ledger.md)."""

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

from querycloak.errors import ParameterError, QuerycloakError
from querycloak.privacy import order
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger import journal
from querycloak.privacy.ledger.accounts import Account, Charge
from querycloak.privacy.ledger.sqlite import Kind, SqliteFile, version_of
from querycloak.privacy.parameters import number_above_zero, path_of, refuse, share
from querycloak.sentence import Action, Sentence

__all__ = ["Account", "Charge", "Ledger", "default_path"]

LONGEST_NAME = 100

FIRST_TABLES = (
    "CREATE TABLE populations (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL)",
    """CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, population TEXT NOT NULL REFERENCES populations,
       made TEXT NOT NULL, method TEXT NOT NULL, guarantee TEXT NOT NULL, parameters TEXT NOT NULL)""",
    """CREATE TABLE releases (charge INTEGER NOT NULL REFERENCES charges, digest TEXT NOT NULL,
       PRIMARY KEY (charge, digest))""",
    # What is spent stays spent, also if somebody opens the file with another program.
    "CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
    "CREATE TRIGGER charges_keep BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
)
# Since version 2: where a release was about to be when its charge was last heard of.
SECOND_TABLES = (
    """CREATE TABLE announced (charge INTEGER NOT NULL REFERENCES charges, digest TEXT NOT NULL,
       folder TEXT NOT NULL, PRIMARY KEY (charge, digest))""",
)
CHARGES = """SELECT id, made, method, guarantee, parameters,
    (SELECT group_concat(digest) FROM releases WHERE charge = id) FROM charges WHERE population = ? ORDER BY id"""
OTHER_FILE = Sentence(
    "name another file with {ledger} or QUERYCLOAK_LEDGER", ledger=Action("Ledger(FILE)", ("--ledger", "FILE"))
)
KIND = Kind(
    application=0x51434C47,  # "QCLG"
    versions=(FIRST_TABLES, SECOND_TABLES, journal.TABLES),
    name="ledger",
    not_done="nothing was charged",
    elsewhere=OTHER_FILE,
    restore="put a copy of it back in its place",
)


class Ledger:
    """The file that all runs share; every method opens it, does one thing and closes it."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, wait_seconds: float = 30.0) -> None:
        self.path = path_of("ledger", path) if path is not None else default_path()
        self._named = path is not None
        wait = number_above_zero("wait_seconds", wait_seconds, "say how long to wait for other runs")
        self._file = SqliteFile(self.path, KIND, wait_seconds=wait)

    def set_limit(
        self, population: str, epsilon: float, delta: float, *, by: str | None = None, why: str | None = None
    ) -> Account:
        """Set what may be spent on a population in all; what is spent already stays spent.

        The journal keeps every change: when, by whom (the name of the account that runs this, if not given), and why.
        """
        _check_name(population)
        epsilon = number_above_zero("epsilon", epsilon, "give the most that may be spent in all, such as 8")
        if isinstance(delta, bool) or delta != 0:
            delta = share("delta", delta, "give the most that may be spent in all, such as 1e-6, or 0 for none")
        with self._file.writing(create=True) as connection:
            connection.execute(
                "INSERT INTO populations VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET epsilon = excluded.epsilon, delta = excluded.delta",
                (population, repr(epsilon), repr(float(delta))),
            )
            limit = {"population": population, "epsilon": repr(epsilon), "delta": repr(float(delta))}
            journal.append(connection, {"what": "limit", **limit, "by": by or _account_name(), "why": why})
            return self._account(connection, population)

    def how_to_set(self, population: str) -> Action:
        """How the owner of this ledger sets a limit."""
        limit = ("--epsilon", "E", "--delta", "D", *self._option())
        # A name that begins like an option goes last, behind the sign that ends options.
        words = (*limit, "--", population) if population.startswith("-") else (population, *limit)
        call = f"{self._call()}.set_limit({population!r}, epsilon=E, delta=D)"
        return Action(call, ("querycloak", "ledger", "set", *words))

    def how_to_show(self) -> Action:
        """How to look at this ledger, and for releases that it does not know of yet."""
        call = f"querycloak.releases.folder.reconcile({self._call()})"
        return Action(call, ("querycloak", "ledger", "show", *self._option()))

    def _option(self) -> tuple[str, ...]:
        return ("--ledger", str(self.path)) if self._named else ()

    def _call(self) -> str:
        return f"Ledger({str(self.path)!r})" if self._named else "Ledger()"

    def check(self, population: str, guarantee: Guarantee) -> Account:
        """Raise what `charge` would raise, and write nothing; the account as it stands."""
        _check_name(population)
        with self._file.reading() as connection:
            account = self._account(connection, population)
        account.require(guarantee, self.how_to_set(population))
        return account

    def charge(self, population: str, guarantee: Guarantee, *, method: str, parameters: Mapping[str, Any]) -> Charge:
        """Spend: when this returns, the charge is on the disk, and only then may anything be drawn."""
        order.check_may_pay()
        _check_name(population)
        written, made, promised = _json(parameters), journal.now(), _json(guarantee.to_json())
        with self._file.writing() as connection:
            self._account(connection, population).require(guarantee, self.how_to_set(population))
            connection.execute(
                "INSERT INTO charges (population, made, method, guarantee, parameters) VALUES (?, ?, ?, ?, ?)",
                (population, made, method, promised, written),
            )
            (number,) = connection.execute("SELECT last_insert_rowid()").fetchone()
            entry = {"what": "charge", "charge": number, "population": population, "guarantee": promised}
            journal.append(connection, entry)
        return Charge(number, population, made, method, guarantee, MappingProxyType(json.loads(written)))

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
                journal.append(connection, {"what": "release", "charge": number, "digest": release_digest})
            connection.execute("DELETE FROM announced WHERE charge = ? AND digest = ?", (number, release_digest))

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

    def limits(self, population: str) -> tuple[journal.Entry, ...]:
        """Every change of a population's limit: when, by whom and why; a ledger before version 3 kept none."""
        with self._file.reading() as connection:
            if version_of(connection) < 3:
                return ()
            told = [each for each in journal.entries(connection) if each.what["what"] == "limit"]
        return tuple(each for each in told if each.what["population"] == population)

    def verify(self) -> list[str]:
        """Signs that something other than querycloak changed the ledger; empty if there are none."""
        with self._file.reading() as connection:
            if version_of(connection) < 3:
                return ["the ledger is of an older version and has no journal yet; the next change begins one"]
            return journal.problems(connection)

    def digest(self) -> str | None:
        """The digest of the last entry of the journal; a copy of it shows later whether entries are gone."""
        with self._file.reading() as connection:
            if version_of(connection) < 3:
                return None
            told = list(journal.entries(connection))
        return told[-1].digest if told else None

    def knows(self, digest: str) -> bool:
        """Whether an entry of the journal has this digest."""
        with self._file.reading() as connection:
            return version_of(connection) >= 3 and any(each.digest == digest for each in journal.entries(connection))

    def _account(self, connection: sqlite3.Connection, population: str) -> Account:
        limit = connection.execute("SELECT epsilon, delta FROM populations WHERE name = ?", (population,)).fetchone()
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
        rows = connection.execute(CHARGES, (population,)).fetchall()
        try:
            charges = tuple(_charge(population, *row) for row in rows)
            return Account(population, float(limit[0]), float(limit[1]), charges)
        except (ValueError, TypeError, QuerycloakError):
            problem = self._file.damaged()
        raise problem


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


def _charge(
    population: str, number: int, made: str, method: str, guarantee: str, parameters: str, digests: str | None
) -> Charge:
    promised = Guarantee.from_json(json.loads(guarantee))
    released = tuple(digests.split(",")) if digests else ()
    return Charge(number, population, made, method, promised, MappingProxyType(json.loads(parameters)), released)


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
        said = Sentence(
            "the name of a population must be {rule}, got {name!r}; {way_out}",
            rule=rule,
            name=population,
            way_out=way_out,
        )
        raise ParameterError(said, parameter="population", rule=rule, value=population, way_out=way_out)


def _json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(values), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        pass
    raise ParameterError(
        "parameters must be plain values (texts, finite numbers, lists, mappings) to stand in a ledger"
    )
