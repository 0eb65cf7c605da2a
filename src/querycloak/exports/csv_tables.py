"""Tables as comma-separated text for spreadsheets: a folder with one file for each table."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from querycloak.releases.tables import batches_of

if TYPE_CHECKING:
    from querycloak.exports.export import Output
    from querycloak.releases.release import Release

_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters, half and full width, by which a spreadsheet takes a text for a formula."""


def write(release: Release, output: Output, _grades: str, _levels: int) -> None:
    """Write every table as NAME.csv; lists are JSON arrays, a missing value is an empty field."""
    for kind, table in release.tables.items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(table.schema.names)
        for batch in batches_of(table):
            writer.writerows(
                tuple(map(_field, row)) for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
            )
        output.write(text.getvalue().encode(), f"{kind}.csv")


def _field(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return safe(value) if isinstance(value, str) else value


def safe(text: str) -> str:
    """Return a text that no spreadsheet computes: an apostrophe stands before a formula's first character.

    Quotes and blanks before it do not hide a formula, so they are looked through.
    """
    return f"'{text}" if text.lstrip("\"' ").startswith(_FORMULA) else text
