"""Commands that make releases to compare them: compare, demo, reproduce."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from querycloak.cli import method_options, options
from querycloak.privacy.parameters import refuse


def _papers() -> Iterable[str]:
    from querycloak.reproduction.papers import PAPERS

    return [*PAPERS, "all"]


@options.with_groups
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
    plan: method_options.Plan = None,  # noqa: ARG001  (its callback has done the work)
) -> None:
    """Compare every method on one log, as a page (private output)."""
    if out is None:
        refuse("out", "the folder to write", None, "a comparison that was stopped goes on there")
    from querycloak.cli.compare_command import compared, plan_of, show_comparison

    found = compared(log, out, plan_of(epsilon, delta, releases), reading, truth, quiet=quiet or as_json)
    show_comparison(found, as_json=as_json, quiet=quiet)


def demo(
    users: Annotated[int | None, typer.Option(help="How many people search; 3,000 if not given.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write, ./demo-out if not given; replaced if a demo made it.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare every method on a synthetic log, as a page."""
    from querycloak.cli.demo_command import show_demo

    show_demo(users, out, quiet=quiet)


@options.with_groups
def reproduce(
    paper: Annotated[
        str,
        typer.Argument(
            help="zhang2017, zhang2016, hong2012, sanchez2018, carpineto2015, or all.",
            autocompletion=options.completing(_papers),
        ),
    ],
    *,
    log: Annotated[
        list[str] | None, typer.Option("--log", help="AOL's log, or another; a synthetic one if not given.")
    ] = None,
    out: Annotated[Path, typer.Option(help="The folder to write; unfinished work there is continued.")] = Path(
        "reproduce"
    ),
    user: Annotated[str | None, typer.Option(help="carpineto2015: the person of Table 4 and Figure 5 (b).")] = None,
    short: Annotated[bool, typer.Option("--quick", help="Fewer users, points and runs: under two minutes.")] = False,
    reading: options.Reading,
    quiet: options.Quiet = False,
) -> None:
    """Make a paper's tables and figures again, beside its own."""
    from querycloak.cli.reproduce_command import show_reproductions

    show_reproductions(paper, log, out, reading, user=user, short=short, quiet=quiet)
