"""The log that a paper's experiments work on, its two sides, and the folder that keeps their results.

DIR/  reproduce.json  log-USERS.parquet, log-USERS.parquet.truth/ (synthetic)
      PAPER/  index.html  figures.json  steps/ (finished steps: a killed run continues from there)
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.evaluation.split_folder import write_split
from querycloak.files.locked_folder import PrivateFolder
from querycloak.files.resumable_folder import FolderKind, KeptSteps, working_in, write_private
from querycloak.logs.reading.schema import ROWS
from querycloak.logs.searchlog import SearchLog, read
from querycloak.logs.split import Split
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.folder import outside_releases
from querycloak.synthetic.log_writer import OnUsers, synthesize

AOL_USERS = 657_426
MARK, FIGURES, PAGE, STEPS = "reproduce.json", "figures.json", "index.html", "steps"
SEED = 2006
KIND = FolderKind(MARK, {"querycloak": "reproduction", "version": 1}, "reproduce made")


def reproduction_folder(path: Path) -> Path:
    """A new folder, or one that `reproduce` made before; any other is refused."""
    outside_releases(path)
    KIND.make(path)
    if KIND.state(path) is None:
        with KIND.at_work(path, wait=True):
            KIND.write_state(path)
    return path


def synthetic_log(folder: Path, users: int, on_users: OnUsers | None = None) -> Path:
    """The synthetic log of this number of users; papers that are made at the same time share one."""
    path = folder / f"log-{users}.parquet"
    with working_in(folder, wait=True):
        if not path.exists():
            synthesize(path, users, seed=SEED, on_users=on_users)
    return path


def write_figures(folder: Path, document: dict[str, Any]) -> Path:
    """Write figures.json of a paper, whole or not at all."""
    write_private(folder / FIGURES, json.dumps(document, indent=1, allow_nan=False) + "\n")
    return folder / FIGURES


def fingerprint(paths: list[Path]) -> str:
    """A digest of names, sizes and times of change: it tells files from others without reading them."""
    facts: list[list[str | int]] = []
    for path in sorted(paths):
        try:
            status = path.stat()
        except OSError:
            facts.append([str(path)])
            continue
        facts.append([str(path.absolute()), status.st_size, status.st_mtime_ns])
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, eq=False)
class Workbench:
    """A log and its work folder; `people` is the number of users of a synthetic log, None if the log was given."""

    log: SearchLog
    steps: KeptSteps
    quick: bool
    people: int | None = None
    truth: Path | None = None
    user: str | None = None
    _folder: PrivateFolder = field(default_factory=PrivateFolder, repr=False)
    _sides: dict[Path, tuple[SearchLog, SearchLog]] = field(default_factory=dict, repr=False)

    @property
    def synthetic(self) -> bool:
        """True if the log is made up, so that nothing about it is private."""
        return self.people is not None

    @property
    def words(self) -> str:
        """The log, for people."""
        return "the log given" if self.people is None else f"a synthetic log of {self.people:,} users"

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """Result of a step; a finished step is not run again."""
        return self.steps.get(name, work)

    def sides(self, how: Split, place: int = 0) -> tuple[SearchLog, SearchLog]:
        """TRAIN and TEST of a split; they stay in a private folder, which goes with the process."""
        folder = self._folder.path / f"{how.by}-{how.seed}-{how.folds or how.test_share}"
        if not folder.exists():
            write_split(self.log, folder, how)
        where = folder / how.places[place]
        if where not in self._sides:
            train, test = (read(where / f"{side}.parquet", engine=self.log.engine) for side in ("train", "test"))
            for side in (train, test):
                side.stage()
                side.checked()
            self._sides[where] = train, test
        return self._sides[where]

    def some_users(self, number: int, seed: int) -> SearchLog:
        """The log of this many of its users, drawn at random; all of it if there are no more."""
        log = self.log
        users = log.engine.fetch(log.rows.select("user").distinct().order_by("user"))["user"]
        log.checked()
        if len(users) <= number:
            return log
        chosen = np.sort(Randomness(seed).choose(len(users), number))
        wanted = log.engine.upload(pa.table({"user": users.take(pa.array(chosen))}))
        rows = log.engine.fetch(log.rows.semi_join(wanted, "user")).cast(ROWS)
        target = self._folder.path / f"users-{number}-{seed}.parquet"
        pq.write_table(rows, target)
        return read(target, engine=log.engine)

    def close(self) -> None:
        """Remove what was written on the way."""
        self._folder.remove()
