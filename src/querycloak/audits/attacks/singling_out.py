"""Singling out: names in a release that hold a few known queries of a person; success if exactly one does."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import ClassVar

from querycloak.audits.attack import Finding, Share
from querycloak.audits.audit_data import WAYS, AuditData, Fitting, Numbers
from querycloak.evaluation.target import NO_OWNERS, Target

MOST_KNOWN = 5


class SinglingOut:
    """Exactly one name holds all m known queries; in settings `released`, all known queries that the release holds.

    In settings `right`, that name is also the person's own.
    """

    name: ClassVar[str] = "singling-out"

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:  # noqa: ARG002
        """Needs rows under names."""
        return release.without_names()

    def run(self, release: Target, knowledge: AuditData) -> Iterator[Finding]:
        """One to five known queries, known at random, from the first on, or the rarest first."""
        holders = knowledge.holders_in(release)
        owner = knowledge.owner_numbers(release, knowledge.members.users, holders.names)
        guess = 1 / len(knowledge.train_users)
        for way, known, released_only in product(WAYS, range(1, MOST_KNOWN + 1), (False, True)):
            setting = f"m={known} {way}{' released' * released_only}"
            who, queries = knowledge.known(way, known, members=True)
            in_log = holders.fitting(queries, released_only=released_only)
            outside = holders.fitting(knowledge.known(way, known, members=False)[1], released_only=released_only)
            yield from fitting_names(setting, who, in_log, outside, owner, guess)


def fitting_names(
    setting: str, who: Numbers, in_log: Fitting, outside: Fitting, owner: Numbers | None, guess: float
) -> Iterator[Finding]:
    """Success if exactly one name fits; in setting `right`, if that name is the person's own.

    who: the members behind `in_log`. owner: index of the member behind each name; None if owners are unknown.
    """
    alone = in_log.number == 1
    control = Share.of(int((outside.number == 1).sum()), len(outside.number))
    yield Finding.of(setting, Share.of(int(alone.sum()), len(who)), control, 0.0)
    if owner is None:
        yield Finding.missing(NO_OWNERS, f"{setting} right")
        return
    right = Share.of(int((owner[in_log.name[alone]] == who[alone]).sum()), len(who))
    yield Finding.of(f"{setting} right", right, Share.exactly(guess), guess)
