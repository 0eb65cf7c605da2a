"""Utility of releases of a log: every task on every release. Beside them the original, plain k-anonymity and a rule
without any data.

Releases are made from TRAIN alone and judged by TEST, which is raw. What comes out are true figures of the log:
private output.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.errors import InputError
from querycloak.evaluation.aggregations import RowLabel, rows_of, rows_of_repeats
from querycloak.evaluation.evaluation_file import Row, table_of
from querycloak.evaluation.subjects import QUERIES, NoData, Original, PlainKAnonymity, source_of
from querycloak.evaluation.subjects import table_of as subject_table
from querycloak.evaluation.target import Target, named_apart
from querycloak.evaluation.task import CaseScores, Figure, Logs, Subject, Task, tasks_named
from querycloak.logs.searchlog import Log, OnStep, SearchLog, read
from querycloak.privacy.parameters import of_kind, path_of
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind
from querycloak.sentence import Action, Sentence
from querycloak.shown_in_notebooks import ShownInNotebooks

Given = Release | Target | str | os.PathLike[str]
PRIVATE = "PRIVATE OUTPUT: true figures of the log. Not for publication."
_SPLIT = Action('querycloak.split(log, DIR, by="user")', ("querycloak", "split", "LOG", "--by", "user", "--out", "DIR"))


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(ShownInNotebooks):
    """The rows of an evaluation: private output."""

    rows: tuple[Row, ...]

    @property
    def heading(self) -> str:
        """The first line of the output."""
        return PRIVATE

    def __repr__(self) -> str:
        releases, tasks = ({getattr(row, name) for row in self.rows} for name in ("release", "task"))
        return f"<Evaluation: {len(self.rows):,} rows, {len(releases)} subjects, {len(tasks)} tasks (private)>"

    @cached_property
    def table(self) -> pa.Table:
        """The rows as an Arrow table."""
        return table_of(self.rows)

    def to_json(self) -> dict[str, Any]:
        """The rows as plain values, marked as private."""
        return {"private": True, "results": [asdict(row) for row in self.rows]}

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the rows into a private file: JSON, CSV or Parquet, by its ending; never inside a release folder."""
        from querycloak.evaluation.evaluation_file import write_evaluation

        return write_evaluation(self.table, self.to_json(), path)


def evaluate(
    train: SearchLog | Log,
    test: SearchLog | Log,
    releases: Mapping[str, Given] | Sequence[Given],
    tasks: Sequence[str | Task] | None = None,
    *,
    on_step: OnStep | None = None,
) -> Evaluation:
    """Judge releases that were made from TRAIN by TEST, in the tasks given; in all tasks by default."""
    if tasks is not None:
        of_kind("task", tasks, Sequence, "names of tasks", "leave it out for all")
    chosen = tasks_named() if tasks is None else [_task(each) for each in tasks]
    released = [_released(name, given) for name, given in _named(releases)]
    with ExitStack() as stack:
        ours = train if isinstance(train, SearchLog) else stack.enter_context(read(train))
        theirs = test.on(ours.engine) if isinstance(test, SearchLog) else read(test, engine=ours.engine)
        results = evaluated_tasks(ours, theirs, released, chosen, on_step or (lambda *_: None))
        return Evaluation(tuple(row for _, rows in results for row in rows))


def _task(given: str | Task) -> Task:
    if not hasattr(given, "measures"):
        of_kind("task", given, str, "the name of a task", "leave it out for all")
    return tasks_named([given])[0] if isinstance(given, str) else given


def _named(releases: Mapping[str, Given] | Sequence[Given]) -> list[tuple[str | None, Given]]:
    of_kind("release", releases, (Mapping, Sequence, os.PathLike, Release), "folders of releases", "name at least one")
    if isinstance(releases, Mapping):
        return [(str(name), given) for name, given in releases.items()]
    return [(None, given) for given in ([releases] if isinstance(releases, (str, os.PathLike, Release)) else releases)]


def _released(name: str | None, given: Given) -> Target:
    if isinstance(given, Target):
        return given
    if isinstance(given, Release):
        return Target.of(given, name or given.method)
    return Target.in_folder(path_of("release", given, "name the folder of a release"), name)


def evaluated_tasks(
    train: SearchLog, test: SearchLog, released: Sequence[Target], tasks: Sequence[Task], on_step: OnStep
) -> Iterator[tuple[str, list[Row]]]:
    """The rows of one task after the other, with its name."""
    on_step("reading", 0.0)
    for log in (train, test):
        log.stage()
        log.checked()
    _check_sides(train, test)
    releases = named_apart(released, Original.name, PlainKAnonymity.name, NoData.name)
    for each in releases:
        _check_keys(each, train)
    subjects: tuple[Subject, ...] = (Original(train), PlainKAnonymity(train), NoData(train), *releases)
    logs = Logs(train, test, subjects)
    for number, task in enumerate(tasks):
        on_step(task.name, number / len(tasks))
        rows = list(_rows(task, logs))
        yield task.name, [*rows, *rows_of_repeats(rows, releases)]


def _rows(task: Task, logs: Logs) -> Iterator[Row]:
    """One task for all subjects; the original comes first, because the others are compared with it."""
    prepared = task.prepare(logs)
    original: list[CaseScores] = []
    for subject in logs.subjects:
        about = RowLabel(subject.name, subject.digest, task.name)
        why = task.unsupported_reason(subject)
        if why is not None:
            for measure in task.measures:
                yield from (replace(about.row(measure.name, None, reading), why=why) for reading in task.readings)
            continue
        results = list(prepared.scores(subject))
        scores = [each for each in results if isinstance(each, CaseScores)]
        original = original or scores
        yield from rows_of(about, scores, original, logs.test_users)
        yield from (figure_row(about, each) for each in results if isinstance(each, Figure))


def figure_row(about: RowLabel, figure: Figure) -> Row:
    """A figure as a row."""
    return replace(
        about.row(figure.measure.name, figure.slice, figure.reading),
        value=figure.value, low=figure.low, high=figure.high,
        cases=figure.cases, answered=figure.answered, why=figure.why,
    )  # fmt: skip


def _check_sides(train: SearchLog, test: SearchLog) -> None:
    """Refuse sides of which one is empty, or that share users."""
    for name, log in (("TRAIN", train), ("TEST", test)):
        if not _any(log, log.rows):
            raise InputError(
                Sentence(
                    "{name} has no rows that count; make both sides of one log with {split}", name=name, split=_SPLIT
                )
            )
    if _any(train, train.rows.semi_join(test.rows, "user")):
        raise InputError(
            Sentence(
                "TRAIN and TEST share users, so a release would be judged by people it knows; make both sides of one "
                "log with {split}",
                split=_SPLIT,
            )
        )


def _check_keys(release: Target, train: SearchLog) -> None:
    """Refuse a release that was made of another log."""
    made_up = release.rows is RowKind.COMPOSED or release.counts == "public-keys"
    if made_up or source_of(release, QUERIES) is None or "phrases" in release.kinds:
        return  # it may spell texts that nobody asked: others in place of what was asked, words, noise on a public list
    queries = subject_table(release, QUERIES)
    if queries.num_rows and not _any(train, train.engine.upload(queries).semi_join(train.rows, "query")):
        raise InputError(
            Sentence(
                "the release {name!r} has no query of TRAIN: it was made of another log; make it of TRAIN",
                name=release.name,
            )
        )


def _any(log: SearchLog, rows: ir.Table) -> bool:
    return bool(log.engine.fetch(rows.select(one=ibis.literal(1)).limit(1)).num_rows)
