"""Attack: a named class that refuses releases it cannot attack and reports findings on the others; the list of attacks.

`docs/own-attack.md` adds one in a page.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import ClassVar, Protocol, runtime_checkable

from querycloak.audits.audit_data import AuditData
from querycloak.errors import ParameterError
from querycloak.evaluation.target import Target

Z_95 = 1.959963984540054  # both sides of a normal law, 95 %


@dataclass(frozen=True)
class Share:
    """A share of cases: as counted, and Wilson's centre with half the width of its 95 % interval."""

    value: float
    centre: float
    error: float
    cases: int

    @classmethod
    def of(cls, hits: float, cases: int) -> Share:
        """A number of hits among a number of cases; ties that count half make hits that are not whole."""
        if cases <= 0:
            return cls(0.0, 0.5, 0.5, 0)
        squared = Z_95 * Z_95
        centre = (hits + squared / 2) / (cases + squared)
        error = Z_95 / (cases + squared) * math.sqrt(hits * (cases - hits) / cases + squared / 4)
        return cls(hits / cases, centre, error, cases)

    @classmethod
    def mean(cls, shares: Sequence[Share]) -> Share:
        """The mean of shares of the same people in several draws of noise; a single one as it is.

        Its error has two sources: these people may be luckier than others, and so may these draws (Student's t).
        """
        if len(shares) == 1:
            return shares[0]
        from scipy.stats import t

        number = len(shares)
        by_people = statistics.fmean(each.error for each in shares)
        by_draws = t.ppf(0.975, number - 1) * statistics.stdev(each.value for each in shares) / math.sqrt(number)
        value = statistics.fmean(each.value for each in shares)
        centre = statistics.fmean(each.centre for each in shares)
        return cls(value, centre, math.hypot(by_people, float(by_draws)), sum(each.cases for each in shares))

    @classmethod
    def exactly(cls, value: float) -> Share:
        """A share that is known, such as the chance of a guess."""
        return cls(value, value, 0.0, 0)


@dataclass(frozen=True)
class Risk:
    """Gain of an attack over public knowledge, with its 95 % interval: 0 is no gain, 1 is certainty."""

    value: float
    low: float
    high: float


def risk(main: Share, control: Share) -> Risk:
    """Return (main - control) / (1 - control) with its 95 % interval, all cut to 0 to 1."""
    value = _residual(main.value, control.value)
    centre = _residual(main.centre, control.centre)
    left = max(1 - control.centre, 1e-12)
    by_main = main.error / left
    by_control = control.error * (main.centre - 1) / left**2
    error = math.hypot(by_main, by_control)
    # Wilson's centre lies nearer to one half than the share itself, which must stay within its own interval.
    return Risk(_unit(value), _unit(min(centre - error, value)), _unit(max(centre + error, value)))


def _residual(main: float, control: float) -> float:
    return (main - control) / (1 - control) if control < 1 else 0.0


def _unit(number: float) -> float:
    return min(max(number, 0.0), 1.0)


INVALID = "invalid: no better than without the release, so it says nothing about the risk"


@dataclass(frozen=True)
class Finding:
    """Result of an attack in one setting. Numbers are null where it could not run; `why` gives the reason.

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
        interval = risk(main, control)
        return cls(
            setting=setting,
            main=main.value,
            control=control.value,
            baseline=baseline,
            risk=interval.value,
            low=interval.low,
            high=interval.high,
            targets=main.cases if targets is None else targets,
            why=None if main.value > baseline else INVALID,
            alarm=alarm,
        )

    @classmethod
    def missing(cls, why: str, setting: str | None = None) -> Finding:
        """A finding without a result: its numbers are None, not 0."""
        return cls(setting=setting, why=why)


class Attack(Protocol):
    """One way of learning about people from a release."""

    name: ClassVar[str]

    def unsupported_reason(self, release: Target, knowledge: AuditData) -> str | None:
        """Reason that it cannot run on this release; None if it can."""
        ...

    def run(self, release: Target, knowledge: AuditData) -> Iterable[Finding]:
        """Findings, one for each setting; called only if `unsupported_reason` is None."""
        ...


@runtime_checkable
class PooledAttack(Protocol):
    """An attack that also judges several releases together that differ by their noise alone."""

    def run_on_several(self, releases: Sequence[Target], knowledge: AuditData) -> Iterable[Finding]:
        """Findings on several releases of one method with the same parameters."""
        ...


ATTACKS: Mapping[str, str] = {
    "singling-out": "querycloak.audits.attacks.singling_out:SinglingOut",
    "linkage-records": "querycloak.audits.attacks.record_linkage:RecordLinkage",
    "known-visit": "querycloak.audits.attacks.known_visit:KnownVisit",
    "linkage-sessions": "querycloak.audits.attacks.session_linkage:SessionLinkage",
    "linkage-periods": "querycloak.audits.attacks.period_linkage:PeriodLinkage",
    "inference": "querycloak.audits.attacks.inference:Inference",
    "membership": "querycloak.audits.attacks.membership:Membership",
    "secrets": "querycloak.audits.attacks.planted_secrets:PlantedSecrets",
    "regurgitation": "querycloak.audits.attacks.regurgitation:Regurgitation",
    "forced-out": "querycloak.audits.attacks.forced_out:ForcedOut",
    "reconstruction": "querycloak.audits.attacks.reconstruction:Reconstruction",
    "leaks": "querycloak.audits.attacks.folder_leaks:FolderLeaks",
}
"""The class of each attack, in the order in which they are shown; it is imported when the attack is asked for.

An attack on people also has a view in `comparison/comparison_views.py`, and in `pages/officer_answers.py` the criterion
that it tests.
"""
# Parameters of an audit that some attacks cannot do without.
NEEDS = {"linkage-periods": "other_period", "secrets": "truth", "regurgitation": "truth"}
# Attacks that need scikit-learn, an extra.
LEARNING = ("linkage-records", "linkage-sessions")


def attacks_named(names: Sequence[str] | None = None) -> list[Attack]:
    """The attacks of these names; all if None."""
    unknown = [name for name in names or () if name not in ATTACKS]
    if unknown:
        raise ParameterError(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    places = (ATTACKS[name].split(":") for name in names or ATTACKS)
    return [getattr(import_module(module), class_name)() for module, class_name in places]
