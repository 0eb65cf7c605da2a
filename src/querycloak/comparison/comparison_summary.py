"""Summary of a comparison: for each release its utility by task, its risk by attack, its guarantee.

A figure knows its row in the table that it comes from, so that a page can be compared with the tables. Which measure
and which setting stand for a task and an attack: `comparison_views`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from querycloak.comparison.comparison import Comparison
from querycloak.comparison.comparison_plan import DMA
from querycloak.comparison.comparison_views import ATTACK_VIEWS, JUDGED, TASK_VIEWS
from querycloak.evaluation.task import K_ANONYMITY, NO_DATA, ORIGINAL, PSEUDONYMS
from querycloak.releases.row_kinds import RowKind

_OLD_RULE = (
    "What was shared under the EU's DMA until 2026: queries of 30 users, and of these what 5 users clicked. The rule "
    "of July 2026 is about records; its numbers are not known to us."
)
GUARANTEED = ("user", "asked")
"""Promises of differential privacy."""
_NO_BREAK = "\u00a0"
_LITTLE = 0.01
"""A trade-off below this is as good as none."""


@dataclass(frozen=True)
class Kept:
    """Remaining utility of a task: the value in a row of the evaluation, and its share of the log's own value.

    `coverage`: share of cases with an answer; None where a task has no cases. `added`: the share minus that of the rule
    without data; None where one of them has no value.
    """

    row: int
    value: float | None
    share: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    coverage: float | None = None
    added: float | None = None

    @property
    def is_finding(self) -> bool:
        """True if the share means something: its 95 % interval is narrower than the axis from 0 to 100 %."""
        return self.share is not None and not _across(self.low, self.high)


@dataclass(frozen=True)
class Gained:
    """Gain of an attack, in a row of the audit; `idle` if it is no better than without the release."""

    attack: str
    row: int
    risk: float | None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    idle: bool = False

    @property
    def shown(self) -> float | None:
        """The risk; 0 if the attack is idle, because it shows nothing then."""
        return 0.0 if self.idle else self.risk

    @property
    def is_finding(self) -> bool:
        """True if the risk means something: its 95 % interval is narrower than the axis from 0 to 100 %."""
        return self.shown is not None and not _across(self.low, self.high)


@dataclass(frozen=True)
class ReleaseSummary:
    """Figures of one release or baseline."""

    name: str
    label: str
    promise: str
    """`user`, `asked`, `step`, `rule`, `none` (the log itself), `public` (no log is read), `failed`."""
    facts: Mapping[str, Any]
    tasks: Mapping[str, Kept]
    attacks: Mapping[str, Gained]

    @property
    def epsilon(self) -> float | None:
        """The epsilon that it was asked for."""
        value = self.facts.get("options", {}).get("epsilon")
        return float(value) if isinstance(value, int | float) else None

    @property
    def in_sentence(self) -> str:
        """The release within a sentence: clicks (ε = 8), without line breaks in the budget."""
        name, comma, budget = self.label.partition(", ")
        return f"{name} ({budget.replace(' ', _NO_BREAK)})" if comma else name

    def fits(self, attack: str) -> bool:
        """False for an empty release, and for reconstruction of a release whose texts are verbatim; else True."""
        if self.is_empty:
            return False
        return attack != "reconstruction" or not RowKind(self.facts.get("rows", RowKind.ASKED)).is_verbatim

    @property
    def risk(self) -> float:
        """The largest risk that an attack showed; 0 if none gains anything or none could be run."""
        return (self.worst.shown if self.worst is not None else None) or 0.0

    def trade_off(self, task: str) -> float:
        """The share of a task that is kept, 100 % at most, times 1 - risk; 0 where share or risk is no finding."""
        kept = self.tasks.get(task)
        if kept is None or kept.share is None or not kept.is_finding:
            return 0.0
        if self.worst is None and any(each.shown is not None for each in self.attacks.values()):
            return 0.0
        return min(kept.share, 1.0) * (1 - self.risk)

    @property
    def worst(self) -> Gained | None:
        """The attack that gains most, or of those that gain nothing the least sure; None if none is a finding."""
        run = [each for each in self.attacks.values() if each.is_finding and self.fits(each.attack)]
        return max(run, key=lambda each: (each.shown or 0.0, each.high or 0.0), default=None)

    @property
    def tables(self) -> Mapping[str, Any]:
        """Its tables, with a few rows of each."""
        return dict(self.facts.get("examples", {}))

    @property
    def what(self) -> str:
        """Description in a sentence or two."""
        return _OLD_RULE if self.name == DMA.name else str(self.facts["summary"])

    @property
    def is_empty(self) -> bool:
        """True if it has tables, and no row in any of them."""
        return bool(self.tables) and not any(table["rows"] for table in self.tables.values())


@dataclass(frozen=True, eq=False)
class Summary:
    """A comparison in a few figures."""

    comparison: Comparison
    baselines: tuple[ReleaseSummary, ...]
    """The log itself, the log under other names, plain k-anonymity, and the rule without data."""
    releases: tuple[ReleaseSummary, ...]

    @cached_property
    def made(self) -> tuple[ReleaseSummary, ...]:
        """The releases that were made."""
        return tuple(each for each in self.releases if each.promise != "failed")

    @property
    def without_data(self) -> ReleaseSummary:
        """The rule without any log; it has no tasks in comparisons that older versions made."""
        return self.baselines[-1]

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets that were tried."""
        return tuple(sorted({each.epsilon for each in self.releases if each.epsilon is not None}))

    @cached_property
    def main_task(self) -> str:
        """The task of the picture: the one that most releases can do, the first of these."""
        return max(JUDGED, key=lambda task: sum(_share(each, task) is not None for each in self.made))

    def best(self, task: str, *promises: str) -> ReleaseSummary | None:
        """The release of such a promise with the best trade-off for a task; None if each is as good as none."""
        able = [each for each in self.made if each.promise in promises and each.trade_off(task) >= _LITTLE]
        return max(able, key=lambda each: each.trade_off(task), default=None)

    def choices(self) -> Iterator[TaskChoice]:
        """Best trade-off by task: the release with a guarantee, and a rule without one if its trade-off is better."""
        for task in TASK_VIEWS:
            take, rule = self.best(task, *GUARANTEED), self.best(task, "rule")
            reached = 0.0 if take is None else take.trade_off(task)
            yield TaskChoice(task, take, rule if rule is not None and rule.trade_off(task) > reached else None)


@dataclass(frozen=True)
class TaskChoice:
    """The release to take for a task, by this log's figures; `rule`: one without a guarantee, if it is better."""

    task: str
    take: ReleaseSummary | None
    rule: ReleaseSummary | None


def _across(low: float | None, high: float | None) -> bool:
    """True for an interval as wide as the axis."""
    return low is not None and high is not None and high - low >= 1


def _share(release: ReleaseSummary, task: str) -> float | None:
    kept = release.tasks.get(task)
    return None if kept is None else kept.share


def summary_of(comparison: Comparison) -> Summary:
    """The figures that stand for a comparison."""
    evaluation, audit = comparison.evaluation.to_pylist(), comparison.audit.to_pylist()
    reader = _Reader(evaluation, audit)
    baselines = (
        reader.release(ORIGINAL, "the log itself", "none", {}),
        reader.release(PSEUDONYMS, "the log, other names", "none", {}),
        reader.release(K_ANONYMITY, "k-anonymity, all tables", "rule", {}),
        reader.release(NO_DATA, "no data", "public", {}),
    )
    listed = comparison.about["releases"]
    made = tuple(reader.release(each["name"], label_of(each), promise_of(each), each) for each in listed)
    return Summary(comparison, baselines, made)


class _Reader:
    """Rows of both tables, by release."""

    def __init__(self, evaluation: Sequence[Mapping[str, Any]], audit: Sequence[Mapping[str, Any]]) -> None:
        self._evaluation, self._audit = evaluation, audit
        self._values = {
            (row["release"], row["task"], row["measure"], row["slice"]): number
            for number, row in enumerate(evaluation)
            if row["reading"] == "all"
        }
        self._settings: dict[tuple[str, str], list[int]] = {}
        for number, row in enumerate(audit):
            self._settings.setdefault((row["release"], row["attack"]), []).append(number)

    def release(self, name: str, label: str, promise: str, facts: Mapping[str, Any]) -> ReleaseSummary:
        """The figures of one release."""
        tasks = {task: self._kept(name, task) for task in TASK_VIEWS}
        attacks = {attack: self._gained(name, attack) for attack in ATTACK_VIEWS}
        return ReleaseSummary(
            name, label, promise, facts,
            {task: kept for task, kept in tasks.items() if kept is not None},
            {attack: gained for attack, gained in attacks.items() if gained is not None},
        )  # fmt: skip

    def _kept(self, name: str, task: str) -> Kept | None:
        view = TASK_VIEWS[task]
        places = [self._values.get((name, task, view.measure, part)) for part in (*view.slices, None)]
        listed = [place for place in places if place is not None]
        if not listed:
            return None
        valued = [place for place in listed if self._evaluation[place]["value"] is not None]
        row = self._evaluation[(valued or listed)[0]]
        if not valued:
            return Kept(listed[0], None, why=row["why"])
        original = self._original(task, row["slice"]) if view.share == "of-original" else 1.0
        if not original:
            return Kept(valued[0], row["value"], why="the log itself gives nothing here")
        share, low, high = _shares(view.share, row, original)
        without_data = self._without_data(task, row["slice"], original)
        return Kept(
            valued[0], row["value"], share, low, high, None, _coverage(row) if task in JUDGED else None,
            None if without_data is None or name == NO_DATA else share - without_data,
        )  # fmt: skip

    def _without_data(self, task: str, part: str | None, original: float) -> float | None:
        """The share that the rule without data reaches in the same slice."""
        view = TASK_VIEWS[task]
        place = self._values.get((NO_DATA, task, view.measure, part))
        if place is None or self._evaluation[place]["value"] is None:
            return None
        return _shares(view.share, self._evaluation[place], original)[0]

    def _original(self, task: str, part: str | None) -> float | None:
        """The log's own value; None unless it is above 0."""
        place = self._values.get((ORIGINAL, task, TASK_VIEWS[task].measure, part))
        value = None if place is None else self._evaluation[place]["value"]
        return value if value is not None and value > 0 else None

    def _gained(self, name: str, attack: str) -> Gained | None:
        places = self._settings.get((name, attack), [])
        if not places:
            return None
        setting = ATTACK_VIEWS[attack].setting
        wanted = [place for place in places if (self._audit[place]["setting"] or "").startswith(setting)]
        exact = [place for place in wanted if self._audit[place]["setting"] == setting]
        place = (exact or wanted or places)[0]
        row = self._audit[place]
        idle = row["risk"] is not None and row["why"] is not None
        return Gained(attack, place, row["risk"], row["low"], row["high"], row["why"], idle)


def _coverage(row: Mapping[str, Any]) -> float | None:
    return row["answered"] / row["cases"] if row["cases"] and row["answered"] is not None else None


def _shares(kind: str, row: Mapping[str, Any], original: float) -> tuple[float, float | None, float | None]:
    """A release's value as a share of the original's, with its interval; the original counts as exact."""
    ends = [row["value"], row["low"], row["high"]]
    if kind == "loss":
        value, high, low = (None if end is None else 1 - end for end in ends)
    else:
        value, low, high = (None if end is None else max(end, 0.0) / original for end in ends)
    return value or 0.0, low, high


def promise_of(facts: Mapping[str, Any]) -> str:
    """Kind of guarantee of a release."""
    if facts["failed"]:
        return "failed"
    proven = facts["proven"]
    if proven["kind"] == "syntactic":
        return "rule"
    if proven["kind"] == "sampling-only":
        return "step"
    return "user" if proven["neighbours"] == "add-remove-user" else "asked"


def label_of(facts: Mapping[str, Any]) -> str:
    """A release by method and budget, as people say it."""
    options = facts["options"]
    published = " as published" if options.get("variant") == "paper" else ""
    if facts["name"] == DMA.name:
        return "k-anonymity, DMA"
    if facts["name"] == f"{facts['method']}-{options.get('preset')}":
        return f"{facts['method']}, {options['preset']}"
    if facts["name"] not in _usual_names(facts):
        return str(facts["name"])
    if "epsilon" in options:
        return f"{facts['method']}{published}, ε = {options['epsilon']:g}"
    if "min_users" in options:
        return f"{facts['method']}{published}, k = {options['min_users']}"
    return f"{facts['method']}{published}"


def _usual_names(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Names made of method and budget only; names from a plan are shown as they are."""
    options, method = facts["options"], facts["method"]
    end = f"-e{options['epsilon']:g}" if "epsilon" in options else f"-k{options.get('min_users')}"
    return (f"{method}{end}", f"{method}{end}-paper", f"{method}-paper", method)
