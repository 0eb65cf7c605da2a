"""The page of a comparison, and the one call that makes both."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from querycloak.comparison.comparison import Comparison, run_comparison
from querycloak.comparison.comparison_folder import PAGE
from querycloak.comparison.comparison_plan import (
    DELTA,
    EPSILONS,
    PlannedRelease,
    checked_budgets,
    releases_in,
    usual_releases,
)
from querycloak.comparison.comparison_summary import ReleaseSummary, Summary, summary_of
from querycloak.comparison.comparison_views import ATTACK_VIEWS, TASK_VIEWS
from querycloak.comparison.published_runs import published
from querycloak.extras import COMPARE, require
from querycloak.logs.searchlog import Log, OnStep, SearchLog, read
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
from querycloak.privacy.parameters import of_kind, path_of, refuse
from querycloak.releases.versions import versions


def compare(
    log: SearchLog | Log,
    out: str | os.PathLike[str],
    *,
    epsilon: float | Sequence[float] = EPSILONS,
    delta: float = DELTA,
    releases: str | os.PathLike[str] | Sequence[PlannedRelease] | None = None,
    truth: str | os.PathLike[str] | None = None,
    on_step: OnStep | None = None,
) -> Comparison:
    """Release a log with every method, evaluate and attack the releases, and write a private folder with a page.

    epsilon: one budget or several. releases: a TOML file, or what is planned, in place of every method. truth: what is
    known to be sensitive. A comparison that was stopped goes on if it is called again in the same way.
    """
    require(COMPARE, "a comparison")
    plan = planned(epsilon, delta, releases)
    target, known = path_of("out", out), None if truth is None else path_of("truth", truth)
    with ExitStack() as stack:
        opened = log if isinstance(log, SearchLog) else stack.enter_context(read(log))
        return compare_opened(opened, target, plan, truth=known, on_step=on_step)


def planned(
    epsilon: float | Sequence[float],
    delta: float,
    releases: str | os.PathLike[str] | Sequence[PlannedRelease] | None,
) -> list[PlannedRelease]:
    """The releases to make: those given, or every method at each budget."""
    if isinstance(releases, str | os.PathLike):
        return releases_in(Path(releases))
    if releases is not None:
        of_kind("releases", releases, Sequence, "planned releases, or a TOML file", "leave it out for every method")
        for each in releases:
            of_kind("releases", each, PlannedRelease, "planned releases", "leave it out for every method")
        return list(releases)
    of_kind("epsilon", epsilon, (int, float, Sequence), "a budget, or several", "such as 8")
    several = [epsilon] if isinstance(epsilon, int | float) else list(epsilon)
    return list(usual_releases(*checked_budgets(several, delta)))


def compare_opened(
    log: SearchLog,
    out: Path,
    plan: Sequence[PlannedRelease],
    *,
    truth: Path | None,
    demo: bool = False,
    on_step: OnStep | None = None,
    interrupted: Callable[[], bool] = lambda: False,
) -> Comparison:
    """Run a comparison to its end, and write its page."""
    require(COMPARE, "a comparison")
    if truth is not None and not (truth / "sensitive.parquet").is_file():
        refuse("truth", "a folder with sensitive.parquet", str(truth), "LOG.truth of a synthetic log is one")
    found = run_comparison(log, out, plan, truth=truth, demo=demo, on_step=on_step, interrupted=interrupted)
    write_page(comparison_page(found), found.folder / PAGE, private=True)
    return found


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
    own = ("asked", "alike", "drawn")
    return [each for each in summary.made if each.facts["rows"] in own and (each.facts["secrets"] or {}).get("example")]
