"""Private folders of long computations: a state file marks them, a lock keeps other processes out, steps are kept.

A killed process that is started again continues with the first step that is not kept.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from querycloak.errors import InputError, ParameterError, ResourceError
from querycloak.files.documents import parsed_json
from querycloak.files.locked_folder import lock_folder
from querycloak.files.private_file import replace_file

OnStep = Callable[[str], None]


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder: the name of its state file, the fields that mark it, and the words for its maker."""

    state_file: str
    mark: Mapping[str, Any]
    maker: str
    """MAKER in "the output must be a new folder, or one that MAKER"."""

    def state(self, folder: Path) -> dict[str, Any] | None:
        """The state of a folder of this kind; None for any other folder."""
        try:
            state = parsed_json((folder / self.state_file).read_bytes())
        except (OSError, ValueError):
            return None
        marked = isinstance(state, dict) and all(state.get(key) == value for key, value in self.mark.items())
        return state if marked else None

    def write_state(self, folder: Path, **known: Any) -> None:
        """Add to the state; a folder without one becomes a folder of this kind."""
        state = {**self.mark, **(self.state(folder) or {}), **known}
        write_private(folder / self.state_file, json.dumps(state, indent=1, allow_nan=False) + "\n")

    def check(self, path: Path) -> None:
        """Refuse a folder that is neither new, nor empty, nor of this kind; call it before anything is read."""
        if not os.path.lexists(path):
            if not path.absolute().parent.is_dir():
                raise ParameterError(
                    f"the output must lie in a folder that exists, {str(path.absolute().parent)!r} does not; make it "
                    "first"
                )
        elif self.state(path) is None and not (path.is_dir() and not any(path.iterdir())):
            raise ParameterError(
                f"the output must be a new folder, or one that {self.maker}; {str(path)!r} is neither; name another"
            )

    def make(self, path: Path) -> None:
        """Make the folder, private, unless it exists."""
        self.check(path)
        problem = ""
        try:
            path.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            problem = os.strerror(error.errno or 0).lower()
        if problem:
            raise ResourceError(f"no folder {str(path)!r} can be made: {problem}; name another")

    @contextmanager
    def at_work(self, path: Path, *, wait: bool = False) -> Iterator[None]:
        """Make the folder, lock it, and look again: another program may have begun something there before the lock."""
        self.make(path)
        with working_in(path, wait=wait):
            self.check(path)
            yield


class KeptSteps:
    """Results of steps, as JSON in a private folder; a result made with other settings does not count."""

    def __init__(self, folder: Path, settings: Mapping[str, Any], on_step: OnStep = lambda _: None) -> None:
        self.folder, self._on_step = folder, on_step
        self._settings = json.dumps(dict(settings), sort_keys=True)

    def get(self, name: str, work: Callable[[], Any]) -> Any:
        """The kept result of a step, or the result of its work now, which is kept."""
        document = self._document(name)
        if document is not None:
            return document["value"]
        self._on_step(name)
        return self.keep(name, work())

    def kept(self, name: str) -> Any:
        """The kept result of a step; None if there is none."""
        return (self._document(name) or {}).get("value")

    def keep(self, name: str, value: Any) -> Any:
        """Keep the result of a step, and return it as JSON has it: from here on the step is done."""
        text = json.dumps(value, allow_nan=False)
        write_private(self._path(name), json.dumps({"settings": self._settings, "value": json.loads(text)}))
        self.forget_beginning(name)
        return json.loads(text)

    def begun(self, name: str) -> int:
        """The number of processes that began this step and died; counts this beginning as one more."""
        path = self._path(name, "begun")
        times = int(path.read_text()) if path.exists() else 0
        write_private(path, str(times + 1))
        return times

    def forget_beginning(self, name: str) -> None:
        """Note that the step ended, or was interrupted on purpose."""
        self._path(name, "begun").unlink(missing_ok=True)

    def _path(self, name: str, ending: str = "json") -> Path:
        return self.folder / f"{name}.{ending}"

    def _document(self, name: str) -> dict[str, Any] | None:
        try:
            document = parsed_json(self._path(name).read_bytes())
        except (OSError, ValueError):
            return None
        same = isinstance(document, dict) and document.get("settings") == self._settings and "value" in document
        return document if same else None


@contextmanager
def working_in(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Lock a folder while the block runs; another process that works in it is waited for, or an InputError."""
    lock, there = None, True
    try:
        lock = lock_folder(path, wait=wait)
    except FileNotFoundError:
        there = False
    if there and lock is None:
        raise InputError(f"another process is at work in {str(path)!r}; wait for it, or name another")
    try:
        if lock is None or not _is_still(path, lock):
            raise InputError(f"{str(path)!r} was removed before the work in it began; start again, or name another")
        yield
    finally:
        if lock is not None:
            os.close(lock)


def _is_still(path: Path, lock: int) -> bool:
    """Whether the locked folder still has this name."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(lock))
    except OSError:
        return False


def write_private(path: Path, data: str | bytes) -> None:
    """Put a private file in its place, whole and on the disk; its folder is made if it is missing."""
    problem = ""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, data.encode() if isinstance(data, str) else data)
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    if problem:
        raise ResourceError(
            f"nothing can be written into {str(path.parent)!r}: {problem}; finished steps are kept, and the next run "
            "continues from there"
        )
