"""Query suggestion by releases of TRAIN, as Zhang and Yang (2017) judge it, with the original beside each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from querycloak.evaluation.aggregations import About, rows_of
from querycloak.evaluation.evaluation_rows import Row
from querycloak.evaluation.subjects import Original, Released
from querycloak.evaluation.task import ORIGINAL, Logs, Subject
from querycloak.evaluation.tasks.suggestion import Suggestion
from querycloak.logs.searchlog import SearchLog
from querycloak.releases.release import Release


def suggestion_runs(
    train: SearchLog, test: SearchLog, releases: Mapping[str, Release], cosine_share: float, *, original: bool = True
) -> dict[str, dict[str, Any]]:
    """For each release: sessions answered, precision and recall on these and on all, and the original's on the same.

    Without the original nothing is compared, which is faster.
    """
    subjects: list[Subject] = [Original(train)] if original else []
    subjects += [Released(name, release) for name, release in releases.items()]
    logs = Logs(train, test, tuple(subjects))
    task = Suggestion(cosine_share=cosine_share).prepare(logs)
    found: dict[str, dict[str, Any]] = {}
    first = None
    for subject in subjects:
        scores = list(task.scores(subject))
        first = scores if first is None and original else first
        rows = list(rows_of(About(subject.name, None, "suggestion"), scores, first or scores, logs.test_users))
        found["Original" if subject.name == ORIGINAL else subject.name] = _told(rows)
    return found


def _told(rows: list[Row]) -> dict[str, Any]:
    whole = {(row.measure, row.reading): row for row in rows if row.slice is None}
    told: dict[str, Any] = {}
    for measure in ("P@5", "R@5"):
        answered, everything, common = (whole[measure, reading] for reading in ("answered", "all", "common"))
        told[measure] = {
            "answered": answered.value, "low": answered.low, "high": answered.high, "all": everything.value,
            "original": common.value, "p_value": common.p_value,
        }  # fmt: skip
        told["sessions"], told["of"] = answered.answered, answered.cases
    return told
