"""Write a release in the format of another tool: `querycloak export`, `release.export(...)`, entry points.

A format of another package is an entry point of the group `querycloak.exports`: a function that takes a release, an
`Output` and the grade options, and writes files by `Output.write`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from querycloak.errors import InputError, ParameterError
from querycloak.exports import click_sessions, csv_tables, ir_dataset, judgement_files
from querycloak.exports.grades import LEVELS
from querycloak.files.private_file import check_new, private_file
from querycloak.methods.evidence import load
from querycloak.privacy.parameters import one_of, path_of, whole
from querycloak.releases.release import Release

GROUP = "querycloak.exports"
GRADES = ("users", "coec", "rate")
_PUBLIC = 0o644


@dataclass
class Output:
    """Files of an export below one path; each is written whole or not at all, and never over another."""

    path: Path
    written: list[Path] = field(default_factory=list)
    _is_made: bool = field(default=False, init=False)

    def write(self, data: bytes, name: str = "") -> None:
        """Write one file: the path itself, or `name` in the folder of that path."""
        place = self.path / name if name else self.path
        if name and not self._is_made:
            self._make_folder()
        with private_file(place, "the export", mode=_PUBLIC) as file:
            file.write(data)
        self.written.append(place)

    def _make_folder(self) -> None:
        """Make the folder; refuse one that appeared since the check."""
        try:
            self.path.mkdir()
        except FileExistsError:
            raise ParameterError(
                "the export appeared while it was written; nothing was changed; name another"
            ) from None
        self._is_made = True

    def write_beside(self, data: bytes, ending: str) -> None:
        """Write one file beside the path, under its name with an ending."""
        beside = self.path.with_name(self.path.name + ending)
        with private_file(beside, "the export", mode=_PUBLIC) as file:
            file.write(data)
        self.written.append(beside)


Export = Callable[[Release, Output, str, int], None]


EXPORTS: Mapping[str, Export] = {
    "qrels": judgement_files.qrels,
    "quepid": judgement_files.quepid,
    "workbench": judgement_files.workbench,
    "ir-datasets": ir_dataset.write,
    "clax": click_sessions.write,
    "csv": csv_tables.write,
}
"""Our formats; the help of `export --as` names them, too."""


def exports() -> dict[str, Export]:
    """Return every format by name: ours, then those of installed packages."""
    others = {each.name: each for each in sorted(entry_points(group=GROUP)) if each.name not in EXPORTS}
    return {**EXPORTS, **{name: _loaded(each) for name, each in others.items()}}


def _loaded(entry: EntryPoint) -> Export:
    """A format of another package; a failure to import it is raised when the format is used."""

    def write(release: Release, output: Output, grades: str, levels: int) -> None:
        problem = ""
        try:
            function = entry.load()
        except Exception as error:  # broad: the import runs code of another package
            problem = type(error).__name__
        if problem or not callable(function):
            reason = f"cannot be loaded: {problem}" if problem else "is no function"
            raise InputError(f"the export {entry.name!r} of another package {reason}; mend or remove it")
        function(release, output, grades, levels)

    return write


def export(
    release: Release | str | os.PathLike[str],
    as_: str,
    out: str | os.PathLike[str],
    *,
    grades: str = "users",
    levels: int = LEVELS,
) -> list[Path]:
    """Write a release, or the release in a folder, as another tool reads it; return the files written."""
    known = exports()
    one_of("as", as_, known)
    one_of("grades", grades, GRADES)
    path = path_of("out", out, "name the file or folder to write")
    check_new(path, "the export")
    if not path.absolute().parent.is_dir():
        raise ParameterError(f"the export must lie in a folder that exists, {str(path.absolute().parent)!r} does not")
    whole("levels", levels, "2 for relevant or not, 5 for grades 1 to 4", least=2, most=100)
    loaded = release if isinstance(release, Release) else load(release)
    output = Output(path)
    known[as_](loaded, output, grades, levels)
    return output.written
