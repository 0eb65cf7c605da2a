"""Spending of a campaign: part of a charged budget that each user has used (ledger.md).

A campaign is one charge of the ledger that pays for some number of queries of each user, in one release or in several.
The record is an SQLite file beside the ledger. Users stand in it under a keyed hash. The key is in the file too, so
the file is as private as the log.
"""

import json
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import InputError
from querycloak.files.documents import parsed_json
from querycloak.privacy import order
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.accounts import Charge
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.ledger.sqlite import Kind, SqliteFile, version_of
from querycloak.privacy.sampling.randomness import secret_key

ENDING = ".users"
MARK = 16
"""Digits of the random mark of a spending."""
TABLES = (
    """CREATE TABLE campaigns (charge INTEGER PRIMARY KEY, population TEXT NOT NULL, guarantee TEXT NOT NULL,
       queries INTEGER NOT NULL, key TEXT NOT NULL, UNIQUE (population, guarantee, queries))""",
    """CREATE TABLE spent (charge INTEGER NOT NULL REFERENCES campaigns, user TEXT NOT NULL, queries INTEGER NOT NULL,
       PRIMARY KEY (charge, user)) WITHOUT ROWID""",
)
# Since version 2: each spending has a number and a random mark, and the ledger's journal notes both.
MARKS = (
    """CREATE TABLE spendings (charge INTEGER NOT NULL REFERENCES campaigns, number INTEGER NOT NULL,
       mark TEXT NOT NULL, PRIMARY KEY (charge, number)) WITHOUT ROWID""",
)
KIND = Kind(
    application=0x51435553,  # "QCUS"
    versions=(TABLES, MARKS),
    name="spending record",
    not_done="nothing was drawn",
    elsewhere="move it away and be charged anew",
    restore="move it away and be charged anew (an older copy would have forgotten what was spent since)",
)
FIND = "SELECT charge, key, guarantee FROM campaigns WHERE population = ? AND queries = ?"
PROSE = ("because", "unprotected")
"""Sentences of a guarantee, which a later version may write otherwise."""
SameTerms = Callable[[Charge], bool]
"""True if a charge was made on the same terms, beside the guarantee's numbers."""


@dataclass(frozen=True)
class Campaign:
    """A charge that pays for this number of queries of each user, and the key under which users are kept."""

    charge: int
    key: str
    queries: int


class Spending:
    """The spending record beside a ledger; every method opens it, does one thing and closes it."""

    def __init__(self, ledger: Ledger, *, wait_seconds: float = 30.0) -> None:
        self._ledger = ledger
        self.path = ledger.path.with_name(ledger.path.name + ENDING)
        self._file = SqliteFile(self.path, KIND, wait_seconds=wait_seconds)

    def has_campaign(
        self, population: str, guarantee: Guarantee, queries: int, same_terms: SameTerms | None = None
    ) -> bool:
        """True if this was charged before, on the same terms; writes nothing."""
        with self._file.reading() as connection:
            return self._begun(connection, population, guarantee, queries, same_terms) is not None

    def campaign(
        self,
        population: str,
        guarantee: Guarantee,
        queries: int,
        charge: Callable[[], int],
        same_terms: SameTerms | None = None,
    ) -> Campaign:
        """The campaign of these terms, charged now if there is none; concurrent first runs charge once."""
        order.check_may_pay()
        with self._file.writing(create=True) as connection:
            begun = self._begun(connection, population, guarantee, queries, same_terms)
            if begun is not None:
                return begun
            made = Campaign(charge(), secret_key(), queries)
            text = json.dumps(guarantee.to_json(), sort_keys=True)
            row = (made.charge, population, text, queries, made.key)
            connection.execute("INSERT INTO campaigns VALUES (?, ?, ?, ?, ?)", row)
            return made

    def _begun(
        self,
        connection: sqlite3.Connection,
        population: str,
        guarantee: Guarantee,
        queries: int,
        same_terms: SameTerms | None,
    ) -> Campaign | None:
        """The campaign with these numbers and terms, whatever its sentences are."""
        rows = [
            row
            for row in connection.execute(FIND, (population, queries)).fetchall()
            if _numbers(parsed_json(row[2])) == _numbers(guarantee.to_json())
        ]
        if not rows:
            return None
        # In a ledger begun anew the number may belong to another charge, for less.
        charges = {charge.id: charge for charge in self._ledger.trusted(population).charges}
        for charge, key, _ in rows:
            self._check_paid(charges.get(charge), guarantee)
            if same_terms is None or same_terms(charges[charge]):
                self._check_newest(connection, charge)
                return Campaign(int(charge), str(key), queries)
        return None

    def _check_paid(self, charge: Charge | None, guarantee: Guarantee) -> None:
        if charge is None or _numbers(charge.guarantee.to_json()) != _numbers(guarantee.to_json()):
            raise InputError(
                f"{str(self.path)!r} goes with another ledger than {str(self._ledger.path)!r}: the charge that paid "
                "for it is not there; put that ledger back, or move this file away and be charged anew"
            )

    def _check_newest(self, connection: sqlite3.Connection, charge: int) -> None:
        if charge in self._rolled_back(connection):
            raise InputError(
                f"{self._older(charge)}; put the newer file back, or move this one away and be charged anew"
            )

    def problems(self) -> list[str]:
        """Signs that the spending record is an older copy; empty if there are none, or if there is no record."""
        if not self.path.exists():
            return []
        with self._file.reading() as connection:
            return [self._older(charge) for charge in self._rolled_back(connection)]

    def _older(self, charge: int) -> str:
        return (
            f"the spending record {str(self.path)!r} is older than the ledger says: it has forgotten what users spent "
            f"since of charge {charge}"
        )

    def _rolled_back(self, connection: sqlite3.Connection) -> list[int]:
        """The charges whose last spending, as the ledger has it, is not in the record."""
        noted = self._ledger.spendings()
        rows = connection.execute("SELECT charge, number, mark FROM spendings") if version_of(connection) > 1 else ()
        kept = {(charge, number, mark) for charge, number, mark in rows}
        known = {charge for (charge,) in connection.execute("SELECT charge FROM campaigns")}
        return [
            charge for charge, (number, mark) in noted.items() if charge in known and (charge, number, mark) not in kept
        ]

    def spend(self, campaign: Campaign, users: list[str], asked: NDArray[np.int64]) -> NDArray[np.int64]:
        """Number of queries of each user that may be drawn; on return they are spent, on the disk."""
        order.check_may_pay()
        with self._file.writing() as connection:
            if campaign.charge in self._rolled_back(connection):
                raise InputError(f"{self._older(campaign.charge)}; put the newer file back")
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
            # In the order of the table's key: three times as fast for the users of a large log.
            changed = sorted(np.flatnonzero(allowed).tolist(), key=users.__getitem__)
            connection.executemany(
                "INSERT OR REPLACE INTO spent VALUES (?, ?, ?)",
                ((campaign.charge, users[i], int(before[i] + allowed[i])) for i in changed),
            )
            last = "SELECT coalesce(max(number), 0) FROM spendings WHERE charge = ?"
            number, mark = connection.execute(last, (campaign.charge,)).fetchone()[0] + 1, secret_key()[:MARK]
            connection.execute("INSERT INTO spendings VALUES (?, ?, ?)", (campaign.charge, number, mark))
        # After the record: if the process dies in between, the record is newer than the ledger and the queries spent.
        self._ledger.note_spending(campaign.charge, number, mark)
        return allowed


def _numbers(guarantee: Mapping[str, Any]) -> dict[str, Any]:
    """A guarantee without its sentences."""
    return {name: value for name, value in guarantee.items() if name not in PROSE}
