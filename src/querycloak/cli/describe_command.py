"""`querycloak describe`: contents and uses of a release, for its receivers."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.terminal import print_json, print_lines
from querycloak.sentence import printable

if TYPE_CHECKING:
    from querycloak.evaluation.description import Description

_WIDTH = 80
_LONGEST = 1000
"""Characters of one text of a card."""


def describe_release(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    as_json: options.Json = False,
) -> None:
    """Show what a release is, and what it is good for."""
    from querycloak.evaluation.description import describe

    description = describe(release)
    if as_json:
        print_json(description.to_json())
        return
    print_lines(described_lines(description))


def described_lines(description: Description) -> list[str]:
    """The description for people."""
    lines = [*_wrapped(description.title), *(line for text in description.warnings for line in _wrapped(text))]
    for kind, table in description.tables.items():
        lines += ["", *_wrapped(f"{kind}: {table.rows:,} rows, {table.meaning}")]
        lines += [line for text in table.reach.lines() for line in _wrapped(text, indent="  ")]
    served = [name for name, why in description.tasks.items() if why is None]
    rows = " and ".join(f"{table.rows:,} rows of {kind}" for kind, table in description.tables.items())
    text = f"tasks that can use it, from {rows}: {', '.join(served) or 'none'}; how well, querycloak evaluate measures"
    lines += ["", *_wrapped(text)]
    for name, why in description.tasks.items():
        lines += _wrapped(f"not {name}: {why}", indent="  ") if why is not None else []
    cited = (printable(line, _LONGEST) for line in description.cite.split("\n"))
    return [*lines, "", "cite it as (add who published it, and where):", *cited]


def _wrapped(text: str, indent: str = "") -> list[str]:
    text = printable(text, _LONGEST)
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)
