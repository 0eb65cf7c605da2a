"""One log, released in every way, evaluated and attacked: step by step, so that it can be killed and goes on.

The log is split; releases are made of TRAIN alone, judged by TEST and attacked with TEST's people as the control. A
release, its attacks and its users' profiles are one step: only the process that made a release knows whose row is
whose, and it keeps that in memory. All that comes out is private, the releases too: they are experiments.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.comparison.comparison_folder import AUDIT, EVALUATION, ComparisonFolder, comparison_folder
from querycloak.comparison.comparison_plan import PlannedRelease
from querycloak.comparison.comparison_steps import Run
from querycloak.logs.searchlog import OnStep, SearchLog
from querycloak.logs.split import Split

HOW = Split(by="user")
"""Nine tenths of the users are TRAIN."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """What a comparison found: private output. `about` is what its folder knows besides the two tables."""

    folder: Path
    about: Mapping[str, Any]
    evaluation: pa.Table
    audit: pa.Table

    @classmethod
    def load(cls, folder: ComparisonFolder) -> Comparison:
        """What a folder holds that is complete."""
        tables = (pq.read_table(folder.path / name) for name in (EVALUATION, AUDIT))
        return cls(folder.path, folder.state, *tables)

    @property
    def failures(self) -> dict[str, str]:
        """The releases that could not be made, or not be judged, with the reason."""
        return {each["name"]: each["failed"] for each in self.about["releases"] if each["failed"]}

    @property
    def alarms(self) -> list[str]:
        """Sentences about what must not happen at all."""
        return list(self.about["alarms"])


def run_comparison(
    log: SearchLog,
    out: Path,
    plan: Sequence[PlannedRelease],
    *,
    truth: Path | None = None,
    demo: bool = False,
    on_step: OnStep | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Comparison:
    """Do all steps that are not done yet in the folder; the same log, plan and truth go on where they stopped.

    interrupted: whether an error is only what a library made of an interrupt.
    """
    with comparison_folder(out, identity_of(log, plan, truth), demo=demo) as folder:
        if not folder.state.get("complete"):
            Run(log, folder, plan, truth, HOW, on_step or (lambda *_: None), interrupted).all()
        return Comparison.load(folder)


def identity_of(log: SearchLog, plan: Sequence[PlannedRelease], truth: Path | None) -> str:
    """What must be the same for a comparison to go on: the log's files, how they are read, the plan, the truth."""
    files = [(file.location, file.size, _changed(file.location)) for file in log.source.files]
    choices = log.source.choices
    read = [log.format, choices.describe(), sorted(choices.leave_out)]
    whole = [files, read, [each.to_json() for each in plan], truth and str(truth), asdict(HOW)]
    return hashlib.sha256(json.dumps(whole, default=str).encode()).hexdigest()


def _changed(location: str) -> int | None:
    try:
        return os.stat(location).st_mtime_ns
    except OSError:
        return None  # an address
