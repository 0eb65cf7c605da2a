"""The law of messages: an error says `max_keys_per_user` to a Python caller, and `--max-keys-per-user` at a terminal.

A plugin of pytest: every error that is made while a test runs is held to it, whatever the test is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from typer.main import get_command

from querycloak.cli.cli import app
from querycloak.cli.error_line import error_line, options
from querycloak.errors import QuerycloakError
from querycloak.sentence import Sentence

COMPOUND = re.compile(r"(?<![\w-])[a-z]+(?:_[a-z]+)+(?!\w)")
# What stands in quotes was typed, or is a value.
QUOTED = re.compile(r"""'[^']*'|"[^"]*\"""")


@cache
def compound_options() -> frozenset[str]:
    """Options of several words, as Python writes them."""
    return frozenset(option[2:].replace("-", "_") for option in options() if "-" in option.removeprefix("--"))


def not_options_of(words: list[str], told: str) -> set[str]:
    """Options that a command's error speaks of, but that neither were typed nor can be: another command's."""
    command: Any = get_command(app)
    for word in words:
        if not hasattr(command, "list_commands") or word not in command.list_commands(None):
            break
        command = command.get_command(None, word)
    own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    before_a_whole_command = QUOTED.sub("", told).split("querycloak ")[0]
    return set(re.findall(r"--[a-z][a-z-]*", before_a_whole_command)) - own - set(words) - {"--help"}


def breaks_the_law(error: QuerycloakError) -> str | None:
    """What is wrong with the words of an error, if anything."""
    in_python, typed = QUOTED.sub("", str(error)), QUOTED.sub("", error_line(error))
    if re.search(r"--[a-z]", in_python):
        return f"an option, said to a Python caller: {error}"
    if found := compound_options() & set(COMPOUND.findall(typed)):
        return f"a parameter, said at a terminal ({', '.join(found)}): {error_line(error)}"
    return None


@pytest.fixture(autouse=True)
def _messages_keep_the_law(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    broken: list[str] = []
    make = QuerycloakError.__init__

    def make_and_note(self: QuerycloakError, message: str | Sentence = "") -> None:
        make(self, message)
        broken.extend(filter(None, [breaks_the_law(self)]))

    monkeypatch.setattr(QuerycloakError, "__init__", make_and_note)
    yield
    if request.node.get_closest_marker("any_words") is None:
        assert broken == []
