"""The options of methods, and the method that they make."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from querycloak.cli.options import AccuracyOptions, completing, with_groups
from querycloak.errors import InputError, ParameterError
from querycloak.files.documents import parsed_toml
from querycloak.methods.option import Option, options_of
from querycloak.methods.registry import METHODS, method_class

KEYWORD = inspect.Parameter.KEYWORD_ONLY


PopulationSize = Annotated[
    int | None, typer.Option(help="Number of users in the log, if it is public: delta is compared with it.")
]


def load_plan(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a TOML file; what is typed wins."""
    if path is None:
        return None
    try:
        given = {name.replace("-", "_"): value for name, value in parsed_toml(path.read_bytes()).items()}
    except (OSError, ValueError):
        given = None
    if given is None:
        raise InputError(f"the plan {str(path)!r} cannot be read; it must be TOML, an option a line: epsilon = 8")
    options = {
        typed.lstrip("-").replace("-", "_"): parameter
        for parameter in context.command.params
        for typed in parameter.opts
        if typed.startswith("--") and parameter.name != "plan"
    }
    unknown = sorted(set(given) - set(options))
    if unknown:
        shown = (name for name, parameter in options.items() if not getattr(parameter, "hidden", False))
        known = ", ".join(sorted(name.replace("_", "-") for name in shown))
        raise ParameterError(f"the plan has {unknown[0]!r}, which is no option here; {known} are")
    context.default_map = {options[name].name: value for name, value in given.items()}
    return path


Plan = Annotated[
    Path | None,
    typer.Option("--plan", callback=load_plan, is_eager=True, help="TOML file with options; what you type wins."),
]


def methods_group(command: Callable[..., None]) -> type[TyperGroup]:
    """A group with one command for each method: `command` takes the method built, and the options they all share."""

    expanded = with_groups(command)

    class MethodsGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            return list(METHODS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
            # Only the method that is asked for is imported, so that help stays fast.
            return _command_of(cmd_name, expanded)

    return MethodsGroup


def _command_of(name: str, command: Callable[..., None]) -> Any:
    kind = method_class(name)
    own = list(options_of(kind))
    names = {name for each in own for name in (each.name, *each.formerly)}

    def run(**given: Any) -> None:
        wishing = AccuracyOptions(**{each.name: given.get(each.name) for each in fields(AccuracyOptions)})
        method = wishing.method(kind, {name: given[name] for name in names if given[name] is not None})
        command(method=method, **{name: value for name, value in given.items() if name not in names})

    shared = list(inspect.signature(command).parameters.values())[1:]
    if not kind.explains_queries:
        shared = [each for each in shared if each.name != "explain_query"]
    added = [
        inspect.Parameter(name, KEYWORD, default=None, annotation=typed_option(each, name))
        for each in own
        for name in (each.name, *each.formerly)
    ]
    run.__signature__ = inspect.Signature([*added, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name, help=f"{kind.summary}\n\n{command.__doc__}")(run)
    return typer.main.get_command(single)


def typed_option(declared: Option, name: str) -> Any:
    """A method's option as the command line takes it, by its name or, hidden from help, by a former one.

    Nothing is given by default: the method decides.
    """
    names = (declared.name, *declared.formerly)
    shared: dict[str, Any] = {"help": declared.help_with_default, "hidden": name != declared.name}
    if declared.formerly:
        shared["callback"] = _instead_of([each for each in names if each != name])
    typed = f"--{name.replace('_', '-')}"
    if declared.is_flag:
        return Annotated[bool | None, typer.Option(typed, **shared)]
    if declared.choices and (declared.kinds or declared.former_values):
        taken = typer.Option(
            typed,
            parser=_number_or_word if declared.kinds else str,
            metavar=declared.accepts if declared.kinds else f"<{declared.accepts}>",
            autocompletion=completing(lambda: declared.choices),
            **shared,
        )
        return Annotated[Any, taken]
    if declared.choices:
        return Annotated[Literal[declared.choices] | None, typer.Option(typed, **shared)]
    return Annotated[declared.kinds[0] | None, typer.Option(typed, **shared)]


def _instead_of(others: Sequence[str]) -> Callable[[typer.Context, typer.CallbackParam, Any], Any]:
    """Let an option that is typed win over a plan that has it by another of its names."""

    def chosen(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
        source = context.get_parameter_source(str(param.name))
        if source is not None and source.name == "COMMANDLINE" and context.default_map:
            context.default_map = {name: given for name, given in context.default_map.items() if name not in others}
        return value

    return chosen


def _number_or_word(text: object) -> int | str:
    """A bound as it is typed: a number, or a word that the method knows."""
    try:
        return int(str(text))
    except ValueError:
        return str(text)
