"""The page of a comparison."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from querycloak.comparison.comparison import Comparison
from querycloak.comparison.comparison_folder import PAGE
from querycloak.comparison.comparison_summary import ReleaseSummary, Summary, summary_of
from querycloak.comparison.comparison_views import ATTACK_VIEWS, TASK_VIEWS
from querycloak.comparison.published_runs import published
from querycloak.pages.budget_curves import curves
from querycloak.pages.comparison_pictures import (
    PROMISES,
    attacks_picture,
    attacks_told,
    missing_in_tradeoff,
    tasks_picture,
    tradeoff,
)
from querycloak.pages.comparison_words import choices, for_one_person, headline, said
from querycloak.pages.layout import render, write_page
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
        attack_views={name: ATTACK_VIEWS[name] for name in attacks_told(summary)},
        promises=PROMISES,
        said=said,
        published=published,
        people=list(for_one_person(summary)),
        choices=list(choices(summary)),
        forced=_forced(summary),
        leaks=[row for row in comparison.audit.to_pylist() if row["attack"] == "leaks" and row["risk"]],
        alarms=comparison.alarms,
        failures=comparison.failures,
        examples=[each for each in summary.made if each.tables],
        let_out=_let_out(summary),
        seconds=about["seconds"],
        version=versions()["querycloak"],
    )


def _sides(files: Mapping[str, Any]) -> dict[str, Any]:
    train, test = (files[f"{side}.parquet"] for side in ("train", "test"))
    return {"train": train, "test": test, "users": train["users"] + test["users"]}


def _forced(summary: Summary) -> dict[str, list[str]]:
    """How many accounts bring out a text, and of which releases: by the first setting, which is about one text."""
    first: dict[str, Mapping[str, Any]] = {}
    for row in summary.comparison.audit.to_pylist():
        if row["attack"] == "forced-out":
            first.setdefault(row["release"], row)
    found: dict[str, list[str]] = {}
    for release in (each for each in summary.made if each.name in first):
        setting = first[release.name]["setting"]
        accounts = (setting or "no number of accounts").removesuffix(", 1 text")
        found.setdefault(accounts, []).append(said(release))
    return {accounts: found[accounts] for accounts in sorted(found, key=_number_in)}


def _number_in(accounts: str) -> int:
    first = accounts.split(maxsplit=1)[0]
    return int(first) if first.isdigit() else sys.maxsize


def _let_out(summary: Summary) -> list[ReleaseSummary]:
    """Releases that let out a secret in somebody's own words."""
    return [each for each in summary.made if _own_words(each) and (each.facts["secrets"] or {}).get("example")]


def _own_words(release: ReleaseSummary) -> bool:
    rows = RowKind(release.facts["rows"])
    return rows.is_verbatim and rows.is_personal
