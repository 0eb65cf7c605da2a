"""An option of a method is declared with its field: what it means, what it accepts, and its default.

The command line, `docs/commands.md` and `help(qc.Clicks)` are all made from here.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_HELP, _NAMES_FILE = "help", "names_file"


def option(default: Any = None, *, help: str, names_file: bool = False) -> Any:  # noqa: A002 (what it is called)
    """A field of a method that its user may set.

    names_file: it names a file of the owner, whose path must not be published.
    """
    return field(default=default, metadata={_HELP: help, _NAMES_FILE: names_file})


@dataclass(frozen=True)
class Option:
    """One option, as its field declares it."""

    name: str
    annotation: Any
    default: Any
    help: str
    names_file: bool = False

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The plain types that it accepts, without None and without choices."""
        return tuple(kind for kind in _alternatives(self.annotation) if not _is_choice(kind))

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it accepts; empty if it takes any value of its kind."""
        return tuple(word for kind in _alternatives(self.annotation) if _is_choice(kind) for word in get_args(kind))

    @property
    def is_flag(self) -> bool:
        """Whether it is switched on rather than given a value."""
        return self.kinds == (bool,)

    @property
    def typed(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def help_with_default(self) -> str:
        """What it means, and its default."""
        return self.help + _default(self.default)

    @property
    def accepts(self) -> str:
        """What may follow it, for people."""
        words = {int: "N", float: "NUMBER", str: "TEXT"}
        return "|".join([*(words[kind] for kind in self.kinds if kind in words), *self.choices])


def options_of(kind: type[DataclassInstance]) -> Iterator[Option]:
    """The options of a method: its own in the order of its fields, inherited ones, and last the variant."""
    hints = _hints(kind)
    given = {each.name: each for each in fields(kind) if each.init}
    for name in sorted(hints, key=lambda name: name == "variant"):
        metadata = given[name].metadata
        yield Option(name, hints[name], given[name].default, metadata[_HELP], metadata[_NAMES_FILE])


def options_text(kind: type) -> str:
    """The options of a class that is being defined, a line each: what `help` shows."""
    declared: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        declared |= vars(base).get("__dataclass_fields__", {})
    declared = {**vars(kind), **{name: each for name, each in declared.items() if name not in vars(kind)}}
    listed = [each for each in declared.items() if isinstance(each[1], Field) and _HELP in each[1].metadata]
    listed.sort(key=lambda each: each[0] == "variant")
    return "\n".join(f"    {name}: {found.metadata[_HELP]}{_default(found.default)}" for name, found in listed)


def _default(value: object) -> str:
    return "" if value is None or value is False else f" Default: {value}."


def _hints(kind: type[DataclassInstance]) -> dict[str, Any]:
    """The types of the fields that can be given; those of others may be known to type checkers alone."""
    given = {each.name for each in fields(kind) if each.init}
    found: dict[str, Any] = {}
    for base in kind.__mro__:

        def stub() -> None:
            """Carries annotations."""

        own: dict[str, Any] = vars(base).get("__annotations__", {})
        stub.__annotations__ = {name: hint for name, hint in own.items() if name in given and name not in found}
        found |= get_type_hints(stub, globalns=vars(sys.modules[base.__module__]))
    return found


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for kind in get_args(annotation) if kind is not type(None))
    return (annotation,)


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) is Literal
