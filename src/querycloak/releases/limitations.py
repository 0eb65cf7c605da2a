"""Uses that a release cannot serve, by what its tables lack; README.md and croissant.json say them."""

from __future__ import annotations

from collections.abc import Iterator

from querycloak.logs.choices import PERIODS
from querycloak.releases.card import Contents
from querycloak.releases.row_kinds import RowKind

_WHEN = frozenset({"time", *PERIODS})


def limitations(contents: Contents) -> list[str]:
    """Return one sentence for each use that people expect of a search log and that this release does not serve."""
    return list(_lacking(contents))


def _lacking(contents: Contents) -> Iterator[str]:
    tables = {table.kind: set(table.schema.names) for table in contents.tables}
    columns = set().union(*tables.values())
    if "url" not in columns:
        yield "Judgements of results: no table says what was clicked."
    if not {"viewers", "clicked", "views"} & columns:
        yield (
            "Click models and the effect of rank: no table says which results were shown, at which rank, and not "
            "clicked."
        )
    if "clicked" not in columns:
        yield "Learning to rank from searches: no row holds all results of one search, and there are no features."
    if "user" not in columns:
        yield "Personalisation, and studies of single people: no row belongs to a user."
    elif not contents.release.rows.is_personal:
        yield "Studies of single people: every user is made up."
    if not {"sessions", "transitions", "log", "reformulations"} & set(tables):
        yield "Query suggestion from sessions: no table says what was asked after what."
    if not columns & _WHEN:
        yield "Trends and seasons: no table says when something was asked."
    if contents.release.rows is not RowKind.ALIKE:
        yield "Rare queries: what few people asked is missing or noise, so nothing can be said about the long tail."
    if contents.release.counts != "exact":
        yield "Absolute volumes: what one person adds is bounded, so true numbers are higher by an unknown amount."
