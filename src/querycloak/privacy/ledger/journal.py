"""The ledger's journal: one entry for each change, each with a digest of all entries before it.

Entries can only be added. A program that changes or removes one breaks the chain of digests, unless it rewrites all
later entries; a copy of the last digest, kept elsewhere, shows that too (ledger.md).
"""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from querycloak.privacy.ledger.sqlite import version_of


def kept_rows(table: str) -> tuple[str, str]:
    """The triggers that refuse to remove or change rows of a table."""
    stay, keep = (
        f"CREATE TRIGGER {table}_{name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{table} stay'); END"
        for name, event in (("stay", "DELETE"), ("keep", "UPDATE"))
    )
    return stay, keep


TABLES = (
    """CREATE TABLE journal (id INTEGER PRIMARY KEY AUTOINCREMENT, made TEXT NOT NULL, entry TEXT NOT NULL,
       digest TEXT NOT NULL)""",
    *(rule for table in ("journal", "releases") for rule in kept_rows(table)),
)
BEGUN, SEALED, SPENT, LOWERED, TAKEN = "begun", "sealed", "spent", "lowered", "taken"
ROW = "population, made, method, guarantee, parameters"
"""The columns of a charge that its digest covers: all but its number, and since version 5 its cost if it has one."""


@dataclass(frozen=True)
class Entry:
    """One entry: its time, its content, and the digest of it and all before it."""

    number: int
    made: str
    what: Mapping[str, Any]
    digest: str


def now() -> str:
    """The time as it stands in a ledger."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append(connection: sqlite3.Connection, what: Mapping[str, Any]) -> str:
    """Add an entry, and return its digest."""
    last = connection.execute("SELECT digest FROM journal ORDER BY id DESC LIMIT 1").fetchone()
    if last is None:
        last = (_add(connection, "", {"what": BEGUN, **_standing(connection), "rows": _rows(connection)}),)
    return _add(connection, str(last[0]), what)


def seal(connection: sqlite3.Connection) -> None:
    """Add the digests of all charges to a journal of version 3, which has none; an empty journal needs nothing."""
    if connection.execute("SELECT 1 FROM journal LIMIT 1").fetchone():
        append(connection, {"what": SEALED, "rows": _rows(connection)})


def row_digest(*row: str) -> str:
    """The digest of a whole charge, the columns of `ROW` and its cost; a cost of earlier versions is empty."""
    covered = row[:-1] if len(row) > len(ROW.split(", ")) and not row[-1] else row
    return hashlib.sha256(json.dumps(covered).encode()).hexdigest()


def spendings(connection: sqlite3.Connection) -> dict[int, tuple[int, str]]:
    """Number and mark of the last recorded spending of each campaign's charge."""
    last: dict[int, tuple[int, str]] = {}
    for entry in entries(connection):
        if entry.what["what"] == SPENT:
            one = entry.what["number"], entry.what["mark"]
            last[entry.what["charge"]] = max(one, last.get(entry.what["charge"], one))
    return last


def folders(connection: sqlite3.Connection) -> dict[int, list[str]]:
    """Folders of the releases of each charge, as far as the journal has them."""
    written: dict[int, list[str]] = {}
    for entry in entries(connection):
        if entry.what["what"] == "release" and "folder" in entry.what:
            written.setdefault(entry.what["charge"], []).append(entry.what["folder"])
    return written


def entries(connection: sqlite3.Connection) -> Iterator[Entry]:
    """All entries, from the first on."""
    rows = connection.execute("SELECT id, made, entry, digest FROM journal ORDER BY id").fetchall()
    for number, made, entry, digest in rows:
        yield Entry(number, made, json.loads(entry), digest)


def problems(connection: sqlite3.Connection) -> list[str]:
    """Signs that another program changed the ledger; empty if there are none."""
    signs = [f"the rule {name!r} that keeps rows from being changed is gone" for name in sorted(_gone(connection))]
    rows = connection.execute("SELECT id, made, entry, digest FROM journal ORDER BY id").fetchall()
    before, missing = "", None
    for place, (number, made, entry, digest) in enumerate(rows, start=1):
        if number != place:
            missing = place
            break
        if digest != _digest(before, made, entry):
            signs.append(f"entry {number} of the journal, or one before it, was changed")
            break
        before = digest
    else:
        last = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'journal'").fetchone()
        missing = len(rows) + 1 if last is not None and last[0] > len(rows) else None
    if missing is not None:
        signs.append(f"entry {missing} of the journal is missing")
    return [*signs, *_differences(connection, [json.loads(entry) for _, _, entry, _ in rows])]


def _add(connection: sqlite3.Connection, before: str, what: Mapping[str, Any]) -> str:
    made, entry = now(), json.dumps(dict(what), sort_keys=True)
    digest = _digest(before, made, entry)
    connection.execute("INSERT INTO journal (made, entry, digest) VALUES (?, ?, ?)", (made, entry, digest))
    return digest


def _digest(before: str, made: str, entry: str) -> str:
    return hashlib.sha256("\n".join((before, made, entry)).encode()).hexdigest()


def _standing(connection: sqlite3.Connection) -> dict[str, Any]:
    """The content of the ledger, without the columns that only the digest of a charge covers."""
    terms = "terms" if version_of(connection) >= 4 else "'{}'"
    limits = connection.execute(f"SELECT name, epsilon, delta, {terms} FROM populations ORDER BY name").fetchall()
    charges = connection.execute("SELECT id, population, guarantee FROM charges ORDER BY id").fetchall()
    releases = connection.execute("SELECT charge, digest FROM releases ORDER BY charge, digest").fetchall()
    return {"limits": [list(row) for row in limits], "charges": charges, "releases": releases}


def _rows(connection: sqlite3.Connection) -> list[list[Any]]:
    """The number and the digest of each charge."""
    cost = ", cost" if version_of(connection) >= 5 else ""
    rows = connection.execute(f"SELECT id, {ROW}{cost} FROM charges ORDER BY id").fetchall()
    return [[number, row_digest(*row)] for number, *row in rows]


def _gone(connection: sqlite3.Connection) -> set[str]:
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    kept = ("charges", "journal", "releases", *(("lowered", "taken") if version_of(connection) >= 5 else ()))
    return {f"{table}_{name}" for table in kept for name in ("stay", "keep")} - there


def _differences(connection: sqlite3.Connection, written: list[dict[str, Any]]) -> list[str]:
    """Differences between the tables and the journal's entries."""
    if not written:
        return []
    limits: dict[str, list[str]] = {}
    lowered: set[tuple[int, str]] = set()
    taken: set[tuple[int, int]] = set()
    charges: dict[int, tuple[str, str]] = {}
    digests: dict[int, str] = {}
    releases: set[tuple[int, str]] = set()
    for entry in written:
        digests |= {number: digest for number, digest in entry.get("rows", ()) if number not in digests}
        if entry["what"] == BEGUN:
            limits |= {name: [*numbers, "{}"][:3] for name, *numbers in entry["limits"]}
            charges |= {number: (population, guarantee) for number, population, guarantee in entry["charges"]}
            releases |= {(charge, digest) for charge, digest in entry["releases"]}
        elif entry["what"] == "limit":
            limits[entry["population"]] = [entry["epsilon"], entry["delta"], entry.get("terms", "{}")]
        elif entry["what"] == "charge":
            charges[entry["charge"]] = (entry["population"], entry["guarantee"])
            digests |= {entry["charge"]: entry["row"]} if "row" in entry else {}
        elif entry["what"] == TAKEN:
            taken.add((entry["charge"], entry["number"]))
        elif entry["what"] == LOWERED:
            lowered.add((entry["charge"], entry["cost"]))
        elif entry["what"] == "release":
            releases.add((entry["charge"], entry["digest"]))
    return [
        *_other_limits(connection, limits),
        *_other_charges(connection, charges, digests),
        *_other_releases(connection, releases),
        *_other_costs(connection, lowered, taken),
    ]


def _other_limits(connection: sqlite3.Connection, limits: dict[str, list[str]]) -> list[str]:
    standing = {name: numbers for name, *numbers in _standing(connection)["limits"]}
    names = [name for name in {**limits, **standing} if limits.get(name) != standing.get(name)]
    return [f"the limit of {name!r} is not the one that was last set" for name in names]


def _other_charges(
    connection: sqlite3.Connection, charges: dict[int, tuple[str, str]], digests: dict[int, str]
) -> list[str]:
    standing = {number: (population, guarantee) for number, population, guarantee in _standing(connection)["charges"]}
    rows = dict(_rows(connection))
    changed = [
        number
        for number, charge in charges.items()
        if standing.get(number) != charge or (number in digests and rows.get(number) != digests[number])
    ]
    return [
        *(f"charge {number} is missing or was changed" for number in changed),
        *(f"charge {number} is not in the journal" for number in standing if number not in charges),
    ]


def _other_costs(
    connection: sqlite3.Connection, lowered: set[tuple[int, str]], taken: set[tuple[int, int]]
) -> list[str]:
    if version_of(connection) < 5:
        return []
    standing = set(connection.execute("SELECT charge, cost FROM lowered"))
    signs = [] if standing == lowered else ["the costs to which charges were lowered are not those in the journal"]
    begun = set(connection.execute("SELECT charge, number FROM taken"))
    return signs if begun == taken else [*signs, "the releases of series that were begun are not those in the journal"]


def _other_releases(connection: sqlite3.Connection, releases: set[tuple[int, str]]) -> list[str]:
    standing = {(charge, digest) for charge, digest in _standing(connection)["releases"]}
    return [] if standing == releases else ["the digests of releases are not those in the journal"]
