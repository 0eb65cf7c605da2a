"""`querycloak complete`: completions from a release's own model."""

from __future__ import annotations

import sys
import unicodedata
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from querycloak.cli import options
from querycloak.cli.terminal import print_json


def complete(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    prefix: Annotated[str, typer.Argument(metavar="PREFIX", help="The first letters of a query.")],
    count: Annotated[int, typer.Option(help="Number of completions.")] = 10,
    as_json: options.Json = False,
) -> None:
    """Complete a query from a release alone (public)."""
    from querycloak.methods.evidence import load
    from querycloak.sentence import printable

    typed = " ".join(unicodedata.normalize("NFKC", prefix).lower().split())
    open_word = typed + " " * (prefix[-1:].isspace() and bool(typed))
    completions = load(release).model().complete(open_word, count)
    if as_json:
        print_json({"completions": [asdict(each) for each in completions]})
        return
    sys.stdout.write("".join(f"{each.score:8.2e}  {each.source:8}  {printable(each.query)}\n" for each in completions))
    if not completions:
        sys.stdout.write("no completion: no released query or word and no public phrase begins so\n")
