"""`querycloak export`: a release in the format of another tool."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from querycloak.cli import options
from querycloak.privacy.parameters import refuse


def _formats() -> list[str]:
    from querycloak.exports.export import exports

    return list(exports())


def export(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    as_: Annotated[
        str | None,
        typer.Option(
            "--as",
            help="qrels, quepid, workbench, ir-datasets, clax or csv.",
            autocompletion=options.completing(_formats),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The file or folder to write; it must not exist yet.")] = None,
    grades: Annotated[str, typer.Option(help="users: by users who clicked; coec, rate: by views.")] = "users",
    levels: Annotated[int, typer.Option(help="Number of relevance levels, unjudged or irrelevant included.")] = 5,
    quiet: options.Quiet = False,
) -> None:
    """Write a release as other tools read it (public)."""
    if as_ is None:
        refuse("as", f"one of {', '.join(_formats())}", None, "name the format")
    if out is None:
        refuse("out", "the file or folder to write", None, "name it")
    from querycloak.exports.export import export as write_export

    written = write_export(release, as_, out, grades=grades, levels=levels)
    if not quiet:
        sys.stdout.write("".join(f"written: {path}\n" for path in written))
