"""The two tables of a comparison, put together from what its steps found; what failed has its reason in every row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

import pyarrow as pa

from querycloak.audits.attack_registry import ATTACKS
from querycloak.audits.release_audit import COLUMNS
from querycloak.evaluation.aggregations import About
from querycloak.evaluation.evaluation_file import SCHEMA, Row
from querycloak.evaluation.task import Task
from querycloak.evaluation.task_registry import tasks_named
from querycloak.evaluation.tasks.profiles import Profiles

Found = Mapping[str, Any]
"""What a step found, as plain values."""


def evaluation_table(tasks: Mapping[str, Sequence[Found]], beside: Found, steps: Sequence[Found]) -> pa.Table:
    """Every task in the usual order; profiles are told by the steps that made the releases."""
    rows: list[Found] = []
    for task in tasks_named():
        if task.name == Profiles.name:
            rows += [*beside["profiles"], *(row for step in steps for row in step.get("profiles", ()))]
        else:
            rows += tasks[task.name]
        for step in steps:
            if step["failed"]:
                rows += map(asdict, missing_rows(task, About(step["name"], None, task.name), step["failed"]))
    return pa.Table.from_pylist(rows, SCHEMA)


def missing_rows(task: Task, about: About, why: str) -> list[Row]:
    """A row for each measure and reading of a task, with nothing but the reason."""
    return [
        replace(about.row(measure.name, None, reading), why=why)
        for measure in task.measures
        for reading in task.readings
    ]


def audit_table(beside: Found, steps: Sequence[Found]) -> pa.Table:
    """What stands beside all releases, then every release."""
    rows = list(beside["audit"])
    for step in steps:
        rows += _missing_attacks(step) if step["failed"] else step["audit"]
    return pa.Table.from_pylist(rows, pa.schema(list(COLUMNS.items())))


def _missing_attacks(step: Found) -> list[dict[str, Any]]:
    nothing = dict.fromkeys(COLUMNS)
    return [{**nothing, "release": step["name"], "attack": attack, "why": step["failed"]} for attack in ATTACKS]
