"""Tables as Parquet files without statistics, dictionaries or foreign metadata: they hold rows alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.releases.folder import WrittenFile
from querycloak.releases.tables import LARGEST_ROW, ROWS_IN_A_GROUP

ending, media_type = "parquet", "application/x-parquet"
_ENCODINGS = {"PLAIN", "RLE", "BIT_PACKED"}


def write(groups: Iterator[pa.Table], schema: pa.Schema, file: WrittenFile) -> None:
    """Write the groups, one after another."""
    with pq.ParquetWriter(
        pa.PythonFile(file, mode="w"),
        schema,
        version="2.6",
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
        write_page_index=False,
        store_schema=False,
    ) as writer:
        for group in groups:
            writer.write_table(group.replace_schema_metadata(None), row_group_size=ROWS_IN_A_GROUP)


def columns(path: Path) -> list[str]:
    """The names of the columns."""
    return list(pq.read_schema(path).names)


def fits(path: Path, schema: pa.Schema, rows: int) -> bool:
    """True if the file has this number of rows, columns of these types, and a bounded unpacked size."""
    with pq.ParquetFile(path) as file:
        return _unpacks_to_at_most(file.metadata, rows) and all(
            stored.type.equals(field.type) or (pa.types.is_list(field.type) and _is_list_of_texts(stored.type))
            for stored, field in zip(file.schema_arrow, schema, strict=True)
        )


def _unpacks_to_at_most(stored: pq.FileMetaData, rows: int) -> bool:
    """True if the file has this number of rows, the encodings of `write`, and at most LARGEST_ROW bytes a row.

    Other encodings can repeat a value without limit: a few kilobytes of them fill any memory.
    """
    groups = [stored.row_group(number) for number in range(stored.num_row_groups)]
    encodings = {name for each in groups for at in range(each.num_columns) for name in each.column(at).encodings}
    size = sum(each.total_byte_size for each in groups)
    return bool(stored.num_rows == rows) and encodings <= _ENCODINGS and size <= (rows + 1) * LARGEST_ROW


def misses_counts(path: Path) -> bool:
    """True if counts may be null."""
    schema = pq.read_schema(path)
    return "count" in schema.names and bool(schema.field("count").nullable)


def _is_list_of_texts(stored: pa.DataType) -> bool:
    return bool(pa.types.is_list(stored) and pa.types.is_string(stored.value_type))


def read(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows, a batch at a time."""
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches()
