"""The report of a release: both pages, and the entry for the registry; all is checked before anything is written."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from querycloak.errors import InputError, ParameterError
from querycloak.pages.about_file import About
from querycloak.pages.layout import MARKS, write_page
from querycloak.pages.measured import Given, measured
from querycloak.pages.registry_entry import registry_entry, yaml_text
from querycloak.pages.signing_page import Signing, private_page, public_page
from querycloak.privacy.ledger.accounts import Account
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.parameters import of_kind, path_of
from querycloak.releases.folder import CARD
from querycloak.releases.loading import load_card
from querycloak.sentence import Sentence

PUBLIC_PAGE, PRIVATE_PAGE, REGISTRY = "public.html", "private.html", "registry.yaml"


@dataclass(frozen=True)
class WrittenReport:
    """Where the pages are, and the digest of the release that they are about."""

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
) -> WrittenReport:
    """Write the pages to sign of a release folder: public.html is published with it, private.html stays with the owner.

    evaluation, audits: as they were made, or the files they were saved in; they must be about this release, or about
    `measured_on`, one of the same method and options. about: fields of the owner's, or a TOML file with them.
    """
    of_kind("registry", registry, bool, "True or False", "True writes the entry for the registry, too")
    place = path_of("release", release, "give the folder of a release")
    load_card(place)
    folder = _folder(path_of("out", out, "give a folder for the pages"))
    stand_in = None if measured_on is None else path_of("measured_on", measured_on, "give the folder of a release")
    told, found = About.of(about), measured(place, evaluation, audits, stand_in)
    signing = Signing.of(place, told, found, _account(place, ledger))
    entry = None
    if registry:
        published = str(signing.card["published"])
        entry = registry_entry(signing.release, signing.described, told, digest=signing.digest, published=published)
    folder.mkdir(mode=0o700, exist_ok=True)
    public = write_page(public_page(signing), folder / PUBLIC_PAGE, private=False)
    private = write_page(private_page(signing), folder / PRIVATE_PAGE, private=True)
    listed = None if entry is None else write_page(MARKS[-1] + yaml_text(entry), folder / REGISTRY, private=False)
    return WrittenReport(public, private, listed, signing.digest)


def _folder(out: Path) -> Path:
    """Where the pages go: a new or empty folder, or one of ours; never inside a release."""
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
    """The account that paid, if a ledger is given and the card names a charge in it."""
    if ledger is None:
        return None
    accounting = load_card(release).get("accounting")
    if not isinstance(accounting, dict) or "population" not in accounting:
        raise InputError(
            Sentence(
                "the card says that this release was not accounted, so that no ledger knows it; leave {ledger} out"
            )
        )
    (account,) = Ledger(ledger).show(str(accounting["population"]))
    if accounting["charge"] not in [charge.id for charge in account.charges]:
        raise InputError("the ledger has no charge as the card of this release names it; give the ledger that paid")
    return account
