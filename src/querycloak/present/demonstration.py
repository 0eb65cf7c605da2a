"""`querycloak demo`: the main job, for somebody who sees it for the first time."""

from __future__ import annotations

from pathlib import Path

from querycloak.errors import ParameterError
from querycloak.experiments.demo import DELTA, EPSILON, Compared, compare
from querycloak.logs.searchlog import SearchLog
from querycloak.present.inspecting import show_profile
from querycloak.present.terminal import console

_BEFORE = "A small invented search log in AOL's format. This is what its owner sees:\n"
_BETWEEN = f"""
Now release its clicks: (query, url) pairs, with how many users clicked them.
k-anonymity drops what fewer than 5 users share, and stops there. The other ways
add noise, at one and the same budget (epsilon {EPSILON:g}, delta {DELTA:g}), which
bounds what the result can tell about any one person in the log.
"""
_AFTER = """
kept: the pairs that came out, and their share of all clicks. of few: those of
them that fewer than 5 users clicked. promise: what is proven for any one user.
The default lets each user add to 32 pairs, which pays on large logs of people
who search much; on one as small as this, 1 per user keeps more.

Next:
  querycloak inspect YOUR-LOG
  querycloak guarantee clicks --epsilon 4 --delta 1e-6 --explain
  querycloak release clicks YOUR-LOG --epsilon 4 --delta 1e-6 --out RELEASE"""


def show_demo(log: SearchLog, out: Path | None, *, quiet: bool) -> None:
    """Profile the log that comes with querycloak, and release it in every way there is."""
    if out is not None:
        _make_folder(out)
    if not quiet:
        console().print(_BEFORE)
    show_profile(log, gap_minutes=30, as_json=False)
    if not quiet:
        console().print(_BETWEEN)
    console().print(_table(list(compare(log, out))))
    if not quiet:
        console().print(_AFTER)


def _make_folder(out: Path) -> None:
    try:
        out.mkdir()
        return
    except OSError:
        pass
    raise ParameterError(f"out must be a folder that does not exist yet, in one that does; it is {str(out)!r}")


def _table(rows: list[Compared]) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading in ("pairs kept", "clicks kept", "of few", "promise"):
        table.add_column(heading, justify="left" if heading == "promise" else "right")
    whole = rows[0].volume
    for place, row in enumerate(rows):
        proven = row.method.proven()
        promise = "none" if proven.epsilon is None else f"epsilon {proven.epsilon:g}, delta {proven.delta:.1e}"
        table.add_row(
            row.title,
            f"{row.pairs:,}",
            f"{row.volume / whole:.0%}",
            f"{row.seen_by_few:,}",
            "-" if not place else promise,
        )
    return table
