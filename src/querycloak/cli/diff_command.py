"""`querycloak diff`: changes between two releases that exceed their noise."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.terminal import print_json, print_lines
from querycloak.privacy.parameters import path_of
from querycloak.sentence import printable

if TYPE_CHECKING:
    from querycloak.evaluation.release_diff import ChangedKey, ReleaseDiff

_WIDTH, _SHOWN, _LONGEST = 80, 20, 1000


def diff(
    before: Annotated[Path, typer.Argument(metavar="RELEASE", help="The earlier release folder.")],
    after: Annotated[Path, typer.Argument(metavar="RELEASE", help="The later release folder.")],
    fdr: Annotated[float, typer.Option(help="Largest expected share of noise among the reported changes.")] = 0.05,
    picture: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page with a picture of the changes, too.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show what changed between two releases beyond noise (public)."""
    from querycloak.evaluation.release_diff import diff as compared
    from querycloak.extras import COMPARE, PICTURES, require

    if picture is not None:
        require(COMPARE, "a picture of the changes", PICTURES)
    result = compared(before, after, fdr=fdr)
    if picture is not None:
        from querycloak.pages.diff_page import write_diff_page

        write_diff_page(result, path_of("picture", picture, "name a file for the page"), fdr=fdr)
    if as_json:
        print_json(result.to_json())
        return
    print_lines(diff_lines(result, fdr))


def diff_lines(result: ReleaseDiff, fdr: float) -> list[str]:
    """Return the summary and the strongest changes, for a terminal of 80 columns."""
    summary = (
        f"{len(result.appeared):,} appeared, {len(result.vanished):,} vanished, {len(result.changed):,} changed beyond "
        f"noise, of {result.tested:,} keys; at most {fdr:.0%} of these are expected to be noise"
    )
    lines = textwrap.wrap(summary, _WIDTH)
    lines += [_line(each) for each in result.strongest[:_SHOWN]]
    more = len(result.strongest) - _SHOWN
    lines += [f"... and {more:,} more (--json lists all)"] if more > 0 else []
    notes = (printable(f"note: {note}", _LONGEST) for note in result.notes)
    return [*lines, *(line for note in notes for line in textwrap.wrap(note, _WIDTH))]


def _line(each: ChangedKey) -> str:
    counts = f"{_count(each.before)} -> {_count(each.after)}"
    room = _WIDTH - 22 - len(each.table)
    text = printable(each.text)
    shortened = text if len(text) <= room else f"{text[: room - 3]}..."
    return f"{counts:>18}  {each.table}  {shortened}".rstrip()


def _count(count: int | None) -> str:
    return "-" if count is None else f"{count:,}"
