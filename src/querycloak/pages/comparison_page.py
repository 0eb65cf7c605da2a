"""The page of a comparison."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from querycloak.comparison.comparison import Comparison
from querycloak.comparison.comparison_folder import PAGE
from querycloak.comparison.comparison_summary import ReleaseSummary, Summary, summary_of
from querycloak.comparison.comparison_views import ATTACK_VIEWS, TASK_VIEWS
from querycloak.comparison.published_runs import published
from querycloak.pages.budget_curves import curves
from querycloak.pages.comparison_pictures import (
    PROMISES,
    attacks_picture,
    attacks_run,
    missing_in_tradeoff,
    tasks_picture,
    tradeoff,
)
from querycloak.pages.layout import environment, render, write_page
from querycloak.pages.shown_text import PERCENT
from querycloak.privacy.explanation import explain
from querycloak.privacy.guarantee import Guarantee
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.versions import versions


def write_comparison_page(comparison: Comparison) -> None:
    """Write the page into the comparison's folder."""
    write_page(comparison_page(comparison), comparison.folder / PAGE, private=True)


def comparison_page(comparison: Comparison) -> str:
    """The whole page."""
    summary = summary_of(comparison)
    about = comparison.about
    return render(
        "comparison.html",
        title="One log, released in every way",
        private=True,
        headline=headline(summary),
        summary=summary,
        demo=about["demo"],
        log=_sides(about["log"]),
        picture=tradeoff(summary),
        missing=missing_in_tradeoff(summary),
        tasks_picture=tasks_picture(summary),
        attacks_picture=attacks_picture(summary),
        curves=curves(summary),
        task_views=TASK_VIEWS,
        attack_views={name: ATTACK_VIEWS[name] for name in attacks_run(summary)},
        promises=PROMISES,
        published=published,
        people=list(for_one_person(summary)),
        all_attack_views=ATTACK_VIEWS,
        choices=list(summary.choices()),
        forced=_forced(summary),
        leaks=[row for row in comparison.audit.to_pylist() if row["attack"] == "leaks" and row["risk"]],
        alarms=comparison.alarms,
        failures=comparison.failures,
        examples=[each for each in summary.made if each.tables],
        let_out=_let_out(summary),
        seconds=about["seconds"],
        version=versions()["querycloak"],
    )


def headline(summary: Summary) -> str:
    """The best trade-offs, with and without a guarantee, in one sentence."""
    task = summary.main_task
    words: Any = environment().get_template("comparison_words.html").module
    guaranteed, rule = summary.best(task, "user"), summary.best(task, "rule", "step")
    return Markup(words.headline(summary, guaranteed, rule, TASK_VIEWS[task], ATTACK_VIEWS))


class OnePromise(NamedTuple):
    """Releases with the same promise, and its first paragraphs: what somebody can come to believe."""

    releases: tuple[ReleaseSummary, ...]
    promise: tuple[str, ...]


def for_one_person(summary: Summary) -> Iterator[OnePromise]:
    """A part for each promise that some release makes."""
    groups: dict[tuple[str, ...], list[ReleaseSummary]] = {}
    for release in summary.made:
        groups.setdefault(_promise(release), []).append(release)
    for promise, releases in groups.items():
        yield OnePromise(tuple(releases), promise)


def _promise(release: ReleaseSummary) -> tuple[str, ...]:
    text = explain(Guarantee.from_json(dict(release.facts["proven"])))
    return tuple(text.replace(" %", PERCENT).split("\n\n")[:3])


_BESIDE = " beside a frequent word"


def _sides(files: Mapping[str, Any]) -> dict[str, Any]:
    train, test = (files[f"{side}.parquet"] for side in ("train", "test"))
    return {"train": train, "test": test, "users": train["users"] + test["users"]}


def _forced(summary: Summary) -> dict[str, list[str]]:
    """Releases by the number of accounts that bring out a text."""
    settings: dict[str, list[str]] = {}
    for row in summary.comparison.audit.to_pylist():
        if row["attack"] == "forced-out":
            settings.setdefault(row["release"], []).extend([row["setting"]] if row["setting"] else [])
    names: dict[str, list[str]] = {}
    for release in (each for each in summary.made if each.name in settings):
        names.setdefault(accounts_in_words(settings[release.name]), []).append(release.in_sentence)
    return {accounts: names[accounts] for accounts in sorted(names, key=_number_in)}


def accounts_in_words(settings: Sequence[str]) -> str:
    """The accounts that one text needs, from the settings of the attack: the first one, and one beside a word."""
    if not settings:
        return "no number of accounts"
    accounts, _, what = settings[0].partition(", 1 ")
    beside = [each.split()[0] for each in settings if each.endswith(_BESIDE)]
    if beside and beside[0] != accounts.split()[0]:
        return f"{accounts} ({beside[0]}{_BESIDE})"
    return accounts if what == "text" else f"{accounts} (a {what})"


def _number_in(accounts: str) -> int:
    first = accounts.split(maxsplit=1)[0]
    return int(first) if first.isdigit() else sys.maxsize


def _let_out(summary: Summary) -> list[ReleaseSummary]:
    """Releases that let out a secret in somebody's own words."""
    return [each for each in summary.made if _own_words(each) and (each.facts["secrets"] or {}).get("example")]


def _own_words(release: ReleaseSummary) -> bool:
    rows = RowKind(release.facts["rows"])
    return rows.is_verbatim and rows.is_personal
