"""`querycloak verify`: whether a release is whole, and is what was signed."""

from __future__ import annotations

import json
import sys
import textwrap
from pathlib import Path

from querycloak.errors import CheckFailed
from querycloak.methods.evidence import verify

_WIDTH = 80


def show_verified(
    release: Path,
    *,
    ledger: Path | None,
    digest: str | None,
    signature: Path | None,
    signers: Path | None,
    as_json: bool,
) -> None:
    """Print what was checked and what is wrong; a problem is a failed check."""
    found = verify(release, ledger=ledger, digest=digest, signature=signature, signers=signers)
    if as_json:
        json.dump(found.to_json(), sys.stdout)
        sys.stdout.write("\n")
    else:
        lines = [*(f"checked: {text}" for text in found.checked), *(f"NOT OK: {text}" for text in found.problems)]
        lines.append(f"digest {found.digest}")
        sys.stdout.write("".join(textwrap.fill(line, _WIDTH, subsequent_indent="  ") + "\n" for line in lines))
    if found.problems:
        raise CheckFailed("the release is not what it says, or not what was signed")
