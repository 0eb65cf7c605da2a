"""The one place that writes a release folder, or another that must not be half there: whole, or not at all.

A sibling of the final folder, closed to everybody else (0700) and locked as long as its writer lives, holds the
folder while it grows. When every file and the folder itself are synced, the inner folder is renamed to its final
name. Siblings whose lock is free were left by a killed writer; the next writer in the same parent removes them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

from querycloak.errors import ParameterError, QuerycloakError, ResourceError
from querycloak.files import fault
from querycloak.files.locked_folder import UNFINISHED, remove_locked, remove_stale, take_locked
from querycloak.files.private_file import sync_folder
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.parameters import path_of, refuse

CARD, DATASHEET = "card.json", "README.md"
LARGEST_CARD = 1 << 24
"""Bytes; a card holds no rows, so that ours are a few kilobytes."""
RELEASE, NOTHING = "release", "nothing was written"


def check_target(folder: str | os.PathLike[str]) -> Path:
    """The folder to write, if nothing is there and it can be made; call it before anything is charged or drawn."""
    target = path_of("out", folder, "name the folder to write; it must not exist yet")
    parent = target.absolute().parent
    _check_free(target)
    with _disk_errors(parent):
        parent_exists = parent.is_dir()
    if not parent_exists:
        raise ParameterError(
            f"the output must lie in a folder that exists, {str(parent)!r} does not; make it first, or name another"
        )
    Unfinished(target).remove()
    return target


def _check_free(target: Path) -> None:
    if os.path.lexists(target):
        raise ParameterError(
            f"the output must not exist yet, {str(target)!r} does; name another folder, or remove this one first"
        )


def reserve(folder: str | os.PathLike[str]) -> Unfinished:
    """The folder to write, kept from every other run until it is in its place or given up."""
    return Unfinished(check_target(folder))


class WrittenFile:
    """A file of the folder, hashed as it is written; its errors say what the disk lacks, and nothing else."""

    def __init__(self, path: Path, parent: Path, what: str = RELEASE, *, private: bool = False) -> None:
        self.name, self._parent, self._what = path.name, parent, what
        self._digest, self.size, self.closed, self._given_up = hashlib.sha256(), 0, False, False
        with self._errors():
            self._file: BinaryIO = path.open("xb", buffering=1 << 20)
            if private:
                os.fchmod(self._file.fileno(), 0o600)

    def write(self, data: bytes) -> int:
        """Append to the file and to its digest; Arrow's writers call it, too."""
        view = memoryview(data).cast("B")
        if self._given_up:  # Arrow's writers write their ends once more when they are collected
            return len(view)
        with self._errors():
            self._file.write(view)
        self._digest.update(view)
        self.size += len(view)
        return len(view)

    def tell(self) -> int:
        """Number of bytes written."""
        return self.size

    def flush(self) -> None:
        """Hand all to the system."""
        if self.closed:
            return
        with self._errors():
            self._file.flush()

    def close(self) -> None:
        """Arrow's writers close what they wrote to; the file is closed by `finish`."""

    def writable(self) -> bool:
        """Yes."""
        return True

    def readable(self) -> bool:
        """No."""
        return False

    def seekable(self) -> bool:
        """No: what is hashed stays as it is."""
        return False

    @property
    def checksum(self) -> str:
        """The SHA-256 of all that was written."""
        return self._digest.hexdigest()

    def finish(self) -> None:
        """Sync the file to the disk, and close it."""
        with self._errors(), fault.around(f"sync {self.name}"):
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
        self.closed = True

    def give_up(self) -> None:
        """Close it, however far it got."""
        self.closed = self._given_up = True
        with suppress(OSError):  # the error that brought us here says it
            self._file.close()

    def _errors(self) -> AbstractContextManager[None]:
        return _disk_errors(self._parent, what=self._what)


class Unfinished:
    """A folder that grows; in a `with` block it disappears unless `finish` has put it in its place.

    A second writer to the same place is refused meanwhile.

    What is private stays closed to everybody else where it is put.
    """

    def __init__(self, target: Path, *, what: str = RELEASE, private: bool = False) -> None:
        self.target, self._parent, self._what = target, target.absolute().parent, what
        remove_stale(self._parent, UNFINISHED)
        with self._errors():
            taken = take_locked(
                self._parent, f"{UNFINISHED}{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}"
            )
        if taken is None:
            raise ParameterError(f"another run is about to write {str(target)!r}; {NOTHING}; name another folder")
        self._outer, self._lock = taken
        try:
            _check_free(target)  # a run that ended between the first look and the lock may have put its folder there
        except ParameterError:
            self.remove()
            raise
        with self._errors():
            self.inner = self._outer / "release"
            # Under the user's own umask: the outer folder keeps everybody out until the rename.
            self._private = private
            self.inner.mkdir(mode=self._mode)

    def __enter__(self) -> Unfinished:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.remove()

    @property
    def _mode(self) -> int:
        return 0o700 if self._private else 0o777

    @contextmanager
    def file(self, name: str) -> Iterator[WrittenFile]:
        """A new file, on the disk when the block ends; its folder is made if the name has one."""
        fault.reached(f"before write {name}")
        path = self.inner / name
        with self._errors():
            path.parent.mkdir(mode=self._mode, exist_ok=True)
        file = WrittenFile(path, self._parent, self._what, private=self._private)
        try:
            yield file
            fault.reached(f"after write {name}")
            file.finish()
        finally:
            if not file.closed:
                file.give_up()

    def finish(self) -> None:
        """Put the whole folder in its place."""
        with self._errors():
            with fault.around("sync folder"):
                for folder in (*filter(Path.is_dir, self.inner.iterdir()), self.inner):
                    sync_folder(folder)
            if os.path.lexists(self.target):
                raise FileExistsError(errno.EEXIST, "")
            with fault.around("rename"):
                self.inner.rename(self.target)
        afterwards = f"the {self._what} is there, but may not outlive a power failure"
        with self._errors(afterwards), fault.around("sync parent"):
            sync_folder(self._parent)

    def remove(self) -> None:
        """Remove what did not get into its place."""
        if self._lock >= 0:
            lock, self._lock = self._lock, -1
            remove_locked(self._outer, lock)

    def _errors(self, left: str = NOTHING) -> AbstractContextManager[None]:
        return _disk_errors(self._parent, left, self._what)


@contextmanager
def _disk_errors(parent: Path, left: str = NOTHING, what: str = RELEASE) -> Iterator[None]:
    problem: QuerycloakError
    try:
        yield
        return
    except OSError as error:
        problem = _explained(error, parent, left, what)
    raise problem


def _explained(error: OSError, parent: Path, left: str, what: str) -> QuerycloakError:
    if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
        return ParameterError(
            f"the output must not exist yet, it appeared while the {what} was made; {left}; name another folder"
        )
    where = str(parent)
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return ResourceError(f"the disk of {where!r} is full; {left}; free some room or name another")
    reason = os.strerror(error.errno or errno.EIO).lower()
    return ResourceError(f"no {what} can be written in {where!r}: {reason}; {left}; name another folder")


def card_digest(folder: Path) -> str:
    """SHA-256 of the card's bytes: it stands for the whole release, because the card holds all other checksums."""
    return hashlib.sha256(card_bytes(folder)).hexdigest()


def card_bytes(folder: Path) -> bytes:
    """The card's bytes; an OSError if it is larger than any card is."""
    with regular_file(folder / CARD) as file:
        data = file.read(LARGEST_CARD + 1)
    if len(data) > LARGEST_CARD:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return data


def regular_file(path: Path) -> io.BufferedReader:
    """Open a file of a received folder; an OSError for links, pipes and devices, which may never end."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        raise OSError(errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL, "it is not a regular file")
    return os.fdopen(descriptor, "rb")


def outside_releases(path: Path, parameter: str = "out") -> None:
    """Refuse a place inside a release folder, however deep; call it before anything is read."""
    for folder in path.resolve().parents:
        if (folder / CARD).is_file():
            way_out = "what is written here is private and a release is not; name another place"
            refuse(parameter, "outside of release folders", str(path), way_out)


def reconcile(ledger: Ledger) -> int:
    """Complete every charge whose release is in its announced folder; returns the number of completed charges.

    Best effort: a ledger that cannot be written, or a folder that cannot be read, stays as it is.
    """
    announced = ledger.announced()
    if not announced:
        return 0
    completed = 0
    for charge, digest, folder in announced:
        if _card_digest(folder) == digest:
            try:
                ledger.complete(charge, digest)
            except QuerycloakError:
                return completed
            completed += 1
    return completed


def _card_digest(folder: Path) -> str | None:
    try:
        return card_digest(folder)
    except OSError:
        return None
