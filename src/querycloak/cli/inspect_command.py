"""`querycloak inspect`: profile of a log for its owner (private output)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.error_line import as_typed
from querycloak.cli.generated_options import with_groups
from querycloak.cli.terminal import print_json

if TYPE_CHECKING:
    from querycloak.logs.profile import Profile
    from querycloak.logs.searchlog import SearchLog

_SHOWN_ACTIONS = 20
_NEXT = """\
Next, with numbers that you know without this output (people, searches each):
  querycloak advise --users N --searches-per-user M"""
PRIVATE = "PRIVATE OUTPUT: true figures of the log. Not for publication."


@with_groups
def inspect_log(
    log: options.Logs,
    *,
    rejected: Annotated[Path | None, typer.Option(help="Private file for the rejected rows, unchanged.")] = None,
    set_aside: Annotated[Path | None, typer.Option(hidden=True)] = None,  # former name of --rejected
    gap_minutes: Annotated[float, typer.Option(help="The pause that ends a session, in minutes.")] = 30,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Profile a log: rows, users, searches, clicks (private output)."""
    rejected = set_aside if rejected is None else rejected
    if rejected is not None:
        from querycloak.files.private_file import check_new
        from querycloak.releases.folder import outside_releases

        check_new(rejected, "the file for rejected rows")
        outside_releases(rejected, "rejected")
    with reading.open(log, quiet=quiet or as_json, out=rejected) as opened:
        if rejected is not None:
            opened.write_rejected(rejected)
        show_profile(opened, gap_minutes, as_json=as_json)


def show_profile(log: SearchLog, gap_minutes: float, *, as_json: bool) -> None:
    """Print the profile of a log."""
    from querycloak.cli.terminal import bars, console
    from querycloak.logs.preflight import hints
    from querycloak.logs.profile import profile
    from querycloak.logs.reading.checks import MEANINGS

    shown = profile(log, gap_minutes)
    if as_json:
        certain = log.recognised.doubt is None
        print_json({"private": True, "format": log.format, "format_certain": certain, **shown.to_json()})
        return
    out = console()
    out.print(PRIVATE, style="bold red")
    out.print(_figures(figures_of(log, shown)))
    if shown.searches:
        out.print("\nwords per query, share of searches", style="bold")
        for line in bars(list(shown.words_per_query.shares.items())):
            out.print(line)
    if shown.rejected:
        out.print("\nrejected", style="bold")
        for code, rows in shown.rejected.items():
            out.print(f"{rows:>14,}  {code}  {MEANINGS[int(code[1:])]}")
    if shown.actions:
        out.print("\nactions of events", style="bold")
        for name, rows in list(shown.actions.items())[:_SHOWN_ACTIONS]:
            clicks = "  (clicks)" if name in log.source.choices.click_actions else ""
            out.print(f"{rows:>14,}  {name}{clicks}", markup=False)
    for remark in (*log.remarks(), *hints(log, shown.rows_per_user, shown.attributes)):
        out.print(f"\nhint: {as_typed(remark)}", markup=False)
    if shown.users:
        out.print(f"\n{_NEXT}", markup=False)


def _format_of(log: SearchLog) -> str:
    """The format, and whether it was named, recognised or guessed."""
    if log.recognised.doubt is not None:
        return f"{log.format} (guessed: not all of its first lines fit)"
    return log.format if log.recognised.named else f"{log.format} (recognised by its lines)"


def _figures(figures: Sequence[tuple[str, str]]) -> object:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(justify="left")
    table.add_column(justify="right")
    for name, value in figures:
        table.add_row(name, value)
    return table


def figures_of(log: SearchLog, shown: Profile) -> list[tuple[str, str]]:
    """Figures of a profile by name, for people (private)."""
    span = f"{shown.first_time:%Y-%m-%d %H:%M} to {shown.last_time:%Y-%m-%d %H:%M}" if shown.first_time else "none"
    return [
        ("format", _format_of(log)),
        ("rows read", f"{shown.rows_read:,}"),
        ("rows kept", f"{shown.rows_kept:,}"),
        ("users", f"{shown.users:,}"),
        ("  rows per user, median", f"{shown.rows_per_user.median:g}"),
        ("  rows per user, largest", f"{shown.rows_per_user.largest:,}"),
        ("searches", f"{shown.searches:,}"),
        ("sessions", f"{shown.sessions:,}"),
        ("clicks", f"{shown.clicks:,}"),
        *(() if shown.views is None else (("results shown (views)", f"{shown.views:,}"),)),
        *((f"values of {name}", f"{values:,}") for name, values in shown.attributes.items()),
        ("distinct queries", f"{shown.distinct_queries:,}"),
        ("  of one user only", f"{shown.one_user_share:.1%}"),
        ("distinct (query, url) pairs", f"{shown.distinct_pairs:,}"),
        ("words per query", f"{shown.words_per_query.mean:.2f}"),
        ("searches with a noun of WordNet", f"{shown.wordnet_coverage.searches:.1%}"),
        ("distinct queries with one", f"{shown.wordnet_coverage.distinct_queries:.1%}"),
        ("time", span),
    ]
