"""Files written whole or not at all, by default readable by their owner alone; foreign files are never replaced.

It is written in a locked folder beside its place, so that nothing stays if the writer is killed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from querycloak.errors import ParameterError, ResourceError
from querycloak.files import fault
from querycloak.files.locked_folder import UNFINISHED, make_locked, remove_locked, remove_stale


def check_new(path: Path, what: str) -> None:
    """Refuse a name that is taken, also by a dangling link: the file may be somebody's log."""
    if os.path.lexists(path):
        raise ParameterError(f"{what} must not exist yet, {str(path)!r} does; name another, or remove it first")


@contextmanager
def private_file(
    path: Path, what: str, *, mode: int = 0o600, replaces: Callable[[Path], bool] = lambda _: False
) -> Iterator[BinaryIO]:
    """A file to write into, in its place and on the disk when the block ends; `what` is what messages call it.

    `replaces` says whether a file that is there carries a mark that we made it: only then is it replaced.
    """
    ours = path.is_file() and not path.is_symlink() and replaces(path)
    if not ours:
        check_new(path, what)
    problem: Exception
    try:
        with _growing(path, mode, replace=ours) as file:
            yield file
            if ours and not replaces(path):  # somebody else's by now
                raise FileExistsError(errno.EEXIST, "")
        return
    except FileExistsError:
        problem = ParameterError(f"{what} appeared while it was written; nothing was changed; name another")
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO).lower()
        problem = ResourceError(f"{what} cannot be written: {reason}; name another place")
    raise problem


def replace_file(path: Path, data: bytes) -> None:
    """Put a file of a folder that is ours in its place, over the one before it; what the disk lacks is an OSError."""
    with _growing(path, 0o600, replace=True) as file:
        file.write(data)


@contextmanager
def _growing(path: Path, mode: int, *, replace: bool) -> Iterator[BinaryIO]:
    parent = path.absolute().parent
    remove_stale(parent, UNFINISHED)
    folder, lock = make_locked(parent, UNFINISHED)
    try:
        inner = folder / "file"
        with open(os.open(inner, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with fault.around("put"):
            if replace:
                os.replace(inner, path)
            else:
                put_new(inner, path)
        sync_folder(parent)
    finally:
        remove_locked(folder, lock)


def put_new(file: Path, place: Path) -> None:
    """Give a file its name, if nobody has taken it: a link fails where a renaming would replace."""
    try:
        os.link(file, place)
        return
    except FileExistsError:
        raise
    except OSError:  # a file system without links
        pass
    if os.path.lexists(place):
        raise FileExistsError(errno.EEXIST, "")
    os.rename(file, place)


def sync_folder(folder: Path) -> None:
    """Bring the names of a folder's files to the disk."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(opened)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a file system that syncs no folders
            raise
    finally:
        os.close(opened)
