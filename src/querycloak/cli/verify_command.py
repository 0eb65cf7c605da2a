"""`querycloak verify`: checks that a release is whole and is the one that was signed."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.terminal import print_json
from querycloak.errors import CheckFailed
from querycloak.sentence import printable

if TYPE_CHECKING:
    from querycloak.methods.evidence import Verified

_WIDTH = 80


def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    ledger: options.LedgerFile = None,
    digest: Annotated[str | None, typer.Option(help="The digest that was printed when it was released.")] = None,
    signature: Annotated[
        Path | None, typer.Option(help="A signature of card.json, as `ssh-keygen -Y sign -n querycloak` writes it.")
    ] = None,
    signers: Annotated[Path | None, typer.Option(help="File of allowed signers, as ssh-keygen reads it.")] = None,
    as_json: options.Json = False,
) -> None:
    """Check a release against its card, digest or signature."""
    from querycloak.cli.terminal import reading_progress
    from querycloak.methods.evidence import verify as verify_release

    with reading_progress(1, "checking", quiet=as_json) as watching:
        verified = verify_release(
            release,
            ledger=ledger,
            digest=digest,
            signature=signature,
            signers=signers,
            on_step=None if watching is None else watching.step,
        )
    if as_json:
        print_json(verified.to_json())
    else:
        sys.stdout.write("".join(f"{line}\n" for line in verified_lines(verified)))
    if verified.problems:
        raise CheckFailed("the release is not what it says, or not what was signed")


def verified_lines(verified: Verified) -> list[str]:
    """The outcome for people; texts of a card are shown without control characters."""
    lines = [*verified.warnings, *(f"checked: {text}" for text in verified.checked)]
    lines += [f"signed by {verified.signer}"] if verified.signer is not None else []
    lines += [f"ledger {verified.ledger}"] if verified.ledger is not None else []
    lines += [*(f"NOT OK: {text}" for text in verified.problems), f"digest {verified.digest}"]
    return [textwrap.fill(printable(line), _WIDTH, subsequent_indent="  ") for line in lines]
