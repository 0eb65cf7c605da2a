"""The options of methods, and the method that they make."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from querycloak.errors import InputError, ParameterError
from querycloak.methods.registry import METHODS, method_class

if TYPE_CHECKING:
    from querycloak.privacy.guarantee import Guarantee

KEYWORD = inspect.Parameter.KEYWORD_ONLY

OPTIONS: dict[str, Any] = {
    "epsilon": Annotated[float | None, typer.Option(help="Budget: the most that a release may tell about one user.")],
    "delta": Annotated[float | None, typer.Option(help="Budget: the chance that epsilon fails; far below 1/users.")],
    "noise": Annotated[float | None, typer.Option(help="Knob: scale of Laplace, sigma of Gaussian noise.")],
    "threshold": Annotated[int | None, typer.Option(help="Knob: a key is released if its noisy count exceeds it.")],
    "selection": Annotated[str | None, typer.Option(help="laplace or gaussian; by formula if not given.")],
    "per_user": Annotated[int | None, typer.Option(help="How many keys one user may add to.")],
    "two_draws": Annotated[bool | None, typer.Option("--two-draws", help="Publish unbiased counts, at their price.")],
    "variant": Annotated[str | None, typer.Option(help="default, or paper: as published, to compare.")],
    "min_users": Annotated[int | None, typer.Option(help="How many users must share a key.")],
    "keys": Annotated[str | None, typer.Option(help="queries, clicks or log.")],
    "preset": Annotated[str | None, typer.Option(help="dma (30 users a query, 5 a query and url).")],
    "criterion": Annotated[str | None, typer.Option(help="sqc1, sqc2 (within topics), nsqc or hbdp (baselines).")],
    "domain": Annotated[str | None, typer.Option(help="all, topics, or labels parted by |, such as abstraction.")],
    "topics": Annotated[str | None, typer.Option(help="For sqc2: 4, 19, children, or labels parted by |.")],
    "budget_per": Annotated[str | None, typer.Option(help="Whose epsilon it is: user, or query (weaker).")],
    "max_queries": Annotated[int | None, typer.Option(help="The most queries of one user, in all releases together.")],
    "repeats": Annotated[str | None, typer.Option(help="draw anew, or reuse a user's draw for the same concept.")],
    "times": Annotated[str | None, typer.Option(help="drop, month, day, hour or keep; all but drop are unprotected.")],
    "taxonomy": Annotated[str | None, typer.Option(help="wordnet, or your own table: id, labels, parents.")],
}
"""The options of methods by the name of the field that they fill; a method has those that it has fields for."""

PopulationSize = Annotated[int | None, typer.Option(help="Users behind the log, if public: delta is compared with it.")]


def load_plan(context: typer.Context, path: Path | None) -> Path | None:
    """Take options from a TOML file; what is typed goes before."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            given = {name.replace("-", "_"): value for name, value in tomllib.load(file).items()}
    except (OSError, UnicodeError, tomllib.TOMLDecodeError):
        given = None
    if given is None:
        raise InputError(f"the plan {str(path)!r} cannot be read; it must be TOML, an option a line: epsilon = 8")
    options = {
        typed.lstrip("-").replace("-", "_"): parameter.name
        for parameter in context.command.params
        for typed in parameter.opts
        if typed.startswith("--") and parameter.name != "plan"
    }
    unknown = sorted(set(given) - set(options))
    if unknown:
        raise ParameterError(f"the plan has {unknown[0]!r}, which is no option here; {', '.join(sorted(options))} are")
    context.default_map = {options[name]: value for name, value in given.items()}
    return path


Plan = Annotated[
    Path | None,
    typer.Option("--plan", callback=load_plan, is_eager=True, help="TOML file with options; typed ones go before."),
]


def methods_group(command: Callable[..., None]) -> type[TyperGroup]:
    """A group with one command for each method: `command` takes the method built, and the options they all share."""

    class MethodsGroup(TyperGroup):
        def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
            return list(METHODS)

        def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
            # Only the method that is asked for is imported, so that help stays fast.
            return _command_of(cmd_name, command)

    return MethodsGroup


def _command_of(name: str, command: Callable[..., None]) -> Any:
    kind = method_class(name)
    own = [field.name for field in fields(kind) if field.init]

    def run(**given: Any) -> None:
        method = kind(**{option: given[option] for option in own if given[option] is not None})
        command(method, **{option: value for option, value in given.items() if option not in own})

    shared = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    added = [inspect.Parameter(option, KEYWORD, default=None, annotation=OPTIONS[option]) for option in own]
    run.__signature__ = inspect.Signature([*added, *(each.replace(kind=KEYWORD) for each in shared)])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name, help=f"{METHODS[name].summary}\n\n{command.__doc__}")(run)
    return typer.main.get_command(single)


def foreign_option(error: Exception) -> str | None:
    """What to say if the parser's error is about an option that only other methods have."""
    name, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if context is None or context.info_name not in METHODS or not isinstance(name, str):
        return None
    if name.removeprefix("--").replace("-", "_") not in OPTIONS:
        return None
    return (
        f"{name} does not go with {context.info_name}; querycloak guarantee {context.info_name} --help shows what does"
    )


def warnings(guarantee: Guarantee, population_size: int | None) -> list[str]:
    """What should make somebody think twice."""
    if population_size is None or guarantee.delta is None:
        return []
    if population_size < 1:
        raise ParameterError(f"population_size must be at least 1; it is {population_size}")
    if guarantee.delta * population_size <= 1:
        return []
    return [f"delta is {guarantee.delta:.3g}, above 1/{population_size:,}: somebody may well be given away entirely"]
