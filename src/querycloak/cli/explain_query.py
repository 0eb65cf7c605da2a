"""`querycloak release affinity --explain QUERY`: what protects a query, as a small picture for the log's owner."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from querycloak.cli.inspect_command import PRIVATE

if TYPE_CHECKING:
    from querycloak.methods.affinity.neighbourhood import Explained

_WIDTH = 80
_SHADES = "·░▒▓█"


def show_explanation(explained: Explained, *, as_json: bool) -> None:
    """Print what protects a query."""
    if as_json:
        json.dump(explained.to_json(), sys.stdout)
        sys.stdout.write("\n")
        return
    from querycloak.cli.terminal import console
    from querycloak.sentence import printable

    out = console()
    out.print(PRIVATE, style="bold red")
    for line in explanation_lines(explained):
        out.print(printable(line), markup=False)


def explanation_lines(explained: Explained) -> Iterator[str]:
    """The verdict, the concepts, and the neighbourhood: darker is a higher degree, a mark joins queries alike."""
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
    "no concepts": "it holds no concept, so its own users are all that counts",
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
    import textwrap

    yield from textwrap.wrap(text, _WIDTH, subsequent_indent="  ")


def _plural(number: int, word: str) -> str:
    return word if number == 1 else f"{word}s"
