"""Statements that README.md, croissant.json and `describe` share: difference from the log, limitations, citation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from querycloak.logs.choices import PERIODS
from querycloak.releases.card import Contents
from querycloak.releases.release import Release
from querycloak.releases.row_kinds import RowKind

_FEW = "Rare queries: what few people asked is missing or noise, so nothing can be said about the long tail."
_DRAWN_INSTEAD = "Single queries: others stand in their place, drawn at random."
_RARE = {
    RowKind.RECORDS: "Rare words: a query with a word that too few people used is missing, and so are long queries.",
    RowKind.GENERALISED: "Single queries: labels of concepts stand in their place.",
    RowKind.REPLACED: _DRAWN_INSTEAD,
    RowKind.NOISED: "Single queries: concepts with noisy numbers stand in their place.",
    RowKind.REBUILT: "Single queries: some of their words were replaced at random.",
}
"""Statements about rare queries, for rows that may be of few people or are no original queries."""
_WHEN = frozenset({"time", *PERIODS})


_CELLS = "it has numbers of searches and users by attribute, with noise, and no query"
_ONE_IS_ENOUGH = (
    "numbers have noise, and queries that too few people asked are missing; what one person alone did with a query "
    "that is here can come out"
)


def difference(release: Release) -> str:
    """Difference between release and log, in a clause."""
    if set(release.tables) == {"cells"}:
        return _CELLS
    if release.rows is RowKind.ASKED and release.claimed is not None and release.proven.kind == "syntactic":
        return _ONE_IS_ENOUGH  # noise and a claim, but no proof: query-pool as published
    return release.rows.changed


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
    if "user" not in columns and contents.release.parameters.get("linked") != "user":
        yield "Personalisation, and studies of single people: no row belongs to a user."
    elif "user" in columns and not contents.release.rows.is_personal:
        yield "Studies of single people: every user is made up."
    if not {"sessions", "transitions", "log", "reformulations"} & set(tables):
        yield "Query suggestion from sessions: no table says what was asked after what."
    if not columns & _WHEN:
        yield "Trends and seasons: no table says when something was asked."
    if not {"query", "queries", "phrase"} & columns:
        yield "Queries: no table has any."
    yield from _content(contents.release)


def _content(release: Release) -> Iterator[str]:
    if release.rows is not RowKind.ALIKE and set(release.tables) != {"cells"}:
        yield _RARE.get(release.rows, _FEW)
    if release.counts == "sampled":
        yield "Absolute volumes: a part of the rows was drawn, so true numbers are higher by an unknown amount."
    elif release.proven.covers_release and (release.parameters.get("max_queries") or not release.rows.is_random):
        yield (
            "Absolute volumes: what one person adds is bounded, so numbers are too low by an unknown amount, beside "
            "their noise."
        )


def citation(release: Release, published: object, file: tuple[str, str] | None, first_table: str | None) -> str:
    """The owner's citation; without one a BibTeX entry, to which its publisher may add names.

    `file` is a file that vouches for the release, and its SHA-256; None in memory. `first_table` is the SHA-256 of the
    first table, of which the key is made: README.md, `describe` and croissant.json have the same key.
    """
    if release.about.get("citation"):
        return str(release.about["citation"])
    when = _date(published)
    doi, owner = (str(release.about.get(name, "")) for name in ("doi", "owner"))
    made_with = f"querycloak {release.versions.get('querycloak', '')}".strip()
    fields = {
        "title": f"{{{_escaped(release.title.capitalize())}}}",
        **({"author": f"{{{_escaped(owner)}}}"} if owner else {}),
        "howpublished": f"Data set, made with {_escaped(made_with)}",
        **({"doi": _escaped(doi)} if doi else {}),
        **({"year": str(when.year), "date": when.isoformat()} if when else {}),
        **({"note": f"SHA-256 of {_escaped(file[0])}:\n    {file[1]}"} if file else {}),
    }
    method = re.sub(r"[^a-z0-9-]", "", release.method)
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    key = "-".join(["querycloak", method, *([first_table[:8]] if first_table else [])])
    return "\n".join([f"@misc{{{key},", *lines, "}"])


def _date(text: object) -> date | None:
    """The day that a card names, if it is one: anybody can write a card."""
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        return None


def _escaped(text: str) -> str:
    """The text with BibTeX's special characters escaped."""
    return re.sub(r"([&%$#_{}])", r"\\\1", text)


def cited_as(contents: Contents) -> str:
    """The BibTeX entry of a release that is being written."""
    first = contents.tables[0]
    return citation(contents.release, contents.published, (first.file, first.checksum), first.checksum)
