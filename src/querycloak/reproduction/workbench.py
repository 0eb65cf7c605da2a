"""What the experiments of a paper work on: the log, its two sides, and what was computed before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.evaluation.split_folder import write_split
from querycloak.files.locked_folder import PrivateFolder
from querycloak.logs.reading.schema import ROWS
from querycloak.logs.searchlog import SearchLog, read
from querycloak.logs.split import Split
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.reproduction.kept_steps import KeptSteps

AOL_USERS = 657_426


@dataclass(frozen=True, eq=False)
class Workbench:
    """A log with everything beside it; `people` is how many users a synthetic log has, none if the log was given."""

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
        """Whether the log is made up, so that nothing about it is private."""
        return self.people is not None

    @property
    def words(self) -> str:
        """The log, for people."""
        return "the log given" if self.people is None else f"a synthetic log of {self.people:,} users"

    def step(self, name: str, work: Callable[[], Any]) -> Any:
        """What a step gives, from before if it was done before."""
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
