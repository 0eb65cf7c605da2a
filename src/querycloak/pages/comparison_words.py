"""What a comparison found, in sentences that are made from its figures; nothing here is said of every log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from querycloak.comparison.comparison_summary import Gained, ReleaseSummary, Summary
from querycloak.comparison.comparison_views import ATTACK_VIEWS, TASK_VIEWS
from querycloak.pages.shown_text import PERCENT, shown_share
from querycloak.privacy.explanation import explain
from querycloak.privacy.guarantee import Guarantee

GUARANTEED = ("user", "asked")
NO_BREAK = "\u00a0"
_LITTLE = 0.01


def said(release: ReleaseSummary) -> str:
    """A release within a sentence: clicks (ε = 8)."""
    name, comma, budget = release.label.partition(", ")
    return f"{name} ({budget.replace(' ', NO_BREAK)})" if comma else name


def headline(summary: Summary) -> str:
    """What was found, in one sentence."""
    task = summary.main_task
    noun = TASK_VIEWS[task].noun
    with_guarantee, by_rule = summary.best(task, "user"), summary.best(task, "rule", "step")
    if with_guarantee is None:
        start = f"No release with a guarantee for a user keeps anything of {noun} on this log"
    else:
        start = (
            f"With a guarantee, {said(with_guarantee)} keeps {_share(with_guarantee, task)} of {noun} at a measured "
            f"risk of {_risk(with_guarantee)}"
        )
    if by_rule is None:
        return f"{start}."
    of_what = f" of {noun}" if with_guarantee is None else ""
    beside = f"{said(by_rule)} keeps {_share(by_rule, task)}{of_what} at a risk of {_risk(by_rule)}"
    return f"{start}; without one, {beside}."


def _share(release: ReleaseSummary, task: str) -> str:
    return shown_share(release.tasks[task].share)


def _risk(release: ReleaseSummary) -> str:
    worst = release.worst
    return shown_share(worst.shown if worst is not None and worst.shown else 0)


@dataclass(frozen=True)
class ForOnePerson:
    """What some releases mean for somebody in the log: what is promised, in words, and what was measured of each."""

    title: str
    promise: tuple[str, ...]
    measured: tuple[str, ...]


def for_one_person(summary: Summary) -> Iterator[ForOnePerson]:
    """A part for each promise that some release makes."""
    groups: dict[tuple[str, ...], list[ReleaseSummary]] = {}
    for release in summary.made:
        groups.setdefault(_promise(release), []).append(release)
    for members in groups.values():
        first = members[0]
        listed = _listed([said(each) for each in members])
        yield ForOnePerson(listed, _promise(first), tuple(_measured(each) for each in members))


def _promise(release: ReleaseSummary) -> tuple[str, ...]:
    """The first paragraphs of what is promised: what somebody can come to believe."""
    said = explain(Guarantee.from_json(dict(release.facts["proven"])))
    return tuple(said.replace(" %", PERCENT).split("\n\n")[:3])


def _measured(release: ReleaseSummary) -> str:
    worst = release.worst
    if worst is None:
        return f"{said(release)}: no attack that was tried could be run on it."
    if not worst.shown:
        return f"{said(release)}: no attack that was tried gains anything on a person in it{_sure(worst)}."
    return (
        f"{said(release)}: the largest risk is {shown_share(worst.shown)}, of {ATTACK_VIEWS[worst.attack].being}"
        f"{_sure(worst)}."
    )


def _sure(gained: Gained) -> str:
    return "" if gained.high is None else f" (95{PERCENT} interval up to {shown_share(gained.high)})"


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


@dataclass(frozen=True)
class Choice:
    """What to take for a need, by this log's figures; `beside` is what a rule would keep, and its risk."""

    need: str
    task: str
    take: ReleaseSummary | None
    beside: ReleaseSummary | None


def choices(summary: Summary) -> Iterator[Choice]:
    """For each task the release with a guarantee that keeps most of it, and a rule if that keeps more."""
    for task, view in TASK_VIEWS.items():
        take = summary.best(task, *GUARANTEED)
        if take is not None and (take.tasks[task].share or 0.0) < _LITTLE:
            take = None
        beside = summary.best(task, "rule")
        kept = 0.0 if take is None else take.tasks[task].share or 0.0
        if beside is not None and (beside.tasks[task].share or 0.0) <= kept:
            beside = None
        yield Choice(view.words[0].upper() + view.words[1:], task, take, beside)
