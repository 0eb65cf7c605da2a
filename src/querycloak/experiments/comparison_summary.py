"""A comparison in a few figures for each release: what is left of each task, what each attack gains, what is promised.

A figure knows its row in the table that it comes from, so that a page can be compared with the tables. For each task
and attack one measure and one setting stand for the others, chosen here and not by what came out: the largest of many
would be a matter of luck.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from querycloak.audits.log_baselines import K_ANONYMITY, MIN_USERS, ORIGINAL, PSEUDONYMS
from querycloak.experiments.comparison import Comparison

__all__ = ["ATTACK_VIEWS", "TASK_VIEWS", "Gained", "Kept", "ReleaseSummary", "Summary", "summary_of"]


class TaskView(NamedTuple):
    """How a task is shown: the measure that stands for it, and how its value becomes a share of what the log gives.

    share: `of-original`, the value divided by the original's; `itself`; or `loss`, one minus the value.
    """

    title: str
    noun: str
    words: str
    measure: str
    slices: tuple[str | None, ...]
    share: str


TASK_VIEWS: Mapping[str, TaskView] = {
    "completion": TaskView(
        "Completion", "query completion", "completing what somebody types", "Success@10", (None,), "of-original",
    ),
    "suggestion": TaskView(
        "Suggestion", "query suggestion", "suggesting the next query", "R@5", (None,), "of-original",
    ),
    "retrieval-walk": TaskView(
        "Search, by a walk", "search by a walk over clicks", "finding results by clicks", "nDCG@10", (None,),
        "of-original",
    ),
    "retrieval-feedback": TaskView(
        "Search, by feedback", "search by feedback", "ordering results by feedback", "nDCG@10", (None,), "of-original",
    ),
    "ranking": TaskView(
        "Order of results", "the order of results", "ordering a query's results", "tau-b", (None,), "of-original",
    ),
    "counts": TaskView(
        "Volume", "the volume", "keeping the volume of searches", "volume_share",
        ("table=queries", "table=clicks", "table=sessions", "table=transitions"), "itself",
    ),
    "pairs": TaskView(
        "Frequent pairs", "frequent pairs", "keeping frequent pairs", "recall", ("support=0.0005",), "itself",
    ),
    "profiles": TaskView(
        "Interests", "interests", "keeping what people are interested in", "pooled_loss", ("topics=19",), "loss",
    ),
    "loss": TaskView("Words", "words", "keeping the words that were typed", "ncp", (None,), "loss"),
}  # fmt: skip
_OTHER_TEXTS = ("generalised", "replaced", "rebuilt", "noised")
JUDGED = ("completion", "suggestion", "retrieval-walk", "retrieval-feedback", "ranking")
"""Tasks that other people's searches judge; one of them stands for all in the picture of the trade-off."""


class AttackView(NamedTuple):
    """How an attack is shown: the setting that stands for it, by its beginning; what happens to a person, and how."""

    title: str
    setting: str
    being: str
    how: str


ATTACK_VIEWS: Mapping[str, AttackView] = {
    "singling-out": AttackView(
        "Singling out", "m=5 random released", "being singled out by five of one's searches",
        "Somebody knows five searches of a person. Of those that the release holds, exactly one name has them all.",
    ),
    "linkage-records": AttackView(
        "Linking records", "50 users, recall 0.85", "having one's records linked",
        "Names are taken off. A model that has learnt from other people says which records are of one person.",
    ),
    "linkage-periods": AttackView(
        "Linking periods", "top 1 ", "being found again in another period",
        "Somebody has a log of the same people from another time and looks for each of them here.",
    ),
    "inference": AttackView(
        "Inference", "m=5 disease", "having an interest in diseases guessed",
        "Somebody knows five searches of a person, none about a disease, and guesses whether there are such searches.",
    ),
    "membership": AttackView(
        "Membership", "area under the curve", "being found to be in the log at all",
        "Somebody knows everybody else's rows, the method and its bounds, and asks whether a person is in the log.",
    ),
    "secrets": AttackView(
        "Secrets", "all kinds", "having a secret come out word for word",
        "Names, numbers and rare diseases that were planted: which of them stand in the release as they were typed?",
    ),
    "reconstruction": AttackView(
        "Reconstruction", "any row", "having what one asked about read off",
        "The rows under a person's name are taken at their word: is it what that person asked about?",
    ),
}  # fmt: skip
"""Attacks on people. Texts that accounts force out, and leaks of a folder, are no risk of one person: told apart."""


@dataclass(frozen=True)
class Kept:
    """What is left of a task: the value in a row of the evaluation, and the share of what the log itself gives."""

    row: int
    value: float | None
    share: float | None = None
    low: float | None = None
    high: float | None = None
    why: str | None = None


@dataclass(frozen=True)
class Gained:
    """What an attack gains, in a row of the audit; `idle` if it is no better than without the release."""

    attack: str
    row: int
    risk: float | None
    low: float | None = None
    high: float | None = None
    why: str | None = None
    idle: bool = False

    @property
    def shown(self) -> float | None:
        """The risk; 0 where the attack is idle, for then it shows none."""
        return 0.0 if self.idle else self.risk


@dataclass(frozen=True)
class ReleaseSummary:
    """One release, or what stands beside all releases."""

    name: str
    label: str
    promise: str
    """`user`, `asked`, `step`, `rule`, `none` (the log itself), `failed`."""
    facts: Mapping[str, Any]
    tasks: Mapping[str, Kept]
    attacks: Mapping[str, Gained]

    @property
    def epsilon(self) -> float | None:
        """The epsilon that it was asked for."""
        value = self.facts.get("options", {}).get("epsilon")
        return float(value) if isinstance(value, int | float) else None

    def fits(self, attack: str) -> bool:
        """Whether an attack says something about it: rows that hold what was asked need no reconstruction."""
        return attack != "reconstruction" or self.facts.get("rows") in _OTHER_TEXTS

    @property
    def worst(self) -> Gained | None:
        """The attack that gains most; of those that gain nothing, the one that is least sure of it."""
        told = [each for each in self.attacks.values() if each.shown is not None and self.fits(each.attack)]
        return max(told, key=lambda each: (each.shown or 0.0, each.high or 0.0), default=None)

    @property
    def tables(self) -> Mapping[str, Any]:
        """Its tables, with a few rows of each."""
        return dict(self.facts.get("examples", {}))

    @property
    def has_nothing(self) -> bool:
        """Whether no row came out at all."""
        return not any(table["rows"] for table in self.tables.values())


@dataclass(frozen=True, eq=False)
class Summary:
    """A comparison in a few figures."""

    comparison: Comparison
    beside: tuple[ReleaseSummary, ...]
    releases: tuple[ReleaseSummary, ...]

    @cached_property
    def made(self) -> tuple[ReleaseSummary, ...]:
        """The releases that were made."""
        return tuple(each for each in self.releases if each.promise != "failed")

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """The budgets that were tried."""
        return tuple(sorted({each.epsilon for each in self.releases if each.epsilon is not None}))

    @cached_property
    def main_task(self) -> str:
        """The task of the picture: the one that most releases can do, the first of these."""
        return max(JUDGED, key=lambda task: sum(_told(each, task) is not None for each in self.made))

    def best(self, task: str, *promises: str) -> ReleaseSummary | None:
        """The release of such a promise that keeps most of a task; nothing if none keeps anything of it."""
        able = [each for each in self.made if each.promise in promises and (_told(each, task) or 0.0) > 0]
        return max(able, key=lambda each: _told(each, task) or 0.0, default=None)


def _told(release: ReleaseSummary, task: str) -> float | None:
    found = release.tasks.get(task)
    return None if found is None else found.share


def summary_of(comparison: Comparison) -> Summary:
    """The figures that stand for a comparison."""
    evaluation, audit = comparison.evaluation.to_pylist(), comparison.audit.to_pylist()
    reader = _Reader(evaluation, audit)
    beside = (
        reader.release(ORIGINAL, "the log itself", "none", {}),
        reader.release(PSEUDONYMS, "the log, other names", "none", {}),
        reader.release(K_ANONYMITY, f"k-anonymity, k = {MIN_USERS}, all tables", "rule", {}),
    )
    listed = comparison.about["releases"]
    made = tuple(reader.release(each["name"], label_of(each), promise_of(each), each) for each in listed)
    return Summary(comparison, beside, made)


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
        found = [place for place in places if place is not None]
        if not found:
            return None
        told = [place for place in found if self._evaluation[place]["value"] is not None]
        row = self._evaluation[(told or found)[0]]
        if not told:
            return Kept(found[0], None, why=row["why"])
        original = self._original(task, row["slice"]) if view.share == "of-original" else 1.0
        if not original:
            return Kept(told[0], row["value"], why="the log itself gives nothing here")
        return Kept(told[0], row["value"], *_shares(view.share, row, original))

    def _original(self, task: str, part: str | None) -> float | None:
        place = self._values.get((ORIGINAL, task, TASK_VIEWS[task].measure, part))
        value = None if place is None else self._evaluation[place]["value"]
        return value if value is not None and value > 0 else None

    def _gained(self, name: str, attack: str) -> Gained | None:
        places = self._settings.get((name, attack), [])
        if not places:
            return None
        wanted = [place for place in places if (self._audit[place]["setting"] or "").startswith(_setting(attack))]
        exact = [place for place in wanted if self._audit[place]["setting"] == _setting(attack)]
        place = (exact or wanted or places)[0]
        row = self._audit[place]
        idle = row["risk"] is not None and row["why"] is not None
        return Gained(attack, place, row["risk"], row["low"], row["high"], row["why"], idle)


def _setting(attack: str) -> str:
    return ATTACK_VIEWS[attack].setting


def _shares(kind: str, row: Mapping[str, Any], original: float) -> tuple[float, float | None, float | None]:
    """The share of what the log gives, with both ends of its interval; the original is taken as it is."""
    ends = [row["value"], row["low"], row["high"]]
    if kind == "loss":
        value, high, low = (None if end is None else 1 - end for end in ends)
    else:
        value, low, high = (None if end is None else max(end, 0.0) / original for end in ends)
    return value or 0.0, low, high


def promise_of(facts: Mapping[str, Any]) -> str:
    """What kind of promise stands behind a release."""
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
    if facts["name"] not in _usual_names(facts):
        return str(facts["name"])
    if "epsilon" in options:
        return f"{facts['method']}{published}, ε = {options['epsilon']:g}"
    if "min_users" in options:
        return f"{facts['method']}{published}, k = {options['min_users']}"
    return f"{facts['method']}{published}"


def _usual_names(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Names that say nothing beyond method and budget; somebody's own names are shown as they are."""
    options, method = facts["options"], facts["method"]
    end = f"-e{options['epsilon']:g}" if "epsilon" in options else f"-k{options.get('min_users')}"
    return (f"{method}{end}", f"{method}{end}-paper", f"{method}-paper", method)
