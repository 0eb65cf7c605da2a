"""The steps of a comparison; a finished step is kept in its folder, so that the next run continues from there.

A release, its attacks and the profiles of its users are one step: only the process that made the release knows whose
row is whose.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from querycloak.audits.attack import ATTACKS, Finding, attacks_named
from querycloak.audits.audit_data import AuditData
from querycloak.audits.release_audit import COLUMNS, attacked_by, log_baselines, owners_under_seed, row_of
from querycloak.comparison.comparison_folder import AUDIT, EVALUATION, ComparisonFolder
from querycloak.comparison.comparison_plan import PlannedRelease
from querycloak.comparison.example_rows import example_rows, secrets_out
from querycloak.errors import QuerycloakError
from querycloak.evaluation.aggregations import RowLabel
from querycloak.evaluation.evaluation import evaluated_tasks, figure_row
from querycloak.evaluation.evaluation_file import SCHEMA, Row
from querycloak.evaluation.split_folder import SPLIT, opened_side, write_split
from querycloak.evaluation.subjects import NoData, Original, PlainKAnonymity
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import Subject, Task, tasks_named
from querycloak.evaluation.tasks.profiles import PreparedProfiles, Profiles
from querycloak.logs.searchlog import OnStep, SearchLog
from querycloak.logs.split import Split
from querycloak.methods.evidence import load
from querycloak.methods.registry import METHODS
from querycloak.privacy.sampling.randomness import Randomness, fresh_seed
from querycloak.releases.release import Release

StepRecord = Mapping[str, Any]
"""The results of a step, as plain values."""


def evaluation_table(
    tasks: Mapping[str, Sequence[StepRecord]], baselines: StepRecord, steps: Sequence[StepRecord]
) -> pa.Table:
    """Rows of every task in the usual order; those of profiles come from the steps that made the releases."""
    rows: list[StepRecord] = []
    for task in tasks_named():
        if task.name == Profiles.name:
            rows += [*baselines["profiles"], *(row for step in steps for row in step.get("profiles", ()))]
        else:
            rows += tasks[task.name]
        for step in steps:
            if step["failed"]:
                rows += map(asdict, missing_rows(task, RowLabel(step["name"], None, task.name), step["failed"]))
    return pa.Table.from_pylist(rows, SCHEMA)


def missing_rows(task: Task, about: RowLabel, why: str) -> list[Row]:
    """A row for each measure and reading of a task, with nothing but the reason."""
    return [
        replace(about.row(measure.name, None, reading), why=why)
        for measure in task.measures
        for reading in task.readings
    ]


def audit_table(baselines: StepRecord, steps: Sequence[StepRecord]) -> pa.Table:
    """Audit rows: baselines first, then every release."""
    rows, nothing = list(baselines["audit"]), dict.fromkeys(COLUMNS)
    for step in steps:
        failed = ({**nothing, "release": step["name"], "attack": attack, "why": step["failed"]} for attack in ATTACKS)
        rows += failed if step["failed"] else step["audit"]
    return pa.Table.from_pylist(rows, pa.schema(list(COLUMNS.items())))


EXPERIMENT = (
    "An experiment, not for release: `compare` made it of a part of the log, and no ledger was charged for it. "
    "What you give to others must be made by `release`."
)
GIVEN_UP = "the process ended twice while this was made; it may need more memory than there is"
_BEGINNINGS = 2
_WEIGHTS = {"split": 1.0, "baselines": 3.0, "release": 4.0, "task": 1.5}
"""Relative durations of steps, about."""


class Run:
    """One process at work on a comparison."""

    def __init__(
        self,
        log: SearchLog,
        folder: ComparisonFolder,
        plan: Sequence[PlannedRelease],
        truth: Path | None,
        how: Split,
        on_step: OnStep,
        interrupted: Callable[[], bool],
    ) -> None:
        self._log, self._folder, self._plan, self._truth = log, folder, plan, truth
        self._how, self._on_step, self._interrupted = how, on_step, interrupted
        self._tasks = [task for task in tasks_named() if task.name != Profiles.name]
        self._weight = sum(self._weights().values())
        self._doing, self._done = "", 0.0

    def all(self) -> None:
        """Run the remaining steps and assemble their results."""
        began = time.perf_counter()
        self._step("split", "splitting", self._split)
        self._step("baselines", "attacking the log itself", self._baselines)
        for planned in self._plan:
            self._step(f"release-{planned.name}", planned.name, partial(self._release, planned))
        self._evaluate()
        self._assemble(time.perf_counter() - began)

    def _weights(self) -> dict[str, float]:
        steps = ["split", "baselines", *(f"release-{each.name}" for each in self._plan)]
        steps += [f"task-{task.name}" for task in self._tasks]
        return {step: _WEIGHTS[step.split("-")[0]] for step in steps}

    def _step(self, step: str, doing: str, work: Callable[[], Mapping[str, Any]]) -> None:
        self._doing = doing
        self._on_step(doing, self._done / self._weight)
        if self._folder.steps.kept(step) is None:
            self._folder.steps.keep(step, work())
        self._done += self._weights()[step]

    def _kept(self, step: str) -> StepRecord:
        """Results of a step; empty if it is not done."""
        return self._folder.steps.kept(step) or {}

    def _within(self, what: str, _: float) -> None:
        """Progress within a step."""
        self._on_step(f"{self._doing}: {what}", self._done / self._weight)

    def _split(self) -> Mapping[str, Any]:
        shutil.rmtree(self._folder.split, ignore_errors=True)
        write_split(self._log, self._folder.split, self._how)
        return dict(json.loads((self._folder.split / SPLIT).read_bytes()))

    @cached_property
    def _train(self) -> SearchLog:
        return opened_side(self._log, self._folder.split, "train", self._within)

    @cached_property
    def _test(self) -> SearchLog:
        return opened_side(self._log, self._folder.split, "test", self._within)

    @cached_property
    def _knowledge(self) -> AuditData:
        return AuditData(self._train, self._test, truth=self._truth)

    @cached_property
    def _profiles(self) -> PreparedProfiles:
        return PreparedProfiles(self._train, self._owners)

    @cached_property
    def _owners(self) -> dict[str, pa.Table]:
        """Owners of the rows of each release: in memory only."""
        return {}

    def _baselines(self) -> Mapping[str, Any]:
        """Audits of the log, the log under other names and plain k-anonymity.

        Profiles of users by the log, by plain k-anonymity and without data.
        """
        audit: list[dict[str, Any]] = []
        for each in log_baselines(self._knowledge):
            rows, _ = self._attacks(each)
            audit += rows
        subjects: tuple[Subject, ...] = (Original(self._train), PlainKAnonymity(self._train), NoData(self._train))
        profiles = [row for subject in subjects for row in self._profile_rows(subject)]
        return {"audit": audit, "profiles": profiles}

    def _release(self, planned: PlannedRelease) -> Mapping[str, Any]:
        """Release, attack and profile; or the reason why not."""
        step, target = f"release-{planned.name}", self._folder.releases / planned.name
        shutil.rmtree(target, ignore_errors=True)  # made by a process that is gone: whose row is whose is forgotten
        known = {**planned.to_json(), "summary": METHODS[planned.method].summary, "failed": None}
        if self._folder.steps.begun(step) >= _BEGINNINGS:
            return {**known, "failed": GIVEN_UP}
        try:
            return {**known, **self._made(planned, target)}
        except BaseException as error:  # broad: an interrupt forgets the beginning; else the reason is noted
            if self._is_interrupt(error):
                self._folder.steps.forget_beginning(step)
                raise KeyboardInterrupt from None
            return {**known, "failed": reason_of(error)}

    def _is_interrupt(self, error: BaseException) -> bool:
        return self._interrupted() or not isinstance(error, Exception)

    def _made(self, planned: PlannedRelease, target: Path) -> Mapping[str, Any]:
        method, seed = planned.made(), fresh_seed()
        began = time.perf_counter()
        release = method.release(self._train, randomness=Randomness(seed))
        owners = owners_under_seed(release, self._train, seed)
        saved = replace(release, warnings=(EXPERIMENT, *release.warnings)).save(target)
        seconds = time.perf_counter() - began
        if owners is not None:
            self._owners[planned.name] = owners.rename_columns(["user", "owner"])
        loaded = load(target)
        released = Target.of(loaded, planned.name)
        attacked = replace(released, digest=saved.digest, folder=target, owners=owners)
        rows, alarms = self._attacks(attacked)
        return {
            **_facts(loaded, saved.digest),
            "seconds": seconds,
            "examples": example_rows(loaded),
            "secrets": secrets_out(attacked, self._truth, self._train),
            "audit": rows,
            "profiles": list(self._profile_rows(attacked)),
            "alarms": alarms,
        }

    def _attacks(self, release: Target) -> tuple[list[dict[str, Any]], list[str]]:
        """The rows and the alarms of all attacks; an attack that fails has a row with its reason."""
        rows: list[dict[str, Any]] = []
        alarms: list[str] = []
        for attack in attacks_named():
            self._within(attack.name, 0.0)
            try:
                outcome = attacked_by(attack, release, self._knowledge)
                rows += outcome.rows
                alarms += outcome.alarms
            except Exception as error:  # broad: one failed attack, also of another package, must not end the others
                if self._is_interrupt(error):
                    raise KeyboardInterrupt from None
                rows.append(row_of(release, attack.name, Finding.missing(reason_of(error))))
        return rows, alarms

    def _profile_rows(self, subject: Subject) -> Iterator[dict[str, Any]]:
        about = RowLabel(subject.name, subject.digest, Profiles.name)
        return (asdict(figure_row(about, figure)) for figure in self._profiles.scores(subject))

    def _evaluate(self) -> None:
        """Every task on all releases together; releases are read from their folders, also those of an earlier run."""
        left = [task for task in self._tasks if self._folder.steps.kept(f"task-{task.name}") is None]
        self._done += _WEIGHTS["task"] * (len(self._tasks) - len(left))
        while left:
            released = [Target.in_folder(self._folder.releases / name, name) for name in self._made_names()]
            try:
                for name, rows in evaluated_tasks(self._train, self._test, released, list(left), self._tell_task):
                    self._finish_task(left, name, rows)
            except Exception as error:  # broad: a failed task must not end the others; it is tried one by one
                if self._is_interrupt(error):
                    raise KeyboardInterrupt from None
                self._finish_task(left, left[0].name, self._one_by_one(left[0], released))

    def _tell_task(self, what: str, _: float) -> None:
        self._on_step(f"evaluating: {what}", self._done / self._weight)

    def _finish_task(self, left: list[Task], name: str, rows: Sequence[Row]) -> None:
        self._folder.steps.keep(f"task-{name}", {"rows": [asdict(row) for row in rows]})
        left.pop(0)
        self._done += _WEIGHTS["task"]

    def _one_by_one(self, task: Task, released: Sequence[Target]) -> list[Row]:
        """Run a task that failed on the log, then on each release alone; where it fails, its rows give the reason."""
        kept_rows: list[Row] = []
        for each in [None, *released]:
            some = [] if each is None else [each]
            try:
                rows = [row for _, rows in evaluated_tasks(self._train, self._test, some, [task], self._tell_task)
                        for row in rows]  # fmt: skip
                kept_rows += rows if each is None else [row for row in rows if row.release == each.name]
            except Exception as error:  # broad: a failed release leaves its reason in the table
                if self._is_interrupt(error):
                    raise
                name, digest = (Original.name, None) if each is None else (each.name, each.digest)
                kept_rows += missing_rows(task, RowLabel(name, digest, task.name), reason_of(error))
        return kept_rows

    def _made_names(self) -> list[str]:
        steps = {each.name: self._kept(f"release-{each.name}") for each in self._plan}
        return [name for name, step in steps.items() if not step.get("failed")]

    def _assemble(self, seconds: float) -> None:
        """Write the tables and the data of the page; then remove the steps."""
        steps = [self._kept(f"release-{each.name}") for each in self._plan]
        baselines = self._kept("baselines")
        tasks = {task.name: self._kept(f"task-{task.name}")["rows"] for task in self._tasks}
        self._folder.write_table(EVALUATION, evaluation_table(tasks, baselines, steps))
        self._folder.write_table(AUDIT, audit_table(baselines, steps))
        left_out = ("audit", "profiles", "alarms")
        self._folder.keep(
            complete=True,
            log=self._kept("split")["files"],
            truth=self._truth is not None,
            releases=[{key: value for key, value in step.items() if key not in left_out} for step in steps],
            alarms=[alarm for step in steps for alarm in step.get("alarms", ())],
            seconds=seconds,
        )
        self._folder.finish()


def _facts(release: Release, digest: str) -> dict[str, Any]:
    """Facts on a release for the page, besides its figures."""
    return {
        "variant": release.variant,
        "parameters": dict(release.parameters),
        "claimed": release.claimed and release.claimed.to_json(),
        "proven": release.proven.to_json(),
        "counts": release.counts,
        "rows": release.rows,
        "digest": digest,
    }


def reason_of(error: BaseException) -> str:
    """Reason of a failure, for a table. Our own errors hold nothing of the log; of others only the type is shown."""
    if isinstance(error, QuerycloakError):
        return str(error)
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    return f"this is a bug in the method or in querycloak ({type(error).__name__})"
