"""SQLite files of querycloak: creation, recognition, transactions, and upgrade of older versions.

The ledger and the spending record are such files (ledger.md: durability, foreign and damaged files).
"""

import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from querycloak.errors import InputError, QuerycloakError, ResourceError
from querycloak.sentence import Sentence

MOUNTS = Path("/proc/self/mountinfo")
_SHARED = re.compile(r"(nfs4?|cifs|smb\w*|afs|ncpfs|davfs2?|fuse\.(sshfs|rclone|s3fs|gcsfuse|goofys|davfs2?))")
_ESCAPE = re.compile(r"\\([0-7]{3})")
MAGIC = b"SQLite format 3\x00"
HEAD = 100
"""The bytes of an SQLite file's head: the version stands at 60, the program that it belongs to at 68."""
SHORTAGES = {
    sqlite3.SQLITE_FULL: "the disk is full",
    sqlite3.SQLITE_READONLY: "it cannot be written",
    sqlite3.SQLITE_PERM: "it cannot be written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened",
    sqlite3.SQLITE_IOERR: "the disk failed",
}


@dataclass(frozen=True)
class Kind:
    """Marks of one kind of files, their tables, and the name in messages.

    versions: the statements that lead from each version to the next, from an empty file on.
    """

    application: int
    versions: tuple[tuple[str, ...], ...]
    name: str
    """NAME in "the NAME is locked by another process"."""
    not_done: str
    """Action that a locked file has prevented."""
    elsewhere: str | Sentence
    """Way out if this file cannot be used."""
    restore: str | Sentence
    """Way out if it is damaged."""
    upgraded: Callable[[sqlite3.Connection], None] = lambda _: None
    """Called in the transaction that brings an older file up to date."""


@dataclass(frozen=True)
class SqliteFile:
    """One file; each use opens it, does one thing and closes it."""

    path: Path
    kind: Kind
    wait_seconds: float = field(default=30.0, kw_only=True)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Connection for reading one state of the file, which it does not upgrade; a missing file is an empty one."""
        with self._transaction("BEGIN", there=self._is_ours()) as connection:
            yield connection

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[sqlite3.Connection]:
        """All or nothing: everything that is written is on the disk when this ends.

        Nobody else can write meanwhile. Without `create`, a file that is not there is an empty one, is not made, and
        an attempt to write to it is refused.
        """
        there = self._is_ours()
        if there or create:
            self.check_place()
        if create and not there:
            self._make()
        with self._transaction("BEGIN IMMEDIATE", there=there or create) as connection:
            yield connection

    def check_place(self) -> None:
        """Refuse to write where locks may not keep others out."""
        if share := network_share(self.path):
            message = (
                f"{self._named} lies on a network file system ({share}), whose locks may not keep two machines apart; "
                "nothing in it was changed"
            )
            raise InputError(self._with_way_out(message))

    @contextmanager
    def _transaction(self, begin: str, *, there: bool) -> Iterator[sqlite3.Connection]:
        mode = "rw" if os.access(self.path, os.W_OK) else "ro"
        address = f"{self.path.absolute().as_uri()}?mode={mode}" if there else ":memory:"
        problem: QuerycloakError
        try:
            with closing(sqlite3.connect(address, self.wait_seconds, isolation_level=None, uri=True)) as connection:
                # EXTRA also syncs the folder once the journal is gone: FULL alone may lose the last
                # commit to a power failure, and with it a charge whose release exists.
                connection.execute("PRAGMA synchronous = EXTRA")
                connection.execute("PRAGMA foreign_keys = ON")
                connection.execute(begin)
                self._bring_up_to_date(connection, writing=begin == "BEGIN IMMEDIATE")
                made_ready = connection.total_changes
                yield connection
                if not there and connection.total_changes != made_ready:
                    raise InputError(self._with_restore(f"{self._named} is not there, so nothing could be written"))
                connection.execute("COMMIT")
                return
        except sqlite3.Error as error:
            problem = self._translated(error)
        raise problem

    def _bring_up_to_date(self, connection: sqlite3.Connection, *, writing: bool) -> None:
        if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
            raise self.damaged()
        version, newest = version_of(connection), len(self.kind.versions)
        # Reading leaves an older file as it is; the first write brings it up to date.
        if version == 0 or (version < newest and writing):
            for statement in (statement for step in self.kind.versions[version:] for statement in step):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {self.kind.application}")
            connection.execute(f"PRAGMA user_version = {newest}")
            if version:
                self.kind.upgraded(connection)

    def _is_ours(self) -> bool:
        """Tell from its first bytes whether a file is of this kind or none yet, before SQLite touches it."""
        problem = ""
        try:
            with self.path.open("rb") as file:
                head = file.read(HEAD)
        except FileNotFoundError:
            return False
        except OSError as error:
            problem = _reason(error)
        if problem:
            raise InputError(self._with_way_out(f"{self._named} cannot be read: {problem}"))
        if not head:
            return False
        marked = len(head) == HEAD and head.startswith(MAGIC)
        if not marked or int.from_bytes(head[68:72], "big") != self.kind.application:
            message = f"{str(self.path)!r} is not a {self.kind.name} of querycloak; nothing in it was changed"
            raise InputError(self._with_way_out(message))
        version, newest = int.from_bytes(head[60:64], "big"), len(self.kind.versions)
        if version > newest:
            raise InputError(
                f"{self._named} is of version {version}, this querycloak knows up to {newest}; nothing in "
                "it was changed; use the newer querycloak that made it"
            )
        return True

    def _make(self) -> None:
        """Make an empty file that only its owner can read."""
        problem = ""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except OSError as error:
            problem = _reason(error)
        if problem:
            raise ResourceError(self._with_way_out(f"{self._named} cannot be made: {problem}"))

    def damaged(self) -> InputError:
        """The error for a file of this kind whose content makes no sense."""
        return InputError(self._with_restore(f"{self._named} is damaged; nothing in it was changed"))

    def _translated(self, error: sqlite3.Error) -> QuerycloakError:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return ResourceError(
                f"the {self.kind.name} is locked by another process, for longer than {self.wait_seconds:g} seconds; "
                f"{self.kind.not_done}; try again when that process has ended"
            )
        if code in SHORTAGES:
            return ResourceError(self._with_way_out(f"{self._named} was not changed: {SHORTAGES[code]}"))
        return self.damaged()

    @property
    def _named(self) -> str:
        return f"the {self.kind.name} {str(self.path)!r}"

    def _with_restore(self, problem: str) -> Sentence:
        return Sentence("{problem}; {restore}", problem=problem, restore=self.kind.restore)

    def _with_way_out(self, problem: str) -> Sentence:
        return Sentence("{problem}; {way_out}", problem=problem, way_out=self.kind.elsewhere)


def version_of(connection: sqlite3.Connection) -> int:
    """Return the version of the file that a connection is open on; 0 for an empty one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _reason(error: OSError) -> str:
    return "unknown reason" if error.errno is None else os.strerror(error.errno).lower()


def network_share(path: Path, mounts: Path = MOUNTS) -> str | None:
    """The kind of network file system that holds a path; None for any other, and where the system does not tell."""
    try:
        lines = mounts.read_text(errors="surrogateescape").splitlines()
        place = path.resolve()
    except (OSError, RuntimeError):  # no Linux; links in a circle
        return None
    kinds: dict[Path, str] = {}
    for line in lines:
        mounted, _, source = line.partition(" - ")
        point = _ESCAPE.sub(lambda code: chr(int(code[1], 8)), mounted.split(" ")[4])
        kinds[Path(point)] = source.split(" ")[0]  # of several at one place, the last is seen
    nearest = next((kinds[each] for each in (place, *place.parents) if each in kinds), "")
    return nearest if _SHARED.fullmatch(nearest) else None
