"""Output of `querycloak release`: what came out, what `auto` chose and why, and what helps if little came out.

`release affinity --explain QUERY` shows what protects a query, as a small picture for the log's owner.
"""

from __future__ import annotations

import shlex
import sys
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from querycloak.cli.error_line import as_typed
from querycloak.cli.guarantee_command import guarantee_lines
from querycloak.cli.inspect_command import PRIVATE
from querycloak.cli.terminal import print_json, print_lines
from querycloak.errors import ParameterError
from querycloak.methods.keys.one_table import OneTable
from querycloak.methods.method import Method
from querycloak.methods.option import current_options
from querycloak.privacy.guarantee import Guarantee
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.affinity.neighbourhood import Explained


def _rows_of_keys(card: dict[str, Any]) -> int:
    """Number of rows that came out, without the table of ranks, which has equally many rows for every log."""
    return sum(table["rows"] for name, table in card["tables"].items() if name != "positions")


def why_empty(method: Method, log: SearchLog, card: dict[str, Any]) -> list[Sentence]:
    """The likely reason for an empty release, for the owner; nothing if rows came out."""
    from querycloak.logs.preflight import why_nothing_came_out

    if _rows_of_keys(card):
        return []
    attributes, viewed = (method.grouping.private, method.viewed) if isinstance(method, OneTable) else ((), False)
    reason, most = why_nothing_came_out(log, attributes, viewed=viewed)
    if most and "min_term_users" in method.parameters():
        return []  # words and groups decide, not the pair that most users share
    epsilon = _epsilon_for(method, most) if most else None
    if epsilon is None:
        return [Sentence("nothing came out: {reason}", reason=reason)]
    return [
        Sentence(
            "nothing came out: {reason}; such keys come out from epsilon {epsilon:g} on. Another try is charged again, "
            "and an epsilon chosen by this figure is chosen on the log, which no guarantee covers",
            reason=reason,
            epsilon=epsilon,
        )
    ]


def _epsilon_for(method: Method, users: int) -> float | None:
    """The smallest epsilon with which keys of this many users come out; None if the method has no such figure."""
    given = {name: value for name, value in (method.options() or {}).items() if name != "epsilon"}
    try:
        return float(type(method).for_users(users, **given).parameters()["epsilon"])
    except (ParameterError, KeyError):
        return None


def _when_empty(method: Method) -> str:
    """Advice after an empty release; it follows from the parameters alone."""
    parameters = method.parameters()
    if "min_users" in parameters:
        return "Nothing came out: nothing is shared by this many users. A smaller --min-users releases more."
    if "min_term_users" in parameters:
        return (
            "Nothing came out: words or groups of attributes have too few users. A smaller --min-term-users or "
            "--min-group-users releases more."
        )
    more = "More epsilon would help"
    if method.variant == "paper":
        more = "A larger budget would help"
    elif method.name in ("queries", "clicks", "sessions") and parameters.get("per_user") != "auto":
        more += ", or, if nobody knows how often people search, --max-keys-per-user auto"
    return f"Nothing passed. {more}, if the log has what is counted. Each try is a release, and budgets add up."


_FEW = 20
_FEWER_USERS = {
    "clicks": ("queries", "counts queries, which more people share than pairs of query and url"),
    "queries": ("phrases", "counts words and sequences of words, which more people share than whole queries"),
    "sessions": ("queries", "counts single queries, which more people share than sequences"),
}
"""By method: one whose keys more users share, and the reason."""


def _when_few(method: Method, card: dict[str, Any]) -> str:
    """Advice after a release of no or few rows, by the number of rows alone; empty after one of many."""
    rows = _rows_of_keys(card)
    if not rows:
        return _when_empty(method)
    if rows >= _FEW or method.name not in _FEWER_USERS:
        return ""
    other, reason = _FEWER_USERS[method.name]
    return f"Few rows. querycloak release {other} {reason}. Each try is a release, and budgets add up."


def _chosen(parameters: dict[str, Any]) -> str:
    """The bounds that were chosen, as options, and the selection."""
    names = ("max_keys_per_user", "sessions_per_user")
    bounds = {f"--{name.replace('_', '-')}": parameters.get(name) for name in names}
    given = [f"{option} {bound}" for option, bound in bounds.items() if bound is not None]
    return ", ".join([*given, parameters["selection"]])


def _reason(method: Method, chosen: dict[str, Any]) -> str:
    """Reason for the choice of auto, as a sentence; follows from the choice alone, which the budget has paid for."""
    bound = chosen.get("max_keys_per_user") or chosen.get("sessions_per_user")
    keys = "one key" if bound == 1 else f"up to {bound}"
    given = method.parameters().get("selection") not in (None, "auto")
    what = f"{keys} per user" if given else f"{chosen['selection']} with {keys} per user"
    return f"Auto chose {what}: by a noisy score over all users, this releases most."


def show_release(method: Method, made: dict[str, Any], *, as_json: bool, quiet: bool) -> None:
    """Print a summary; rows that the output filter dropped are private and go to stderr."""
    if as_json:
        print_json(made["card"])
    elif not quiet:
        lines = [*guarantee_lines(method, Guarantee.from_json(made["card"]["proven"])), ""]
        parameters = made["card"]["parameters"]
        if parameters.get("per_user") != method.parameters().get("per_user"):
            chosen = current_options(type(method), parameters)
            lines += [f"chosen for this log: {_chosen(chosen)}"]
            lines += textwrap.wrap(_reason(method, chosen), 80) if _rows_of_keys(made["card"]) else []
        lines += [
            f"{table['rows']:>12,} {'row' if table['rows'] == 1 else 'rows'} in {table['file']}"
            for table in made["card"]["tables"].values()
        ]
        accounting = made["card"]["accounting"]
        verb = "recorded for" if method.proven().kind == "syntactic" else "charged to"
        paid = accounting if isinstance(accounting, str) else f"{verb} {accounting['population']}"
        lines += textwrap.wrap(_when_few(method, made["card"]), 80)
        lines += [
            f"accounting: {paid}",
            f"written to {made['folder']}; its README.md is for the people who receive it",
            f"digest {made['digest']}",
            f"  (querycloak verify {shlex.quote(made['folder'])})",
        ]
        print_lines(lines)
    for remark in made["remarks"] if not quiet else ():
        sys.stderr.write(f"querycloak: private, not for publication: {as_typed(remark)}\n")
    if made["dropped"] and not quiet:
        what = ", ".join(f"{name} {rows:,}" for name, rows in made["dropped"].items())
        sys.stderr.write(
            f"querycloak: private, not for publication: the output filter dropped rows ({what}); "
            "--dropped FILE lists them, --filter chooses patterns\n"
        )


_WIDTH = 80
_SHADES = "·░▒▓█"


def show_explanation(explained: Explained, *, as_json: bool) -> None:
    """Print what protects a query."""
    if as_json:
        print_json(explained.to_json())
        return
    from querycloak.cli.terminal import console
    from querycloak.sentence import printable

    out = console()
    out.print(PRIVATE, style="bold red")
    for line in explanation_lines(explained):
        out.print(printable(line), markup=False)


def explanation_lines(explained: Explained) -> Iterator[str]:
    """The verdict, the concepts, and the neighbourhood: darker is a higher degree, a dot marks similar queries."""
    at_least = "at least " if explained.degree == explained.most else ""
    verdict = "comes out" if explained.released else "does not come out"
    yield f"{explained.query}"
    yield f"degree {at_least}{explained.degree}: {verdict} for --min-users {explained.min_users}"
    yield f"{explained.own_users:,} {_plural(explained.own_users, 'user')} asked exactly this"
    words = ", ".join(f"{word} {users:,}" for word, users in explained.word_users.items())
    yield from _wrapped(f"users of its words: {words}")
    if not explained.members:
        yield _WHY[explained.state]
        return
    concepts = ", ".join(f"{name} {weight:.2f}" for name, weight in explained.concepts.items())
    yield from _wrapped(f"concepts: {concepts}")
    yield ""
    others = f"{explained.neighbours:,} {_plural(explained.neighbours, 'neighbour')}"
    yield (
        f"{others} of degree {explained.degree} or more; {explained.users:,} {_plural(explained.users, 'user')} in all"
    )
    yield from _picture(explained)


_WHY = {
    "a word has too few users": "one of its words has fewer users than --min-word-users: dropped",
    "no concepts": "it has no concept, so only its own users count",
}


def _picture(explained: Explained) -> Iterator[str]:
    members, joined = explained.members, set(explained.edges)
    room = _WIDTH - len(members) - 30
    highest = max(member.degree for member in members)
    yield f"{'':>{len(members)}}    degree   users  cosine  query"
    for row, member in enumerate(members):
        shade = _SHADES[min(4, 4 * member.degree // max(1, highest))]
        cells = "".join(
            shade if row == other else "•" if (row, other) in joined else " " for other in range(len(members))
        )
        same = f" (+{member.queries - 1:,} alike)" if member.queries > 1 else ""
        text = member.query if len(member.query) + len(same) <= room else member.query[: room - len(same) - 1] + "…"
        yield f"{cells}  {member.degree:>7,} {member.users:>7,}  {member.cosine:6.4f}  {text}{same}"
    hidden = explained.neighbours + 1 - len(members)
    if hidden > 0:
        yield f"and {hidden:,} more"


def _wrapped(text: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"
