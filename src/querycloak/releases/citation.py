"""How to cite a release: BibTeX of what it knows of itself, and of nobody."""

from __future__ import annotations

import re
from datetime import date

from querycloak.releases.release import Release


def citation(release: Release, published: object, file: tuple[str, str] | None) -> str:
    """A BibTeX entry, to which its publisher may add names; `file` is a file that vouches for it, and its SHA-256."""
    when = _date(published)
    made_with = f"querycloak {release.versions.get('querycloak', '')}".strip()
    fields = {
        "title": f"{{{_escaped(release.title.capitalize())}}}",
        "howpublished": f"Data set, made with {_escaped(made_with)}",
        **({"year": str(when.year), "date": when.isoformat()} if when else {}),
        **({"note": f"SHA-256 of {_escaped(file[0])}:\n    {file[1]}"} if file else {}),
    }
    method = re.sub(r"[^a-z0-9-]", "", release.method)
    lines = [f"  {name} = {{{value}}}," for name, value in fields.items()]
    return "\n".join([f"@misc{{{'-'.join(['querycloak', method, *([file[1][:8]] if file else [])])},", *lines, "}"])


def _date(text: object) -> date | None:
    """The day that a card names, if it is one: anybody can write a card."""
    try:
        return date.fromisoformat(str(text))
    except ValueError:
        return None


def _escaped(text: str) -> str:
    """The text with what BibTeX takes for its own set apart."""
    return re.sub(r"([&%$#_{}])", r"\\\1", text)
