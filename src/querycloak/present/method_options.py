"""The options of methods, and the method that they make."""

from __future__ import annotations

import inspect
import tomllib
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from querycloak.errors import InputError, ParameterError
from querycloak.methods.registry import METHODS, method_class
from querycloak.present.options import with_groups
from querycloak.privacy.chance.exact import shown_up
from querycloak.privacy.parameters import refuse

if TYPE_CHECKING:
    from querycloak.methods.method import Method
    from querycloak.privacy.composing.composition import Composed
    from querycloak.privacy.guarantee import Guarantee

KEYWORD = inspect.Parameter.KEYWORD_ONLY


def _bound(text: object) -> int | str:
    """A bound as it is typed: a number, or a word that the method knows."""
    try:
        return int(str(text))
    except ValueError:
        return str(text)


OPTIONS: dict[str, Any] = {
    "epsilon": Annotated[float | None, typer.Option(help="Budget: the most that a release may tell about one user.")],
    "delta": Annotated[float | None, typer.Option(help="Budget: the chance that epsilon fails; far below 1/users.")],
    "noise": Annotated[float | None, typer.Option(help="Knob: scale of Laplace, sigma of Gaussian noise.")],
    "threshold": Annotated[int | None, typer.Option(help="Knob: a key is released if its noisy count exceeds it.")],
    "selection": Annotated[str | None, typer.Option(help="laplace, gaussian, weighted or rounds; else by formula.")],
    "priors": Annotated[str | None, typer.Option(help="public: users prefer keys that a word list makes likely.")],
    "per_user": Annotated[
        Any,
        typer.Option(parser=_bound, metavar="N|auto", help="How many keys one user may add to; auto: see the docs."),
    ],
    "auto_share": Annotated[float | None, typer.Option(help="Part of epsilon by which auto chooses; 0.02.")],
    "two_draws": Annotated[bool | None, typer.Option("--two-draws", help="Publish unbiased counts, at their price.")],
    "variant": Annotated[str | None, typer.Option(help="default, or paper: as published, to compare.")],
    "sessions_per_user": Annotated[int | None, typer.Option(help="Room for so many sessions of one user.")],
    "queries_per_session": Annotated[int | None, typer.Option(help="How many queries of a session count.")],
    "gap_minutes": Annotated[float | None, typer.Option(help="The pause that ends a session; 30 by default.")],
    "no_clicks": Annotated[bool | None, typer.Option("--no-clicks", help="Release sessions alone.")],
    "split": Annotated[str | None, typer.Option(help="The budget over tables, such as clicks=1,sessions=2.")],
    "force": Annotated[bool | None, typer.Option("--force", help="Allow more than 250 rows for each user.")],
    "pool": Annotated[str | None, typer.Option(help="File of public queries, one a line; English if not given.")],
    "off_pool": Annotated[bool | None, typer.Option("--off-pool", help="Other queries too, above a threshold.")],
    "clicks": Annotated[str | None, typer.Option(help="none, threshold or public (with --urls).")],
    "urls": Annotated[str | None, typer.Option(help="File of public urls, one a line.")],
    "queries_per_user": Annotated[int | None, typer.Option(help="How many queries of one user count.")],
    "clicks_per_user": Annotated[int | None, typer.Option(help="How many clicks of one user count.")],
    "min_users": Annotated[int | None, typer.Option(help="How many users must share a key.")],
    "keys": Annotated[str | None, typer.Option(help="queries, clicks or log.")],
    "objective": Annotated[str | None, typer.Option(help="size, frequent, diversity, queries or joint.")],
    "support": Annotated[float | None, typer.Option(help="The share of all clicks that makes a pair frequent.")],
    "output_size": Annotated[int | None, typer.Option(help="How many rows to release, each as often as its count.")],
    "weights": Annotated[str | None, typer.Option(help="Of a joint objective: size=1,diversity=0.5,frequent=2.")],
    "linked_per_user": Annotated[int | None, typer.Option(help="How many released pairs of a user are associated.")],
    "theta": Annotated[float | None, typer.Option(help="From which cosine on two queries are alike; 0.9.")],
    "concept_users": Annotated[
        float | None, typer.Option(help="Users that a phrase needs to be a concept: below 1 a share; 0.0001.")
    ],
    "min_word_users": Annotated[int | None, typer.Option(help="Users that each word of a query needs; 2.")],
    "max_neighbours": Annotated[
        int | None, typer.Option(help="Keep at most so many neighbours: degrees become lower bounds.")
    ],
    "keep_time": Annotated[bool | None, typer.Option("--keep-time", help="Release times, unprotected.")],
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

METAVAR_OF = {("optimal", "per_user"): "N"}  # it knows no auto
_NO_OTHER_VARIANT = "default; the paper has no other."
HELP_OF: dict[tuple[str, str], str] = {
    ("affinity", "min_users"): "How many users must have asked a query, or others like it.",
    ("affinity", "variant"): _NO_OTHER_VARIANT,
    ("generalize", "min_users"): "How many users must have asked for a concept.",
    ("generalize", "variant"): _NO_OTHER_VARIANT,
    ("k-anonymity", "variant"): _NO_OTHER_VARIANT,
    ("optimal", "per_user"): "How many pairs one user may add to; 64 by default.",
    ("query-pool", "delta"): "Only with --off-pool, or --clicks threshold.",
    ("query-pool", "gap_minutes"): "The longest pause within a transition; 30 by default.",
    ("query-pool", "noise"): "Knob: scale of Laplace noise, for all tables.",
    ("query-pool", "split"): "The budget over tables: queries=2,clicks=1,transitions=1.",
    ("query-pool", "threshold"): "Knob: a query is released if its noisy count exceeds it.",
    ("semantic", "epsilon"): "Budget: the most that is told about a user, or a query (--budget-per).",
    ("sessions", "delta"): "Budget, for both tables together; far below 1/users.",
    ("sessions", "epsilon"): "Budget, for both tables together.",
    ("sessions", "per_user"): "How many clicked pairs one user may add to; auto: see the docs.",
}
"""What an option means for one method, where that is more, or other, than what it means in general."""

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
        known = ", ".join(sorted(name.replace("_", "-") for name in options))
        raise ParameterError(f"the plan has {unknown[0]!r}, which is no option here; {known} are")
    context.default_map = {options[name]: value for name, value in given.items()}
    return path


Plan = Annotated[
    Path | None,
    typer.Option("--plan", callback=load_plan, is_eager=True, help="TOML file with options; typed ones go before."),
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
    own = [field.name for field in fields(kind) if field.init]

    def run(**given: Any) -> None:
        method = kind(**{option: given[option] for option in own if given[option] is not None})
        command(method=method, **{option: value for option, value in given.items() if option not in own})

    shared = list(inspect.signature(command).parameters.values())[1:]
    if not hasattr(kind, "explain"):
        shared = [each for each in shared if each.name != "explain_query"]
    added = [inspect.Parameter(option, KEYWORD, default=None, annotation=_annotation(name, option)) for option in own]
    run.__signature__ = inspect.Signature([*added, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {}
    single = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)
    single.command(name, help=f"{METHODS[name].summary}\n\n{command.__doc__}")(run)
    return typer.main.get_command(single)


def _annotation(method: str, option: str) -> Any:
    """The option's annotation, with the help that it has for this method."""
    declared = OPTIONS[option]
    told = HELP_OF.get((method, option))
    if told is None:
        return declared
    information = copy(declared.__metadata__[0])
    information.help = told
    information.metavar = METAVAR_OF.get((method, option), information.metavar)
    return Annotated[declared.__origin__, information]


def check_named(method: Method) -> None:
    """Look whether the public things that a method's options name are there; a log is none of them."""
    check = getattr(method, "check_named", None)
    if check is not None:
        check()


def composed(method: Method, releases: int, at_delta: float | None) -> Composed:
    """What so many releases by this method come to, by sums and by privacy-loss distributions."""
    from querycloak.methods.method import mechanisms_of
    from querycloak.privacy.chance.exact import stated
    from querycloak.privacy.composing.composition import ONE_RELEASE, ONE_STEP, composed
    from querycloak.privacy.composing.draws import losses_of
    from querycloak.privacy.parameters import natural

    natural("releases", releases, "say how many releases there will be")
    proven = method.proven()
    if proven.kind == "syntactic":
        raise ParameterError(f"{method.name} bounds nobody's belief, so there is nothing to add up")
    losses = losses_of(proven, mechanisms_of(method)) * releases
    total = [releases * stated(number or 0.0) for number in (proven.epsilon, proven.delta)]
    found = composed(losses, total[0], total[1], at_delta)
    one_step = None if proven.covers_release else ONE_STEP
    if releases > 1:
        return found.covering(one_step)
    return replace(found, condition=one_step or ONE_RELEASE)


def warnings(method: Method, population_size: int | None) -> list[str]:
    """What should make somebody think twice."""
    return [*too_likely(method.proven(), population_size), *too_rare(method.parameters())]


def too_rare(parameters: Mapping[str, Any]) -> list[str]:
    """Words of fewer users than a query needs, if they may come out."""
    words, users = parameters.get("min_word_users"), parameters.get("min_users")
    if words is None or users is None or words >= users:
        return []
    return [
        f"words that only {words} users know come along with frequent ones, surnames among them; "
        f"--min-word-users {users} holds them back"
    ]


def too_likely(guarantee: Guarantee, population_size: int | None) -> list[str]:
    """A delta that will happen to somebody."""
    if population_size is None or guarantee.delta is None:
        return []
    if population_size < 1:
        refuse("population_size", "at least 1", population_size, "say how many users are behind the log")
    if guarantee.delta * population_size <= 1:
        return []
    return [
        f"delta is {shown_up(guarantee.delta)}, above 1/{population_size:,}: somebody may well be given away entirely"
    ]
