"""How a budget is split over the tables of a release: `clicks=1,sessions=2`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from querycloak.errors import ParameterError


def parse_split(text: str | None, tables: Sequence[str]) -> Mapping[str, int] | None:
    """How many parts of the budget each table gets; nothing if nothing was said."""
    if text is None:
        return None
    parts: dict[str, int] = {}
    for piece in str(text).split(","):
        name, _, number = piece.partition("=")
        if name.strip() in parts or not number.strip().isdecimal() or int(number) < 1:
            _refuse(text, tables)
        parts[name.strip()] = int(number)
    if set(parts) != set(tables):
        _refuse(text, tables)
    return {table: parts[table] for table in tables}


def _refuse(text: str, tables: Sequence[str]) -> None:
    example = ",".join(f"{table}={place}" for place, table in enumerate(tables, 1))
    raise ParameterError(
        f"split must give each of {', '.join(tables)} a whole number of parts, such as {example}; it is {text!r}"
    )
