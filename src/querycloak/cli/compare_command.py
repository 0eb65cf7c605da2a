"""`querycloak compare`: every method on one log, and where the page is."""

from __future__ import annotations

import shlex
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querycloak.cli import generated_options, options
from querycloak.cli.running import say, was_interrupted
from querycloak.cli.terminal import print_json, step_progress
from querycloak.comparison.comparison_views import TASK_VIEWS
from querycloak.errors import CheckFailed, ParameterError
from querycloak.pages.shown_text import NOTHING, PERCENT, shown_share
from querycloak.privacy.parameters import refusal, refuse
from querycloak.privacy.sampling.exact import shown_up
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.comparison.comparison import Comparison
    from querycloak.comparison.comparison_plan import PlannedRelease
    from querycloak.comparison.comparison_summary import ReleaseSummary, Summary

WIDTH = 80
PRIVATE = "PRIVATE OUTPUT: true figures of the log, and experiments. Not for publication."


@generated_options.with_groups
def compare(
    log: options.Logs,
    *,
    out: Annotated[
        Path | None, typer.Option(help="The private folder to write: a new one, or one that the same command began.")
    ] = None,
    epsilon: Annotated[str | None, typer.Option(help="One budget, or several with commas; 8 if not given.")] = None,
    delta: Annotated[float | None, typer.Option(help="The delta of all budgets; 1e-6 if not given.")] = None,
    releases: Annotated[
        Path | None, typer.Option(help="TOML file with [[release]] name, method, options, in place of every method.")
    ] = None,
    truth: Annotated[Path | None, typer.Option(help="What is known to be sensitive; LOG.truth if it is there.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    plan: generated_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Compare every method on one log, as a page (private output)."""
    if out is None:
        refuse("out", "the folder to write", None, "a comparison that was stopped goes on there")
    from querycloak.comparison.comparison import compare_opened
    from querycloak.comparison.comparison_folder import check_folder

    planned = plan_of(epsilon, delta, releases)
    options.check_apart(out, log)
    check_folder(out)
    needed = dict.fromkeys(name for each in planned for name in each.made().attributes)
    prepared = reading.with_attributes(needed).prepared(log)
    known = truth if truth is not None else truth_beside(log)
    try:
        with step_progress("comparing", quiet=quiet or as_json) as on_step, reading.opened(prepared) as opened:
            comparison = compare_opened(opened, out, planned, truth=known, on_step=on_step, interrupted=was_interrupted)
    except KeyboardInterrupt:
        say(f"the comparison goes on where it was if you start it again with --out {shlex.quote(str(out))}")
        raise
    show_comparison(comparison, as_json=as_json, quiet=quiet)


def plan_of(epsilon: str | None, delta: float | None, releases: Path | None) -> list[PlannedRelease]:
    """Plan of a comparison from the typed options."""
    from querycloak.comparison.comparison import planned
    from querycloak.comparison.comparison_plan import DELTA

    if releases is not None and (epsilon is not None or delta is not None):
        raise ParameterError(Sentence("{releases} says what each budget is: leave {epsilon} and {delta} out"))
    return planned(_numbers(epsilon), DELTA if delta is None else delta, releases)


def _numbers(text: str | None) -> Sequence[float]:
    from querycloak.comparison.comparison_plan import EPSILONS

    if text is None:
        return EPSILONS
    try:
        return [float(piece) for piece in text.split(",")]
    except ValueError:
        pass
    raise refusal("epsilon", "one number or several, with commas", text, "such as 1,8")


def truth_beside(logs: Sequence[str]) -> Path | None:
    """The truth about a synthetic log, if it lies beside it."""
    from querycloak.logs.reading.files import TRUTH_ENDING

    beside = [Path(f"{log}{TRUTH_ENDING}") for log in logs]
    return beside[0] if len(beside) == 1 and beside[0].is_dir() else None


def show_comparison(comparison: Comparison, *, as_json: bool, quiet: bool) -> None:
    """Print a short table and the page's place; raise CheckFailed for missing releases and for alarms."""
    from querycloak.cli.terminal import console
    from querycloak.comparison.comparison_folder import PAGE
    from querycloak.comparison.comparison_summary import summary_of

    summary = summary_of(comparison)
    if as_json:
        print_json(_document(summary), allow_nan=False)
    elif not quiet:
        console().print(PRIVATE)
        console().print()
        console().print(short_table(summary))
        console().print(f"\n{legend(summary)}\n\nThe page: {comparison.folder / PAGE}", markup=False, soft_wrap=True)
    raise_failures(comparison)


def raise_failures(comparison: Comparison) -> None:
    """Raise CheckFailed if a release could not be made, or if an attack raised an alarm."""
    failed = list(comparison.failures)
    problems = [f"{', '.join(failed)} could not be made; the page and the tables say why"] if failed else []
    if problems or comparison.alarms:
        raise CheckFailed("; ".join([*problems, *comparison.alarms]))


def _document(summary: Summary) -> dict[str, Any]:
    from querycloak.comparison.comparison_folder import PAGE

    comparison = summary.comparison
    return {
        "private": True,
        "page": str(comparison.folder / PAGE),
        "task": summary.main_task,
        "releases": [_figures(each, summary) for each in summary.releases],
        "alarms": comparison.alarms,
    }


def _figures(release: ReleaseSummary, summary: Summary) -> dict[str, Any]:
    kept, worst = release.tasks.get(summary.main_task), release.worst
    return {
        "name": release.name,
        "proven": release.facts.get("proven"),
        "kept": kept and kept.share,
        "risk": worst and worst.shown,
        "attack": worst and worst.attack,
        "failed": release.facts["failed"],
    }


def short_table(summary: Summary) -> object:
    """A line for each release: rows, the share kept and the largest risk with 95 % intervals, the proven guarantee."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("", no_wrap=True)
    for heading in ("rows", TASK_VIEWS[summary.main_task].title.lower(), "risk", "attack", "ε, k"):
        left = heading in ("attack", "ε, k")
        table.add_column(heading, justify="left" if left else "right", no_wrap=heading != "attack", overflow="fold")
    for each in (summary.baselines[0], *summary.releases):
        table.add_row(*_line(each, summary))
    return table


def _line(release: ReleaseSummary, summary: Summary) -> list[str]:
    if release.promise == "failed":
        return [release.name, *[NOTHING] * 4, "not made"]
    kept, worst = release.tasks.get(summary.main_task), release.worst
    rows = f"{sum(each['rows'] for each in release.tables.values()):,}" if release.facts else ""
    kept_text = NOTHING if kept is None else _with_interval(kept.share, kept.low, kept.high, finding=kept.is_finding)
    if worst is None:
        return [release.name, rows, kept_text, NOTHING, "", _proven(release)]
    risk_text = _with_interval(worst.shown, 0.0 if worst.idle else worst.low, worst.high)
    return [release.name, rows, kept_text, risk_text, worst.attack if worst.shown else "", _proven(release)]


def _with_interval(share: float | None, low: float | None, high: float | None, *, finding: bool = True) -> str:
    """A share and its 95 % interval: 31 % (28-34); an interval as wide as the axis stands alone."""
    if share is None or low is None or high is None:
        return shown_share(share)
    ends = f"({'-'.join(dict.fromkeys((_end(low), _end(high))))})"
    return f"{shown_share(share).replace('< ', '<')} {ends}" if finding else f"? {ends}"


def _end(share: float) -> str:
    text = shown_share(share).removesuffix(PERCENT).removesuffix(".0").replace("< ", "<")
    return text if share < 1 else f"{100 * share:.0f}"


def _proven(release: ReleaseSummary) -> str:
    if not release.facts:
        return ""
    proven = release.facts["proven"]
    if proven["kind"] == "syntactic":
        return NOTHING if proven["k"] is None else f"k {proven['k']}"
    epsilon = f"ε {shown_up(proven['epsilon'])}"
    return f"{epsilon}, a step" if proven["kind"] == "sampling-only" else epsilon


def legend(summary: Summary) -> str:
    """Meaning of the columns."""
    view = TASK_VIEWS[summary.main_task]
    words = (
        f"{view.title.lower()}: {view.words} ({view.measure}), as a share of what the log itself gives; ?: too few "
        "cases to say. risk: the most that an attack gains on people in the log beyond what it gains on people who are "
        "not in it. In brackets: 95 % intervals. ε, k: the epsilon that is proven for a user (or for a "
        f"step alone), or the rule's k; the page has each delta. {NOTHING}: nothing is proven, nothing came out to "
        "attack, or the release cannot do it."
    )
    return textwrap.fill(words, WIDTH)
