"""What an attack is: a class with a name that says what it cannot be run on, and otherwise what it found.

`docs/own-attack.md` adds one in a page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from querycloak.audits.attacked import Target
from querycloak.audits.knowledge import AuditData
from querycloak.audits.risk import Share, risk

INVALID = "invalid: no better than without the release, so it says nothing about the risk"


@dataclass(frozen=True)
class Finding:
    """What an attack found in one setting; all numbers are null where it could not be run, and `why` says why.

    `alarm` is a sentence if this must not happen at all: a leak, or more than a guarantee allows.
    """

    setting: str | None = None
    main: float | None = None
    control: float | None = None
    baseline: float | None = None
    risk: float | None = None
    low: float | None = None
    high: float | None = None
    targets: int | None = None
    why: str | None = None
    alarm: str | None = None

    @classmethod
    def of(
        cls,
        setting: str,
        main: Share,
        control: Share,
        baseline: float,
        *,
        targets: int | None = None,
        alarm: str | None = None,
    ) -> Finding:
        """An attack's success on people in the log, on people who are not, and without the release."""
        if not main.cases:
            return cls.missing("no target fits this setting", setting)
        found = risk(main, control)
        return cls(
            setting=setting,
            main=main.value,
            control=control.value,
            baseline=baseline,
            risk=found.value,
            low=found.low,
            high=found.high,
            targets=main.cases if targets is None else targets,
            why=None if main.value > baseline else INVALID,
            alarm=alarm,
        )

    @classmethod
    def missing(cls, why: str, setting: str | None = None) -> Finding:
        """Not available, which is not 0."""
        return cls(setting=setting, why=why)


class Attack(Protocol):
    """One way of learning about people from a release."""

    name: ClassVar[str]

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:
        """Why it cannot be run on this release; nothing if it can."""
        ...

    def run(self, release: Target, knowledge: AuditData) -> Iterable[Finding]:
        """What it finds, setting by setting; called only if `unsupported_reason` gave no reason."""
        ...


@runtime_checkable
class PooledAttack(Protocol):
    """An attack that also judges several releases together that differ by their noise alone."""

    def run_on_several(self, releases: Sequence[Target], knowledge: AuditData) -> Iterable[Finding]:
        """What it finds in all of them; they have the same method and parameters."""
        ...
