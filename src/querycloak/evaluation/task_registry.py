"""The tasks by name, in the order in which they are shown; a task's module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from querycloak.evaluation.task import Measure, Task
from querycloak.privacy.parameters import one_of


class TaskEntry(NamedTuple):
    """Import path of a task."""

    module: str
    class_name: str


TASKS: dict[str, TaskEntry] = {
    "suggestion": TaskEntry("querycloak.evaluation.tasks.suggestion", "Suggestion"),
    "completion": TaskEntry("querycloak.evaluation.tasks.completion", "Completion"),
    "language": TaskEntry("querycloak.evaluation.tasks.language", "Language"),
    "retrieval-walk": TaskEntry("querycloak.evaluation.tasks.retrieval", "RetrievalWalk"),
    "retrieval-feedback": TaskEntry("querycloak.evaluation.tasks.retrieval_feedback", "RetrievalFeedback"),
    "ranking": TaskEntry("querycloak.evaluation.tasks.ranking", "Ranking"),
    "counts": TaskEntry("querycloak.evaluation.tasks.counts", "Counts"),
    "pairs": TaskEntry("querycloak.evaluation.tasks.pairs", "Pairs"),
    "profiles": TaskEntry("querycloak.evaluation.tasks.profiles", "Profiles"),
    "loss": TaskEntry("querycloak.evaluation.tasks.loss", "Loss"),
    "click-model": TaskEntry("querycloak.evaluation.tasks.click_model", "ClickModel"),
}


def measures() -> dict[str, dict[str, Measure]]:
    """Every measure of every task, by name; a measure can be called."""
    return {task.name: {measure.name: measure for measure in task.measures} for task in tasks_named()}


def tasks_named(names: Sequence[str] | None = None) -> list[Task]:
    """The tasks of these names, all if none is given."""
    for name in names or ():
        one_of("task", name, TASKS)
    return [
        getattr(import_module(entry.module), entry.class_name)() for entry in map(TASKS.get, names or TASKS) if entry
    ]
