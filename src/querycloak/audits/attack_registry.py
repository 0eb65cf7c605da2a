"""The attacks by name, in the order in which they are shown; an attack's module is imported when it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from querycloak.audits.attack import Attack
from querycloak.errors import ParameterError


class AttackEntry(NamedTuple):
    """Import path of an attack."""

    module: str
    class_name: str


ATTACKS: dict[str, AttackEntry] = {
    "singling-out": AttackEntry("querycloak.audits.attacks.singling_out", "SinglingOut"),
    "linkage-records": AttackEntry("querycloak.audits.attacks.record_linkage", "RecordLinkage"),
    "known-visit": AttackEntry("querycloak.audits.attacks.known_visit", "KnownVisit"),
    "linkage-sessions": AttackEntry("querycloak.audits.attacks.session_linkage", "SessionLinkage"),
    "linkage-periods": AttackEntry("querycloak.audits.attacks.period_linkage", "PeriodLinkage"),
    "inference": AttackEntry("querycloak.audits.attacks.inference", "Inference"),
    "membership": AttackEntry("querycloak.audits.attacks.membership", "Membership"),
    "secrets": AttackEntry("querycloak.audits.attacks.planted_secrets", "PlantedSecrets"),
    "regurgitation": AttackEntry("querycloak.audits.attacks.regurgitation", "Regurgitation"),
    "forced-out": AttackEntry("querycloak.audits.attacks.forced_out", "ForcedOut"),
    "reconstruction": AttackEntry("querycloak.audits.attacks.reconstruction", "Reconstruction"),
    "leaks": AttackEntry("querycloak.audits.attacks.folder_leaks", "FolderLeaks"),
}
# What some attacks cannot do without, by the names of the audit's parameters.
NEEDS = {"linkage-periods": "other_period", "secrets": "truth", "regurgitation": "truth"}
# Those that learn need scikit-learn, an extra.
LEARNING = ("linkage-records", "linkage-sessions")


def attacks_named(names: Sequence[str] | None = None) -> list[Attack]:
    """The attacks of these names, all if none is given."""
    unknown = [name for name in names or () if name not in ATTACKS]
    if unknown:
        raise ParameterError(f"there is no attack {unknown[0]!r}; there are {', '.join(ATTACKS)}")
    return [getattr(import_module(ATTACKS[name].module), ATTACKS[name].class_name)() for name in names or ATTACKS]
