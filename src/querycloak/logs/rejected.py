"""The owner's private file of rows set aside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson
import pyarrow as pa

from querycloak.files.private_file import private_file
from querycloak.logs.reading.checks import code_name

WHAT = "the file for rows set aside"


def write_set_aside(path: Path, batches: Iterable[pa.RecordBatch], files: Sequence[str]) -> int:
    """One JSON object a row (file, line, code, fields, content), readable by its owner alone."""
    rows = 0
    with private_file(path, WHAT) as file:
        for batch in batches:
            for row in batch.to_pylist():
                file.write(_line(row, files))
            rows += len(batch)
    return rows


def _line(row: dict[str, object], files: Sequence[str]) -> bytes:
    content = row["content"]
    held = content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else None
    shown = {
        "file": files[int(str(row["file"]))],
        "line": row["line"] or None,
        "code": code_name(int(str(row["code"]))),
        "fields": row["fields"],
        "content": held,
    }
    return orjson.dumps(shown, option=orjson.OPT_APPEND_NEWLINE)
