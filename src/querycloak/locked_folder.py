"""Folders that are locked as long as their process lives, however it ends; what the dead left behind is removed."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path


def make_locked(parent: Path, prefix: str) -> tuple[Path, int]:
    """A new 0700 folder and the lock that says its process lives."""
    # Between its making and its locking another process may take it for stale and remove it: then once more.
    while True:
        path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
        try:
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        # Where a file system has no locks, nobody gets one, and so nobody removes it.
        with suppress(OSError):
            fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return path, lock
        os.close(lock)


def remove_stale(parent: Path, prefix: str) -> None:
    """Remove what killed processes of this user left behind."""
    for folder in parent.glob(f"{prefix}*"):
        try:
            if folder.lstat().st_uid != os.getuid():
                continue
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
