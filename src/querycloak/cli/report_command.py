"""`querycloak report`: the page to sign, public and private part apart, and the entry for the registry."""

from __future__ import annotations

from pathlib import Path

from querycloak.cli.terminal import console
from querycloak.pages.signing_report import WrittenReport


def show_report(written: WrittenReport) -> None:
    """Say what was written, and for whom."""
    files: list[tuple[Path | None, str]] = [
        (written.public, "is published with the release"),
        (written.private, "PRIVATE: to be signed, stays here"),
        (written.registry, "for OpenDP's registry of deployments"),
    ]
    for path, what in files:
        if path is not None:
            console().print(f"{path}: {what}", markup=False, soft_wrap=True)
    console().print(f"digest {written.digest}", markup=False, soft_wrap=True)
