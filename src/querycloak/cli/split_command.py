"""`querycloak split`: TRAIN and TEST of a log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from querycloak.cli import options
from querycloak.cli.generated_options import with_groups
from querycloak.cli.inspect_command import PRIVATE
from querycloak.cli.terminal import print_json, print_lines
from querycloak.privacy.parameters import refuse

if TYPE_CHECKING:
    from querycloak.evaluation.split_folder import WrittenSplit


@with_groups
def split(
    log: options.Logs,
    *,
    by: Annotated[
        Literal["user", "time"] | None,
        typer.Option(help="user, or time: TRAIN before a moment, TEST from then on; no user in both."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The private folder to write; it must not exist yet.")] = None,
    test: Annotated[float | None, typer.Option(help="The share of users in TEST; 0.1 if not given.")] = None,
    seed: Annotated[int, typer.Option(help="Another seed divides the users differently.")] = 1,
    folds: Annotated[int | None, typer.Option(help="The number of parts that take turns as TEST.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Split a log into TRAIN and TEST (private output)."""
    if by is None:
        refuse("by", "user or time", None, "say how the log is to be split")
    if out is None:
        refuse("out", "the folder to write", None, "it must not exist yet")
    from querycloak.evaluation.split_folder import check_split_folder, write_split
    from querycloak.logs.split import Split

    how, target = Split(by=by, test=test, seed=seed, folds=folds), check_split_folder(out)
    with reading.open(log, quiet=quiet or as_json, out=target, all_columns=True) as opened:
        written = write_split(opened, target, how)
    if as_json or not quiet:
        show_split(written, as_json=as_json)


def show_split(written: WrittenSplit, *, as_json: bool) -> None:
    """Print the files, with users and rows of each side."""
    if as_json:
        print_json({**written.to_json(), "folder": str(written.folder)})
        return
    lines = [PRIVATE, f"{written.folder} holds the raw log: it is open to you alone"]
    if written.moment is not None:
        lines.append(f"TRAIN ends and TEST begins at {written.moment:%Y-%m-%d %H:%M:%S}")
    widest = max(len(side.file) for side in written.sides)
    for side in written.sides:
        lines.append(f"  {side.file:<{widest}} {side.users:>12,} users {side.rows:>14,} rows")
    print_lines(lines)
