"""The options of methods, and the method that they make."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from querycloak.errors import InputError, ParameterError

if TYPE_CHECKING:
    from querycloak.methods.method import Method
    from querycloak.privacy.guarantee import Guarantee

MethodName = Annotated[str, typer.Argument(metavar="METHOD", help="k-anonymity or clicks.")]
Epsilon = Annotated[float | None, typer.Option(help="Budget: the most that a release may tell about one user.")]
Delta = Annotated[float | None, typer.Option(help="Budget: the chance that epsilon fails; far below 1/users.")]
Noise = Annotated[float | None, typer.Option(help="Knob: scale of Laplace, sigma of Gaussian noise.")]
Threshold = Annotated[int | None, typer.Option(help="Knob: a key is released if its noisy count exceeds it.")]
Selection = Annotated[str | None, typer.Option(help="laplace or gaussian; by formula if not given.")]
PerUser = Annotated[int | None, typer.Option(help="How many keys one user may add to.")]
TwoDraws = Annotated[bool | None, typer.Option("--two-draws", help="Publish unbiased counts, at their price.")]
Variant = Annotated[str | None, typer.Option(help="default, or paper: as published, to compare.")]
MinUsers = Annotated[int | None, typer.Option(help="k-anonymity: how many users must share a key.")]
Keys = Annotated[str | None, typer.Option(help="k-anonymity: queries, clicks or log.")]
Preset = Annotated[str | None, typer.Option(help="k-anonymity: dma (30 users a query, 5 a query and url).")]
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


OPTIONS = (
    "epsilon",
    "delta",
    "noise",
    "threshold",
    "selection",
    "per_user",
    "two_draws",
    "variant",
    "min_users",
    "keys",
    "preset",
)


def build_method(name: str, arguments: Mapping[str, Any]) -> Method:
    """The method of this name with those of a command's arguments that are options of methods."""
    from querycloak.methods.registry import METHODS

    if name not in METHODS:
        raise ParameterError(f"there is no method {name!r}; there are {', '.join(METHODS)}")
    kind = METHODS[name]
    taken = {field.name for field in fields(kind) if field.init}
    given = {option: arguments[option] for option in OPTIONS if arguments[option] is not None}
    foreign = [option for option in given if option not in taken]
    if foreign:
        accepted = ", ".join(f"--{option.replace('_', '-')}" for option in OPTIONS if option in taken)
        raise ParameterError(f"--{foreign[0].replace('_', '-')} does not go with {name}, which takes {accepted}")
    method: Method = kind(**given)
    return method


def warnings(guarantee: Guarantee, population_size: int | None) -> list[str]:
    """What should make somebody think twice."""
    if population_size is None or guarantee.delta is None:
        return []
    if population_size < 1:
        raise ParameterError(f"population_size must be at least 1; it is {population_size}")
    if guarantee.delta * population_size <= 1:
        return []
    return [f"delta is {guarantee.delta:.3g}, above 1/{population_size:,}: somebody may well be given away entirely"]
