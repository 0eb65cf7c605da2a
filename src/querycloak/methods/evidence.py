"""Whether a release folder is what it says: files, guarantee, ledger, digest, signature.

Files are compared with the card, and the card's guarantee with what its own options give. Whoever edits a card all
through keeps these two in order: then only the ledger, a digest or a signature can tell.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from querycloak.errors import CheckFailed, InputError, QuerycloakError, ResourceError
from querycloak.methods.keys.auto_bound import AutoBound
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.method import Method
from querycloak.methods.registry import METHODS
from querycloak.privacy.ledger.ledger import Ledger
from querycloak.privacy.parameters import path_of
from querycloak.releases import loading
from querycloak.releases.folder import CARD, card_digest
from querycloak.releases.release import Release
from querycloak.releases.versions import versions

NAMESPACE = "querycloak"
"""What signatures are for, so that one made for something else does not count."""


@dataclass(frozen=True)
class Verified:
    """What was checked, and what is wrong."""

    digest: str
    checked: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """As `verify --json` prints it."""
        listed = {"checked": list(self.checked), "problems": list(self.problems)}
        return {"ok": self.ok, "digest": self.digest, **listed}


def load(folder: str | os.PathLike[str], *, digest: str | None = None) -> Release:
    """Load the release in a folder; refuse it if its options do not give its guarantee, or for another digest."""
    release = loading.load(folder)
    card = loading.load_card(folder)
    problem = guarantee_problem(card)
    if problem is not None:
        raise InputError(f"{CARD} of {str(folder)!r} was changed: {problem}; get the release again")
    found = digest_of(Path(folder))
    if digest is not None and not _same_digest(digest, found):
        raise CheckFailed(f"the release {str(folder)!r} has the digest {found}, not the one given; get it again")
    return release


def digest_of(folder: Path) -> str:
    """The digest of a release: of its card, which vouches for every other file."""
    return card_digest(folder)


def guarantee_problem(card: Mapping[str, Any]) -> str | None:
    """What is wrong with a card's guarantee, told by its own options; None also where they cannot tell."""
    options = card.get("options")
    if not isinstance(options, Mapping) or card.get("method") not in METHODS:
        return None  # an older card, or somebody's own method that is not installed here
    same = _made_by_this_version(card)
    try:
        method = METHODS[card["method"]](**options)
    except (QuerycloakError, TypeError):
        return "its options are none that its method takes" if same else None
    described, also = method.describe(), () if same else _SOLVED_FOR
    for part in ("claimed", "proven"):
        if _numbers(described[part], also) != _numbers(card[part], also):
            return f"its {part} guarantee does not follow from its options"
    if not same:
        return None
    changed = min((_changed(each, card["parameters"]) for each in _possible_parameters(method)), key=len)
    return f"its parameter {changed[0]} does not follow from its options" if changed else None


_SOLVED_FOR = ("delta",)
"""What another version may have solved for otherwise, as it may noise and thresholds; epsilon is what was asked for."""


def _made_by_this_version(card: Mapping[str, Any]) -> bool:
    """Whether the same options must give the same noise."""
    made_by = card.get("versions")
    return isinstance(made_by, Mapping) and made_by.get("querycloak") == versions()["querycloak"]


def _possible_parameters(method: Method) -> list[dict[str, Any]]:
    """What a card may say: of what is chosen on a log, every choice."""
    promised = method.parameters()
    if isinstance(method, KeysMethod) and isinstance(method.planned, AutoBound):
        return [{**promised, **each.parameters()} for each in method.planned.candidates()]
    return [promised]


def _changed(parameters: Mapping[str, Any], told: Mapping[str, Any]) -> list[str]:
    return [name for name, value in parameters.items() if told.get(name) != value]


def verify(
    folder: str | os.PathLike[str],
    *,
    ledger: str | os.PathLike[str] | None = None,
    digest: str | None = None,
    signature: Path | None = None,
    signers: Path | None = None,
) -> Verified:
    """Check a release folder against its card and, if given, against a ledger, a digest or a signature."""
    place = path_of("folder", folder, "name the folder of a release")
    for name, file in (("ledger", ledger), ("signature", signature), ("signers", signers)):
        if file is not None:
            path_of(name, file)
    loading.load_card(place)  # refuses what is no release folder
    found = digest_of(place)
    checks = [("every file is as the card says", _files(place)), _guarantee(place)]
    if ledger is not None:
        checks.append(("the ledger knows this release", _in_ledger(place, Ledger(ledger), found)))
    if digest is not None:
        wrong = None if _same_digest(digest, found) else "the digest is not the one that was given"
        checks.append(("the digest is the one that was given", wrong))
    if signature is not None:
        checks.append(("the card was signed", _signed(place / CARD, signature, signers)))
    done = [what for what, problem in checks if problem is None]
    return Verified(found, tuple(done), tuple(problem for _, problem in checks if problem is not None))


def _files(place: Path) -> str | None:
    try:
        loading.load(place)
    except QuerycloakError as error:
        return str(error)
    return None


def _guarantee(place: Path) -> tuple[str, str | None]:
    card = loading.load_card(place)
    if card["options"] is None:
        return "the card is of a version that lists no options: its guarantee was not computed again", None
    if not _made_by_this_version(card):
        said = "the card is of another version of querycloak: of its guarantee all but delta was computed again"
        return said, guarantee_problem(card)
    return "the guarantee follows from the card's options", guarantee_problem(card)


def _in_ledger(place: Path, ledger: Ledger, digest: str) -> str | None:
    accounting = loading.load_card(place).get("accounting")
    if not isinstance(accounting, Mapping):
        return "the card says that it was not accounted"
    (account,) = ledger.show(str(accounting["population"]))
    charges = [charge for charge in account.charges if charge.id == accounting["charge"]]
    if not charges:
        return "the ledger has no such charge"
    if digest not in charges[0].releases:
        return "the ledger does not know this digest for the charge that the card names"
    if _numbers(charges[0].guarantee.to_json()) != _numbers(loading.load_card(place)["proven"]):
        return "what was charged is not the guarantee on the card"
    return "; ".join(ledger.verify()) or None


def _signed(card: Path, signature: Path, signers: Path | None) -> str | None:
    """Ask ssh-keygen: with a file of allowed signers who signed, without one only whether the signature is valid."""
    command = ["ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature)]
    if signers is not None:
        who = _ssh_keygen(["ssh-keygen", "-Y", "find-principals", "-s", str(signature), "-f", str(signers)], card)
        names = who.stdout.decode(errors="replace").split()
        if who.returncode != 0 or not names:
            return "the signature is of nobody among the allowed signers"
        command = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", names[0], "-n", NAMESPACE]
        command += ["-s", str(signature)]
    return None if _ssh_keygen(command, card).returncode == 0 else "the signature does not fit the card"


def _ssh_keygen(command: list[str], card: Path) -> subprocess.CompletedProcess[bytes]:
    try:
        with card.open("rb") as file:
            return subprocess.run(command, stdin=file, capture_output=True, check=False)
    except FileNotFoundError:
        pass
    raise ResourceError("signatures are checked by ssh-keygen, which is not installed; install OpenSSH's client")


def _numbers(guarantee: Mapping[str, Any] | None, also: tuple[str, ...] = ()) -> dict[str, Any] | None:
    """A guarantee without its sentences, which may read differently elsewhere, and without what else is named."""
    if guarantee is None:
        return None
    return {name: value for name, value in guarantee.items() if name not in ("because", "unprotected", *also)}


def _same_digest(given: str, found: str) -> bool:
    return given.strip().lower().removeprefix("sha256:") == found
