"""The folder of reproductions: a folder for each paper, and the synthetic log that they share.

DIR/  reproduce.json  log-USERS.parquet, log-USERS.parquet.truth/ (made up)
      PAPER/  index.html  figures.json  steps/ (what is done: killed and started again, it goes on)
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from querycloak.errors import ParameterError, ResourceError
from querycloak.files.documents import parsed_json
from querycloak.files.private_file import replace_file
from querycloak.releases.folder import outside_releases
from querycloak.reproduction.kept_steps import put_file
from querycloak.synthetic.log_writer import OnUsers, synthesize

MARK, FIGURES, PAGE, STEPS = "reproduce.json", "figures.json", "index.html", "steps"
SEED = 2006
_KIND = {"querycloak": "reproduction", "version": 1}


def reproduction_folder(path: Path) -> Path:
    """A new folder, or one in which papers were made again before; any other is refused."""
    outside_releases(path)
    if path.exists() and not _is_ours(path) and (not path.is_dir() or any(path.iterdir())):
        raise ParameterError(
            f"the output must be a new folder, or one that reproduce made; {str(path)!r} is neither; name another"
        )
    if not path.absolute().parent.is_dir():
        raise ParameterError(
            f"the output must lie in a folder that exists, {str(path.absolute().parent)!r} does not; make it first"
        )
    problem = ""
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        if not _is_ours(path):
            replace_file(path / MARK, json.dumps(_KIND).encode() + b"\n")
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    if problem:
        raise ResourceError(f"no folder {str(path)!r} can be made: {problem}; name another")
    return path


def _is_ours(path: Path) -> bool:
    try:
        return bool(parsed_json((path / MARK).read_bytes()) == _KIND)
    except (OSError, ValueError):
        return False


def synthetic_log(folder: Path, users: int, on_users: OnUsers | None = None) -> Path:
    """The synthetic log of this many users: from before, made now, or by another process that is waited for."""
    path = folder / f"log-{users}.parquet"
    with _alone_in(folder):
        if not path.exists():
            synthesize(path, users, seed=SEED, on_users=on_users)
    return path


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Papers may be made again at the same time; they share their log, and one of them makes it."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with suppress(OSError):  # where a file system has no locks, nobody gets one
            fcntl.flock(opened, fcntl.LOCK_EX)
        yield
    finally:
        os.close(opened)


def write_figures(folder: Path, document: dict[str, Any]) -> Path:
    """Write figures.json of a paper, whole or not at all."""
    put_file(folder / FIGURES, json.dumps(document, indent=1, allow_nan=False) + "\n")
    return folder / FIGURES
