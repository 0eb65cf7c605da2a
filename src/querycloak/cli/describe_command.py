"""`querycloak describe`: what a release is and what it is good for, for the people who receive it."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

from querycloak.evaluation.description import Description, describe

_WIDTH = 80


def show_description(folder: Path, *, as_json: bool) -> None:
    """Say what the folder holds; nothing of it is private."""
    found = describe(folder)
    if as_json:
        json.dump(found.to_json(), sys.stdout)
        sys.stdout.write("\n")
        return
    sys.stdout.write("\n".join(described_lines(found)) + "\n")


def described_lines(found: Description) -> list[str]:
    """The description for people."""
    lines = [found.title]
    for kind, table in found.tables.items():
        lines += ["", *_wrapped(f"{kind}: {table.rows:,} rows, {table.meaning}")]
        lines += [line for said in table.reach.lines() for line in _wrapped(said, indent="  ")]
    served = [name for name, why in found.tasks.items() if why is None]
    lines += ["", *_wrapped(f"it can serve: {', '.join(served) or 'no task'} (querycloak evaluate)")]
    for name, why in found.tasks.items():
        lines += _wrapped(f"not {name}: {why}", indent="  ") if why is not None else []
    return [*lines, "", "cite it as (add who published it, and where):", found.cite]


def _wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=f"{indent}  ", break_on_hyphens=False)
