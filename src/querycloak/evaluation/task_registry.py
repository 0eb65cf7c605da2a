"""The tasks by name, in the order in which they are shown; a task's module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from querycloak.evaluation.task import Measure, Task
from querycloak.privacy.parameters import one_of


class Entry(NamedTuple):
    """Where a task lives."""

    module: str
    class_name: str


TASKS: dict[str, Entry] = {
    "suggestion": Entry("querycloak.evaluation.tasks.suggestion", "Suggestion"),
    "completion": Entry("querycloak.evaluation.tasks.completion", "Completion"),
    "retrieval-walk": Entry("querycloak.evaluation.tasks.retrieval", "RetrievalWalk"),
    "retrieval-feedback": Entry("querycloak.evaluation.tasks.retrieval_feedback", "RetrievalFeedback"),
    "ranking": Entry("querycloak.evaluation.tasks.ranking", "Ranking"),
    "counts": Entry("querycloak.evaluation.tasks.counts", "Counts"),
    "pairs": Entry("querycloak.evaluation.tasks.pairs", "Pairs"),
    "profiles": Entry("querycloak.evaluation.tasks.profiles", "Profiles"),
    "loss": Entry("querycloak.evaluation.tasks.loss", "Loss"),
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
