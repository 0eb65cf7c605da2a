"""Decisions of a log's owner before any count, stated on the card of a release (without names of users left out)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import one_of, refuse
from querycloak.sentence import Sentence

KeepUrl = Literal["full", "path", "host"]
PERIODS = ("day", "week", "month")
"""Attributes that follow from a search's time."""
RESERVED = frozenset(
    {*PERIODS, "user", "time", "query", "rank", "url", "clicked", "shown", "code", "file", "line", "fields", "content"}
    | {"count", "earliest", "times", "prior", "number", "n", "place", "ranks", "viewers", "clickers", "views", "clicks"}
    | {"searches", "users", "cells"}
)
"""Names that columns of ours have, here or in a release."""
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_RENAME = Sentence("give a column such a name with {columns}, such as country=COLUMN")


@dataclass(frozen=True)
class Choices:
    """Selection of a log's rows, and the form of their texts."""

    since: datetime | None = None
    until: datetime | None = None
    applications: tuple[str, ...] = ()
    leave_out: frozenset[str] = frozenset()
    keep_url: KeepUrl = "path"
    normalise: bool = True
    click_actions: tuple[str, ...] = ("click",)
    attributes: tuple[str, ...] = ()
    """Other columns of the log that are kept, such as country and device."""

    def __post_init__(self) -> None:
        checked_attributes("attributes", self.attributes)
        one_of("keep_url", self.keep_url, get_args(KeepUrl))
        if self.since is not None and self.until is not None and microseconds(self.since) >= microseconds(self.until):
            raise ParameterError.of(
                "{since} must be before {until}; they are {first} and {last}", first=self.since, last=self.until
            )
        if not self.click_actions or not all(self.click_actions):
            refuse("click_actions", "names of actions", self.click_actions, "give at least one, such as click")

    def period(self) -> dict[str, str]:
        """The owner's period, as a charge records it; empty if none was given."""
        given = {"since": self.since, "until": self.until}
        named = {name: moment.isoformat() for name, moment in given.items() if moment is not None}
        return {"period": ", ".join(f"{name} {moment}" for name, moment in named.items())} if named else {}

    def describe(self) -> dict[str, object]:
        """The decisions as cards state them, without the users left out."""
        return {
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "applications": list(self.applications),
            "users_left_out": bool(self.leave_out),
            "keep_url": self.keep_url,
            "normalise": self.normalise,
            "click_actions": list(self.click_actions),
            **({"attributes": list(self.attributes)} if self.attributes else {}),
        }


def could_be_attribute(name: str) -> bool:
    """True if an attribute may have this name."""
    return _NAME.fullmatch(name) is not None and name not in RESERVED


def checked_attributes(parameter: str, names: Sequence[str], also: Sequence[str] = ()) -> tuple[str, ...]:
    """Names of attributes, if they can be columns of a release; `also` are accepted though they are reserved."""
    if isinstance(names, str):
        refuse(parameter, "a list of names", names, "such as ('country', 'device')")
    for name in names:
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            rule = "names of small letters, digits and underscores that begin with a letter"
            refuse(parameter, rule, name, _RENAME)
        if name in RESERVED and name not in also:
            refuse(parameter, f"other names than {', '.join(sorted(RESERVED - set(also)))}", name, _RENAME)
    if len(set(names)) < len(names):
        refuse(parameter, "different names", ",".join(names), "say each once")
    return tuple(names)


def microseconds(moment: datetime) -> int:
    """Since 1970; a moment without a zone is UTC, like the log's own times."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    distance = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (distance.days * 86_400 + distance.seconds) * 1_000_000 + distance.microseconds
