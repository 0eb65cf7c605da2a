"""Task: a use of a release, its requirements, and its scores.

A task is prepared once for TRAIN and TEST, then scores every subject: the original, k-anonymity, the rule without
data, each release.
It hands back scores of single cases, of which `aggregations.py` makes means, intervals and tests, or figures that are
already whole, such as a rate over all keys. `TASKS` lists the tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import InputError
from querycloak.privacy.parameters import one_of
from querycloak.releases.row_kinds import RowKind

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.evaluation.graphs import Graphs
    from querycloak.logs.searchlog import SearchLog


@dataclass(frozen=True)
class Measure:
    """One measure of what a release keeps; better is `higher`, `lower`, or `none` where it is only described.

    `compute` gives its value from plain arrays; calling the measure calls it, with the measure's own parameters.
    """

    name: str
    meaning: str
    citation: str
    better: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    compute: Callable[..., Any] | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", MappingProxyType(dict(self.parameters)))

    def __call__(self, *values: Any, **options: Any) -> Any:
        """The measure's value; what to give is what `compute` takes."""
        if self.compute is None:
            raise TypeError(f"{self.name} is declared only: it has nothing that computes it")
        return self.compute(*values, **{**self.parameters, **options})

    def __str__(self) -> str:
        parameters = ", ".join(f"{name}={value:g}" for name, value in self.parameters.items())
        return f"{self.name}({parameters})" if parameters else self.name


Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
# What the release answers itself; all cases, unanswered ones 0; the original on the cases that the release answers.
READINGS = ("answered", "all", "common")
ORIGINAL, PSEUDONYMS, K_ANONYMITY, NO_DATA = "original", "pseudonyms", "k-anonymity", "no-data"
"""Names of the baselines beside releases, in evaluations and audits."""


class Baseline:
    """Facts that all subjects beside releases share: no card, rows as they were asked."""

    digest = None
    rows = RowKind.ASKED
    variant = "default"
    parameters: Mapping[str, Any] = MappingProxyType({})


class Subject(Protocol):
    """Subject of an evaluation: a release, or a baseline in a release's form."""

    @property
    def name(self) -> str:
        """The folder's name, `original`, `k-anonymity` or `no-data`."""
        ...

    @property
    def digest(self) -> str | None:
        """The digest of the folder's card, if it is in one."""
        ...

    @property
    def kinds(self) -> tuple[str, ...]:
        """The tables that it has, as `releases.tables.KINDS` names them; of the original, those that TRAIN can fill."""
        ...

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each of its tables."""
        ...

    @property
    def rows(self) -> RowKind:
        """The kind of rows of a table `log`."""
        ...

    @property
    def method(self) -> str | None:
        """The method's name, from the card; `original` for the original."""
        ...

    @property
    def variant(self) -> str:
        """The method's variant, from the card; `default` for the original."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The method's parameters, from the card; empty for the original."""
        ...

    def table(self, kind: str) -> pa.Table:
        """A table, as text. Of the original: TRAIN in that form, `count` is a number of events, not of users."""
        ...


@dataclass(frozen=True, eq=False)
class Logs:
    """The two sides of a split, both raw and on one engine, with all subjects: private."""

    train: SearchLog
    test: SearchLog
    subjects: tuple[Subject, ...] = ()

    @cached_property
    def test_users(self) -> int:
        """Number of users of TEST."""
        users = self.test.rows.user
        return int(self.test.engine.fetch(users.nunique().as_table())[0][0].as_py())

    @cached_property
    def graphs(self) -> Graphs:
        """Both sides and all subjects with numbers in place of texts, for compiled work."""
        from querycloak.evaluation.graphs import Graphs

        return Graphs(self.train, self.test, self.subjects)


@dataclass(frozen=True, eq=False)
class CaseScores:
    """Scores of the task's cases for one measure; a case is a user's search, session or query in TEST.

    `scores` is NaN where a case was not answered; `users` numbers the cases' users from 0. `units` numbers what is
    counted as a case where that is more than one score (the session of a prefix). `weights` are the cases' own.
    Where a case is `pooled` over users it is drawn as a whole, and `users` numbers cases.
    """

    measure: Measure
    scores: Floats
    users: Numbers
    slice: str | None = None
    units: Numbers | None = None
    weights: Floats | None = None
    pooled: bool = False


@dataclass(frozen=True)
class Figure:
    """A value that is already whole, with an interval where there is one; or the reason why there is none."""

    measure: Measure
    value: float | None
    slice: str | None = None
    low: float | None = None
    high: float | None = None
    cases: int | None = None
    answered: int | None = None
    why: str | None = None
    reading: str = field(default="all")


class Prepared(Protocol):
    """A task that knows TRAIN and TEST."""

    def scores(self, subject: Subject) -> Iterable[CaseScores | Figure]:
        """Scores of the subject; called only if `unsupported_reason` is None."""
        ...


class Task(Protocol):
    """A use of a release, with its measures."""

    name: ClassVar[str]
    summary: ClassVar[str]

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Its measures: name, meaning, citation, and whether higher or lower is better."""
        ...

    @property
    def readings(self) -> tuple[str, ...]:
        """Its readings: `READINGS` for scores of cases, `all` alone for whole figures."""
        ...

    def unsupported_reason(self, subject: Subject) -> str | None:
        """Reason that the subject cannot do it, with one that could; None if it can. Reads no row."""
        ...

    def prepare(self, logs: Logs) -> Prepared:
        """The cases of TEST, and the data that all subjects share."""
        ...


GROUP = "querycloak.tasks"
"""The group of entry points by which a package adds tasks: name = "module:Class" (docs/own-task.md)."""


TASKS: Mapping[str, str] = {
    "suggestion": "querycloak.evaluation.tasks.suggestion:Suggestion",
    "completion": "querycloak.evaluation.tasks.completion:Completion",
    "language": "querycloak.evaluation.tasks.language:Language",
    "retrieval-walk": "querycloak.evaluation.tasks.retrieval:RetrievalWalk",
    "retrieval-feedback": "querycloak.evaluation.tasks.retrieval_feedback:RetrievalFeedback",
    "ranking": "querycloak.evaluation.tasks.ranking:Ranking",
    "counts": "querycloak.evaluation.tasks.counts:Counts",
    "pairs": "querycloak.evaluation.tasks.pairs:Pairs",
    "profiles": "querycloak.evaluation.tasks.profiles:Profiles",
    "loss": "querycloak.evaluation.tasks.loss:Loss",
    "click-model": "querycloak.evaluation.tasks.click_model:ClickModel",
}
"""The class of each task, in the order in which they are shown; it is imported when the task is asked for.

A task that the page of a comparison shows also has a view in `comparison/comparison_views.py`.
"""


def measures() -> dict[str, dict[str, Measure]]:
    """Every measure of every task, by name; a measure can be called."""
    return {task.name: {measure.name: measure for measure in task.measures} for task in tasks_named()}


def tasks_named(names: Sequence[str] | None = None) -> list[Task]:
    """The tasks of these names; all if None."""
    added = _added()
    for name in names or ():
        one_of("task", name, (*TASKS, *added))
    return [_task(name, added) for name in names or (*TASKS, *added)]


def _task(name: str, added: Mapping[str, EntryPoint]) -> Task:
    if name in added:
        return _loaded(added[name])
    module, class_name = TASKS[name].split(":")
    task: Task = getattr(import_module(module), class_name)()
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
