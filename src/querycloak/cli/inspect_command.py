"""`querycloak inspect`: what a log's owner sees of it."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from querycloak.cli.terminal import bars, console
from querycloak.logs.profile import Profile, profile
from querycloak.logs.reading.checks import MEANINGS

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog

PRIVATE = "PRIVATE OUTPUT: true figures of the log. Not for publication."


def show_profile(log: SearchLog, gap_minutes: float, *, as_json: bool) -> None:
    """Print the profile of a log."""
    found = profile(log, gap_minutes)
    if as_json:
        certain = log.recognised.doubt is None
        json.dump({"private": True, "format": log.format, "format_certain": certain, **found.to_json()}, sys.stdout)
        sys.stdout.write("\n")
        return
    out = console()
    out.print(PRIVATE, style="bold red")
    out.print(_figures(found, _format_of(log)))
    if found.searches:
        out.print("\nwords per query, share of searches", style="bold")
        for line in bars(list(found.words_per_query.shares.items())):
            out.print(line)
    if found.set_aside:
        out.print("\nset aside", style="bold")
        for code, rows in found.set_aside.items():
            out.print(f"{rows:>14,}  {code}  {MEANINGS[int(code[1:])]}")


def _format_of(log: SearchLog) -> str:
    """The format, and how one knows."""
    if log.recognised.doubt is not None:
        return f"{log.format} (guessed: not all of its first lines fit)"
    return log.format if log.recognised.named else f"{log.format} (told by its lines)"


def _figures(found: Profile, format_name: str) -> object:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(justify="left")
    table.add_column(justify="right")
    span = f"{found.first_time:%Y-%m-%d %H:%M} to {found.last_time:%Y-%m-%d %H:%M}" if found.first_time else "none"
    for name, value in (
        ("format", format_name),
        ("rows read", f"{found.rows_read:,}"),
        ("rows kept", f"{found.rows_kept:,}"),
        ("users", f"{found.users:,}"),
        ("searches", f"{found.searches:,}"),
        ("sessions", f"{found.sessions:,}"),
        ("clicks", f"{found.clicks:,}"),
        ("distinct queries", f"{found.distinct_queries:,}"),
        ("  of one user only", f"{found.one_user_share:.1%}"),
        ("distinct (query, url) pairs", f"{found.distinct_pairs:,}"),
        ("words per query", f"{found.words_per_query.mean:.2f}"),
        ("searches with a noun of WordNet", f"{found.wordnet_coverage.searches:.1%}"),
        ("distinct queries with one", f"{found.wordnet_coverage.distinct_queries:.1%}"),
        ("time", span),
    ):
        table.add_row(name, value)
    return table
