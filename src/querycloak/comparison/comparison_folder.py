"""The private folder of a comparison; a file of its own tells it from others.

    DIR/  index.html  evaluation.parquet  audit.parquet  comparison.json  releases/NAME/
          unfinished/   while it goes on: both sides of the log, and a file for each step that is done

None of these files says whose row is whose. A step that needs this is done as a whole, in one process, or anew.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.errors import ParameterError
from querycloak.files.locked_folder import UNFINISHED as NOTED
from querycloak.files.resumable_folder import FolderKind, KeptSteps, working_in, write_private
from querycloak.logs.reading.files import TRUTH_ENDING
from querycloak.releases.folder import outside_releases

STATE, PAGE, EVALUATION, AUDIT = "comparison.json", "index.html", "evaluation.parquet", "audit.parquet"
RELEASES, UNFINISHED = "releases", "unfinished"
DEMO_LOG = "log.tsv.gz"
"""The log that the demo leaves beside the page."""
KIND = FolderKind(STATE, {"querycloak": "comparison", "version": 1}, "a comparison began")


def clear_demo(out: Path) -> None:
    """Remove what an earlier demo left; refuse what is none, and what holds anything that no demo makes."""
    if os.path.lexists(out):
        _check_demo(out)
        with working_in(out):
            _check_demo(out)
            shutil.rmtree(out)


def _check_demo(out: Path) -> None:
    if out.is_symlink() or not (KIND.state(out) or {}).get("demo"):
        raise ParameterError(f"{str(out)!r} is there, and no demo made it; name another folder, or move it away")
    made = {AUDIT, EVALUATION, PAGE, RELEASES, STATE, UNFINISHED, DEMO_LOG, f"{DEMO_LOG}{TRUTH_ENDING}"}
    others = sum(each.name not in made and not each.name.startswith(NOTED) for each in out.iterdir())
    if others:
        raise ParameterError(
            f"{str(out)!r} holds {others} file(s) or folder(s) that no demo made; move them away, or name another"
        )


class ComparisonFolder:
    """The folder of one comparison."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.releases, self.unfinished = path / RELEASES, path / UNFINISHED
        self.steps = KeptSteps(self.unfinished, {"identity": self.state.get("identity")})

    @property
    def split(self) -> Path:
        """The folder of both sides of the log, until all is done."""
        return self.unfinished / "split"

    @property
    def state(self) -> dict[str, Any]:
        """The facts about the comparison; empty for a new folder."""
        return KIND.state(self.path) or {}

    def keep(self, **known: Any) -> None:
        """Add to the facts about the comparison."""
        KIND.write_state(self.path, private=True, **known)

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write one of the tables that stay."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        write_private(self.path / name, sink.getvalue().to_pybytes())

    def finish(self) -> None:
        """Remove both sides of the log and the steps; the raw log does not stay here a second time."""
        shutil.rmtree(self.unfinished, ignore_errors=True)


@contextmanager
def comparison_folder(path: Path, identity: str, *, demo: bool = False) -> Iterator[ComparisonFolder]:
    """A new folder, or one that was begun with the same log and options: then the work continues there."""
    check_folder(path, identity)
    with KIND.at_work(path):
        check_folder(path, identity)
        if KIND.state(path) is None:
            KIND.write_state(path, private=True, identity=identity, complete=False, demo=demo)
        folder = ComparisonFolder(path)
        if folder.state.get("complete"):
            folder.finish()  # the process that completed it may have died before this
        else:
            for inner in (folder.unfinished, folder.releases):
                inner.mkdir(mode=0o700, exist_ok=True)
        yield folder


def check_folder(path: Path, identity: str | None = None) -> None:
    """Refuse a folder that no comparison began, or one of another identity; call it before anything is read."""
    outside_releases(path)
    KIND.check(path)
    state = KIND.state(path)
    if state is not None and identity is not None and state.get("identity") != identity:
        raise ParameterError(
            f"{str(path)!r} holds a comparison of another log or with other options; name another folder, or remove it"
        )
