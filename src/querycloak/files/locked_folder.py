"""Folders that are locked as long as their process lives; what killed processes left behind is removed.

A killed process leaves its folder where it was writing, which may be anywhere. So the parents of such folders are
noted in one place, and the next command of any kind (`clean_up`) looks there. It also looks beside everything that it
is told to read or write: there leftovers are known by their names alone, also if the notes are lost.
"""

from __future__ import annotations

import atexit
import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from querycloak.errors import ResourceError
from querycloak.interruption import uninterrupted

PRIVATE = ".querycloak-private-"
"""Folders for what spills, below the temporary folder."""
UNFINISHED = ".querycloak-unfinished-"
"""Folders for what grows, beside the place where it will be."""
_NOTES = ".querycloak-places-"
_TRIES, _PAUSE = 50, 0.01
"""Seconds of waiting for a lock: a remover of stale folders holds one for a moment, its owner longer."""
_LONGEST = 4096
"""Bytes of a path."""


def temporary_folder() -> Path:
    """The system's folder for temporary files, or $QUERYCLOAK_TMP."""
    return Path(os.environ.get("QUERYCLOAK_TMP") or tempfile.gettempdir())


def make_locked(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new 0700 folder and the lock that says its process lives."""
    with _noted(parent, prefix):
        return _make_locked(parent, prefix)


def lock_folder(path: Path, *, wait: bool, follow: bool = True) -> int | None:
    """The lock of a folder, held until it is closed or the process ends; None if another process has it.

    A file system without locks gives the lock to everybody. A missing folder is a FileNotFoundError.
    follow: whether the path may be a link to a folder.
    """
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW))
    try:
        fcntl.flock(lock, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(lock)
            return None
    return lock


def _make_locked(parent: Path, prefix: str) -> tuple[Path, int]:
    # Between its making and its locking another process may take it for stale and remove it: then once more.
    for _ in range(_TRIES):
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        with suppress(FileNotFoundError):
            lock = lock_folder(path, wait=True)
            if lock is not None and path.exists():
                return path, lock
            if lock is not None:
                os.close(lock)
    raise OSError(errno.EAGAIN, "folders made there disappear")


def take_locked(parent: Path, name: str) -> tuple[Path, int] | None:
    """A new locked folder whose name begins with this one; None if a living process of this user has such a folder.

    The rest of the name is random, and folders of other users are not looked at: nobody can take a name before us.
    """
    for _ in range(_TRIES):
        if not _is_taken(parent, name, None):
            with _noted(parent, UNFINISHED):
                path, lock = _make_locked(parent, f"{name}-")
            if not _is_taken(parent, name, path):
                return path, lock
            remove_locked(path, lock)  # two at the same time: both withdraw, and the first to come back has it
        time.sleep(_PAUSE * (1 + time.monotonic_ns() % 1000 / 500))
    return None


def _is_taken(parent: Path, name: str, but: Path | None) -> bool:
    """True if another running process has a folder with this name and an ending."""
    return any(folder != but and _is_alive(folder) for folder in _of_this_user(parent, name))


def _is_alive(folder: Path) -> bool:
    try:
        lock = lock_folder(folder, wait=False, follow=False)
    except OSError:  # gone, or a link
        return False
    if lock is not None:
        os.close(lock)
    return lock is None


def _of_this_user(parent: Path, prefix: str) -> list[Path]:
    """Folders of this user whose names begin so; none where nothing can be listed."""
    folders = []
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.name.startswith(prefix) and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                    folders.append(parent / entry.name)
    return folders


def remove_stale(parent: Path, prefix: str) -> None:
    """Remove what killed processes of this user left behind."""
    for folder in _of_this_user(parent, prefix):
        try:
            lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(lock)


def clean_up(beside: Iterable[str] = ()) -> None:
    """Remove what killed processes of this user left behind, wherever they wrote.

    beside: words of the command line. Folders that they name, folders that hold what they name, and the current one are
    looked through, because notes of places are lost with the temporary folder.
    """
    remove_stale(temporary_folder(), PRIVATE)
    for named in _named_places(beside):
        remove_stale(named, UNFINISHED)
    for note in _notes():
        with suppress(OSError, ValueError):
            prefix, place = os.fsdecode(note.read_bytes()).split("\n", 1)
            if prefix not in (PRIVATE, UNFINISHED):
                continue
            remove_stale(Path(place), prefix)
            _forget(Path(place), prefix)


def _named_places(words: Iterable[str]) -> set[Path]:
    paths = [Path(word.partition("=")[2] if word.startswith("-") else word) for word in words if len(word) < _LONGEST]
    with suppress(OSError, ValueError):
        return {place for path in (Path(), *paths) for place in (path, path.parent) if place.is_dir()}
    return set()


def remove_locked(folder: Path, lock: int) -> None:
    """Remove a folder that was made here, and all in it; no signal cuts that short."""
    with uninterrupted():
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)
        for prefix in (PRIVATE, UNFINISHED):
            if folder.name.startswith(prefix):
                _forget(folder.parent, prefix)


@contextmanager
def _noted(parent: Path, prefix: str) -> Iterator[None]:
    """Note a place before a folder is made there, and again after: a clean-up in between removes the note."""
    _note(parent, prefix)
    try:
        yield
        _note(parent, prefix)
    except OSError:
        _forget(parent, prefix)
        raise


def _note(parent: Path, prefix: str) -> None:
    """Note where a folder is made; only this user can read that. Best effort: without notes writers still clean up."""
    place = parent.absolute()
    if prefix == PRIVATE and place == temporary_folder().absolute():
        return  # looked at anyway
    folder = _notes_folder()
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        if _is_own(folder):
            content = _content(place, prefix)
            note = _note_of(content)
            if not note.exists():
                opened = os.open(note, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                try:
                    os.write(opened, content)
                finally:
                    os.close(opened)


def _forget(parent: Path, prefix: str) -> None:
    """Take a note away if nothing is under way in its place; the folder of notes goes with the last."""
    place = parent.absolute()
    with suppress(OSError):
        if not any(place.glob(f"{prefix}*")):
            _note_of(_content(place, prefix)).unlink(missing_ok=True)
        _notes_folder().rmdir()


def _content(place: Path, prefix: str) -> bytes:
    return os.fsencode(f"{prefix}\n{place}")


def _note_of(content: bytes) -> Path:
    return _notes_folder() / hashlib.sha256(content).hexdigest()[:32]


def _notes() -> list[Path]:
    folder = _notes_folder()
    with suppress(OSError):
        return list(folder.iterdir()) if _is_own(folder) else []
    return []


def _notes_folder() -> Path:
    return temporary_folder() / f"{_NOTES}{os.getuid()}"


def _is_own(folder: Path) -> bool:
    """True if nobody else can have put something there."""
    with suppress(OSError):
        status = folder.lstat()
        return status.st_uid == os.getuid() and status.st_mode & 0o170077 == 0o040000
    return False


class PrivateFolder:
    """A 0700 folder below the system's temporary one (or $QUERYCLOAK_TMP).

    It stays locked as long as the process lives, however that ends: folders whose lock is free were left behind by
    a killed process, and the next folder made removes them.
    """

    def __init__(self) -> None:
        parent = temporary_folder()
        clean_up()
        problem = ""
        try:
            self.path, self._lock = make_locked(parent, PRIVATE)
        except OSError as error:
            problem = os.strerror(error.errno or 0).lower()
        if problem:
            raise ResourceError(
                f"no private folder can be made in {str(parent)!r}: {problem}; set QUERYCLOAK_TMP to a folder with room"
            )
        self._process = os.getpid()
        atexit.register(self.remove)

    def __enter__(self) -> PrivateFolder:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @contextmanager
    def removed_on_failure(self) -> Iterator[None]:
        """Remove everything if the start fails."""
        try:
            yield
        except BaseException:  # broad: an interrupt leaves no folder behind, either; it is raised again
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder and all in it; a forked child leaves it to its parent."""
        if os.getpid() != self._process or self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        remove_locked(self.path, lock)
        atexit.unregister(self.remove)
