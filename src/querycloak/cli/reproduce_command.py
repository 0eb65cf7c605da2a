"""`querycloak reproduce`: the tables and figures of a paper, ours beside what is printed, as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.generated_options import with_groups
from querycloak.cli.terminal import making_progress

if TYPE_CHECKING:
    from querycloak.reproduction.exhibit import Paper, Reproduced
    from querycloak.reproduction.workbench import Workbench

_WIDTH = 80


def _papers() -> Iterable[str]:
    from querycloak.reproduction.exhibit import PAPERS

    return [*PAPERS, "all"]


@with_groups
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
    """Reproduce a paper's tables and figures beside the printed ones."""
    from querycloak.extras import COMPARE, require
    from querycloak.pages.layout import write_page
    from querycloak.pages.reproduction_page import reproduction_page
    from querycloak.reproduction.exhibit import papers_named
    from querycloak.reproduction.workbench import PAGE, reproduction_folder, write_figures

    papers = papers_named(paper)
    require(COMPARE, "a paper's figures")
    if log:
        options.check_apart(out, log)
        reading.prepared(log)  # an unreadable log is reported before anything is written
    folder = reproduction_folder(out)
    for each in papers:
        with _workbench(each, folder, log, reading, user, short=short, quiet=quiet) as bench:
            made = each.reproduced(bench)
        place = folder / each.key
        write_figures(place, made.to_json())
        page = write_page(reproduction_page(made), place / PAGE, private=made.private)
        if not quiet:
            _show(made, page)


@contextmanager
def _workbench(
    paper: Paper,
    folder: Path,
    logs: list[str] | None,
    reading: options.Reading,
    user: str | None,
    *,
    short: bool,
    quiet: bool,
) -> Iterator[Workbench]:
    from querycloak.extras import versions
    from querycloak.files.resumable_folder import KeptSteps
    from querycloak.logs.reading.files import TRUTH_ENDING
    from querycloak.reproduction.workbench import STEPS, Workbench, fingerprint, synthetic_log

    people = None
    if not logs:
        people = paper.few_users if short else paper.users
        with making_progress(people, quiet=quiet) as on_users:
            path = synthetic_log(folder, people, on_users)
        logs = [str(path)]
    settings = {
        "short": short, "user": user, "log": fingerprint([Path(log) for log in logs]), "people": people,
        "reading": repr(asdict(reading)), "version": versions()["querycloak"],
    }  # fmt: skip
    truth = Path(f"{logs[0]}{TRUTH_ENDING}")
    with reading.open(logs, quiet=quiet) as log:

        def tell(step: str) -> None:
            log.progress(f"{paper.key}, {step.replace('_', ' ')}", 0.0)

        steps = KeptSteps(folder / paper.key / STEPS, settings, tell)
        bench = Workbench(log, steps, short, people, truth if truth.is_dir() else None, user)
        try:
            yield bench
        finally:
            bench.close()


def _show(made: Reproduced, page: Path) -> None:
    from querycloak.cli.terminal import console
    from querycloak.pages.reproduction_page import headline

    print_line = console().print
    print_line(f"{made.key}: {headline(made)}")
    for exhibit in made.exhibits:
        if exhibit.verdict != "not comparable":
            text = f"{exhibit.name}, {exhibit.verdict}: {exhibit.statement}"
            print_line(
                "\n".join(textwrap.wrap(text, _WIDTH, initial_indent="  ", subsequent_indent="    ")), markup=False
            )
    private = " (private: true figures of the log)" if made.private else ""
    print_line(f"page{private}: {page}", markup=False, soft_wrap=True)
