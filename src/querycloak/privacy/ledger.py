"""What has been spent on whom, across runs: one SQLite file, charged before anything is drawn (ledger.md)."""

import json
import os
import re
import shlex
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Context, Decimal
from fractions import Fraction
from pathlib import Path
from types import MappingProxyType
from typing import Any

from querycloak.errors import BudgetRefused, InputError, ParameterError, QuerycloakError, ResourceError
from querycloak.privacy.exact import rounded_up, stated
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import number_above_zero, refuse, share

__all__ = ["Account", "Charge", "Ledger", "default_path"]

APPLICATION = 0x51434C47  # "QCLG", where SQLite keeps the program that a file belongs to
VERSION = 1
MAGIC = b"SQLite format 3\x00"
LONGEST_NAME = 100
OTHER_FILE = "name another file with --ledger or QUERYCLOAK_LEDGER"

TABLES = (
    "CREATE TABLE populations (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL)",
    """CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, population TEXT NOT NULL REFERENCES populations,
       made TEXT NOT NULL, method TEXT NOT NULL, guarantee TEXT NOT NULL, parameters TEXT NOT NULL)""",
    """CREATE TABLE releases (charge INTEGER NOT NULL REFERENCES charges, digest TEXT NOT NULL,
       PRIMARY KEY (charge, digest))""",
    # What is spent stays spent, also for whoever opens the file with another program.
    "CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
    "CREATE TRIGGER charges_keep BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
CHARGES = """SELECT id, made, method, guarantee, parameters,
    (SELECT group_concat(digest) FROM releases WHERE charge = id) FROM charges WHERE population = ? ORDER BY id"""


@dataclass(frozen=True)
class Charge:
    """One spending; it stays whether or not a release came of it."""

    id: int
    population: str
    made: str
    method: str
    guarantee: Guarantee
    parameters: Mapping[str, Any]
    releases: tuple[str, ...] = ()

    @property
    def epsilon(self) -> Fraction:
        """What it cost; a syntactic rule bounds nothing, so there is nothing to add up."""
        return stated(self.guarantee.epsilon or 0.0)

    @property
    def delta(self) -> Fraction:
        """What it cost in delta."""
        return stated(self.guarantee.delta or 0.0)

    @property
    def status(self) -> str:
        """Whether a release came of it."""
        return "released" if self.releases else "no release"


@dataclass(frozen=True)
class Account:
    """A population: its limit, what was charged, and so what is left."""

    population: str
    epsilon_limit: float
    delta_limit: float
    charges: tuple[Charge, ...] = field(default=(), repr=False)

    @property
    def spent(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta, exactly: the sum over all charges."""
        return sum((c.epsilon for c in self.charges), Fraction(0)), sum((c.delta for c in self.charges), Fraction(0))

    @property
    def left(self) -> tuple[Fraction, Fraction]:
        """Epsilon and delta that may still be spent, exactly."""
        epsilon, delta = self.spent
        return max(stated(self.epsilon_limit) - epsilon, Fraction(0)), max(
            stated(self.delta_limit) - delta, Fraction(0)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the account as `ledger show --json` prints it: spent rounded up, left rounded down."""
        spent, left = self.spent, self.left
        return {
            "population": self.population,
            "limit": {"epsilon": self.epsilon_limit, "delta": self.delta_limit},
            "spent": {"epsilon": rounded_up(spent[0]), "delta": rounded_up(spent[1])},
            "left": {"epsilon": 0.0 - rounded_up(-left[0]), "delta": 0.0 - rounded_up(-left[1])},
            "charges": [
                {
                    "id": charge.id,
                    "made": charge.made,
                    "method": charge.method,
                    "parameters": dict(charge.parameters),
                    "guarantee": charge.guarantee.to_json(),
                    "status": charge.status,
                    "releases": list(charge.releases),
                }
                for charge in self.charges
            ],
        }

    def require(self, guarantee: Guarantee) -> None:
        """Refuse a guarantee that this population cannot pay, or that cannot be added to what it has paid."""
        if guarantee.kind == "syntactic":
            return
        if guarantee.unit != "user":
            raise ParameterError(
                f"the ledger counts what is spent on each user, this guarantee is for each {guarantee.unit}; "
                "multiply it by the most that one user adds, and charge that"
            )
        relations = {c.guarantee.neighbours for c in self.charges if c.guarantee.kind != "syntactic"}
        if relations - {guarantee.neighbours}:
            raise ParameterError(
                f"population {self.population!r} is accounted for neighbours {', '.join(sorted(map(str, relations)))}, "
                f"this guarantee is for {guarantee.neighbours}, and the two do not add up; account it under a "
                "population name of its own, whose limit its owner sets with both in mind"
            )
        asked = stated(guarantee.epsilon or 0.0), stated(guarantee.delta or 0.0)
        if any(one > rest for one, rest in zip(asked, self.left, strict=True)):
            raise BudgetRefused(self._refusal(asked))

    def _refusal(self, asked: tuple[Fraction, Fraction]) -> str:
        limit = stated(self.epsilon_limit), stated(self.delta_limit)
        parts = [("allows", limit), ("spent", self.spent), ("asked", asked), ("left", self.left)]
        figures = ", ".join(f"{word} {_decimal(e)} and {_decimal(d)}" for word, (e, d) in parts)
        return (
            f"the ledger refuses: population {self.population!r}, epsilon and delta: {figures}; ask for less, or let "
            f"the owner raise the limit: {_how_to_set(self.population)}"
        )


class Ledger:
    """The file that all runs share; every method opens it, does one thing and closes it."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, wait_seconds: float = 30.0) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._wait_seconds = number_above_zero("wait_seconds", wait_seconds, "say how long to wait for other runs")

    def set_limit(self, population: str, epsilon: float, delta: float) -> Account:
        """Set what may be spent on a population in all; what is spent already stays spent."""
        _check_name(population)
        epsilon = number_above_zero("epsilon", epsilon, "give the most that may be spent in all, such as 8")
        if isinstance(delta, bool) or delta != 0:
            delta = share("delta", delta, "give the most that may be spent in all, such as 1e-6, or 0 for none")
        with self._open("BEGIN IMMEDIATE", create=True) as connection:
            connection.execute(
                "INSERT INTO populations VALUES (?, ?, ?) "
                "ON CONFLICT (name) DO UPDATE SET epsilon = excluded.epsilon, delta = excluded.delta",
                (population, repr(epsilon), repr(float(delta))),
            )
            return self._account(connection, population)

    def check(self, population: str, guarantee: Guarantee) -> Account:
        """Raise what `charge` would raise, and write nothing; the account as it stands."""
        _check_name(population)
        with self._open("BEGIN") as connection:
            account = self._account(connection, population)
        account.require(guarantee)
        return account

    def charge(self, population: str, guarantee: Guarantee, *, method: str, parameters: Mapping[str, Any]) -> Charge:
        """Spend: when this returns, the charge is on the disk, and only then may anything be drawn."""
        _check_name(population)
        written, made = _json(parameters), datetime.now(UTC).isoformat(timespec="seconds")
        with self._open("BEGIN IMMEDIATE") as connection:
            self._account(connection, population).require(guarantee)
            row = connection.execute(
                "INSERT INTO charges (population, made, method, guarantee, parameters) VALUES (?, ?, ?, ?, ?)",
                (population, made, method, _json(guarantee.to_json()), written),
            )
            number = row.lastrowid or 0
        return Charge(number, population, made, method, guarantee, MappingProxyType(json.loads(written)))

    def complete(self, charge: Charge | int, release_digest: str) -> None:
        """Note that a release came of a charge; one draw saved in two formats is noted twice."""
        number = charge.id if isinstance(charge, Charge) else charge
        if not re.fullmatch("[0-9a-f]{64}", release_digest):
            refuse("release_digest", "a SHA-256 in hexadecimal", release_digest, "give the digest of card.json")
        with self._open("BEGIN IMMEDIATE") as connection:
            if connection.execute("SELECT 1 FROM charges WHERE id = ?", (number,)).fetchone() is None:
                refuse("charge", "one that this ledger holds", number, "use the ledger that was charged")
            connection.execute("INSERT OR IGNORE INTO releases VALUES (?, ?)", (number, release_digest))

    def show(self, population: str | None = None) -> tuple[Account, ...]:
        """Return the accounts, by name; a ledger that does not exist yet has none."""
        with self._open("BEGIN") as connection:
            named = connection.execute("SELECT name FROM populations ORDER BY name").fetchall()
            names = [name for (name,) in named] if population is None else [population]
            return tuple(self._account(connection, name) for name in names)

    def _account(self, connection: sqlite3.Connection, population: str) -> Account:
        limit = connection.execute("SELECT epsilon, delta FROM populations WHERE name = ?", (population,)).fetchone()
        if limit is None:
            raise ParameterError(
                f"population {population!r} has no limit in the ledger; set one first: {_how_to_set(population)}"
            )
        rows = connection.execute(CHARGES, (population,)).fetchall()
        try:
            charges = tuple(_charge(population, *row) for row in rows)
            return Account(population, float(limit[0]), float(limit[1]), charges)
        except (ValueError, TypeError, QuerycloakError):
            problem = _damaged(self.path)
        raise problem

    @contextmanager
    def _open(self, begin: str, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """One transaction, all or nothing: whatever is written is on the disk when it ends."""
        there = _is_ledger(self.path)
        if create and not there:
            _create(self.path)
        mode = "rw" if os.access(self.path, os.W_OK) else "ro"
        # A ledger that is not there yet is an empty one; nothing but a limit makes the file.
        address = f"{self.path.absolute().as_uri()}?mode={mode}" if there or create else ":memory:"
        problem: QuerycloakError
        try:
            with closing(sqlite3.connect(address, self._wait_seconds, isolation_level=None, uri=True)) as connection:
                # EXTRA also syncs the folder once the journal is gone: FULL alone may lose the last
                # commit to a power failure, and with it a charge whose release exists.
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute(begin)
                self._prepare(connection)
                yield connection
                connection.execute("COMMIT")
                return
        except sqlite3.Error as error:
            problem = _translated(error, self.path, self._wait_seconds)
        raise problem

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise _damaged(self.path)
        if connection.execute("PRAGMA user_version").fetchone()[0] == 0:  # nothing in it yet
            for statement in TABLES:
                connection.execute(statement)


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


def _is_ledger(path: Path) -> bool:
    """Tell from its first bytes whether a file is a ledger or none yet, before SQLite touches it."""
    problem = ""
    try:
        with path.open("rb") as file:
            head = file.read(100)
    except FileNotFoundError:
        return False
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    if problem:
        raise InputError(f"the ledger {str(path)!r} cannot be read: {problem}; {OTHER_FILE}")
    if not head:
        return False
    if len(head) < 100 or not head.startswith(MAGIC) or int.from_bytes(head[68:72], "big") != APPLICATION:
        raise InputError(f"{str(path)!r} is not a ledger of querycloak; nothing in it was changed; {OTHER_FILE}")
    version = int.from_bytes(head[60:64], "big")
    if version > VERSION:
        raise InputError(
            f"the ledger {str(path)!r} is of version {version}, this querycloak knows up to {VERSION}; nothing in "
            "it was changed; use the newer querycloak that made it"
        )
    return True


def _create(path: Path) -> None:
    problem = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    if problem:
        raise ResourceError(f"the ledger {str(path)!r} cannot be made: {problem}; {OTHER_FILE}")


def _damaged(path: Path) -> InputError:
    return InputError(
        f"the ledger {str(path)!r} is damaged; nothing in it was changed; put a copy of it back in its place"
    )


def _translated(error: sqlite3.Error, path: Path, waited: float) -> QuerycloakError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ResourceError(
            f"the ledger is locked by another process, for longer than {waited:g} seconds; nothing was charged; "
            "try again when that process has ended"
        )
    shortages = {
        sqlite3.SQLITE_FULL: "the disk is full",
        sqlite3.SQLITE_READONLY: "it cannot be written",
        sqlite3.SQLITE_PERM: "it cannot be written",
        sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
        sqlite3.SQLITE_IOERR: "the disk failed",
    }
    if code in shortages:
        return ResourceError(f"the ledger {str(path)!r} was not changed: {shortages[code]}; {OTHER_FILE}")
    return _damaged(path)


def _check_name(population: object) -> None:
    rule = f"a name of 1 to {LONGEST_NAME} printable characters, no blank at its ends"
    fits = isinstance(population, str) and 0 < len(population) <= LONGEST_NAME and population.isprintable()
    if not fits or population != str(population).strip():
        refuse("population", rule, population, "name the people behind the log, such as shop-users")


def _json(values: Mapping[str, Any]) -> str:
    try:
        return json.dumps(dict(values), sort_keys=True, allow_nan=False)
    except (TypeError, ValueError):
        pass
    raise ParameterError(
        "parameters must be plain values (texts, finite numbers, lists, mappings) to stand in a ledger"
    )


def _how_to_set(population: str) -> str:
    return f"querycloak ledger set {shlex.quote(population)} --epsilon E --delta D"


def _decimal(exact: Fraction) -> str:
    """Write a sum of decimals as the decimal that it is."""
    number = Context(prec=400).divide(Decimal(exact.numerator), Decimal(exact.denominator)).normalize()
    return format(number, "f") if number == 0 or number.adjusted() >= -4 else f"{number:e}".replace("e-0", "e-")
