"""What single users have spent of a budget that was charged beforehand: one SQLite file beside the ledger (ledger.md).

A campaign is one charge of the ledger that pays for so many queries of each user, in one release or in several. Users
stand in the file under a keyed hash. Whoever may read the file holds the key too, so it is as private as the log.
"""

import json
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import InputError, QuerycloakError, ResourceError
from querycloak.privacy import order
from querycloak.privacy.books.ledger import Ledger
from querycloak.privacy.chance.randomness import secret_key
from querycloak.privacy.guarantee import Guarantee

__all__ = ["Campaign", "Spending"]

ENDING = ".users"
APPLICATION = 0x51435553  # "QCUS"
VERSION = 1
TABLES = (
    """CREATE TABLE campaigns (charge INTEGER PRIMARY KEY, population TEXT NOT NULL, guarantee TEXT NOT NULL,
       queries INTEGER NOT NULL, key TEXT NOT NULL, UNIQUE (population, guarantee, queries))""",
    """CREATE TABLE spent (charge INTEGER NOT NULL REFERENCES campaigns, user TEXT NOT NULL, queries INTEGER NOT NULL,
       PRIMARY KEY (charge, user)) WITHOUT ROWID""",
    f"PRAGMA application_id = {APPLICATION}",
    f"PRAGMA user_version = {VERSION}",
)
FIND = "SELECT charge, key FROM campaigns WHERE population = ? AND guarantee = ? AND queries = ?"


@dataclass(frozen=True)
class Campaign:
    """A charge that pays for so many queries of each user, and the key under which users are kept."""

    charge: int
    key: str
    queries: int


class Spending:
    """The file beside a ledger; every method opens it, does one thing and closes it."""

    def __init__(self, ledger: Ledger, *, wait_seconds: float = 30.0) -> None:
        self._ledger = ledger
        self.path = ledger.path.with_name(ledger.path.name + ENDING)
        self._wait_seconds = wait_seconds

    def has_campaign(self, population: str, guarantee: Guarantee, queries: int) -> bool:
        """Whether this was charged before, with all that it leaves unprotected; writes nothing."""
        if not self.path.exists():
            return False
        with self._open("BEGIN") as connection:
            return self._found(connection, population, guarantee, queries) is not None

    def campaign(self, population: str, guarantee: Guarantee, queries: int, charge: Callable[[], int]) -> Campaign:
        """The campaign of these terms, charged now if there is none; concurrent first runs charge once."""
        order.check_may_pay()
        with self._open("BEGIN IMMEDIATE") as connection:
            found = self._found(connection, population, guarantee, queries)
            if found is not None:
                return found
            made = Campaign(charge(), secret_key(), queries)
            row = (made.charge, population, _terms(guarantee), queries, made.key)
            connection.execute("INSERT INTO campaigns VALUES (?, ?, ?, ?, ?)", row)
            return made

    def _found(
        self, connection: sqlite3.Connection, population: str, guarantee: Guarantee, queries: int
    ) -> Campaign | None:
        row = connection.execute(FIND, (population, _terms(guarantee), queries)).fetchone()
        if row is None:
            return None
        # In a ledger begun anew the number may belong to another charge, for less.
        charges = self._ledger.show(population)[0].charges
        if not any(charge.id == row[0] and charge.guarantee == guarantee for charge in charges):
            raise InputError(
                f"{str(self.path)!r} goes with another ledger than {str(self._ledger.path)!r}: the charge that paid "
                "for it is not there; put that ledger back, or move this file away and be charged anew"
            )
        return Campaign(int(row[0]), str(row[1]), queries)

    def spend(self, campaign: Campaign, users: list[str], asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many queries of each user may be drawn; they are spent, on the disk, when this returns."""
        order.check_may_pay()
        with self._open("BEGIN IMMEDIATE") as connection:
            connection.execute("CREATE TEMP TABLE asked (place INTEGER PRIMARY KEY, user TEXT NOT NULL)")
            connection.executemany("INSERT INTO asked VALUES (?, ?)", enumerate(users))
            spent = connection.execute(
                "SELECT place, queries FROM asked JOIN spent ON spent.user = asked.user AND charge = ?",
                (campaign.charge,),
            ).fetchall()
            before = np.zeros(len(users), np.int64)
            if spent:
                places, queries = np.array(spent, np.int64).T
                before[places] = queries
            allowed = np.clip(campaign.queries - before, 0, asked)
            changed = np.flatnonzero(allowed)
            connection.executemany(
                "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)",
                ((campaign.charge, users[i], int(before[i] + allowed[i])) for i in changed.tolist()),
            )
            return allowed

    @contextmanager
    def _open(self, begin: str) -> Iterator[sqlite3.Connection]:
        """One transaction, all or nothing: whatever is written is on the disk when it ends."""
        problem: QuerycloakError
        try:
            _prepare(self.path)
            with closing(sqlite3.connect(self.path, self._wait_seconds, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute(begin)
                if connection.execute("PRAGMA user_version").fetchone()[0] == 0:
                    for statement in TABLES:
                        connection.execute(statement)
                yield connection
                connection.execute("COMMIT")
                return
        except (sqlite3.Error, OSError) as error:
            problem = self._translated(error)
        raise problem

    def _translated(self, error: Exception) -> QuerycloakError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return ResourceError(
                f"what users have spent is locked by another process, for longer than {self._wait_seconds:g} seconds; "
                "nothing was drawn; try again when that process has ended"
            )
        if isinstance(error, OSError) or code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR):
            return ResourceError(
                f"what users have spent cannot be written to {str(self.path)!r}: check the disk and the rights"
            )
        return InputError(
            f"{str(self.path)!r} is damaged, or no file of querycloak; nothing in it was changed; move it away and be "
            "charged anew (an older copy would have forgotten what was spent since)"
        )


def _terms(guarantee: Guarantee) -> str:
    return json.dumps(guarantee.to_json(), sort_keys=True)


def _prepare(path: Path) -> None:
    """A file that only its owner can read; another program's file is left as it is."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
    with path.open("rb") as file:
        head = file.read(100)
    if head and int.from_bytes(head[68:72], "big") != APPLICATION:
        raise InputError(f"{str(path)!r} is not what users have spent, as querycloak keeps it; move it away")
