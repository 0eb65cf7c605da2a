"""`querycloak report`: the page to sign, public and private part apart, and the entry for the registry."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from querycloak.errors import InputError, ParameterError
from querycloak.pages.about_file import About
from querycloak.pages.layout import MARKS, write_page
from querycloak.pages.measured import measured
from querycloak.pages.registry_entry import registry_entry, yaml_text
from querycloak.pages.signing_page import Signing, private_page, public_page
from querycloak.present.terminal import console
from querycloak.privacy.books.accounts import Account
from querycloak.privacy.books.ledger import Ledger
from querycloak.releases.card import CARD
from querycloak.releases.loading import load_card
from querycloak.sentence import Sentence

PUBLIC_PAGE, PRIVATE_PAGE, REGISTRY = "public.html", "private.html", "registry.yaml"


def write_report(
    release: Path,
    out: Path,
    *,
    evaluation: Path | None,
    audits: Sequence[Path],
    measured_on: Path | None,
    ledger: Path | None,
    about: Path | None,
    registry: bool,
    quiet: bool,
) -> None:
    """Read everything, then write the pages; what does not fit together is refused before anything is written."""
    load_card(release)
    folder = _folder(out, release)
    told, found = About.read(about), measured(release, evaluation, audits, measured_on)
    signing = Signing.of(release, told, found, _account(release, ledger))
    entry = None
    if registry:
        published = str(signing.card["published"])
        document = registry_entry(
            signing.release, signing.described, told, digest=signing.digest, published=published
        )  # fmt: skip
        entry = MARKS[-1] + yaml_text(document)
    folder.mkdir(mode=0o700, exist_ok=True)
    written = [
        (write_page(public_page(signing), folder / PUBLIC_PAGE, private=False), "goes along with the release"),
        (write_page(private_page(signing), folder / PRIVATE_PAGE, private=True), "PRIVATE: to be signed, stays here"),
    ]
    if entry is not None:
        written.append((write_page(entry, folder / REGISTRY, private=False), "for OpenDP's registry of deployments"))
    if not quiet:
        for path, what in written:
            console().print(f"{path}: {what}", markup=False, soft_wrap=True)
        console().print(f"digest {signing.digest}", markup=False, soft_wrap=True)


def _folder(out: Path, release: Path) -> Path:
    """Where the pages go: a new or empty folder, or one of ours; never inside a release."""
    target = out.resolve()
    if release.resolve() in (target, *target.parents) or (target / CARD).exists():
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
            f"another"
        )
    return out


def _account(release: Path, ledger: Path | None) -> Account | None:
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
