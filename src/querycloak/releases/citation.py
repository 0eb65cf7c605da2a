"""The citation of a release: one entry for README.md, `describe` and croissant.json."""

from __future__ import annotations

import re
from datetime import date

from querycloak.releases.card import Contents
from querycloak.releases.release import Release


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
    """The text with what BibTeX takes for its own set apart."""
    return re.sub(r"([&%$#_{}])", r"\\\1", text)


def cited_as(contents: Contents) -> str:
    """The BibTeX entry of a release that is being written."""
    first = contents.tables[0]
    return citation(contents.release, contents.published, (first.file, first.checksum), first.checksum)
