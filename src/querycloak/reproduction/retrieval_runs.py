"""Web search by releases of TRAIN, as Zhang, Yang and Singh (2016) judge it, with the original beside each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from querycloak.evaluation.aggregations import DIFFERENCE, About, rows_of
from querycloak.evaluation.subjects import Original, Released
from querycloak.evaluation.task import CaseScores, Logs, Subject, Task
from querycloak.logs.searchlog import SearchLog
from querycloak.releases.release import Release

WHOLE = ""
"""How the slice of all cases is called here."""


def retrieval_runs(
    train: SearchLog, test: SearchLog, releases: Mapping[str, Release], tasks: Sequence[Task]
) -> dict[str, Any]:
    """By release, task, slice and measure: the mean over cases answered, over all, and the original's on the same."""
    original = Original(train)
    subjects: list[Subject] = [original, *(Released(name, release) for name, release in releases.items())]
    logs = Logs(train, test, tuple(subjects))
    found: dict[str, Any] = {subject.name: {} for subject in subjects}
    for task in tasks:
        prepared = task.prepare(logs)
        first: list[CaseScores] = []
        for subject in subjects:
            scores = [each for each in prepared.scores(subject) if isinstance(each, CaseScores)]
            first = first or scores
            rows = rows_of(About(subject.name, None, task.name), scores, first, logs.test_users)
            told: dict[str, Any] = found[subject.name].setdefault(task.name, {})
            for row in rows:
                part, _, last = (row.slice or "").rpartition(",")
                if DIFFERENCE in (row.slice, last):
                    place = told.setdefault(part, {}).setdefault(row.measure, {})
                    place |= {"difference": row.value, "low": row.low, "high": row.high, "p_value": row.p_value}
                elif "over=users" not in (row.slice or ""):
                    place = told.setdefault(row.slice or WHOLE, {}).setdefault(row.measure, {})
                    place |= {row.reading: row.value, "cases": row.cases, "answers": row.answered}
    return found
