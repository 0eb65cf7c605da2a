"""Tables of pandas, Polars, Arrow or DuckDB as logs: anything with Arrow batches, copied into a private folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.errors import InputError
from querycloak.files.locked_folder import PrivateFolder

_STREAM = "__arrow_c_stream__"
"""What every such table has: the Arrow PyCapsule interface."""


def is_table(given: object) -> bool:
    """Whether it is a table in memory, of any library."""
    return hasattr(given, _STREAM) and not isinstance(given, type)


class StagedTable:
    """A table in memory, written where logs are read from; it goes with whoever closes the log, or with the process."""

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
