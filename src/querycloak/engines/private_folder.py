"""A folder that only its owner may enter, for whatever spills; it goes when the process does."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from pathlib import Path

from querycloak.errors import ResourceError

_PREFIX = "querycloak-"
_LOCK = "in-use"


class PrivateFolder:
    """A 0700 folder below the system's temporary one (or $QUERYCLOAK_TMP).

    Its lock file stays locked as long as the process lives, however that ends: folders whose lock is free
    were left behind by a killed process, and the next folder made removes them.
    """

    def __init__(self) -> None:
        parent = Path(os.environ.get("QUERYCLOAK_TMP") or tempfile.gettempdir())
        remove_stale_folders(parent)
        problem = ""
        try:
            self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            self._lock = os.open(self.path / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
        except OSError as error:
            problem = os.strerror(error.errno or 0).lower()
        if problem:
            raise ResourceError(
                f"no private folder can be made in {str(parent)!r}: {problem}; set QUERYCLOAK_TMP to a folder with room"
            )
        self._process = os.getpid()
        atexit.register(self.remove)

    def remove(self) -> None:
        """Remove the folder and all in it; a forked child leaves it to its parent."""
        if os.getpid() != self._process or self._lock < 0:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1
        atexit.unregister(self.remove)


def remove_stale_folders(parent: Path) -> None:
    """Remove what killed processes of this user left behind."""
    for folder in parent.glob(f"{_PREFIX}*"):
        try:
            if folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # its process lives
        finally:
            os.close(lock)
