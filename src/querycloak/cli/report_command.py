"""`querycloak report`: the page to sign, public and private part apart, and the entry for the registry."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from querycloak.cli import options
from querycloak.privacy.parameters import refuse

if TYPE_CHECKING:
    from querycloak.pages.signing_report import WrittenReport


def report(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    out: Annotated[Path | None, typer.Option(help="The folder for public.html and private.html.")] = None,
    evaluation: Annotated[Path | None, typer.Option(help="The file of `evaluate --out` for this release.")] = None,
    audit: Annotated[
        list[Path] | None, typer.Option(help="A file of `audit release --out` or `audit method --json`.")
    ] = None,
    measured_on: Annotated[
        Path | None, typer.Option(help="The release made from TRAIN, same options, that was evaluated and attacked.")
    ] = None,
    ledger: Annotated[
        Path | None, typer.Option(help="The ledger that paid; $QUERYCLOAK_LEDGER, if set, if not given.")
    ] = None,
    publishable: Annotated[
        Path | None, typer.Option(help="The .json file of `evaluate --publishable --out`; both pages show it.")
    ] = None,
    about: Annotated[Path | None, typer.Option(help="TOML file: owner, contact, purpose, approved_by ...")] = None,
    to: Annotated[
        Literal["registry"] | None, typer.Option(help="registry: also the entry for OpenDP's registry.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the pages to sign: a public and a private one."""
    if out is None:
        refuse("out", "the folder to write", None, "the public and the private page go there")
    from querycloak.pages.signing_report import report as write_report

    written = write_report(
        release, out, evaluation=evaluation, audits=audit or [], measured_on=measured_on, ledger=ledger, about=about,
        registry=to == "registry", publishable=publishable,
    )  # fmt: skip
    if not quiet:
        show_report(written)


def show_report(written: WrittenReport) -> None:
    """Print each file that was written, and its readers."""
    from querycloak.cli.terminal import console

    files: list[tuple[Path | None, str]] = [
        (written.public, "is published with the release"),
        (written.private, "PRIVATE: to be signed, stays here"),
        (written.registry, "for OpenDP's registry of deployments"),
    ]
    for path, what in files:
        if path is not None:
            console().print(f"{path}: {what}", markup=False, soft_wrap=True)
    console().print(f"digest {written.digest}", markup=False, soft_wrap=True)
