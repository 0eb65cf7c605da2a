"""`querycloak reproduce`: the tables and figures of a paper, ours beside what is printed, as a page."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from querycloak.cli.synth_command import making_progress
from querycloak.cli.terminal import console
from querycloak.extras import COMPARE, require
from querycloak.logs.reading.files import TRUTH_ENDING
from querycloak.pages.layout import write_page
from querycloak.pages.reproduction_page import headline, reproduction_page
from querycloak.releases.versions import versions
from querycloak.reproduction.kept_steps import KeptSteps, fingerprint
from querycloak.reproduction.papers import Paper, papers_named
from querycloak.reproduction.reproduction_folder import (
    PAGE,
    STEPS,
    reproduction_folder,
    synthetic_log,
    write_figures,
)
from querycloak.reproduction.workbench import Workbench

if TYPE_CHECKING:
    from querycloak.cli.options import Reading
    from querycloak.reproduction.exhibit import Reproduced

_WIDTH = 80


def show_reproductions(
    name: str, logs: list[str] | None, out: Path, reading: Reading, *, user: str | None, short: bool, quiet: bool
) -> None:
    """Make the papers again, one after the other, and say what was found and where it is."""
    from querycloak.cli.options import check_apart

    papers = papers_named(name)
    require(COMPARE, "a paper's figures")
    if logs:
        check_apart(out, logs)
        reading.prepared(logs)  # what is wrong with it is said before anything is written
    folder = reproduction_folder(out)
    for paper in papers:
        with _workbench(paper, folder, logs, reading, user, short=short, quiet=quiet) as bench:
            made = paper.reproduced(bench)
        place = folder / paper.key
        write_figures(place, made.to_json())
        page = write_page(reproduction_page(made), place / PAGE, private=made.private)
        if not quiet:
            _show(made, page)


@contextmanager
def _workbench(
    paper: Paper, folder: Path, logs: list[str] | None, reading: Reading, user: str | None, *, short: bool, quiet: bool
) -> Iterator[Workbench]:
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
