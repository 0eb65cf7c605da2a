"""Standard input as a log: kept in a private folder, for a log is read more than once."""

from __future__ import annotations

import os
import sys

from querycloak.errors import InputError, ResourceError
from querycloak.files.locked_folder import PrivateFolder

STANDARD_INPUT = "-"
_PIECE = 1 << 20


def spooled() -> str:
    """The path of a file with all that stands on standard input; it goes when the process does."""
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed: name a file, or send a log through a pipe")
    if sys.stdin.isatty():
        raise InputError("standard input is a terminal: send a log through a pipe, or name a file")
    folder = PrivateFolder()
    path, problem = folder.path / "standard-input", ""
    with folder.removed_on_failure():
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as kept:
                while piece := sys.stdin.buffer.read(_PIECE):
                    kept.write(piece)
        except OSError as error:
            problem = os.strerror(error.errno or 0).lower()
        if problem:
            raise ResourceError(f"standard input cannot be kept: {problem}; set QUERYCLOAK_TMP to a folder with room")
    return str(path)
