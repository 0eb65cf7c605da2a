"""A page as one file with its style inside: no script, no requests, enforced by its content security policy."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from querycloak.files.private_file import private_file
from querycloak.pages import palette
from querycloak.pages.shown_text import (
    shown_cell,
    shown_interval,
    shown_number,
    shown_share,
    shown_text,
    shown_time,
    shown_tiny,
)

if TYPE_CHECKING:
    from jinja2 import Environment

TEMPLATES = Path(__file__).parent / "templates"
MARKS = ('<meta name="generator" content="querycloak">', "# made by querycloak\n")
"""Mark near the beginning of our pages and texts: only files with it are ever replaced."""
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"
"""Content policy of a page: a browser may load nothing."""


@cache
def environment() -> Environment:
    """Environment of templates; every value is escaped, and a missing name is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "text": shown_text,
        "cell": shown_cell,
        "number": shown_number,
        "share": shown_share,
        "tiny": shown_tiny,
        "duration": shown_time,
        "sentence_start": lambda text: text[:1].upper() + text[1:],
    }
    made.globals["interval"] = shown_interval
    return made


def render(template: str, *, title: str, private: bool, **values: Any) -> str:
    """A template of a page (one that extends `page.html`) filled with values.

    title: of the window. private: whether the page says that it is not for publication.
    """
    return environment().get_template(template).render(
        title=title,
        private=private,
        policy=POLICY,
        style=environment().get_template("theme.css").render(
            light=palette.variables(dark=False), dark=palette.variables(dark=True)
        ),
        **values,
    )  # fmt: skip


def write_page(page: str, path: Path, *, private: bool) -> Path:
    """Write a page, whole or not at all; only its owner can read a private one."""
    with private_file(path, f"the page {path.name}", mode=0o600 if private else 0o644, replaces=_is_ours) as file:
        file.write(page.encode())
    return path


def _is_ours(path: Path) -> bool:
    """True if a page carries the mark that we made it."""
    with path.open("rb") as file:
        beginning = file.read(4_096)
    return any(mark.encode() in beginning for mark in MARKS)
