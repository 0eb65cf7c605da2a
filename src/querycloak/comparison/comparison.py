"""Comparison of methods on one log: releases, evaluation and attacks in steps; a killed run continues.

The log is split; releases are made of TRAIN alone, judged by TEST and attacked with TEST's people as the control. A
release, its attacks and its users' profiles are one step: only the process that made a release knows whose row is
whose, and it keeps that in memory. All that comes out is private, the releases too: they are experiments.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.comparison.comparison_folder import AUDIT, EVALUATION, ComparisonFolder, comparison_folder
from querycloak.comparison.comparison_plan import (
    DELTA,
    EPSILONS,
    PlannedRelease,
    checked_budgets,
    releases_in,
    usual_releases,
)
from querycloak.comparison.comparison_steps import Run
from querycloak.extras import COMPARE, require
from querycloak.logs.searchlog import Log, OnStep, SearchLog, read
from querycloak.logs.split import Split
from querycloak.privacy.parameters import of_kind, path_of, refuse

HOW = Split(by="user")
"""Nine tenths of the users are TRAIN."""


@dataclass(frozen=True, eq=False)
class Comparison:
    """The results of a comparison: private output. `about`: facts of its folder beside the two tables."""

    folder: Path
    about: Mapping[str, Any]
    evaluation: pa.Table
    audit: pa.Table

    @classmethod
    def load(cls, folder: ComparisonFolder) -> Comparison:
        """Complete results in a folder."""
        tables = (pq.read_table(folder.path / name) for name in (EVALUATION, AUDIT))
        return cls(folder.path, folder.state, *tables)

    @property
    def failures(self) -> dict[str, str]:
        """The releases that could not be made, or not be judged, with the reason."""
        return {each["name"]: each["failed"] for each in self.about["releases"] if each["failed"]}

    @property
    def alarms(self) -> list[str]:
        """Sentences about results that must never occur: leaks, and attacks beyond a guarantee."""
        return list(self.about["alarms"])


def compare(
    log: SearchLog | Log,
    out: str | os.PathLike[str],
    *,
    epsilon: float | Sequence[float] = EPSILONS,
    delta: float = DELTA,
    releases: str | os.PathLike[str] | Sequence[PlannedRelease] | None = None,
    truth: str | os.PathLike[str] | None = None,
    on_step: OnStep | None = None,
) -> Comparison:
    """Release a log with every method, evaluate and attack the releases, and write a private folder with a page.

    epsilon: one budget or several. releases: a TOML file, or what is planned, in place of every method. truth: what is
    known to be sensitive. A comparison that was stopped goes on if it is called again in the same way.
    """
    require(COMPARE, "a comparison")
    plan = planned(epsilon, delta, releases)
    target, known = path_of("out", out), None if truth is None else path_of("truth", truth)
    with ExitStack() as stack:
        opened = log if isinstance(log, SearchLog) else stack.enter_context(read(log))
        return compare_opened(opened, target, plan, truth=known, on_step=on_step)


def planned(
    epsilon: float | Sequence[float],
    delta: float,
    releases: str | os.PathLike[str] | Sequence[PlannedRelease] | None,
) -> list[PlannedRelease]:
    """The releases to make: those given, or every method at each budget."""
    if isinstance(releases, str | os.PathLike):
        return releases_in(Path(releases))
    if releases is not None:
        of_kind("releases", releases, Sequence, "planned releases, or a TOML file", "leave it out for every method")
        for each in releases:
            of_kind("releases", each, PlannedRelease, "planned releases", "leave it out for every method")
        return list(releases)
    of_kind("epsilon", epsilon, (int, float, Sequence), "a budget, or several", "such as 8")
    several = [epsilon] if isinstance(epsilon, int | float) else list(epsilon)
    return list(usual_releases(*checked_budgets(several, delta)))


def compare_opened(
    log: SearchLog,
    out: Path,
    plan: Sequence[PlannedRelease],
    *,
    truth: Path | None,
    demo: bool = False,
    on_step: OnStep | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Comparison:
    """Run a comparison and write its page. demo: the folder is the demo's, which replaces it."""
    require(COMPARE, "a comparison")
    if truth is not None and not (truth / "sensitive.parquet").is_file():
        refuse("truth", "a folder with sensitive.parquet", str(truth), "LOG.truth of a synthetic log is one")
    comparison = run_comparison(log, out, plan, truth=truth, demo=demo, on_step=on_step, interrupted=interrupted)
    # `pages` stands above this folder and reads comparisons: the module that renders one is loaded by its name.
    import_module("querycloak.pages.comparison_page").write_comparison_page(comparison)
    return comparison


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
    """Run the steps that are left in the folder; the same log, plan and truth continue where they stopped.

    interrupted: True if the process was asked to end, also where a library turned that into an error.
    """
    with comparison_folder(out, identity_of(log, plan, truth), demo=demo) as folder:
        if not folder.state.get("complete"):
            Run(log, folder, plan, truth, HOW, on_step or (lambda *_: None), interrupted).all()
        return Comparison.load(folder)


def identity_of(log: SearchLog, plan: Sequence[PlannedRelease], truth: Path | None) -> str:
    """Identity of a comparison that is resumed: the log's files, reading options, plan and truth."""
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
