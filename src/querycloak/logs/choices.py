"""Decisions of a log's owner before any count: all of them stand on the card of a release."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, get_args

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import one_of, refuse
from querycloak.sentence import Sentence

KeepUrl = Literal["full", "path", "host"]


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

    def __post_init__(self) -> None:
        one_of("keep_url", self.keep_url, get_args(KeepUrl))
        if self.since is not None and self.until is not None and microseconds(self.since) >= microseconds(self.until):
            raise ParameterError(
                Sentence(
                    "{since} must be before {until}; they are {first} and {last}", first=self.since, last=self.until
                )
            )
        if not self.click_actions or not all(self.click_actions):
            refuse("click_actions", "names of actions", self.click_actions, "give at least one, such as click")

    def describe(self) -> dict[str, object]:
        """For cards: what was decided, without the users left out."""
        return {
            "since": self.since and self.since.isoformat(),
            "until": self.until and self.until.isoformat(),
            "applications": list(self.applications),
            "users_left_out": bool(self.leave_out),
            "keep_url": self.keep_url,
            "normalise": self.normalise,
            "click_actions": list(self.click_actions),
        }


def microseconds(moment: datetime) -> int:
    """Since 1970; a moment without a zone is UTC, like the log's own times."""
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    distance = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (distance.days * 86_400 + distance.seconds) * 1_000_000 + distance.microseconds
