"""The command line: options in, one stage's work, results and exit codes out.

Exit codes: 0 done, 1 our own bug, 2 bad input or parameters, 3 budget refused, 4 a check failed, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from querycloak.cli import (
    advise_command,
    audit_method_command,
    audit_release_command,
    compare_command,
    complete_command,
    demo_command,
    describe_command,
    diff_command,
    evaluate_command,
    export_command,
    guarantee_command,
    inspect_command,
    ledger_command,
    release_command,
    report_command,
    reproduce_command,
    signoff_command,
    split_command,
    studio_command,
    synth_command,
    tune_command,
    verify_command,
)
from querycloak.cli.generated_options import GroupedCommand, methods_group

ORDER = (
    "demo", "synth", "inspect", "advise", "guarantee", "release", "describe", "verify", "split", "evaluate", "audit",
    "compare", "report", "signoff", "studio", "complete", "export", "diff", "reproduce", "tune", "ledger",
)  # fmt: skip


class InOrder(TyperGroup):
    """Commands in the order in which somebody with a log needs them."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command; one that nobody has given a place comes last."""
        known = super().list_commands(ctx)
        return sorted(known, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER))


app = typer.Typer(
    name="querycloak",
    cls=InOrder,
    help="Release a search log that people can use, with a privacy guarantee that holds.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
audits = typer.Typer(help="Test what is promised, and attack what was released.", no_args_is_help=True)
ledgers = typer.Typer(help="Budgets, and what has been spent on whom.", no_args_is_help=True)
app.add_typer(audits, name="audit")
app.add_typer(ledgers, name="ledger")

Declared = tuple[typer.Typer, str, Callable[..., None]]
FOR_METHODS: tuple[Declared, ...] = (
    (app, "guarantee", guarantee_command.guarantee),
    (app, "release", release_command.release),
    (app, "tune", tune_command.tune),
    (audits, "method", audit_method_command.audit_guarantee),
)
PLAIN: tuple[Declared, ...] = (
    (app, "inspect", inspect_command.inspect_log),
    (app, "advise", advise_command.advise_owner),
    (app, "split", split_command.split),
    (app, "synth", synth_command.synth),
    (app, "describe", describe_command.describe_release),
    (app, "verify", verify_command.verify),
    (app, "evaluate", evaluate_command.evaluate_releases),
    (app, "report", report_command.report),
    (app, "signoff", signoff_command.signoff),
    (app, "studio", studio_command.studio),
    (app, "complete", complete_command.complete),
    (app, "export", export_command.export),
    (app, "diff", diff_command.diff),
    (audits, "release", audit_release_command.audit_releases),
    (app, "compare", compare_command.compare),
    (app, "demo", demo_command.demo),
    (app, "reproduce", reproduce_command.reproduce),
    (ledgers, "set", ledger_command.ledger_set),
    (ledgers, "plan", ledger_command.ledger_plan),
    (ledgers, "show", ledger_command.ledger_show),
    (ledgers, "verify", ledger_command.ledger_verify),
)

for home, name, command in FOR_METHODS:
    group = typer.Typer(
        cls=methods_group(command),
        help=command.__doc__,
        no_args_is_help=True,
        subcommand_metavar="METHOD [OPTIONS]",
    )
    home.add_typer(group, name=name)

for home, name, command in PLAIN:
    home.command(name, cls=GroupedCommand)(command)


def _show_version(asked: bool) -> None:
    if asked:
        from querycloak.extras import versions

        typer.echo(f"querycloak {versions()['querycloak']}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass
