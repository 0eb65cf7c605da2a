"""Tables as comma-separated text for spreadsheets: a folder with one file for each table."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any

from querycloak.releases.safe_text import escaped_json, safe_text
from querycloak.releases.tables import batches_of

if TYPE_CHECKING:
    from querycloak.exports.export import Output
    from querycloak.releases.release import Release


def write(release: Release, output: Output, _grades: str, _levels: int) -> None:
    """Write every table as NAME.csv; lists are JSON arrays, a missing value is an empty field."""
    for kind, table in release.tables.items():
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(map(safe_text, table.schema.names))
        for batch in batches_of(table):
            writer.writerows(
                tuple(map(_field, row)) for row in zip(*(c.to_pylist() for c in batch.columns), strict=True)
            )
        output.write(text.getvalue().encode(), f"{kind}.csv")


def _field(value: Any) -> Any:
    if isinstance(value, list):
        return escaped_json(json.dumps(value, ensure_ascii=False))
    return safe_text(value) if isinstance(value, str) else value
