"""Evidence for a release folder's card: files, guarantee, ledger, digest, signature.

Files are compared with the card, and the card's guarantee with the one that its options give. A card that was edited
throughout passes both: only the ledger, a digest or a signature can tell. They also vouch for a guarantee that cannot
be computed again: its method is not installed, its card lists no options, or an option named a file.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from querycloak.errors import CheckFailed, InputError, QuerycloakError, ResourceError
from querycloak.extras import versions
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.method import Method
from querycloak.methods.option import options_of
from querycloak.methods.paid_gate import is_gated, with_gate
from querycloak.methods.registry import METHODS
from querycloak.privacy.ledger.accounts import SERIES, Charge
from querycloak.privacy.ledger.ledger import RUN, Ledger
from querycloak.privacy.ledger.series import SeriesPlan
from querycloak.privacy.parameters import checked_digest, path_of, refuse
from querycloak.releases import loading
from querycloak.releases.card import NOT_PRIVATE
from querycloak.releases.folder import CARD, DATASHEET, LARGEST_CARD, card_digest, regular_file
from querycloak.releases.release import Release
from querycloak.releases.tables import batches_of
from querycloak.sentence import printable

NAMESPACE = "querycloak"
"""The purpose of signatures: one made for another purpose does not count."""
SIGNATURE = f"{CARD}.sig"
NOT_PRIVATE_MARK = NOT_PRIVATE.partition(":")[0]


@dataclass(frozen=True)
class Verified:
    """Checks that passed, and problems; `signer` and `ledger` are None unless they vouched for the release."""

    digest: str
    checked: tuple[str, ...]
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    signer: str | None = None
    ledger: str | None = None

    @property
    def ok(self) -> bool:
        """True if nothing is wrong."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """The values that `verify --json` prints."""
        listed = {
            "checked": list(self.checked), "problems": list(self.problems), "warnings": list(self.warnings),
        }  # fmt: skip
        return {"ok": self.ok, "digest": self.digest, **listed, "signer": self.signer, "ledger": self.ledger}


def load(folder: str | os.PathLike[str], *, digest: str | None = None) -> Release:
    """Load the release in a folder; refuse it if its options do not give its guarantee, or for another digest."""
    release = loading.load(folder)
    card = loading.load_card(folder)
    problem = guarantee_problem(card)
    if problem is not None:
        raise InputError(f"{CARD} of {str(folder)!r} was changed: {problem}; get the release again")
    actual = digest_of(Path(folder))
    if digest is not None and checked_digest("digest", digest) != actual:
        raise CheckFailed(f"the release {str(folder)!r} has the digest {actual}, not the one given; get it again")
    return release


def digest_of(folder: Path) -> str:
    """The digest of a release: of its card, which vouches for every other file."""
    return card_digest(folder)


def guarantee_problem(card: Mapping[str, Any]) -> str | None:
    """The contradiction between a card's guarantee and its options; None also where options cannot tell."""
    options = card["options"]
    if options is None or card["method"] not in METHODS:
        return None
    kind, same = METHODS[card["method"]], _made_by_this_version(card)
    files = [each.recorded_name for each in options_of(kind) if each.names_file and each.recorded_name in options]
    if files:  # never opened: a card may name any file of its reader
        return f"its option {files[0]} names a file, which no card of querycloak does"
    try:
        method = kind(**options)
    except (QuerycloakError, TypeError):
        return "its method does not take its options"
    described, also = _described(method, card), () if same else _SOLVED_FOR
    for part in ("claimed", "proven"):
        if _numbers(described[part], also) != _numbers(card[part], also):
            return f"its {part} guarantee does not follow from its options"
    if not same:
        return None
    changed = min((_changed(each, card["parameters"]) for each in _possible_parameters(method)), key=len)
    return f"its parameter {changed[0]} does not follow from its options" if changed else None


def _described(method: Method, card: Mapping[str, Any]) -> dict[str, Any]:
    """Description by the method itself, behind the paid gate if the release was."""
    proven = with_gate(method.proven(), paid_gate=is_gated(card["log"]) and method.proven().covers_release)
    return {**method.describe(), "proven": proven.to_json()}


_SOLVED_FOR = ("delta",)
"""Numbers that another version may have solved for otherwise, as it may noise and thresholds; epsilon was given."""
_DELTA_SLACK = 0.01


def _made_by_this_version(card: Mapping[str, Any]) -> bool:
    """True if the same options must give the same noise."""
    made_by = card.get("versions")
    return isinstance(made_by, Mapping) and made_by.get("querycloak") == versions()["querycloak"]


def _possible_parameters(method: Method) -> list[dict[str, Any]]:
    """Parameters that a card may state; every choice for those chosen on a log."""
    promised = method.parameters()
    if isinstance(method, KeysMethod) and method.plan.candidates:
        return [{**promised, **each.method.parameters()} for each in method.plan.candidates]
    return [promised]


def _changed(parameters: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    return [name for name, value in parameters.items() if stored.get(name) != value]


def verify(
    folder: str | os.PathLike[str],
    *,
    ledger: str | os.PathLike[str] | None = None,
    digest: str | None = None,
    signature: Path | None = None,
    signers: Path | None = None,
    on_step: Callable[[str, float], None] | None = None,
) -> Verified:
    """Check a release folder against its card and, if given, against a ledger, a digest or a signature.

    on_step: called with a step in words and the share of it that is done; the files of a release may be large.
    """
    place = path_of("folder", folder, "name the folder of a release")
    for name, file in (("ledger", ledger), ("signature", signature), ("signers", signers)):
        if file is not None:
            path_of(name, file)
    if signers is not None and signature is None:
        refuse("signers", "given together with a signature", str(signers), "give the file of the signature, too")
    if digest is not None:
        digest = checked_digest("digest", digest)
    card = loading.load_card(place)  # refuses what is no release folder
    digest_here = digest_of(place)
    checks = [
        ("every file is as the card says", _files(place, on_step or (lambda _what, _share: None))),
        ("the folder has no file that the card does not list", _unlisted(place, card)),
        ("README.md and warnings say as the card whether a seed was used", _hidden_seed(place, card)),
    ]
    vouched = []
    if ledger is not None:
        vouched.append(("the ledger knows this release", _in_ledger(card, Ledger(ledger), digest_here)))
    if digest is not None:
        wrong = None if digest == digest_here else "the digest is not the one that was given"
        vouched.append(("the digest is the one that was given", wrong))
    signer = None
    if signature is not None:
        signer, wrong = _signed(place / CARD, signature, signers)
        # Anybody can make a key: a valid signature of an unknown signer vouches for nothing.
        (checks if signers is None else vouched).append(("the card was signed", wrong))
    checks.insert(1, _guarantee(card, vouched=any(problem is None for _, problem in vouched)))
    checks += vouched
    return Verified(
        digest_here,
        checked=tuple(check for check, problem in checks if problem is None),
        problems=tuple(problem for _, problem in checks if problem is not None),
        warnings=(NOT_PRIVATE,) if card["seeded"] else (),
        signer=signer,
        ledger=None if ledger is None else str(ledger),
    )


def _files(place: Path, on_step: Callable[[str, float], None]) -> str | None:
    """A problem if a file is not as the card says; every row is read, because digests may be those of damaged files."""
    try:
        release = loading.load(place, lambda name, share: on_step(f"comparing {name} with the card", share))
        for kind, table in release.tables.items():
            on_step(f"reading the rows of {kind}", 0.0)
            for _ in batches_of(table):
                pass
    except QuerycloakError as error:
        return str(error)
    return None


def _unlisted(place: Path, card: Mapping[str, Any]) -> str | None:
    """A problem if the folder holds anything but the card, its signature and the files that the card lists."""
    others = sorted({entry.name for entry in os.scandir(place)} - {CARD, SIGNATURE, *loading.listed_files(card)})
    if not others:
        return None
    shown = ", ".join(printable(name) for name in others[:3])
    more = f" and {len(others) - 3} more" if len(others) > 3 else ""
    return f"the folder has files that the card does not list ({shown}{more}): remove them, or get the release again"


def _hidden_seed(place: Path, card: Mapping[str, Any]) -> str | None:
    """A problem if the folder says NOT PRIVATE somewhere and the card says that no seed was used."""
    if card["seeded"]:
        return None
    texts = list(card.get("warnings", ()))
    with suppress(OSError), regular_file(place / DATASHEET) as file:
        texts.append(file.read(LARGEST_CARD).decode(errors="replace"))
    if any(NOT_PRIVATE_MARK in text for text in texts):
        return "the card says that no seed was used, the warnings or README.md say NOT PRIVATE"
    return None


def _guarantee(card: Mapping[str, Any], *, vouched: bool) -> tuple[str, str | None]:
    """Check of the guarantee; one that cannot be computed again needs a ledger, digest or signature for the card."""
    problem = guarantee_problem(card)
    if problem is not None:
        return "", problem
    reason = _not_computed(card)
    if reason is not None:
        unknown = f"the guarantee was not computed again, because {reason}"
        way_out = f"{unknown}: give a ledger, a digest or a signature and its signers that vouch for the card"
        return f"{unknown}; the card is vouched for", None if vouched else way_out
    if not _made_by_this_version(card):
        return "the card is of another version of querycloak: its guarantee was computed again", None
    return "the guarantee follows from the card's options", None


def _not_computed(card: Mapping[str, Any]) -> str | None:
    """The reason why a guarantee that contradicts nothing was not computed again; None if it was."""
    if card["method"] not in METHODS:
        return f"the method {printable(card['method'], 60)} is not installed here"
    if card["options"] is None:
        return "the card lists no options"
    described = _described(METHODS[card["method"]](**card["options"]), card)
    for part in ("claimed", "proven"):
        stored, computed = card[part] or {}, described[part] or {}
        if (stored.get("delta") or 0.0) < (computed.get("delta") or 0.0) * (1 - _DELTA_SLACK):
            return "its delta is smaller than this version computes"
    return None


def _in_ledger(card: Mapping[str, Any], ledger: Ledger, digest: str) -> str | None:
    accounting = card["accounting"]
    if not isinstance(accounting, Mapping):
        return "the card says that it was not accounted"
    (account,) = ledger.show(str(accounting["population"]))
    charges = [charge for charge in account.charges if charge.id == accounting["charge"]]
    if not charges:
        return "the ledger has no such charge"
    if accounting.get(RUN) not in (None, charges[0].parameters.get(RUN)):
        return "the charge of this number in the ledger is that of another run"
    if digest not in charges[0].releases:
        return "the ledger does not know this digest for the charge that the card names"
    if charges[0].method == SERIES:
        return _of_plan(card, charges[0]) or "; ".join(ledger.verify()) or None
    charged = charges[0].guarantee
    # The gate has a charge of its own.
    charged = with_gate(charged, paid_gate=is_gated(card["log"]) and charged.covers_release)
    if _numbers(charged.to_json()) != _numbers(card["proven"]):
        return "what was charged is not the guarantee on the card"
    return "; ".join(ledger.verify()) or None


def _of_plan(card: Mapping[str, Any], charge: Charge) -> str | None:
    """The sign that a release draws something else than the plan for its series; None if there is none."""
    draw = SeriesPlan.of(charge).draw
    noise = [card["parameters"].get(name) for name in ("noise", "threshold", "per_user", "accounting")]
    same = noise == [draw.noise.size, draw.threshold, draw.per_user, SERIES]
    return None if same else "what was charged is a plan for a series with other noise than the card says"


def _signed(card: Path, signature: Path, signers: Path | None) -> tuple[str | None, str | None]:
    """The signer's identity, and the problem; without a file of allowed signers the identity is the key."""
    command = ["ssh-keygen", "-Y", "check-novalidate", "-n", NAMESPACE, "-s", str(signature)]
    identity = None
    if signers is not None:
        principals = _ssh_keygen(
            ["ssh-keygen", "-Y", "find-principals", "-s", str(signature), "-f", str(signers)], card
        )
        names = principals.stdout.decode(errors="replace").split()
        if principals.returncode != 0 or not names:
            return None, "the signature is of none of the allowed signers"
        identity = names[0]
        command = ["ssh-keygen", "-Y", "verify", "-f", str(signers), "-I", identity, "-n", NAMESPACE]
        command += ["-s", str(signature)]
    done = _ssh_keygen(command, card)
    if done.returncode != 0:
        return None, "the signature does not fit the card"
    key = done.stdout.decode(errors="replace").strip().rpartition(" with ")[2]
    return printable(identity or key), None


def _ssh_keygen(command: list[str], card: Path) -> subprocess.CompletedProcess[bytes]:
    try:
        with card.open("rb") as file:
            return subprocess.run(command, stdin=file, capture_output=True, check=False)
    except FileNotFoundError:
        pass
    raise ResourceError("signatures are checked by ssh-keygen, which is not installed; install OpenSSH's client")


def _numbers(guarantee: Mapping[str, Any] | None, also: tuple[str, ...] = ()) -> dict[str, Any] | None:
    """Numbers of a guarantee, without the named fields and its sentences, which may differ between versions."""
    if guarantee is None:
        return None
    return {name: value for name, value in guarantee.items() if name not in ("because", "unprotected", *also)}
