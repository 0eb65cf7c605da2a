"""Commands that look at release folders: describe, verify, evaluate, audit release, report."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Literal

import typer

from querycloak.cli import options
from querycloak.privacy.parameters import refuse


def _tasks() -> Iterable[str]:
    from querycloak.evaluation.task_registry import TASKS

    return TASKS


def _attacks() -> Iterable[str]:
    from querycloak.audits.attack_registry import ATTACKS

    return ATTACKS


def describe_release(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="A release folder.")],
    as_json: options.Json = False,
) -> None:
    """Show what a release is, and what it is good for."""
    from querycloak.cli.describe_command import show_description

    show_description(release, as_json=as_json)


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
    from querycloak.cli.verify_command import show_verified

    show_verified(release, ledger=ledger, digest=digest, signature=signature, signers=signers, as_json=as_json)


@options.with_groups
def evaluate(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="The log that the releases were made of.")],
    test: Annotated[str, typer.Argument(metavar="TEST", help="A log of other users, to judge them by.")],
    release: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.")],
    *,
    task: Annotated[
        list[str] | None,
        typer.Option(
            help="A task, more than once for several; all if not given.", autocompletion=options.completing(_tasks)
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Private file for all rows: .json, .csv or .parquet.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure what releases are good for (private output)."""
    from querycloak.cli.evaluate_command import evaluated, show_evaluation

    found = evaluated(train, test, release, task, out, reading, quiet=quiet or as_json)
    if as_json or not quiet:
        show_evaluation(found, as_json=as_json)


@options.with_groups
def audit_releases(
    train: Annotated[str, typer.Argument(metavar="TRAIN", help="The log that the releases were made of.")],
    release: Annotated[list[Path], typer.Argument(metavar="RELEASE...", help="Release folders.")],
    *,
    control: Annotated[
        str | None, typer.Option(help="A log of other people of the same kind: TEST of a split.")
    ] = None,
    truth: Annotated[
        Path | None, typer.Option(help="What is known to be sensitive: LOG.truth of a synthetic log.")
    ] = None,
    other_period: Annotated[str | None, typer.Option(help="A log of the same people from another time.")] = None,
    attack: Annotated[
        list[str] | None,
        typer.Option(
            help="An attack, more than once for several; all if not given.",
            autocompletion=options.completing(_attacks),
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Private file for all rows: .json, .csv or .parquet.")] = None,
    reading: options.Reading,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Attack releases: what an attacker gains (private output)."""
    from querycloak.cli.audit_release_command import audited, show_audit

    found = audited(
        train, release, control, reading,
        truth=truth, other_period=other_period, attacks=attack, out=out, quiet=quiet or as_json,
    )  # fmt: skip
    show_audit(found, as_json=as_json, quiet=quiet)


def report(
    release: Annotated[Path, typer.Argument(metavar="RELEASE", help="The folder of a release.")],
    out: Annotated[Path | None, typer.Option(help="The folder for public.html and private.html.")] = None,
    evaluation: Annotated[Path | None, typer.Option(help="What `evaluate --out` wrote about this release.")] = None,
    audit: Annotated[
        list[Path] | None, typer.Option(help="What `audit release --out` or `audit method --json` wrote.")
    ] = None,
    measured_on: Annotated[
        Path | None, typer.Option(help="The release made from TRAIN, same options, that was evaluated and attacked.")
    ] = None,
    ledger: Annotated[Path | None, typer.Option(help="The ledger that paid for the release.")] = None,
    about: Annotated[Path | None, typer.Option(help="TOML file: owner, contact, purpose, approved_by ...")] = None,
    to: Annotated[
        Literal["registry"] | None, typer.Option(help="registry: also the entry for OpenDP's registry.")
    ] = None,
    quiet: options.Quiet = False,
) -> None:
    """Write the pages to sign: a public and a private one."""
    if out is None:
        refuse("out", "the folder to write", None, "the public and the private page go there")
    from querycloak.cli.report_command import show_report
    from querycloak.pages.signing_report import report as write_report

    written = write_report(
        release, out, evaluation=evaluation, audits=audit or [], measured_on=measured_on, ledger=ledger, about=about,
        registry=to == "registry",
    )  # fmt: skip
    if not quiet:
        show_report(written)
