"""The tables of a ledger, version by version, and all that reads it: accounts, limits, signs of changes (ledger.md).

Nothing in this module writes to the ledger.
"""

import os
import sqlite3
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any

from querycloak.errors import InputError, ParameterError, QuerycloakError
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger import journal
from querycloak.privacy.ledger.accounts import Account, charge_read, cost_read, limit_read
from querycloak.privacy.ledger.sqlite import Kind, SqliteFile, version_of
from querycloak.privacy.ledger.terms import Terms
from querycloak.privacy.parameters import number_above_zero, path_of
from querycloak.sentence import Action, Sentence

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
# Since version 2: the folder that a release was about to have, until its charge is completed.
SECOND_TABLES = (
    """CREATE TABLE announced (charge INTEGER NOT NULL REFERENCES charges, digest TEXT NOT NULL,
       folder TEXT NOT NULL, PRIMARY KEY (charge, digest))""",
)
# Since version 4: how a population is accounted, as JSON; empty where epsilons and deltas are added up.
FOURTH_TABLES = ("ALTER TABLE populations ADD COLUMN terms TEXT NOT NULL DEFAULT '{}'",)
# Since version 5: what each charge reserves of a Gaussian limit, as JSON, to what it was lowered after the draw, and
# which releases of a series were begun.
FIFTH_TABLES = (
    "ALTER TABLE charges ADD COLUMN cost TEXT NOT NULL DEFAULT ''",
    "CREATE TABLE lowered (charge INTEGER PRIMARY KEY REFERENCES charges, cost TEXT NOT NULL)",
    """CREATE TABLE taken (charge INTEGER NOT NULL REFERENCES charges, number INTEGER NOT NULL, made TEXT NOT NULL,
       PRIMARY KEY (charge, number))""",
    *(rule for table in ("lowered", "taken") for rule in journal.kept_rows(table)),
)
OTHER_FILE = Sentence(
    "name another file with {ledger} or QUERYCLOAK_LEDGER", ledger=Action("Ledger(FILE)", ("--ledger", "FILE"))
)
RESTORE = Sentence(
    "an older copy, put back in its place, has forgotten the charges since: find them with {verify} for every release "
    "that was made, and lower the limit by what they cost",
    verify=Action("verify(RELEASE, ledger=FILE)", ("querycloak", "verify", "RELEASE", "--ledger", "FILE")),
)
KIND = Kind(
    application=0x51434C47,  # "QCLG"
    versions=(FIRST_TABLES, SECOND_TABLES, journal.TABLES, FOURTH_TABLES, FIFTH_TABLES),
    name="ledger",
    not_done="nothing was charged",
    elsewhere=OTHER_FILE,
    restore=RESTORE,
    upgraded=journal.seal,
)


LONGEST_NAME = 100
LIMIT = "SELECT epsilon, delta FROM populations WHERE name = ?"
DIGESTS = "(SELECT group_concat(digest) FROM releases WHERE charge = id)"
CHARGES = f"SELECT id, made, method, guarantee, parameters, {DIGESTS} FROM charges WHERE population = ? ORDER BY id"
TAKEN = "SELECT charge, count(*) FROM taken GROUP BY charge"
COSTS = """SELECT id, charges.cost, lowered.cost FROM charges LEFT JOIN lowered ON lowered.charge = id
    WHERE population = ?"""


class LedgerReader:
    """A ledger's file, read: every method opens it, answers one question and closes it."""

    def __init__(self, path: str | os.PathLike[str] | None = None, *, wait_seconds: float = 30.0) -> None:
        self.path = path_of("ledger", path) if path is not None else default_path()
        self._named = path is not None
        wait = number_above_zero("wait_seconds", wait_seconds, "say how long to wait for other runs")
        self._file = SqliteFile(self.path, KIND, wait_seconds=wait)

    def how_to_set(self, population: str, *, raised: bool = False) -> Action:
        """The call and the command with which the owner of this ledger sets a limit, or raises one."""
        limit = ("--epsilon", "E", "--delta", "D", *(("--because", "REASON") if raised else ()), *self._option())
        # A name that begins like an option goes last, behind the sign that ends options.
        words = (*limit, "--", population) if population.startswith("-") else (population, *limit)
        call = f"{self._call()}.set_limit({population!r}, epsilon=E, delta=D{', why=REASON' if raised else ''})"
        return Action(call, ("querycloak", "ledger", "set", *words))

    def how_to_show(self) -> Action:
        """The call and the command that show this ledger, after completing charges whose releases are in place."""
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
        """The account; an InputError if other software changed the ledger, or if it is on a network file system."""
        check_population(population)
        self._file.check_place()
        with self._file.reading() as connection:
            account = self._account(connection, population)
            self._require_unchanged(connection)
            return account

    def _require_unchanged(self, connection: sqlite3.Connection) -> None:
        signs = journal.problems(connection) if version_of(connection) >= 3 else []
        if signs:
            raise InputError.of(
                "the ledger {path!r} was changed by other means than querycloak, so nothing can be charged to it: "
                "{sign}{more}; {verify} lists all signs; {restore}",
                path=str(self.path),
                sign=signs[0],
                more=f" (and {len(signs) - 1} more)" if len(signs) > 1 else "",
                verify=Action("Ledger.verify()", ("querycloak", "ledger", "verify", *self._option())),
                restore=RESTORE,
            )

    def announced(self) -> tuple[tuple[int, str, Path], ...]:
        """Charges that were never completed, each with the digest of its card and the folder announced for it."""
        with self._file.reading() as connection:
            if version_of(connection) < 2:
                return ()
            rows = connection.execute("SELECT charge, digest, folder FROM announced ORDER BY charge, digest").fetchall()
        return tuple((number, digest, Path(folder)) for number, digest, folder in rows)

    def show(self, population: str | None = None) -> tuple[Account, ...]:
        """Return the accounts, by name; a ledger that does not exist yet has none."""
        if population is not None:
            check_population(population)
        with self._file.reading() as connection:
            named = connection.execute("SELECT name FROM populations ORDER BY name").fetchall()
            names = [name for (name,) in named] if population is None else [population]
            return tuple(self._account(connection, name) for name in names)

    def spendings(self) -> dict[int, tuple[int, str]]:
        """Number and mark of the last spending of each campaign's charge."""
        with self._file.reading() as connection:
            return journal.spendings(connection) if version_of(connection) >= 3 else {}

    def limits(self, population: str) -> tuple[journal.Entry, ...]:
        """Every change of a population's limit: when, by whom and why; a ledger before version 3 kept none."""
        written = [entry for entry in self._entries() if entry.what["what"] == "limit"]
        return tuple(entry for entry in written if entry.what["population"] == population)

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
            raise ParameterError.of(
                "population {name!r} has no limit in the ledger{meant}; set one first: {set_limit}",
                name=population,
                meant=meant,
                set_limit=self.how_to_set(population),
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


def default_path() -> Path:
    """Return $QUERYCLOAK_LEDGER, else a file in the user's data folder."""
    named = os.environ.get("QUERYCLOAK_LEDGER")
    if named:
        return Path(named)
    data = Path(os.environ.get("XDG_DATA_HOME") or "")
    return (data if data.is_absolute() else Path.home() / ".local" / "share") / "querycloak" / "ledger.sqlite"


def check_population(population: object) -> None:
    """Refuse what cannot be the name of a population."""
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
