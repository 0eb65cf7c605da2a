"""The folder of a comparison: private, told from others by a file of its own, and full of steps that stay done.

    DIR/  index.html  evaluation.parquet  audit.parquet  comparison.json  releases/NAME/
          unfinished/   while it goes on: both sides of the log, and a file for each step that is done

Whose row is whose is in none of these files. A step that needs it is done as a whole, in one process, or anew.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.errors import InputError, ParameterError, ResourceError
from querycloak.files.documents import parsed_json
from querycloak.files.private_file import replace_file
from querycloak.releases.folder import outside_releases

STATE, PAGE, EVALUATION, AUDIT = "comparison.json", "index.html", "evaluation.parquet", "audit.parquet"
RELEASES, UNFINISHED = "releases", "unfinished"
_KIND = {"querycloak": "comparison", "version": 1}


def is_ours(folder: Path) -> bool:
    """Whether a comparison made this folder."""
    return _state(folder) is not None


def is_demo(folder: Path) -> bool:
    """Whether the demo made this folder."""
    return bool((_state(folder) or {}).get("demo"))


def _state(folder: Path) -> dict[str, Any] | None:
    try:
        found = parsed_json((folder / STATE).read_bytes())
    except (OSError, ValueError):
        return None
    is_one = isinstance(found, dict) and all(found.get(key) == value for key, value in _KIND.items())
    return found if is_one else None


class ComparisonFolder:
    """A comparison's folder, locked as long as somebody works in it."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self._lock = path, lock
        self.releases, self.unfinished = path / RELEASES, path / UNFINISHED

    @property
    def split(self) -> Path:
        """Where both sides of the log are, until all is done."""
        return self.unfinished / "split"

    @property
    def state(self) -> dict[str, Any]:
        """What is known of the comparison."""
        return _state(self.path) or {}

    def keep(self, **known: Any) -> None:
        """Write what is known."""
        document = {**_KIND, "private": True, **self.state, **known}
        self._write(self.path / STATE, json.dumps(document, indent=1, allow_nan=False).encode() + b"\n")

    def found_in(self, step: str) -> dict[str, Any] | None:
        """What a step found that is done; nothing if it is not."""
        try:
            return dict(parsed_json((self.unfinished / f"{step}.json").read_bytes()))
        except (FileNotFoundError, ValueError):
            return None

    def finish_step(self, step: str, found: Mapping[str, Any]) -> None:
        """Keep what a step found: from here on it is done."""
        self._write(self.unfinished / f"{step}.json", json.dumps(found, allow_nan=False).encode())
        self.forget_beginning(step)

    def begun(self, step: str) -> int:
        """How often a process has begun a step and died; counts this beginning."""
        path = self.unfinished / f"{step}.begun"
        times = int(path.read_text()) if path.exists() else 0
        self._write(path, str(times + 1).encode())
        return times

    def forget_beginning(self, step: str) -> None:
        """The step ended, or was ended on purpose."""
        (self.unfinished / f"{step}.begun").unlink(missing_ok=True)

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write one of the tables that stay."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        self._write(self.path / name, sink.getvalue().to_pybytes())

    def finish(self) -> None:
        """Remove what was needed on the way; the raw log is not left here a second time."""
        shutil.rmtree(self.unfinished, ignore_errors=True)

    def close(self) -> None:
        """Let others in."""
        os.close(self._lock)

    def _write(self, path: Path, data: bytes) -> None:
        try:
            replace_file(path, data)
            return
        except OSError as error:
            problem = os.strerror(error.errno or 0).lower()
        raise ResourceError(f"the comparison cannot be written into {str(self.path)!r}: {problem}; it goes on later")


@contextmanager
def comparison_folder(path: Path, identity: str, *, demo: bool = False) -> Iterator[ComparisonFolder]:
    """A new folder, or one that was begun with the same log and options: then work goes on there."""
    check_folder(path, identity)
    _make(path)
    folder = ComparisonFolder(path, _locked(path))
    try:
        if not folder.state:
            folder.keep(identity=identity, complete=False, demo=demo)
        if folder.state.get("complete"):
            folder.finish()  # whoever completed it may have died before
        else:
            for inner in (folder.unfinished, folder.releases):
                inner.mkdir(mode=0o700, exist_ok=True)
        yield folder
    finally:
        folder.close()


def check_folder(path: Path, identity: str | None = None) -> None:
    """Refuse a folder that is not ours, or was begun with something else; call it before anything is read."""
    outside_releases(path)
    if not os.path.lexists(path):
        if not path.absolute().parent.is_dir():
            raise ParameterError(
                f"the output must lie in a folder that exists, {str(path.absolute().parent)!r} does not; make it first"
            )
        return
    state = _state(path)
    if state is None and path.is_dir() and not any(path.iterdir()):
        return
    if state is None:
        raise ParameterError(
            f"the output must be a new folder, or one that a comparison began; {str(path)!r} is neither; name another"
        )
    if identity is not None and state.get("identity") != identity:
        raise ParameterError(
            f"{str(path)!r} holds a comparison of another log or with other options; name another folder, or remove it"
        )


def _make(path: Path) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ResourceError(
            f"no folder {str(path)!r} can be made: {os.strerror(error.errno or 0).lower()}; name another"
        ) from None


def _locked(path: Path) -> int:
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            os.close(lock)
            raise InputError(f"another process is at work in {str(path)!r}; wait for it, or name another") from None
    return lock  # where a file system has no locks, nobody gets one
