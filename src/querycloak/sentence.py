"""Error message as a value: parameters stand in it by name, and each reader sees them in their own notation.

A Python caller reads `max_keys_per_user`, somebody at a terminal `--max-keys-per-user`. Text that comes from outside
(a value received, the name of a file) is passed by keyword, so that it is never taken for a part of the template.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from string import Formatter


@dataclass(frozen=True)
class Parameter:
    """A parameter that a sentence names, or one set to a value."""

    name: str
    value: str = ""

    def __str__(self) -> str:
        if not self.value:
            return self.name
        return f"{self.name}={self.value if _is_plain(self.value) else repr(self.value)}"

    def as_option(self) -> str:
        """The option as typed: `--max-keys-per-user auto`; without its value if that is empty or True."""
        option = f"--{self.name.replace('_', '-')}"
        return option if self.value in ("", "True") else f"{option} {shlex.quote(self.value)}"


@dataclass(frozen=True)
class Action:
    """Something to do, as it is written in Python and as it is typed at a terminal."""

    python: str
    command: tuple[str, ...]

    def __str__(self) -> str:
        return self.python

    def as_typed(self) -> str:
        """The command, each of its words quoted if a shell would break it up."""
        return shlex.join(self.command)


Piece = str | Parameter | Action


@dataclass(frozen=True, init=False)
class Sentence:
    """A template filled with values.

    `{field}` is the value given by that keyword, formatted as `str.format` does, or a sentence or an action that stands
    there. A field that is not given is a parameter: `{max_keys_per_user}`, or, set to a value,
    `{max_keys_per_user:auto}`.
    """

    pieces: tuple[Piece, ...]

    def __init__(self, template: str, /, **values: object) -> None:
        pieces: list[Piece] = []
        for text, field, form, conversion in Formatter().parse(template):
            pieces += [text] if text else []
            if field is not None:
                pieces += _filled(field, form or "", conversion, values)
        object.__setattr__(self, "pieces", tuple(pieces))

    def text(self, write: Callable[[Parameter | Action], str]) -> str:
        """The sentence for a reader to whom parameters and actions are written in this way."""
        return "".join(piece if isinstance(piece, str) else write(piece) for piece in self.pieces)

    def __str__(self) -> str:
        return self.text(str)


def printable(text: str, most: int | None = None) -> str:
    """A text from outside for a terminal: no control characters or direction marks; shortened to `most` if given."""
    shown = "".join(character if character.isprintable() else "\ufffd" for character in text)
    return shown if most is None or len(shown) <= most else f"{shown[:most]} ... ({len(shown):,} characters)"


def listed(names: Iterable[str], joint: str = ", ") -> Sentence:
    """The names of parameters, one after the other."""
    return Sentence(joint.join(f"{{{name}}}" for name in names))


def _filled(field: str, form: str, conversion: str | None, values: dict[str, object]) -> tuple[Piece, ...]:
    if field not in values:
        return (Parameter(field, form),)
    value = values[field]
    if isinstance(value, Sentence):
        return value.pieces
    if isinstance(value, Parameter | Action):
        return (value,)
    # Formatted at once: an error keeps no hold of what it was about, and can be pickled whatever that was.
    return (format(Formatter().convert_field(value, conversion) if conversion else value, form),)


def _is_plain(text: str) -> bool:
    """True if a value is written in Python as it is typed."""
    if text in ("True", "False", "None"):
        return True
    try:
        return float(text) - float(text) == 0
    except ValueError:
        return False
