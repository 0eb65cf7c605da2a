"""An option of a method is declared with its field: its meaning, the values that it accepts, and its default.

The command line, `docs/commands.md` and `help(qc.Clicks)` are all made from here. A renamed option keeps its former
names, a renamed value its former spellings: constructors, command line, TOML files and cards take them, too. Cards,
ledgers and `--json` keep writing the oldest ones, because their keys and values never change.
"""

from __future__ import annotations

import inspect
import sys
import types
from abc import ABCMeta
from collections.abc import Iterator, Mapping
from dataclasses import Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin, get_type_hints

from querycloak.errors import ParameterError
from querycloak.sentence import Parameter

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_HELP, _NAMES_FILE, _FORMERLY, _FORMER_VALUES = "help", "names_file", "formerly", "former_values"


def option(
    default: Any = None,
    *,
    help: str,  # noqa: A002 (the usual name)
    names_file: bool = False,
    formerly: str | tuple[str, ...] = (),
    former_values: Mapping[str, str] | None = None,
) -> Any:
    """Declare a field of a method as an option of the constructor, the command line, TOML files and cards.

    default: the value if it is not given; it must be a valid one, or None. help: its meaning, as `--help`,
    docs/commands.md and `help(qc.Clicks)` show it; the default is added. names_file: whether it names a file of the
    owner, whose path must not be published. formerly: its former name or names, oldest first. former_values: the
    current value for each former one.
    """
    names = (formerly,) if isinstance(formerly, str) else formerly
    values = tuple((former_values or {}).items())
    metadata = {_HELP: help, _NAMES_FILE: names_file, _FORMERLY: names, _FORMER_VALUES: values}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Option:
    """An option as its field declares it."""

    name: str
    annotation: Any
    default: Any
    help: str
    names_file: bool = False
    formerly: tuple[str, ...] = ()
    former_values: tuple[tuple[str, str], ...] = ()
    """Current values by former values."""

    @property
    def recorded_name(self) -> str:
        """Its key in cards and `--json`: the oldest name."""
        return self.formerly[0] if self.formerly else self.name

    def recorded_value(self, value: Any) -> Any:
        """A value as cards and `--json` hold it: the oldest spelling."""
        return next((former for former, current in self.former_values if current == value), value)

    @property
    def kinds(self) -> tuple[Any, ...]:
        """The accepted plain types, without None and without choices."""
        return tuple(kind for kind in _alternatives(self.annotation) if not _is_choice(kind))

    @property
    def choices(self) -> tuple[str, ...]:
        """The accepted words; empty if any value of its type is accepted."""
        return tuple(word for kind in _alternatives(self.annotation) if _is_choice(kind) for word in get_args(kind))

    @property
    def is_flag(self) -> bool:
        """True if it takes no value on the command line: it is given or not."""
        return self.kinds == (bool,)

    @property
    def typed(self) -> str:
        """Its name on the command line."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def help_with_default(self) -> str:
        """Meaning, and default."""
        return self.help + _default(self.default)

    @property
    def accepts(self) -> str:
        """Accepted values, for people."""
        words = {int: "N", float: "NUMBER", str: "TEXT"}
        return "|".join([*(words[kind] for kind in self.kinds if kind in words), *self.choices])


def options_of(kind: type[DataclassInstance]) -> Iterator[Option]:
    """The options of a method: its own in the order of its fields, inherited ones, and last the variant."""
    hints = _hints(kind)
    given = {each.name: each for each in fields(kind) if each.init}
    for name in sorted(hints, key=lambda name: name == "variant"):
        yield Option(name, hints[name], given[name].default, **given[name].metadata)


def current_options(kind: type[DataclassInstance], given: Mapping[str, Any]) -> dict[str, Any]:
    """The same options by their current names and values; other entries of `given` stay as they are.

    Given by both names, an option is refused, unless the current name has the default, as from `dataclasses.replace`.
    """
    renamed = {former: each for each in fields(kind) for former in each.metadata.get(_FORMERLY, ()) if former in given}
    for former, each in renamed.items():
        others = [name for name, other in renamed.items() if other is each and name != former]
        if others or given.get(each.name, each.default) != each.default:
            names = {"former": Parameter(former), "current": Parameter(each.name)}
            raise ParameterError.of("{former} is the former name of {current}: give only {current}", **names)
    replaced = {each.name for each in renamed.values()}
    options = {renamed[name].name if name in renamed else name: given[name] for name in given if name not in replaced}
    for each in fields(kind):
        for former, current in each.metadata.get(_FORMER_VALUES, ()):
            if options.get(each.name) == former:
                options[each.name] = current
    return options


class TakesFormerNames(ABCMeta):
    """Metaclass of classes whose constructors take options by former names and values, too."""

    if not TYPE_CHECKING:  # type checkers, editors and help see the parameters of __init__

        def __call__(cls, *given: Any, **named: Any) -> Any:
            """A value of the class, made with current names."""
            return super().__call__(*given, **current_options(cls, named))

        @property
        def __signature__(cls) -> inspect.Signature:
            taken = inspect.signature(cls.__init__)
            return taken.replace(parameters=list(taken.parameters.values())[1:])


def options_text(kind: type) -> str:
    """The options of a class that is being defined, a line each: what `help` shows."""
    declared: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        declared |= vars(base).get("__dataclass_fields__", {})
    declared = {**vars(kind), **{name: each for name, each in declared.items() if name not in vars(kind)}}
    listed = [each for each in declared.items() if isinstance(each[1], Field) and _HELP in each[1].metadata]
    listed.sort(key=lambda each: each[0] == "variant")
    return "\n".join(f"    {name}: {option.metadata[_HELP]}{_default(option.default)}" for name, option in listed)


def _default(value: object) -> str:
    return "" if value is None or value is False else f" Default: {value}."


def _hints(kind: type[DataclassInstance]) -> dict[str, Any]:
    """Types of the fields that are options; those of others may be known to type checkers alone."""
    given = {each.name for each in fields(kind) if each.init and _HELP in each.metadata}
    hints: dict[str, Any] = {}
    for base in kind.__mro__:

        def stub() -> None:
            """Carries annotations."""

        own: dict[str, Any] = vars(base).get("__annotations__", {})
        stub.__annotations__ = {name: hint for name, hint in own.items() if name in given and name not in hints}
        hints |= get_type_hints(stub, globalns=vars(sys.modules[base.__module__]))
    return hints


def _alternatives(annotation: Any) -> tuple[Any, ...]:
    if get_origin(annotation) in (Union, types.UnionType):
        return tuple(kind for kind in get_args(annotation) if kind is not type(None))
    return (annotation,)


def _is_choice(kind: Any) -> bool:
    return get_origin(kind) is Literal
