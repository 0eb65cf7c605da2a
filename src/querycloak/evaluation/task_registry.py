"""The tasks by name, in the order in which they are shown; a task's module is imported when it is asked for.

A task of another package is an entry point of the group `querycloak.tasks`: a class like `Task` (docs/own-task.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import NamedTuple

from querycloak.errors import InputError
from querycloak.evaluation.task import Measure, Task
from querycloak.privacy.parameters import one_of

GROUP = "querycloak.tasks"


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
    added = _added()
    for name in names or ():
        one_of("task", name, (*TASKS, *added))
    return [_task(name, added) for name in names or (*TASKS, *added)]


def _task(name: str, added: Mapping[str, EntryPoint]) -> Task:
    if name in added:
        return _loaded(added[name])
    entry = TASKS[name]
    task: Task = getattr(import_module(entry.module), entry.class_name)()
    return task


def _added() -> dict[str, EntryPoint]:
    """Tasks of other packages; none of them can take the name of one that comes with querycloak."""
    return {each.name: each for each in sorted(entry_points(group=GROUP)) if each.name not in TASKS}


def _loaded(entry: EntryPoint) -> Task:
    problem = ""
    try:
        task: Task = entry.load()()
    except Exception as error:  # broad: the import runs code of another package
        problem = type(error).__name__
    if problem:
        raise InputError(f"the task {entry.name!r} of another package cannot be loaded: {problem}; mend or remove it")
    if any(not hasattr(task, name) for name in ("name", "measures", "readings", "unsupported_reason", "prepare")):
        raise InputError(f"the task {entry.name!r} of another package is no querycloak Task; mend or remove it")
    if task.name != entry.name:
        raise InputError(f"the task {entry.name!r} of another package calls itself {task.name!r}; mend or remove it")
    return task
