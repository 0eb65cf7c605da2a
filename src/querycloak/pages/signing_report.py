"""The report of a release: both pages, and the entry for the registry; all is checked before anything is written."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from querycloak.errors import InputError, ParameterError
from querycloak.evaluation.description import Description, describe
from querycloak.extras import COMPARE, PICTURES, require
from querycloak.files.documents import yaml_text
from querycloak.methods.evidence import digest_of, load
from querycloak.pages.hazards import MEANINGS, hazards_of
from querycloak.pages.layout import MARKS, render, write_page
from querycloak.pages.ledger_page import balance_of
from querycloak.pages.measured import Given, Measurements, measured, private_figures, public_figures, publishable_rows
from querycloak.pages.officer_answers import beside_deployments, criteria_of, risks_of
from querycloak.pages.registry_entry import registry_entry
from querycloak.pages.shown_text import PERCENT, shown_share
from querycloak.pages.signing_pictures import period_picture, trade_off_picture
from querycloak.privacy.explanation import comes_out_exactly, explain
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.ledger.accounts import Account
from querycloak.privacy.ledger.ledger import RUN, Ledger
from querycloak.privacy.parameters import of_kind, path_of
from querycloak.privacy.sampling.exact import shown_up
from querycloak.releases.about_file import PRIVATE, PUBLIC, TITLES, About
from querycloak.releases.folder import CARD
from querycloak.releases.loading import load_card
from querycloak.releases.release import Release
from querycloak.sentence import Sentence

_CITE = "How to cite it; add who published it, and where:"


@dataclass(frozen=True)
class Signing:
    """Facts for both pages. The public page shows neither `account` nor `files`, and no figures of the log."""

    release: Release
    described: Description
    card: Mapping[str, Any]
    digest: str
    about: About
    measured: Measurements
    account: Account | None
    unit: str | None = None
    """Kind of user, in words for the page; None if it was not stated."""
    files: Sequence[tuple[str, str, str]] = ()
    """Private files: name, content, and end of their keeping."""
    draft: bool = False
    """True for a page about a trial release, which nobody is to sign."""
    publishable: tuple[str, Sequence[Mapping[str, Any]]] | None = None
    """The public twin and the rows that were measured on it; None if there are none."""

    @classmethod
    def of(cls, folder: Path, about: About, measured: Measurements, account: Account | None, **more: Any) -> Signing:
        """From a release folder; InputError unless it is whole and its guarantee follows from its options."""
        release = load(folder)
        return cls(release, describe(folder), load_card(folder), digest_of(folder), about, measured, account, **more)


def outcomes(signing: Signing) -> tuple[tuple[str, str], ...]:
    """The three criteria by name, each with its outcome in a few words (private)."""
    return tuple((each.name, each.outcome) for each in criteria_of(_attacks(signing.measured)))


def public_page(signing: Signing) -> str:
    """Public page: its facts about the log come from the release and its card alone."""
    return _page(signing, private=False)


def private_page(signing: Signing) -> str:
    """Page to sign: the public page with true figures, the ledger's balance, and lines for names."""
    return _page(signing, private=True)


def _page(signing: Signing, *, private: bool) -> str:
    release, about, measured = signing.release, signing.about, signing.measured
    answered, attacks = hazards_of(release), _attacks(measured)
    criteria, filtered = criteria_of(attacks), bool(signing.card.get("last_look", {}).get("applied"))
    return render(
        "signing.html",
        title=f"{release.title}: {'to be signed' if private else 'what it is and what it promises'}",
        private=private,
        release=release,
        headline=headline(release),
        warnings=signing.card.get("warnings", []),
        about=[(TITLES[name], getattr(about, name)) for name in PUBLIC if _shown(name, about)],
        draft=signing.draft,
        signing=[(TITLES[name], getattr(about, name)) for name in PRIVATE],
        signing_fields=PRIVATE,
        digest=signing.digest,
        published=signing.card.get("published", ""),
        version=release.versions.get("querycloak", ""),
        tables=list(signing.described.tables.items()),
        promise=_promise(release, measured),
        trade_off=trade_off_picture(release),
        periods=period_picture(release, signing.described),
        explained=explain(release.proven).replace(" %", PERCENT).split("\n\n"),
        unprotected=release.proven.unprotected or ("nothing that we know of",),
        because=release.proven.because,
        balance=balance_of(signing.account, release.accounting.charge) if private else None,
        accounted=_accounted(signing),
        evaluation=private_figures(signing.measured.evaluation) if private else None,
        twin=None if signing.publishable is None else signing.publishable[0],
        publishable=public_figures((signing.publishable or ("", ()))[1], release.method),
        attacks=attacks,
        unit=signing.unit,
        limit=_limited(release),
        criteria=criteria,
        deployments=beside_deployments(release),
        risks=risks_of(release, criteria, filtered=filtered) if private else None,
        files=signing.files if private else (),
        stand_in=measured.stand_in,
        hazards=answered,
        tally=Counter(each.answer for each in answered),
        answers=MEANINGS,
        cite_note=_CITE,
        cite=signing.described.cite,
    )


def _shown(name: str, about: About) -> bool:
    """True for fields that a signer expects, empty or not, and for others that are given; a citation has its place."""
    return name != "citation" and (name not in ("doi", "keywords") or bool(getattr(about, name)))


def headline(release: Release) -> str:
    """One sentence: what is promised to one person, or that nothing is."""
    proven = release.proven
    if release.seeded:
        return "This release is a test: its noise can be undone."
    if not proven.covers_release:
        return "Nothing limits what this release tells about one person."
    epsilon, delta = proven.numbers
    unit = "every user" if proven.unit == "user" else "every single query"
    exception = f", but for an exception of probability {shown_up(delta)}" if delta else ", without exception"
    if proven.neighbours == "replace-query":
        if proven.unit == "query":
            content, comes_out = "its content", "that it was made, and whose rows stand together, comes out exactly"
        else:
            content, comes_out = "the content of their searches", comes_out_exactly(proven)
        return (
            f"For {unit}, what this release tells about {content} is limited by epsilon {shown_up(epsilon)}"
            f"{exception}; {comes_out}."
        )
    return f"For {unit}, what this release tells is limited by epsilon {shown_up(epsilon)}{exception}."


def _limited(release: Release) -> str | None:
    """Scope of the limit, in words; None if nothing limits inferences about one person."""
    if release.seeded or not release.proven.covers_release:
        return None
    if release.proven.unit == "query":
        return "every single query, not for all that a person asked"
    if release.proven.neighbours == "replace-query":
        return "what everybody in the log asked, not for who is in it"
    return "everybody in the log"


def _promise(release: Release, measured: Measurements) -> list[tuple[str, str, str, str]]:
    """Claimed, proven, measured; an audit of a method runs on logs of its own making, so that it may be published."""
    claimed, proven = release.claimed, release.proven
    audit = measured.method["measured"] if measured.method else None
    rows = [
        ("kind", _kind(claimed), _kind(proven), "runs on neighbouring logs" if audit else "not measured"),
        ("epsilon", _number(claimed, "epsilon"), _number(proven, "epsilon"), _measured(audit, "epsilon")),
        ("delta", _number(claimed, "delta"), _number(proven, "delta"), _measured(audit, "delta")),
    ]
    if proven.k is not None:
        rows.append(("k", _number(claimed, "k"), str(proven.k), ""))
    rows.append(("for whom", _UNITS[claimed.unit] if claimed else "", _UNITS[proven.unit], ""))
    rows.append(("what may differ", _differs(claimed) if claimed else "", _differs(proven), ""))
    if audit:
        words = (
            f"{audit['runs']:,} runs, confidence {audit['confidence']}, at most {audit['ceiling']:.3g} could be shown"
        )
        rows.append(("how", "", "a proof note that tests cite", words))
    return rows


_KINDS = {
    "pure-dp": "differential privacy, without exception",
    "approximate-dp": "differential privacy, with an exception (delta)",
    "syntactic": "a rule about the output; no differential privacy",
    "sampling-only": "differential privacy of one step only",
}
_UNITS = {"user": "each user", "query": "each single query"}
_NEIGHBOURS = {
    "add-remove-user": "whether one user is in the log at all",
    "replace-query": "what one user asked, by as many other queries",
    None: "nothing: no two logs are compared",
}


def _differs(guarantee: Guarantee) -> str:
    if guarantee.neighbours == "replace-query" and guarantee.unit == "query":
        return "what one search was for"
    return _NEIGHBOURS[guarantee.neighbours]


def _kind(guarantee: Guarantee | None) -> str:
    return _KINDS[guarantee.kind] if guarantee is not None else "nothing: the method is our own"


def _number(guarantee: Guarantee | None, name: str) -> str:
    value = getattr(guarantee, name, None)
    if guarantee is None or value is None:
        return ""
    if name == "k":
        return str(value)
    return shown_up(value) if guarantee.covers_release else "none for the whole release"


def _measured(audit: Mapping[str, Any] | None, name: str) -> str:
    if not audit or audit.get(name) is None:
        return ""
    return f"at least {audit[name]:.3g}" if name == "epsilon" else f"at {audit[name]:.3g}"


def _accounted(signing: Signing) -> str:
    accounting = signing.release.accounting
    if accounting.charge is None:
        return "This release was not accounted: nobody has added it up with others about the same people."
    return f"Charge {accounting.charge} of the population {accounting.population!r} in the owner's ledger pays for it."


def _attacks(measured: Measurements) -> list[dict[str, Any]]:
    """Rows of attacks; an invalid one has no risk, and a remark with its success without the release in its place."""
    rows = []
    for row in (row for row in measured.attacks if row.get("digest")):
        invalid = row.get("risk") is not None and row.get("why")
        if invalid:
            without = shown_share(row.get("baseline"))
            remark = f"shows nothing: without the release the attack succeeds as often ({without})"
            row = {**row, "risk": None, "low": None, "high": None, "why": remark, "no_gain": True}  # noqa: PLW2901 (a copy)
        rows.append(row)
    return rows


PUBLIC_PAGE, PRIVATE_PAGE, REGISTRY = "public.html", "private.html", "registry.yaml"


@dataclass(frozen=True)
class WrittenReport:
    """Paths of the pages, and the digest of their release."""

    public: Path
    private: Path
    registry: Path | None
    digest: str


def report(
    release: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    evaluation: Given | None = None,
    audits: Sequence[Given] = (),
    measured_on: str | os.PathLike[str] | None = None,
    ledger: str | os.PathLike[str] | None = None,
    about: Mapping[str, str] | str | os.PathLike[str] | None = None,
    registry: bool = False,
    publishable: str | os.PathLike[str] | None = None,
) -> WrittenReport:
    """Write the pages to sign of a release folder: public.html is published with it, private.html stays with the owner.

    evaluation, audits: as they were made, or the files they were saved in; they must be about this release, or about
    `measured_on`, one of the same method and options. about: fields of the owner's, or a TOML file with them; those of
    the card if not given. publishable: the file of an evaluation on a public twin.
    """
    require(COMPARE, "the page to sign", PICTURES)
    of_kind("registry", registry, bool, "True or False", "True writes the entry for the registry, too")
    place = path_of("release", release, "give the folder of a release")
    load_card(place)
    folder = _folder(path_of("out", out, "give a folder for the pages"))
    stand_in = None if measured_on is None else path_of("measured_on", measured_on, "give the folder of a release")
    fields = About.of(load_card(place).get("about") if about is None else about)
    twin = None if publishable is None else publishable_rows(publishable, load_card(place))
    figures = measured(place, evaluation, audits, stand_in)
    signing = Signing.of(place, fields, figures, _account(place, ledger), publishable=twin)
    entry = None
    if registry:
        published = str(signing.card["published"])
        entry = registry_entry(signing.release, signing.described, fields, digest=signing.digest, published=published)
    folder.mkdir(mode=0o700, exist_ok=True)
    public = write_page(public_page(signing), folder / PUBLIC_PAGE, private=False)
    private = write_page(private_page(signing), folder / PRIVATE_PAGE, private=True)
    listed = None if entry is None else write_page(MARKS[-1] + yaml_text(entry), folder / REGISTRY, private=False)
    return WrittenReport(public, private, listed, signing.digest)


def _folder(out: Path) -> Path:
    """Folder of the pages: a new or empty one, or one of ours; never inside a release."""
    target = out.resolve()
    if any((folder / CARD).is_file() for folder in (target, *target.parents)):
        raise ParameterError(
            "the report must not be written into a release folder: part of it is private; name another"
        )
    if not target.parent.is_dir():
        raise ParameterError(
            f"the report must lie in a folder that exists, {str(target.parent)!r} does not; make it first"
        )
    ours = {PUBLIC_PAGE, PRIVATE_PAGE, REGISTRY}
    if os.path.lexists(out) and (not out.is_dir() or {each.name for each in out.iterdir()} - ours):
        raise ParameterError(
            f"the report must go into a new folder, or one that holds a report alone; {str(out)!r} is neither; name "
            "another"
        )
    return out


def _account(release: Path, ledger: str | os.PathLike[str] | None) -> Account | None:
    """The account that paid, if a ledger is given, or by $QUERYCLOAK_LEDGER, and the card names a charge in it."""
    accounting = load_card(release).get("accounting")
    if not isinstance(accounting, dict) or "population" not in accounting:
        if ledger is None:
            return None
        raise InputError(
            Sentence(
                "the card says that this release was not accounted, so that no ledger knows it; leave {ledger} out"
            )
        )
    ledger = ledger or os.environ.get("QUERYCLOAK_LEDGER")
    if not ledger:
        return None
    (account,) = Ledger(ledger).show(str(accounting["population"]))
    runs = {charge.id: charge.parameters.get(RUN) for charge in account.charges}
    if accounting["charge"] not in runs or accounting.get(RUN) not in (None, runs[accounting["charge"]]):
        raise InputError("the ledger has no charge as the card of this release names it; give the ledger that paid")
    return account
