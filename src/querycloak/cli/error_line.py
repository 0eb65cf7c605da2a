"""Errors at a terminal: one line, with options where Python has parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from typing import Any

from querycloak.errors import QuerycloakError
from querycloak.extras import COMPARE, installed
from querycloak.methods.option import options_of
from querycloak.methods.registry import BUILT_IN, METHODS
from querycloak.sentence import Action, Parameter, Sentence, printable

_LONGEST = 2000
"""Characters of one line."""

START = """\
querycloak releases a search log with a privacy guarantee. To start with:

Every method on an invented log, as a page{first}:
  querycloak demo
The figures of a log of yours (private output):
  querycloak inspect LOG
The meaning of a budget for one person:
  querycloak guarantee queries --epsilon 1 --delta 1e-6 --explain

querycloak --help lists all commands.
"""


def start() -> str:
    """Three commands to start with; an extra that the first of them lacks."""
    return START.format(first="" if installed(COMPARE) else f" (pip install 'querycloak[{COMPARE}]')")


def error_line(error: QuerycloakError) -> str:
    """The error's message with parameters as options; it may quote a file, so it is made fit for a terminal."""
    return "\n".join(printable(line, _LONGEST) for line in as_typed(error.sentence).split("\n"))


def as_typed(message: str | Sentence) -> str:
    """The message with parameters as options."""
    return message if isinstance(message, str) else message.text(_piece)


def misuse(error: BaseException) -> str | None:
    """The message for input that the parser refuses; None for other errors."""
    if type(error).__name__ == "NoArgsIsHelpError":
        context = getattr(error, "ctx", None)
        return start() if context is not None and context.parent is None else f"{error}\n"
    tell = getattr(error, "format_message", None)
    if tell is None:
        return None
    message = f"{tell().rstrip('.')} (see --help)"
    return f"querycloak: {_foreign_option(error) or _bad_value(error) or message}\n"


def _piece(piece: Parameter | Action) -> str:
    if isinstance(piece, Action):
        return piece.as_typed()
    option = Parameter(piece.name).as_option()
    # Methods that are loaded already are asked first: the option is nearly always theirs, and others take time to load.
    return piece.as_option() if option in options(_loaded()) or option in options() else str(piece)


def _foreign_option(error: BaseException) -> str | None:
    """The message for an option that only other methods have; None for other errors."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if context is None or context.info_name not in METHODS or name not in options():
        return None
    method, command = context.info_name, context.parent.command_path
    return f"{name} does not go with {method}; {command} {method} --help shows what does"


def _bad_value(error: BaseException) -> str | None:
    """The message for a value of the wrong kind: option, rule, value, way out; None for other errors."""
    option, list_problems = getattr(error, "param", None), getattr(error.__cause__, "errors", None)
    if option is None or list_problems is None:
        return None
    problem, name = list_problems()[0], _current_name(option, getattr(error, "ctx", None))
    if problem["type"] in _RULES:
        return f"{name} must be {_RULES[problem['type']]}, got {problem['input']!r}; see --help"
    if "error" in problem.get("ctx", {}):  # it lists the choices
        return f"{name}: {str(problem['ctx']['error']).rstrip('.')}; see --help"
    return None


def _current_name(option: Any, context: Any) -> str:
    """The option as help shows it, also if it was typed by a former name."""
    if option.hidden and context is not None and context.info_name in METHODS:
        for each in options_of(METHODS[context.info_name]):
            if option.name in each.formerly:
                return each.typed
    return str(option.opts[0])


_RULES = {"int_parsing": "a whole number", "float_parsing": "a number"}
"""The rule for each type of problem that the parser names."""


@cache
def options(methods: frozenset[str] | None = None) -> frozenset[str]:
    """Every option of every command; of commands for methods, those of these methods, or of all."""
    from typer.main import get_command

    from querycloak.cli.cli import app

    left_out = frozenset() if methods is None else frozenset(iter(METHODS)) - methods
    return frozenset(_options_of(get_command(app), left_out))


def _loaded() -> frozenset[str]:
    return frozenset(name for name, place in BUILT_IN.items() if place.partition(":")[0] in sys.modules)


def _options_of(command: Any, left_out: frozenset[str]) -> Iterator[str]:
    for parameter in command.params:
        yield from parameter.opts
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        if name not in left_out:
            with suppress(QuerycloakError):  # another package's method that cannot be loaded
                yield from _options_of(command.get_command(None, name), left_out)
