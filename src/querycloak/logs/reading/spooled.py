"""Logs that are no files, copied into a private folder: standard input, and tables in memory.

A table is anything with Arrow batches: of pandas, Polars, Arrow or DuckDB.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.errors import InputError, ResourceError
from querycloak.files.locked_folder import PrivateFolder

STANDARD_INPUT = "-"
_PIECE = 1 << 20


def spooled() -> str:
    """The path of a file with all that stands on standard input; it goes when the process does."""
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("standard input is closed: name a file, or send a log through a pipe")
    if sys.stdin.isatty():
        raise InputError("standard input is a terminal: send a log through a pipe, or name a file")
    folder = PrivateFolder()
    path, problem = folder.path / "standard-input", ""
    with folder.removed_on_failure():
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as kept:
                while piece := sys.stdin.buffer.read(_PIECE):
                    kept.write(piece)
        except OSError as error:
            problem = os.strerror(error.errno or 0).lower()
        if problem:
            raise ResourceError(f"standard input cannot be kept: {problem}; set QUERYCLOAK_TMP to a folder with room")
    return str(path)


_STREAM = "__arrow_c_stream__"
"""Interface of every such table: Arrow PyCapsule."""


def is_table(given: object) -> bool:
    """True if it is a table in memory, of any library."""
    return hasattr(given, _STREAM) and not isinstance(given, type)


class StagedTable:
    """A table in memory, written to a private file; the file is removed when the log is closed or the process ends."""

    def __init__(self, table: Any) -> None:
        self._folder = PrivateFolder()
        self.path = self._folder.path / "table.parquet"
        with self._folder.removed_on_failure():
            _write(table, self.path)

    def remove(self) -> None:
        """Remove it."""
        self._folder.remove()


def _write(table: Any, path: Path) -> None:
    try:
        batches = pa.RecordBatchReader.from_stream(table)
        schema = pa.schema([field.with_type(_stored(field.type)) for field in batches.schema])
        with pq.ParquetWriter(path, schema) as writer:
            for batch in batches:
                writer.write_batch(batch.cast(schema) if batch.schema != schema else batch)
        return
    except (pa.ArrowException, ValueError, TypeError):  # whose words may quote a value
        pass
    raise InputError("the table cannot be read as Arrow batches; give one with columns of texts, times and numbers")


def _stored(kind: pa.DataType) -> pa.DataType:
    """Views of texts, as Polars has them, are texts in a file."""
    return pa.large_string() if pa.types.is_string_view(kind) else kind
