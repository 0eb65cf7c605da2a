"""A folder that only its owner may enter, for data that spills to disk; it is removed when the process ends."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterator
from contextlib import contextmanager

from querycloak.errors import ResourceError
from querycloak.files.locked_folder import PRIVATE, clean_up, make_locked, remove_locked, temporary_folder


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
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder and all in it; a forked child leaves it to its parent."""
        if os.getpid() != self._process or self._lock < 0:
            return
        lock, self._lock = self._lock, -1
        remove_locked(self.path, lock)
        atexit.unregister(self.remove)
