"""Options that are generated rather than written: one for each field of an option group, and of a method.

Methods declare an option with its field (`methods/option.py`); option groups stand in `cli/options.py`. This module
alone makes signatures of them, and shows options under their groups in `--help`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from querycloak.cli import options
from querycloak.cli.options import ADVANCED, BOUNDS, BUDGET, SELECTION, AccuracyOptions, OptionGroup, completing
from querycloak.errors import InputError, ParameterError
from querycloak.files.documents import parsed_toml
from querycloak.methods.option import Option, options_of
from querycloak.methods.registry import METHODS, method_class
from querycloak.sentence import Parameter, Sentence

_OPTIONS_UNDER = {
    BUDGET: "epsilon delta",
    BOUNDS: (
        "max_keys_per_user sessions_per_user queries_per_session queries_per_user clicks_per_key "
        "clicks_per_user linked_per_user cells_per_user gap_minutes count_of repeats max_queries budget_per "
        "longest mini_session max_words max_digits"
    ),
    SELECTION: (
        "by domain_of keyed views sequences queries min_users keys preset min_word_users theta concept_users "
        "selection priors pool known off_pool clicks urls criterion domain candidates topics taxonomy "
        "objective support weights counts tables no_clicks times keep_time output_size min_term_users "
        "min_group_users linked latency_days users"
    ),
    ADVANCED: (
        "noise threshold accounting auto_share two_draws split force solver max_neighbours any_language "
        "known_share known_per_user selection_share total_share log_layout variant"
    ),
}
GROUP_OF = {name: heading for heading, names in _OPTIONS_UNDER.items() for name in names.split()}
"""The heading of `--help` for each option of a method; those of other people's methods stand under METHOD."""

_KEYWORD = inspect.Parameter.KEYWORD_ONLY


class GroupedCommand(TyperCommand):
    """A command whose help shows options under the headings of their groups, in the order of `options.GROUPS`."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options without a group, then each group; `--help` comes last."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", "Options", *options.GROUPS)}
        for parameter in self.params:
            heading = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                heading = "Arguments"
            record = parameter.get_help_record(ctx)
            sections[heading] += [] if record is None else [record]
        written = [(heading, records) for heading, records in sections.items() if records]
        if (help_option := self.get_help_option(ctx)) is not None:
            written[-1][1].append(help_option.get_help_record(ctx) or ("--help", ""))
        for heading, records in written:
            with formatter.section(heading):
                formatter.write_dl(records, col_max=27)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command with options for the fields of every `OptionGroup` that it takes."""
    parameters = inspect.signature(command, eval_str=True).parameters.values()
    groups: dict[str, Any] = {each.name: each.annotation for each in parameters if _is_group(each.annotation)}

    def run(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    return _with_signature(run, command, [each for parameter in parameters for each in _expanded(parameter)])


def _is_group(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, OptionGroup)


def _expanded(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    group = parameter.annotation
    if not _is_group(group):
        return [parameter.replace(kind=_KEYWORD)]
    hints = get_type_hints(group, include_extras=True)
    for field in fields(group):
        option = hints[field.name].__metadata__[0]
        option.rich_help_panel = option.rich_help_panel or group.heading
    return [
        inspect.Parameter(field.name, _KEYWORD, default=field.default, annotation=hints[field.name])
        for field in fields(group)
    ]


def _with_signature(
    run: Callable[..., None], command: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    run.__name__, run.__doc__, run.__annotations__ = command.__name__, command.__doc__, {}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


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
    declared = list(options_of(kind))
    names = {name for each in declared for name in (each.name, *each.formerly)}

    def run(**given: Any) -> None:
        accuracy = AccuracyOptions(**{each.name: given.get(each.name) for each in fields(AccuracyOptions)})
        options = {name: _joined(given[name]) for name in names if given[name] not in (None, [])}
        if given.get("plan_of") is not None:
            options = _options_of_plan(kind, options, given["plan_of"], given.get("ledger"))
        method = accuracy.method(kind, options)
        command(method=method, **{name: value for name, value in given.items() if name not in names})

    shared = list(inspect.signature(command).parameters.values())[1:]
    if not kind.explains_queries:
        shared = [each for each in shared if each.name != "explain_query"]
    own = [
        inspect.Parameter(name, _KEYWORD, default=None, annotation=typed_option(each, name))
        for each in declared
        for name in (each.name, *each.formerly)
    ]
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    text = f"{kind.summary}\n\n{command.__doc__}"
    single.command(name, cls=GroupedCommand, help=text)(_with_signature(run, command, [*own, *shared]))
    return typer.main.get_command(single)


def _joined(value: Any) -> Any:
    """Values of an option that was given several times, with commas between."""
    return ",".join(value) if isinstance(value, list) else value


def _options_of_plan(kind: type, options: dict[str, Any], population: str, ledger: Path | None) -> dict[str, Any]:
    """The options of a method with those of a plan for a series, from which no option may deviate."""
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.privacy.ledger.series import SeriesPlan, begun_series

    book = Ledger(ledger)
    planned = SeriesPlan.of(begun_series(book.trusted(population), book)).options
    taken = {each.name for each in options_of(kind)}
    if not set(planned) <= taken:
        raise ParameterError(Sentence("{plan_of} is for methods with one table of keys: queries and clicks"))
    others = "per_user epsilon delta auto_share two_draws known known_share known_per_user counts"
    fixed = {*planned, *others.split()}
    given = sorted(fixed & set(options))
    if given:
        raise ParameterError(
            Sentence(
                "{given} is fixed by the plan of the series; leave it out with {plan_of}", given=Parameter(given[0])
            )
        )
    return {**options, **planned}


_REPEATED = ("by", "domain_of")
"""Lists with commas that may also be given one value at a time."""


def typed_option(declared: Option, name: str) -> Any:
    """A method's option as the command line takes it, by its name or, hidden from help, by a former one.

    Nothing is given by default: the method decides.
    """
    names = (declared.name, *declared.formerly)
    shared: dict[str, Any] = {
        "help": declared.help_with_default,
        "hidden": name != declared.name,
        "rich_help_panel": GROUP_OF.get(declared.name, options.METHOD),
    }
    if declared.formerly:
        shared["callback"] = _instead_of([each for each in names if each != name])
    typed = f"--{name.replace('_', '-')}"
    if declared.name in _REPEATED:
        return Annotated[list[str] | None, typer.Option(typed, metavar="TEXT", **shared)]
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
    """Callback: a typed option overrides a plan that has it under another of its names."""

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


def load_plan(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a TOML file; typed ones win."""
    if path is None:
        return None
    try:
        given = {name.replace("-", "_"): value for name, value in parsed_toml(path.read_bytes()).items()}
    except (OSError, ValueError):
        given = None
    if given is None:
        raise InputError(f"the plan {str(path)!r} cannot be read; it must be TOML, an option a line: epsilon = 8")
    known = {
        typed.lstrip("-").replace("-", "_"): parameter
        for parameter in context.command.params
        for typed in parameter.opts
        if typed.startswith("--") and parameter.name != "plan"
    }
    unknown = sorted(set(given) - set(known))
    if unknown:
        shown = (name for name, parameter in known.items() if not getattr(parameter, "hidden", False))
        names = ", ".join(sorted(name.replace("_", "-") for name in shown))
        raise ParameterError(f"the plan has {unknown[0]!r}, which is no option here; {names} are")
    several = {name for name in _REPEATED if isinstance(given.get(name), str)}
    context.default_map = {known[name].name: [value] if name in several else value for name, value in given.items()}
    return path


Plan = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        callback=load_plan,
        is_eager=True,
        help="TOML file with options; options on the command line override it.",
        rich_help_panel=ADVANCED,
    ),
]
