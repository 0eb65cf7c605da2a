"""`querycloak demo`: a comparison of all methods on a synthetic log, for a first look."""

from __future__ import annotations

import shlex
import shutil
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querycloak.cli import options
from querycloak.cli.compare_command import WIDTH, legend, raise_failures, short_table
from querycloak.cli.running import was_interrupted
from querycloak.cli.terminal import making_progress

if TYPE_CHECKING:
    from querycloak.comparison.comparison import Comparison
    from querycloak.comparison.comparison_summary import ReleaseSummary, Summary

USERS = 1_000
_PHRASES, _QUERIES, _COMPLETIONS = "phrases-e8", "queries-e8", 3
_LETTERS = 4
"""Least number of letters of a beginning that is shown."""
_BEFORE = """\
A search log of {users:,} invented people. Some of them typed secrets: their own
name, a card number, a rare disease. Every method releases the searches of nine
tenths of the people. The searches of the others show what each release is good
for, and attacks are tried on them too, for comparison.
"""


def demo(
    users: Annotated[int | None, typer.Option(help="How many people search; 1,000 if not given.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The folder to write, ./demo-out if not given; replaced if a demo made it.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Compare every method on a synthetic log, as a page."""
    from querycloak.cli.terminal import console
    from querycloak.comparison.comparison_folder import clear_demo
    from querycloak.comparison.comparison_summary import summary_of
    from querycloak.extras import COMPARE, require
    from querycloak.synthetic.log_writer import check_users

    target, number = out or Path("demo-out"), USERS if users is None else users
    check_users(number)  # a mistake leaves the former demo as it is, and so does an extra that is not installed
    require(COMPARE, "a comparison")
    clear_demo(target)
    if not quiet:
        console().print(_BEFORE.format(users=number))
    comparison = _compared(target, number, quiet=quiet)
    if not quiet:
        summary = summary_of(comparison)
        console().print(short_table(summary))
        console().print(f"\n{legend(summary)}\n", markup=False, soft_wrap=True)
        for line in (*_rows(summary), *_secret(summary), *_completed(target), *_next(target)):
            console().print(line, markup=False, soft_wrap=True)
    raise_failures(comparison)


def _compared(target: Path, users: int, *, quiet: bool) -> Comparison:
    """Make the log and compare; the log stays beside the page for more commands."""
    from querycloak.cli.terminal import step_progress
    from querycloak.comparison.comparison import compare_opened
    from querycloak.comparison.comparison_folder import DEMO_LOG
    from querycloak.comparison.comparison_plan import PAPER_AFFINITY, usual_releases
    from querycloak.files.locked_folder import PrivateFolder
    from querycloak.logs.reading.files import TRUTH_ENDING
    from querycloak.logs.searchlog import read
    from querycloak.synthetic.log_writer import synthesize

    planned = [*usual_releases(), PAPER_AFFINITY]
    with PrivateFolder() as folder:
        with making_progress(users, quiet=quiet) as on_users:
            written = synthesize(folder.path / DEMO_LOG, users, on_users=on_users)
        with step_progress("comparing", quiet=quiet) as on_step, read(written.log) as log:
            comparison = compare_opened(
                log, target, planned, truth=written.truth, demo=True, on_step=on_step, interrupted=was_interrupted
            )
        for name in (DEMO_LOG, f"{DEMO_LOG}{TRUTH_ENDING}"):
            shutil.move(folder.path / name, target / name)
    return comparison


def _rows(summary: Summary) -> Iterator[str]:
    """Up to five rows of one table of each release."""
    from querycloak.pages.shown_text import shown_text

    yield "Five released rows of each:"
    for release in summary.made:
        name, table = _table_shown(release)
        columns = f"{name} ({', '.join(table['columns'])})"
        yield f"\n{release.name}, {columns}" if table["rows"] else f"\n{release.name}: no row came out"
        for row in table["examples"]:
            yield f"  {shown_text('   '.join(_cell(value) for value in row), WIDTH - 2)}"


def _table_shown(release: ReleaseSummary) -> tuple[str, dict[str, Any]]:
    """The table to show: the first that has rows."""
    with_rows = [each for each in release.tables.items() if each[1]["rows"]]
    return (with_rows or list(release.tables.items()))[0]


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " > ".join(value) if isinstance(value, list) else "-" if value is None else str(value)


def _secret(summary: Summary) -> Iterator[str]:
    """A planted secret that the published rule released, or the sentence that it released none."""
    from querycloak.comparison.comparison_plan import PAPER_AFFINITY

    published = next((each for each in summary.made if each.name == PAPER_AFFINITY.name), None)
    secrets = published.facts["secrets"] if published is not None else None
    yield ""
    if not secrets or not secrets["example"]:
        yield "affinity as in its paper (w = 2) released none of the planted secrets."
        return
    example = secrets["example"]
    asked = "one person alone" if example["users"] == 1 else f"{example['users']} people"
    yield textwrap.fill(
        f"A secret that a rule released: affinity as in its paper (w = 2) released {example['query']!r} "
        f"({example['kind']}), which {asked} asked.",
        WIDTH,
    )


def _completed(target: Path) -> Iterator[str]:
    """A prefix with which no released query begins, completed from released words."""
    from querycloak.comparison.comparison_folder import RELEASES
    from querycloak.language.query_model import PUBLIC
    from querycloak.methods.evidence import load
    from querycloak.pages.shown_text import shown_text

    releases = target / RELEASES
    phrases, queries = releases / _PHRASES, releases / _QUERIES
    prefix = _unasked(phrases, queries) if phrases.is_dir() and queries.is_dir() else None
    if prefix is None:
        return
    model = load(phrases).model()
    completions = [each for each in model.complete(f"{prefix} ", _COMPLETIONS) if each.source != PUBLIC]
    if completions:
        yield f"\nNo released query begins with {prefix + ' '!r}. Released words complete it ({_PHRASES}):"
        yield from (f"  {shown_text(each.query, WIDTH - 2)}" for each in completions)


def _unasked(phrases: Path, queries: Path) -> str | None:
    """The longest released beginning, then the most frequent, that begins no released query; None if there is none."""
    import pyarrow.compute as pc

    from querycloak.methods.evidence import load

    table = load(phrases).table("phrases")
    whole = table.filter(pc.and_(table["begins"], table["ends"]))["phrase"].to_pylist()
    texts = [*whole, *load(queries).table("queries")["query"].to_pylist()]
    beginnings = table.filter(pc.and_(table["begins"], pc.invert(table["ends"])))
    by_words = beginnings.sort_by([("words", "descending"), ("count", "descending"), ("phrase", "ascending")])
    for prefix in by_words["phrase"].to_pylist():
        if len(prefix) >= _LETTERS and not any(f"{text} ".startswith(f"{prefix} ") for text in texts):
            return str(prefix)
    return None


def _next(target: Path) -> Iterator[str]:
    """Commands to type next."""
    from querycloak.comparison.comparison_folder import DEMO_LOG, PAGE

    program, log = program_as_typed(), shlex.quote(str(target / DEMO_LOG))
    yield f"\nThe page: {target / PAGE}"
    yield "\nNext:"
    yield f"  {program} guarantee clicks --epsilon 8 --delta 1e-6 --explain"
    yield f"  {program} describe {shlex.quote(str(target / 'releases' / 'clicks-e8'))}"
    yield f"  {program} complete {shlex.quote(str(target / 'releases' / _PHRASES))} w"
    yield f"  {program} compare {log} --epsilon 1,8 --out comparison"
    yield f"  {program} release clicks {log} --epsilon 8 --delta 1e-6 --out release"


def program_as_typed() -> str:
    """Command that started this program, if a shell would not find it by its name."""
    if shutil.which("querycloak"):
        return "querycloak"
    if Path(sys.argv[0]).name != "__main__.py":
        return shlex.quote(sys.argv[0])
    named = shutil.which("python")
    same = named is not None and Path(named).resolve() == Path(sys.executable).resolve()
    return f"{'python' if same else shlex.quote(sys.executable)} -m querycloak"
