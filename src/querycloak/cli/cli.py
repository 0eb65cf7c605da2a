"""The command line: options in, one stage's work, results and exit codes out.

Exit codes: 0 done, 1 our own bug, 2 bad input or parameters, 3 budget refused, 4 a check failed, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from querycloak.cli.generated_options import GroupedCommand, methods_group

# Where the function of each command is, in the order in which somebody with a log needs them. Only the command that is
# asked for is loaded: together they take 0.1 s.
COMMANDS = {
    "demo": "demo_command:demo",
    "synth": "synth_command:synth",
    "inspect": "inspect_command:inspect_log",
    "advise": "advise_command:advise_owner",
    "guarantee": "guarantee_command:guarantee",
    "release": "release_command:release",
    "describe": "describe_command:describe_release",
    "verify": "verify_command:verify",
    "split": "split_command:split",
    "evaluate": "evaluate_command:evaluate_releases",
    "audit": "",
    "compare": "compare_command:compare",
    "report": "report_command:report",
    "signoff": "signoff_command:signoff",
    "studio": "studio_command:studio",
    "complete": "complete_command:complete",
    "export": "export_command:export",
    "diff": "diff_command:diff",
    "reproduce": "reproduce_command:reproduce",
    "tune": "tune_command:tune",
    "ledger": "",
}
AUDITS = {"method": "audit_method_command:audit_guarantee", "release": "audit_release_command:audit_releases"}
LEDGERS = {
    "set": "ledger_command:ledger_set",
    "plan": "ledger_command:ledger_plan",
    "show": "ledger_command:ledger_show",
    "verify": "ledger_command:ledger_verify",
}
FOR_METHODS = {COMMANDS["guarantee"], COMMANDS["release"], COMMANDS["tune"], AUDITS["method"]}
"""Commands that have one command for each method."""


def in_order(places: Mapping[str, str]) -> type[TyperGroup]:
    """A group of commands that are loaded from their places; one without a place is a group of its own."""

    class InOrder(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            return list(places)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:
            if places.get(cmd_name):
                return _loaded(cmd_name, places[cmd_name])
            if cmd_name not in places:  # the parser suggests one of these
                self.commands = {name: self.get_command(ctx, name) for name in places}
            return self.commands.get(cmd_name)

    return InOrder


@cache
def _loaded(name: str, place: str) -> Any:
    module, _, function = place.partition(":")
    command = getattr(import_module(f"querycloak.cli.{module}"), function)
    home = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    if place in FOR_METHODS:
        group = typer.Typer(
            cls=methods_group(command),
            help=command.__doc__,
            no_args_is_help=True,
            subcommand_metavar="METHOD [OPTIONS]",
            epilog=f"querycloak {'audit ' * (place in AUDITS.values())}{name} METHOD --help lists its options.",
        )
        home.add_typer(group, name=name)
    else:
        home.command(name, cls=GroupedCommand)(command)
    return typer.main.get_group(home).get_command(None, name)  # type: ignore[arg-type]


app = typer.Typer(
    name="querycloak",
    cls=in_order(COMMANDS),
    help="Release a search log that people can use, with a privacy guarantee that holds.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(
    typer.Typer(
        cls=in_order(AUDITS), help="Test what is promised, and attack what was released.", no_args_is_help=True
    ),
    name="audit",
)
app.add_typer(
    typer.Typer(
        cls=in_order(LEDGERS), help="Budgets of populations, and the releases charged to them.", no_args_is_help=True
    ),
    name="ledger",
)


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
