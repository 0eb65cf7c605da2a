"""Parquet files in batches that are bounded by bytes as well as by rows.

A few bytes of a file can stand for as many gigabytes: one long value, named by a dictionary in every row. So texts come
out of the file as dictionaries, and a batch is cut before they are written out. A column that mostly stores its texts
one by one, and whose dictionary has short texts only, is read as it is: no dictionary is made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from querycloak.errors import InputError
from querycloak.logs.reading.checks import LONGEST_FIELD
from querycloak.logs.reading.files import LogFile
from querycloak.text.spans import Spans

_BATCH_ROWS = 1 << 16
_BATCH_BYTES = 32 << 20
_BUFFER = 1 << 20
_BYTES_OF_CODES = 8
_LARGE = 1 << 20
_LONGEST_ENTRY = 1 << 12
_PLAIN_OR_CODED = {"PLAIN", "PLAIN_DICTIONARY", "RLE", "RLE_DICTIONARY", "BIT_PACKED"}


def open_parquet(file: LogFile, texts: Sequence[str] = ()) -> pq.ParquetFile:
    """The file, if it is Parquet; these columns as dictionaries, if they are texts."""
    try:
        return pq.ParquetFile(
            pa.PythonFile(file.open_raw(), mode="r"), read_dictionary=list(texts) or None, buffer_size=_BUFFER
        )
    except (OSError, pa.ArrowException):
        pass
    raise InputError(f"{file.label} is not a whole Parquet file")


def batches(file: LogFile, columns: Sequence[str]) -> tuple[int, Iterator[pa.RecordBatch]]:
    """The number of rows of a file, and these columns of them."""
    stream = open_parquet(file, columns)
    return stream.metadata.num_rows, _batches(file, stream, columns)


def _batches(file: LogFile, stream: pq.ParquetFile, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        plain = _stored_one_by_one(stream, columns)
        rows = _batch_rows(stream.metadata, columns, max(plain.values(), default=1))
        if plain:
            stream = open_parquet(file, [name for name in columns if name not in plain])
        for batch in stream.iter_batches(rows, columns=columns):
            yield from _pieces(batch)
        return
    except (OSError, pa.ArrowException):
        pass
    raise InputError(f"{file.label}: its Parquet data is damaged; write the file again")


def is_coded(column: pa.Array) -> bool:
    """True for texts that stand in a dictionary."""
    return bool(pa.types.is_dictionary(column.type)) and is_bytes(column.type.value_type)


def coded_texts(column: pa.DictionaryArray) -> Spans:
    """The texts of a column in its dictionary; none is written out."""
    values, indices = column.dictionary, column.indices
    if not len(values):
        return Spans.empty(len(column))
    filled = indices.fill_null(0) if indices.null_count else indices
    index = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)  # codes of 8 bits would overflow below
    if values.null_count or not (pa.types.is_string(values.type) or pa.types.is_binary(values.type)):
        texts = _entries(values)
        coded = Spans(texts.data, texts.starts[index], texts.ends[index])
    else:  # a dictionary may be far larger than a batch: only what the batch names is looked at
        _, places, data = values.buffers()
        offsets = np.frombuffer(places, np.int32)[values.offset :]
        coded = Spans(np.frombuffer(data or b"", np.uint8), offsets[index], offsets[index + 1])
    return coded.blank(indices.is_null().to_numpy(zero_copy_only=False)) if indices.null_count else coded


def _entries(dictionary: pa.Array) -> Spans:
    return Spans.of(dictionary.cast(pa.large_binary()) if is_binary(dictionary.type) else dictionary)


def _batch_rows(metadata: pq.FileMetaData, columns: Sequence[str], widest: float = 1.0) -> int:
    """So few rows that their texts, where they are written one by one, have at most a batch's bytes on average."""
    for rows, chunks in _groups(metadata):
        size = sum(chunk.total_uncompressed_size for name, chunk in chunks.items() if name in columns)
        widest = max(widest, size / max(rows, 1))
    return int(max(1, min(_BATCH_ROWS, _BATCH_BYTES // widest)))


def _stored_one_by_one(coded: pq.ParquetFile, columns: Sequence[str]) -> dict[str, int]:
    """Columns most of whose texts are stored one by one, with the longest text in a dictionary of theirs.

    coded: the file, with these columns as dictionaries. Of a text's bytes, codes take only a few.
    """
    longest = {name: 0 for name in columns if pa.types.is_dictionary(coded.schema_arrow.field(name).type)}
    for number, (rows, chunks) in enumerate(_groups(coded.metadata)):
        for name in list(longest):
            few = chunks[name].total_uncompressed_size < max(_BYTES_OF_CODES * rows, _LARGE)
            if few or not rows or not _PLAIN_OR_CODED.issuperset(chunks[name].encodings):
                del longest[name]
                continue
            # The first row brings the whole dictionary.
            for first in islice(coded.iter_batches(1, row_groups=[number], columns=[name]), 1):
                entries = _entries(first.column(0).dictionary)
                longest[name] = max(longest[name], int(entries.lengths.max(initial=0)))
    return {name: length for name, length in longest.items() if length <= _LONGEST_ENTRY}


def _groups(metadata: pq.FileMetaData) -> Iterator[tuple[int, dict[str, pq.ColumnChunkMetaData]]]:
    """Rows of each row group, and its columns by name."""
    for group in (metadata.row_group(number) for number in range(metadata.num_row_groups)):
        chunks = (group.column(place) for place in range(group.num_columns))
        yield group.num_rows, {chunk.path_in_schema: chunk for chunk in chunks}


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in pieces whose texts, once written out, have at most a batch's bytes."""
    if sum(map(_most_bytes, batch.columns)) <= _BATCH_BYTES:
        yield batch
        return
    sizes = np.zeros(len(batch), np.int64)
    for column in batch.columns:
        sizes += _sizes(column)
    ends = np.cumsum(sizes)
    if not len(ends) or ends[-1] <= _BATCH_BYTES:
        yield batch
        return
    first = 0
    while first < len(batch):
        before = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, before + _BATCH_BYTES, "right")), first + 1)
        yield batch.slice(first, last - first)
        first = last


def _most_bytes(column: pa.Array) -> int:
    """A bound on the bytes of a column: as if each row had the longest text of a small dictionary."""
    if not is_coded(column):
        return int(column.nbytes)
    if len(column.dictionary) > len(column):
        return _BATCH_BYTES + 1
    return len(column) * int(_entries(column.dictionary).lengths.max(initial=0))


def _sizes(column: pa.Array) -> NDArray[np.int64]:
    """Number of bytes of each row; fields that are too long are not written out."""
    if is_coded(column):
        lengths = coded_texts(column).lengths.astype(np.int64)
        return np.where(lengths > LONGEST_FIELD, 0, lengths)
    if not is_bytes(column.type):
        return np.full(len(column), 8, np.int64)
    sizes: NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return sizes


def is_binary(kind: pa.DataType) -> bool:
    """True for columns of bytes."""
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """True for columns of bytes or texts."""
    return bool(is_binary(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))
