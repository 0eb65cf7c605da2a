"""`querycloak verify`: whether a release is whole, and is what was signed."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path
from typing import Annotated

import typer

from querycloak.cli import options
from querycloak.errors import CheckFailed

_WIDTH = 80


def verify(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    ledger: options.LedgerFile = None,
    digest: Annotated[str | None, typer.Option(help="The digest that was printed when it was released.")] = None,
    signature: Annotated[
        Path | None, typer.Option(help="A signature of card.json, as `ssh-keygen -Y sign -n querycloak` writes it.")
    ] = None,
    signers: Annotated[
        Path | None, typer.Option(help="Who may sign: a file of allowed signers, as ssh-keygen reads it.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Check a release against its card, digest or signature."""
    from querycloak.methods.evidence import verify as verify_release

    verified = verify_release(release, ledger=ledger, digest=digest, signature=signature, signers=signers)
    if as_json:
        json.dump(verified.to_json(), sys.stdout)
        sys.stdout.write("\n")
    else:
        lines = [f"checked: {text}" for text in verified.checked]
        lines += [*(f"NOT OK: {text}" for text in verified.problems), f"digest {verified.digest}"]
        sys.stdout.write("".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") + "\n" for line in lines))
    if verified.problems:
        raise CheckFailed("the release is not what it says, or not what was signed")
