"""Everything that was ever written into a ledger, one entry after another, each with a digest of all before it.

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

__all__ = ["TABLES", "Entry", "append", "entries", "now", "problems"]

TABLES = (
    """CREATE TABLE journal (id INTEGER PRIMARY KEY AUTOINCREMENT, made TEXT NOT NULL, entry TEXT NOT NULL,
       digest TEXT NOT NULL)""",
    *(
        f"CREATE TRIGGER {table}_{name} BEFORE {event} ON {table} BEGIN SELECT RAISE(ABORT, '{table} stay'); END"
        for table in ("journal", "releases")
        for name, event in (("stay", "DELETE"), ("keep", "UPDATE"))
    ),
)
TRIGGERS = frozenset(f"{table}_{name}" for table in ("charges", "journal", "releases") for name in ("stay", "keep"))
BEGUN = "begun"


@dataclass(frozen=True)
class Entry:
    """One entry: when, what, and the digest of it and all before it."""

    number: int
    made: str
    what: Mapping[str, Any]
    digest: str


def now() -> str:
    """The time as it stands in a ledger."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append(connection: sqlite3.Connection, what: Mapping[str, Any]) -> str:
    """Add an entry; its digest."""
    last = connection.execute("SELECT digest FROM journal ORDER BY id DESC LIMIT 1").fetchone()
    if last is None:
        last = (_add(connection, "", {"what": BEGUN, **_standing(connection)}),)
    return _add(connection, str(last[0]), what)


def entries(connection: sqlite3.Connection) -> Iterator[Entry]:
    """All entries, from the first on."""
    rows = connection.execute("SELECT id, made, entry, digest FROM journal ORDER BY id").fetchall()
    for number, made, entry, digest in rows:
        yield Entry(number, made, json.loads(entry), digest)


def problems(connection: sqlite3.Connection) -> list[str]:
    """Signs that another program changed the ledger; empty if there are none."""
    found = [f"the rule {name!r} that keeps rows from being changed is gone" for name in sorted(_gone(connection))]
    before = ""
    rows = connection.execute("SELECT id, made, entry, digest FROM journal ORDER BY id").fetchall()
    for place, (number, made, entry, digest) in enumerate(rows, start=1):
        if number != place:
            found.append(f"entry {place} of the journal is missing")
            break
        if digest != _digest(before, made, entry):
            found.append(f"entry {number} of the journal, or one before it, was changed")
            break
        before = digest
    return [*found, *_differences(connection, [json.loads(entry) for _, _, entry, _ in rows])]


def _add(connection: sqlite3.Connection, before: str, what: Mapping[str, Any]) -> str:
    made, entry = now(), json.dumps(dict(what), sort_keys=True)
    digest = _digest(before, made, entry)
    connection.execute("INSERT INTO journal (made, entry, digest) VALUES (?, ?, ?)", (made, entry, digest))
    return digest


def _digest(before: str, made: str, entry: str) -> str:
    return hashlib.sha256("\n".join((before, made, entry)).encode()).hexdigest()


def _standing(connection: sqlite3.Connection) -> dict[str, Any]:
    """What a ledger held when its journal began: an older ledger may hold much."""
    limits = connection.execute("SELECT name, epsilon, delta FROM populations ORDER BY name").fetchall()
    charges = connection.execute("SELECT id, population, guarantee FROM charges ORDER BY id").fetchall()
    releases = connection.execute("SELECT charge, digest FROM releases ORDER BY charge, digest").fetchall()
    return {"limits": [list(row) for row in limits], "charges": charges, "releases": releases}


def _gone(connection: sqlite3.Connection) -> set[str]:
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'")}
    return set(TRIGGERS - there)


def _differences(connection: sqlite3.Connection, told: list[dict[str, Any]]) -> list[str]:
    """Where the tables do not hold what the journal tells."""
    limits: dict[str, list[str]] = {}
    charges: dict[int, tuple[str, str]] = {}
    releases: set[tuple[int, str]] = set()
    for entry in told:
        if entry["what"] == BEGUN:
            limits |= {name: [epsilon, delta] for name, epsilon, delta in entry["limits"]}
            charges |= {number: (population, guarantee) for number, population, guarantee in entry["charges"]}
            releases |= {(charge, digest) for charge, digest in entry["releases"]}
        elif entry["what"] == "limit":
            limits[entry["population"]] = [entry["epsilon"], entry["delta"]]
        elif entry["what"] == "charge":
            charges[entry["charge"]] = (entry["population"], entry["guarantee"])
        elif entry["what"] == "release":
            releases.add((entry["charge"], entry["digest"]))
    if not told:
        return []
    standing = _standing(connection)
    held = {number: (population, guarantee) for number, population, guarantee in standing["charges"]}
    found = [
        f"the limit of {name!r} is not the one that was last set"
        for name, epsilon, delta in standing["limits"]
        if limits.get(name) != [epsilon, delta]
    ]
    found += [f"charge {number} is missing or was changed" for number in charges if held.get(number) != charges[number]]
    found += [f"charge {number} is not in the journal" for number in held if number not in charges]
    if {(charge, digest) for charge, digest in standing["releases"]} != releases:
        found.append("the digests of releases are not those in the journal")
    return found
