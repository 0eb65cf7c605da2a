"""The owner's private file of rows set aside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import orjson
import pyarrow as pa

from querycloak.errors import ResourceError
from querycloak.logs.checks import code_name


def write_set_aside(path: Path, batches: Iterable[pa.RecordBatch], files: Sequence[str]) -> int:
    """One JSON object a row (file, line, code, fields, content), readable by its owner alone."""
    problem = ""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    rows = 0
    try:
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for batch in batches:
                for row in batch.to_pylist():
                    file.write(_line(row, files))
                rows += len(batch)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except OSError as error:
        problem = os.strerror(error.errno or 0).lower()
    finally:
        beside.unlink(missing_ok=True)
    if problem:
        raise ResourceError(f"the file for rows set aside cannot be written: {problem}; name another")
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
