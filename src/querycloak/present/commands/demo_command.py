"""`querycloak demo`: the main job, for somebody who sees it for the first time."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from querycloak.experiments.demo import DELTA, EPSILON, FEW, USERS, Compared, compare
from querycloak.logs.searchlog import read
from querycloak.present.commands.inspect_command import show_profile
from querycloak.present.commands.synth_command import making_progress
from querycloak.present.terminal import console
from querycloak.privacy.chance.exact import shown_up
from querycloak.privacy.parameters import refuse
from querycloak.synthetic.log_writer import synthesize

_BEFORE = """\
A search log of {users:,} invented people (querycloak synth). Some have typed
what gives them away: their own name, a card number, a rare disease.
This is what the log's owner sees:
"""
_BETWEEN = f"""
Now release it, in every way there is. The first three let through what {FEW}
users share, or something like it, and promise nothing about what that tells.
The others add noise: at epsilon {EPSILON:g} and delta {DELTA:g} that bounds what the result
can tell about any one person, whatever else somebody knows.
"""
_AFTER = """
rows: of the release. searches: the share of the log's searches whose query
came out. of few: queries that fewer than 5 users asked. secrets: what gives
people away, as planted (- where other texts stand for all queries). promise:
what is proven for any one user (of semantic: for what a user asked, not for
who is in the log).

Next:
  querycloak inspect YOUR-LOG
  querycloak guarantee clicks --epsilon 4 --delta 1e-6 --explain
  querycloak release clicks YOUR-LOG --epsilon 4 --delta 1e-6 --out RELEASE"""


def show_demo(users: int | None, out: Path | None, *, quiet: bool) -> None:
    """Make a log, profile it, and release it in every way there is."""
    if out is not None:
        _make_folder(out)
    number = USERS if users is None else users
    with tempfile.TemporaryDirectory(prefix="querycloak-demo-") as folder:
        with making_progress(number, quiet=quiet) as on_users:
            written = synthesize(Path(folder) / "log.tsv.gz", number, on_users=on_users)
        with read(written.log) as log:
            if not quiet:
                console().print(_BEFORE.format(users=number))
            show_profile(log, gap_minutes=30, as_json=False)
            if not quiet:
                console().print(_BETWEEN)
            if written.truth is not None:
                with _status(quiet=quiet) as on_method:
                    compared = list(compare(log, written.truth, out, on_method))
                console().print(_table(compared))
    if not quiet:
        console().print(_AFTER)


@contextlib.contextmanager
def _status(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """What is being done, on a terminal only; the first run compiles what later ones find."""
    if quiet or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console

    with Console(stderr=True).status("releasing") as status:
        yield lambda title: status.update(f"releasing: {title} (the first time, compiling takes a while)")


def _make_folder(out: Path) -> None:
    try:
        out.mkdir()
        return
    except OSError:
        pass
    refuse("out", "a folder that does not exist yet, in one that does", str(out), "name another")


def _table(rows: list[Compared]) -> object:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("")
    for heading in ("rows", "queries", "searches", "of few", "secrets", "promise"):
        table.add_column(heading, justify="left" if heading == "promise" else "right")
    for row in rows:
        table.add_row(
            row.title,
            f"{row.rows:,}",
            f"{row.queries:,}",
            "-" if row.searches is None else f"{row.searches:.0%}",
            "-" if row.of_few is None else f"{row.of_few:,}",
            "-" if row.secrets is None else f"{row.secrets:,}",
            _promise(row),
        )
    return table


def _promise(row: Compared) -> str:
    if row.method is None:
        return ""
    proven = row.method.proven()
    if proven.kind == "syntactic":
        return "none" if proven.k is None else f"k = {proven.k}"
    return "({}, {})".format(*map(shown_up, proven.numbers))
