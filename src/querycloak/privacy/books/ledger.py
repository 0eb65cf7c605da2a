"""What has been spent on whom, across runs: one SQLite file, charged before anything is drawn (ledger.md)."""

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from querycloak.errors import InputError, ParameterError, QuerycloakError, ResourceError
from querycloak.privacy import order
from querycloak.privacy.books.accounts import Account, Charge
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import number_above_zero, refuse, share
from querycloak.sentence import Action, Sentence

__all__ = ["Account", "Charge", "Ledger", "default_path"]

APPLICATION = 0x51434C47  # "QCLG", where SQLite keeps the program that a file belongs to
VERSION = 2
MAGIC = b"SQLite format 3\x00"
LONGEST_NAME = 100

FIRST_TABLES = (
    "CREATE TABLE populations (name TEXT PRIMARY KEY, epsilon TEXT NOT NULL, delta TEXT NOT NULL)",
    """CREATE TABLE charges (id INTEGER PRIMARY KEY AUTOINCREMENT, population TEXT NOT NULL REFERENCES populations,
       made TEXT NOT NULL, method TEXT NOT NULL, guarantee TEXT NOT NULL, parameters TEXT NOT NULL)""",
    """CREATE TABLE releases (charge INTEGER NOT NULL REFERENCES charges, digest TEXT NOT NULL,
       PRIMARY KEY (charge, digest))""",
    # What is spent stays spent, also for whoever opens the file with another program.
    "CREATE TRIGGER charges_stay BEFORE DELETE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
    "CREATE TRIGGER charges_keep BEFORE UPDATE ON charges BEGIN SELECT RAISE(ABORT, 'charges stay'); END",
    f"PRAGMA application_id = {APPLICATION}",
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


class Ledger:
    """The file that all runs share; every method opens it, does one thing and closes it."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, wait_seconds: float = 30.0) -> None:
        self.path = Path(path) if path is not None else default_path()
        self._named = path is not None
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

    def how_to_set(self, population: str) -> Action:
        """How the owner of this ledger sets a limit."""
        limit = ("--epsilon", "E", "--delta", "D", *self._option())
        # A name that begins like an option goes last, behind the sign that ends options.
        words = (*limit, "--", population) if population.startswith("-") else (population, *limit)
        call = f"{self._call()}.set_limit({population!r}, epsilon=E, delta=D)"
        return Action(call, ("querycloak", "ledger", "set", *words))

    def how_to_show(self) -> Action:
        """How to look at this ledger, and for releases that it does not know of yet."""
        call = f"querycloak.releases.unfinished.reconcile({self._call()})"
        return Action(call, ("querycloak", "ledger", "show", *self._option()))

    def _option(self) -> tuple[str, ...]:
        return ("--ledger", str(self.path)) if self._named else ()

    def _call(self) -> str:
        return f"Ledger({str(self.path)!r})" if self._named else "Ledger()"

    def check(self, population: str, guarantee: Guarantee) -> Account:
        """Raise what `charge` would raise, and write nothing; the account as it stands."""
        _check_name(population)
        with self._open("BEGIN") as connection:
            account = self._account(connection, population)
        account.require(guarantee, self.how_to_set(population))
        return account

    def charge(self, population: str, guarantee: Guarantee, *, method: str, parameters: Mapping[str, Any]) -> Charge:
        """Spend: when this returns, the charge is on the disk, and only then may anything be drawn."""
        order.check_may_pay()
        _check_name(population)
        written, made = _json(parameters), datetime.now(UTC).isoformat(timespec="seconds")
        with self._open("BEGIN IMMEDIATE") as connection:
            self._account(connection, population).require(guarantee, self.how_to_set(population))
            row = connection.execute(
                "INSERT INTO charges (population, made, method, guarantee, parameters) VALUES (?, ?, ?, ?, ?)",
                (population, made, method, _json(guarantee.to_json()), written),
            )
            number = row.lastrowid or 0
        return Charge(number, population, made, method, guarantee, MappingProxyType(json.loads(written)))

    def complete(self, charge: Charge | int, release_digest: str) -> None:
        """Note that a release came of a charge; one draw saved in two formats is noted twice."""
        number = charge.id if isinstance(charge, Charge) else charge
        with self._open("BEGIN IMMEDIATE") as connection:
            _check_charge(connection, number, release_digest)
            connection.execute("INSERT OR IGNORE INTO releases VALUES (?, ?)", (number, release_digest))
            connection.execute("DELETE FROM announced WHERE charge = ? AND digest = ?", (number, release_digest))

    def announce(self, charge: Charge | int, release_digest: str, folder: Path) -> None:
        """Note where a release is about to be, so that its charge can be completed should its process die."""
        number = charge.id if isinstance(charge, Charge) else charge
        with self._open("BEGIN IMMEDIATE") as connection:
            _check_charge(connection, number, release_digest)
            row = (number, release_digest, os.fsdecode(folder))
            connection.execute("INSERT OR REPLACE INTO announced VALUES (?, ?, ?)", row)

    def announced(self) -> tuple[tuple[int, str, Path], ...]:
        """Charges that were never completed, with the digest of a card and the folder where it was about to be."""
        with self._open("BEGIN") as connection:
            if _version(connection) < 2:
                return ()
            rows = connection.execute("SELECT charge, digest, folder FROM announced ORDER BY charge, digest").fetchall()
        return tuple((number, digest, Path(folder)) for number, digest, folder in rows)

    def show(self, population: str | None = None) -> tuple[Account, ...]:
        """Return the accounts, by name; a ledger that does not exist yet has none."""
        if population is not None:
            _check_name(population)
        with self._open("BEGIN") as connection:
            named = connection.execute("SELECT name FROM populations ORDER BY name").fetchall()
            names = [name for (name,) in named] if population is None else [population]
            return tuple(self._account(connection, name) for name in names)

    def _account(self, connection: sqlite3.Connection, population: str) -> Account:
        limit = connection.execute("SELECT epsilon, delta FROM populations WHERE name = ?", (population,)).fetchone()
        if limit is None:
            raise ParameterError(
                Sentence(
                    "population {name!r} has no limit in the ledger; set one first: {set_limit}",
                    name=population,
                    set_limit=self.how_to_set(population),
                )
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
                self._prepare(connection, writing=begin == "BEGIN IMMEDIATE")
                yield connection
                connection.execute("COMMIT")
                return
        except sqlite3.Error as error:
            problem = _translated(error, self.path, self._wait_seconds)
        raise problem

    def _prepare(self, connection: sqlite3.Connection, *, writing: bool) -> None:
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise _damaged(self.path)
        version = _version(connection)
        lacking = (*(FIRST_TABLES if version < 1 else ()), *(SECOND_TABLES if version < 2 else ()))
        if version == 0 or (lacking and writing):  # an older ledger is brought up to date by whoever writes
            for statement in (*lacking, f"PRAGMA user_version = {VERSION}"):
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
        raise InputError(_with_way_out(f"the ledger {str(path)!r} cannot be read: {problem}"))
    if not head:
        return False
    if len(head) < 100 or not head.startswith(MAGIC) or int.from_bytes(head[68:72], "big") != APPLICATION:
        raise InputError(_with_way_out(f"{str(path)!r} is not a ledger of querycloak; nothing in it was changed"))
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
        raise ResourceError(_with_way_out(f"the ledger {str(path)!r} cannot be made: {problem}"))


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
        return ResourceError(_with_way_out(f"the ledger {str(path)!r} was not changed: {shortages[code]}"))
    return _damaged(path)


def _with_way_out(problem: str) -> Sentence:
    return Sentence("{problem}; {way_out}", problem=problem, way_out=OTHER_FILE)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


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
