"""Questions of an officer before signing, and answers from the card, the plan and the evidence.

The words stand in `templates/officer.html`; here are the facts that fill them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from querycloak.pages.shown_text import shown_share
from querycloak.privacy.sampling.exact import shown_up
from querycloak.releases.datasheet import beyond_public_lists
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind

UNITS = {
    "account": "one account. A person with two accounts is two users; people who share an account are one user.",
    "cookie": "one cookie. A person who deletes cookies, or has two browsers, is several users, and the limit is for "
    "each of them, not for the person.",
    "device": "one device. People who share a device are one user; a person with two devices is two users.",
    "household": "one household. All of its members are protected together, and so is each of them.",
    "user": "whatever the log calls a user. Find out what that is before you sign: an account, a cookie or a device.",
}
"""Kinds of users, each with its consequence for people."""


@dataclass(frozen=True)
class Deployment:
    """An entry of the OpenDP registry of deployments."""

    name: str
    year: int
    unit: str
    epsilon: float
    delta: float
    slug: str

    @property
    def source(self) -> str:
        """Its address in the registry."""
        return f"registry.opendp.org/deployments-registry, {self.slug}"


DEPLOYMENTS = (
    Deployment("Microsoft, Broadband Coverage", 2021, "user", 0.2, 0.0, "broadband-coverage-microsoft-2021"),
    Deployment("Microsoft, Assistive AI", 2020, "user", 4.0, 1e-7, "assistive-ai-microsoft-2020"),
    Deployment(
        "Recurve, Energy for OhmConnect", 2020, "user", 4.72, 5.06e-9,
        "energy-differential-privacy-for-ohmconnect-virtual-power-plant-measurement-recurve-2020",
    ),
    Deployment("Spectus, Mobility During a Hurricane", 2022, "user", 10.0, 0.0,
               "mobility-trends-during-hurricane-spectus-2022"),
    Deployment(
        "Microsoft and IOM, Victims and Perpetrators", 2023, "user", 12.0, 5.8e-6,
        "ctdc-global-victim-perpetrator-synthetic-dataset-microsoft-international-organization-for-migration-2023",
    ),
    Deployment("Google, Search Trends of Symptoms", 2020, "user and day", 1.68, 0.0,
               "covid-19-search-trends-symptoms-google-2020"),
    Deployment("Google, Vaccine Search Insights", 2021, "user and day", 2.19, 1e-5,
               "vaccine-search-insights-google-2021"),
    Deployment("Google, Community Mobility", 2020, "user and day", 2.64, 0.0,
               "community-mobility-place-visits-google-2020"),
    Deployment("LinkedIn, Audience Engagements", 2020, "user and month", 34.9, 7e-9,
               "audience-engagement-api-linkedin-2020"),
)  # fmt: skip
"""As the registry's data had them on 15 July 2026. Vaccine Search Insights is listed there by user; its own words,
quoted in the entry, are about a user's activity of a day."""


def beside_deployments(release: Release) -> dict[str, Any] | None:
    """Deployments by epsilon, and this release's place; None unless its neighbours add or remove a user."""
    proven = release.proven
    if not proven.covers_release or proven.neighbours != "add-remove-user" or proven.epsilon is None:
        return None
    same = sorted((each for each in DEPLOYMENTS if each.unit == "user"), key=lambda each: each.epsilon)
    return {
        "epsilon": proven.epsilon,
        "same": same,
        "other": [each for each in DEPLOYMENTS if each.unit != "user"],
        "below": sum(each.epsilon < proven.epsilon for each in same),
    }


@dataclass(frozen=True)
class Criterion:
    """A criterion of WP 216 and EDPB Guidelines 02/2026, the attacks that test it, and their result."""

    name: str
    question: str
    attacks: tuple[str, ...]
    result: str
    """Largest risk among the attacks with a result, and why others have none; true figures, hence private."""
    outcome: str
    """The result in a few words; private, too."""
    tried: bool


_CRITERIA = (
    ("Singling out", "Can one person's record be isolated?", ("singling-out", "known-visit")),
    ("Linking", "Can two records of one person be linked, within the release or with other data?",
     ("linkage-records", "linkage-sessions", "linkage-periods")),
    ("Inferring", "Can something about one person be concluded?",
     ("inference", "membership", "secrets", "regurgitation", "reconstruction")),
)  # fmt: skip


def criteria_of(attacks: Sequence[Mapping[str, Any]]) -> list[Criterion]:
    """The three criteria, each with the result of the attacks that test it."""
    return [_criterion(name, question, names, attacks) for name, question, names in _CRITERIA]


def _criterion(name: str, question: str, names: tuple[str, ...], attacks: Sequence[Mapping[str, Any]]) -> Criterion:
    # A row with a success and no risk is no attack that was tried, but the most that the guarantee allows.
    rows = [row for row in attacks if row["attack"] in names and not _is_bound(row)]
    with_risk = [row for row in rows if row.get("risk") is not None]
    without_gain = _names(row for row in rows if row.get("no_gain"))
    reasons: dict[str, list[str]] = {}
    for row in rows:
        if row.get("risk") is None and row.get("why") and row["attack"] not in without_gain:
            names_of_reason = reasons.setdefault(row["why"], [])
            names_of_reason += [row["attack"]] if row["attack"] not in names_of_reason else []
    outcome = "not tried"
    parts: list[str] = []
    if with_risk:
        worst = max(with_risk, key=lambda row: float(row["risk"]))
        ends = f"{shown_share(worst['low'])} to {shown_share(worst['high'])}" if worst.get("low") is not None else ""
        outcome = f"largest risk {shown_share(worst['risk'])} ({worst['attack']}{f'; {ends}' if ends else ''})"
        without_gain = [each for each in without_gain if each not in _names(with_risk)]
    elif without_gain:
        outcome = "no gain in the attacks that could be tried"
    elif reasons:
        outcome = "not applicable"
    if without_gain:
        parts.append(f"No gain: {', '.join(without_gain)}; without the release they succeed as often.")
    parts += [f"Not applicable: {', '.join(which)}, because {why}." for why, which in reasons.items()]
    if with_risk or not parts:
        parts.insert(0, f"{outcome[0].upper()}{outcome[1:]}.")
    return Criterion(name, question, names, " ".join(parts), outcome, bool(rows))


def _is_bound(row: Mapping[str, Any]) -> bool:
    return row.get("risk") is None and not row.get("no_gain") and row.get("main") is not None


def _names(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(row["attack"] for row in rows))


@dataclass(frozen=True)
class AssessedRisk:
    """A line of the annex to a data protection impact assessment."""

    risk: str
    measure: str
    residual: str


def _limit(release: Release) -> str:
    """The limit on conclusions about one person, as a measure against risks."""
    if release.seeded:
        return "none: the noise came from a seed"
    if release.proven.kind == "sampling-only":
        return "none: the proof covers one step only"
    if not release.proven.covers_release:
        return "a rule about the output, which limits no conclusion"
    epsilon, delta = release.proven.numbers
    each = " for each single query" if release.proven.unit == "query" else ""
    return f"limited by epsilon {shown_up(epsilon)}" + (f", delta {shown_up(delta)}" if delta else "") + each


def _texts(release: Release, *, filtered: bool) -> str:
    """Measure that keeps a text of one person from coming out as it is."""
    if not release.proven.covers_release or release.seeded:
        measure = "the method's rule"
    elif release.rows.is_random and release.rows is not RowKind.RANDOMISED:
        measure = "every text is a label, drawn from a taxonomy"
    elif release.counts == "public-keys" and not beyond_public_lists(release):
        measure = "nothing but texts of public lists can come out"
    else:
        measure = "noise and threshold decide what comes out"
    return f"{measure}, and a filter looks for patterns" if filtered else f"{measure}; no filter looked for patterns"


def risks_of(release: Release, criteria: Sequence[Criterion], *, filtered: bool) -> list[AssessedRisk]:
    """Risks, measures and what remains, filled from the card and from the evidence; the residual risk is private.

    filtered: rows with certain patterns were dropped before writing.
    """
    proven, limit = release.proven, _limit(release)
    by_name = {each.name: each.outcome for each in criteria}
    paid = "charged to a ledger" if release.accounting.charge is not None else "not accounted"
    return [
        AssessedRisk("A person is singled out in the release", limit, by_name["Singling out"]),
        AssessedRisk("Records of a person are linked", limit, by_name["Linking"]),
        AssessedRisk("Something sensitive about a person is concluded", limit, by_name["Inferring"]),
        AssessedRisk("A text of a person comes out as it is", _texts(release, filtered=filtered),
             f"listed under what is not protected: {len(proven.unprotected)} items"),
        AssessedRisk("Several releases add up", paid, "releases that other people made are not known here"),
        AssessedRisk("The raw log or the evidence gets out", "private files are open to the owner's account alone",
             "copies of the log, and who may read them, are the controller's to decide"),
    ]  # fmt: skip
