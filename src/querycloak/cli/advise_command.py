"""`querycloak advise`: what to expect of a release, from numbers that the owner types."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from querycloak.cli import options
from querycloak.cli.terminal import making_progress, print_json, print_lines
from querycloak.privacy.parameters import refuse
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.comparison.advice import Advice, ExpectedRows

_WIDTH = 80


def advise_owner(
    users: Annotated[int | None, typer.Option(help="Number of people behind the log, as you know it.")] = None,
    searches_per_user: Annotated[
        float | None, typer.Option(help="Number of searches of each of them, such as 1 or 2.5.")
    ] = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Say what to release and what to expect; reads no log."""
    from querycloak.comparison.advice import MOST_TWINS, advise

    if users is None or searches_per_user is None:
        refuse(
            "users",
            Sentence("typed together with {searches_per_user}"),
            users,
            "numbers known without looking at the log keep the guarantee whole",
        )
    with making_progress(min(users, MOST_TWINS), quiet=quiet or as_json) as on_users:
        advice = advise(users, searches_per_user, on_users=on_users)
    if as_json:
        print_json(advice.to_json())
        return
    print_lines(_lines(advice))


def _lines(advice: Advice) -> Iterator[str]:
    queries, clicks = advice.expected
    each = "one search" if advice.searches_per_user == 1 else f"{advice.searches_per_user:g} searches"
    yield from _wrapped(f"{advice.users:,} users with {each} each: take `queries`; {_expectation(queries)}.")
    yield from _wrapped(f"If clicks matter, take `clicks`; {_expectation(clicks)}.")
    fewer = "" if advice.twin_users == advice.users else " Your log has more users, so more comes out of it."
    yield ""
    yield from _wrapped(
        f"Computed on a synthetic twin from the numbers that you typed: {advice.twin_users:,} invented users with "
        f"{advice.twin_searches_per_user:.1f} searches each on average, {math.ceil(advice.searches_per_user)} at most, "
        "who ask what people asked a web search in 2006. Your users ask other things: expect the order of magnitude, "
        f"not the number.{fewer}"
    )
    yield "\nNext:"
    yield (
        f"  querycloak release queries LOG --epsilon {advice.epsilon:g} --delta {advice.delta:g} \\\n"
        f"    --max-keys-per-user {advice.max_keys_per_user} --out release"
    )
    yield from _wrapped("LOG: your file or folder, and the reading options with which `querycloak inspect` shows it.")
    yield from _wrapped(
        "If you took the two numbers from the log itself, add --chosen-on-log: the card then says that parameters were "
        "chosen after looking at the log."
    )


def _expectation(expected: ExpectedRows) -> str:
    from querycloak.comparison.advice import MIN_USERS

    (low, few), (high, many) = expected.by_epsilon.items()
    return (
        f"expect about {few:,} rows at epsilon {low:g}, {many:,} at {high:g}; k\u00a0=\u00a0{MIN_USERS} would keep "
        f"{expected.k_anonymous:,}, without a guarantee"
    )


def _wrapped(text: str) -> list[str]:
    return [line.replace("\u00a0", " ") for line in textwrap.wrap(text, _WIDTH, break_on_hyphens=False)]
