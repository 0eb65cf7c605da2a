"""Errors as somebody at a terminal should read them: with options where the library speaks of parameters."""

from __future__ import annotations

import re
from dataclasses import fields

from querycloak.methods.option import options_of
from querycloak.methods.registry import METHODS
from querycloak.present.options import Reading

_OTHERS = ("at_delta", "epsilon", "gap_minutes", "log", "out", "population_size", "preset", "releases", "seed", "users")
_OPTIONS = {each.name for kind in METHODS.values() for each in options_of(kind)}
_NAMES = {*_OPTIONS, *(field.name for field in fields(Reading)), *_OTHERS}
# What stands in quotes was typed or read: it stays as it is.
_QUOTED = re.compile(r"((?<!\w)'[^']*'(?!\w))")
# A word with an underscore is a parameter wherever it stands; others only where a sentence is about them.
_COMPOUND = re.compile(r"(?<![\w-])[a-z]+(?:_[a-z]+)+(?!\w)")
_SUBJECT = re.compile(r"^(\w+)(?: and (\w+))?(?= must )")
_MISSING = re.compile(r" must be (.*), got None(?=;|$)")
_LISTED = re.compile(r"(?<=\()\w+(?:, \w+)*(?=\))")


def as_typed(message: str) -> str:
    """The message with `--per-user` for `per_user`, and without a value for what was not typed at all."""
    message = _MISSING.sub(r" must be given, \1", message)
    return "".join(part if _QUOTED.fullmatch(part) else _with_options(part) for part in _QUOTED.split(message))


def _with_options(text: str) -> str:
    for pattern in (_SUBJECT, _LISTED):
        text = pattern.sub(lambda found: _all_options(found[0]), text)
    return _COMPOUND.sub(lambda found: _option(found[0]) if found[0] in _NAMES else found[0], text)


def _all_options(words: str) -> str:
    """The words as options, if each of them is one."""
    names = [word for word in re.findall(r"\w+", words) if word != "and"]
    if not all(name in _NAMES for name in names):
        return words
    return re.sub(r"\w+", lambda found: found[0] if found[0] == "and" else _option(found[0]), words)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
