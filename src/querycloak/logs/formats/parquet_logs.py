"""Logs in Parquet: columns of any type as texts, times, ranks and clicks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.errors import InputError, MissingColumn
from querycloak.logs.choices import Choices
from querycloak.logs.formats.columns import other_columns, resolve_each
from querycloak.logs.formats.marked_rows import Ranks, RawColumns, marked_batch, no_rows, ranks_of
from querycloak.logs.formats.parquet_batches import batches, coded_texts, is_binary, is_bytes, is_coded, open_parquet
from querycloak.logs.formats.shown_results import clicked_values, listed_texts, lists_of, views_field
from querycloak.logs.reading.blocks import Part
from querycloak.logs.reading.checks import LONGEST_FIELD, Clicked, mark
from querycloak.logs.reading.encodings import to_utf8
from querycloak.logs.reading.fields import LARGEST_NUMBER
from querycloak.logs.reading.files import LogFile
from querycloak.logs.reading.schema import CLICKED, COLUMNS, MARKED_ROWS, SHOWN
from querycloak.logs.reading.times import TimeParser, in_range, iso_or_epoch
from querycloak.text.spans import Mask, Spans

_UNITS = {"s": 1_000_000, "ms": 1_000, "us": 1}
_DIGITS = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint8).reshape(256, 2)


@dataclass(frozen=True)
class ParquetBlock:
    """Some rows of a Parquet file."""

    file: int
    columns: pa.RecordBatch
    line: int
    size: int


class ParquetReader:
    """Reads Parquet by row groups, each file by a mapping of its own."""

    schema = MARKED_ROWS
    divisible = False

    def __init__(
        self,
        mappings: Sequence[Mapping[str, str]],
        times: TimeParser = iso_or_epoch,
        other_columns: tuple[str, ...] = (),
    ) -> None:
        self._mappings, self._read_times = [dict(mapping) for mapping in mappings], times
        self.other_columns = other_columns

    @property
    def holds_clicks(self) -> bool:
        """True if any file has a url."""
        return any("url" in mapping for mapping in self._mappings)

    @property
    def views(self) -> pa.Field | None:
        """Files' declaration of shown results; None if none has one."""
        return views_field({name for mapping in self._mappings for name in mapping})

    @property
    def repeats_searches(self) -> bool:
        """True if there is a row for each result shown."""
        return self.views is CLICKED

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[ParquetBlock]:  # noqa: ARG002
        """The rows of a file in batches."""
        columns = sorted(set(self._mappings[part.file].values()))
        line = 1
        rows, pieces = batches(file, columns)
        for piece in pieces:
            yield ParquetBlock(part.file, piece, line, file.size * len(piece) // max(rows, 1))
            line += len(piece)

    def parse(
        self, block: ParquetBlock, choices: Choices, *, origin: bool = False, clicks: bool = True, views: bool = False
    ) -> pa.RecordBatch:
        """The block's rows, each with its code.

        Without clicks, a search is written once for adjacent results of it; the other rows come behind, and hold
        nothing but their code.
        """
        if clicks or origin or not self.repeats_searches:
            return self._parsed(block, choices, origin=origin, clicks=clicks, views=views)
        again = self._repeats_search(block, choices)
        first = replace(block, columns=block.columns.filter(pa.array(~again)))
        once = self._parsed(first, choices, clicks=False)
        codes = once.column("code").take(pa.array(np.cumsum(~again)[again] - 1))
        nothing = [pa.nulls(len(codes), field.type) for field in list(once.schema)[:-1]]
        others = pa.RecordBatch.from_arrays([*nothing, codes], schema=once.schema)
        return pa.concat_batches([once, others])

    def _repeats_search(self, block: ParquetBlock, choices: Choices) -> Mask:
        """Rows with the search of the row before, if codes of both follow from that search alone."""
        mapping, again = self._mappings[block.file], no_rows(len(block.columns))
        names = [name for name in ("user", "time", "query", *choices.attributes) if name in mapping]
        codes = [_codes(block.columns.column(mapping[name])) for name in names]
        ranks, clicked = self._ranks(block), self._clicked(block)
        if ranks is None or clicked is None or any(each is None for each in codes):
            return again
        urls, undecodable, overlong = self._texts(block, "url")
        overlong |= urls.lengths > LONGEST_FIELD
        sound = ~(undecodable | overlong | (ranks.present & ~ranks.readable) | clicked.unreadable)
        again[1:] = sound[1:] & sound[:-1]
        for each in codes:
            again[1:] &= True if each is None else each[1:] == each[:-1]
        return again

    def _parsed(
        self, block: ParquetBlock, choices: Choices, *, origin: bool = False, clicks: bool = True, views: bool = False
    ) -> pa.RecordBatch:
        count, width = len(block.columns), len(self._mappings[block.file])
        texts, undecodable, overlong = {}, no_rows(count), no_rows(count)
        ranks = self._ranks(block)
        for name in ("user", "query", "url", *choices.attributes, *(("rank",) if ranks is None else ())):
            texts[name], not_utf8, too_long = self._texts(block, name)
            undecodable |= not_utf8
            overlong |= too_long
        columns = RawColumns(
            time=self._times(block),
            rank=ranks_of(texts.pop("rank")) if ranks is None else ranks,
            attributes={name: texts.pop(name) for name in choices.attributes},
            clicked=self._clicked(block),
            shown=self._shown(block) if views else None,
            **texts,
        )
        rows = columns.candidates(choices, undecodable, overlong, width, clicks=clicks)
        lines = np.arange(block.line, block.line + count)
        contents = pa.array([b""] * count, pa.binary()) if origin else None
        return marked_batch(rows, mark(rows), block.file, lines, contents, clicks=clicks, views=views)

    def _texts(self, block: ParquetBlock, name: str) -> tuple[Spans, Mask, Mask]:
        """Texts of a column, with masks of those that are not UTF-8 (writers do not check) and of overlong ones."""
        mapping, count = self._mappings[block.file], len(block.columns)
        if name not in mapping:
            return Spans.empty(count), no_rows(count), no_rows(count)
        column = block.columns.column(mapping[name])
        overlong = no_rows(count)
        if is_coded(column):
            texts = coded_texts(column)
            overlong = texts.lengths > LONGEST_FIELD
            texts = texts.blank(overlong)
            if int(texts.lengths.sum()) < len(texts.data):  # a dictionary of many batches: only these texts are checked
                texts = Spans.of(texts.strings())
        elif pa.types.is_string(column.type):
            texts = Spans.of(column)
        else:
            texts = Spans.of(_as_text(column.dictionary_decode() if pa.types.is_dictionary(column.type) else column))
        return *to_utf8(texts, "utf-8"), overlong

    def _ranks(self, block: ParquetBlock) -> Ranks | None:
        """Ranks of a column of whole numbers; None if it is another one, which is read as texts."""
        mapping = self._mappings[block.file]
        column = block.columns.column(mapping["rank"]) if "rank" in mapping else None
        if column is None or not pa.types.is_signed_integer(column.type):
            return None
        present = column.is_valid().to_numpy(zero_copy_only=False)
        numbers = column.fill_null(-1).to_numpy(zero_copy_only=False)
        readable = (numbers >= 0) & (numbers <= LARGEST_NUMBER)
        return Ranks(np.where(readable, numbers, 0).astype(np.int32), readable, present)

    def _clicked(self, block: ParquetBlock) -> Clicked | None:
        """Clicked results; None if no file has the column, all if only this one lacks it."""
        if not self.repeats_searches:
            return None
        mapping, count = self._mappings[block.file], len(block.columns)
        if CLICKED.name in mapping:
            column = block.columns.column(mapping[CLICKED.name])
            if pa.types.is_boolean(column.type):
                return Clicked(column.fill_null(False).to_numpy(zero_copy_only=False), no_rows(count))
            return clicked_values(self._texts(block, CLICKED.name)[0])
        return Clicked(~no_rows(count), no_rows(count))

    def _shown(self, block: ParquetBlock) -> pa.ListArray | None:
        if self.views is None or self.repeats_searches:
            return None
        mapping = self._mappings[block.file]
        if SHOWN.name not in mapping:
            return lists_of([None] * len(block.columns))
        column = block.columns.column(mapping[SHOWN.name])
        if not _is_list(column.type):
            return listed_texts(self._texts(block, SHOWN.name)[0])
        return lists_of(column.to_pylist())

    def _times(self, block: ParquetBlock) -> tuple[NDArray[np.int64], Mask]:
        column = block.columns.column(self._mappings[block.file]["time"])
        if pa.types.is_date(column.type):
            column = pc.cast(column, pa.timestamp("ms"))
        if not pa.types.is_timestamp(column.type):
            return self._read_times(self._texts(block, "time")[0].trimmed())
        # As they are stored: since 1970 in UTC, whatever zone the file names for display, also an unknown one.
        stored = pc.cast(column, pa.int64())
        values = stored.fill_null(0).to_numpy(zero_copy_only=False)
        if column.type.unit == "ns":
            times, possible = values // 1_000, np.ones(len(values), np.bool_)
        else:
            scale = _UNITS[column.type.unit]
            possible = np.abs(values // 2) < (1 << 61) // scale
            times = np.where(possible, values, 0) * scale
        return times, stored.is_valid().to_numpy(zero_copy_only=False) & possible & in_range(times)


def _codes(column: pa.Array) -> NDArray[np.int64] | None:
    """Numbers that are equal only where values are; None if the column has none."""
    if is_coded(column):
        column = column.indices.fill_null(-1)
    numbers = pa.types.is_timestamp(column.type) or pa.types.is_integer(column.type)
    if not numbers or column.null_count:
        return None
    codes: NDArray[np.int64] = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    return codes


def _as_text(column: pa.Array) -> pa.Array:
    """A column as texts; what is no text and no number is missing, as is a number that is none."""
    kind = column.type
    if _is_uuid(kind):
        return _uuid_texts(column.storage)
    if pa.types.is_floating(kind):  # whole numbers beside nulls, as pandas writes them
        whole = pc.and_(pc.is_finite(column), pc.less(pc.abs(column), 2.0**53))
        numbers = pc.if_else(pc.fill_null(whole, False), column, None)
        same = pc.fill_null(pc.equal(pc.floor(numbers), numbers), False)
        fractions = pc.if_else(pc.is_finite(column), column, None)
        return pc.if_else(
            same,
            pc.cast(pc.cast(pc.if_else(same, numbers, None), pa.int64()), pa.large_string()),
            pc.cast(fractions, pa.large_string()),
        )
    return pc.cast(column, pa.large_binary() if is_binary(kind) else pa.large_string())


def _uuid_texts(stored: pa.Array) -> pa.Array:
    """`123e4567-e89b-12d3-a456-426614174000` of sixteen bytes."""
    data = np.frombuffer(stored.buffers()[1], np.uint8)[16 * stored.offset : 16 * (stored.offset + len(stored))]
    digits = _DIGITS[data].reshape(len(stored), 32)
    dash = np.full((len(stored), 1), ord("-"), np.uint8)
    cut = [digits[:, first:last] for first, last in ((0, 8), (8, 12), (12, 16), (16, 20), (20, 32))]
    texts = np.concatenate([cut[0], dash, cut[1], dash, cut[2], dash, cut[3], dash, cut[4]], axis=1)
    offsets = np.arange(0, 36 * len(stored) + 1, 36, dtype=np.int64)
    written = pa.LargeStringArray.from_buffers(len(stored), pa.py_buffer(offsets), pa.py_buffer(texts.tobytes()))
    return pc.if_else(stored.is_valid(), written, None)


def _is_uuid(kind: pa.DataType) -> bool:
    return isinstance(kind, pa.BaseExtensionType) and kind.extension_name == "arrow.uuid"


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _is_read(kind: pa.DataType, ours: str) -> bool:
    """True if a column of this kind can be read at all."""
    value_type = kind.value_type if pa.types.is_dictionary(kind) else kind
    if ours == SHOWN.name and _is_list(kind):
        return True
    if ours not in COLUMNS and pa.types.is_boolean(value_type):
        return True
    time = ours == "time"
    if (
        is_bytes(value_type)
        or pa.types.is_integer(value_type)
        or pa.types.is_floating(value_type)
        or pa.types.is_null(value_type)
    ):
        return True
    if time:
        return bool(pa.types.is_timestamp(value_type) or pa.types.is_date(value_type)) and value_type is kind
    return _is_uuid(kind) or bool(pa.types.is_decimal(value_type))


def names_of(file: LogFile) -> list[str]:
    """The names of a file's columns."""
    try:
        return [str(name) for name in open_parquet(file).schema_arrow.names]
    except UnicodeDecodeError:
        pass
    raise InputError(f"{file.label}: its schema names columns in bytes that are no UTF-8; write the file again")


def check_columns(file: LogFile, mapping: Mapping[str, str]) -> None:
    """Refuse columns that a schema has twice, or of a kind that is no text, number or time."""
    schema = open_parquet(file).schema_arrow
    for ours, theirs in mapping.items():
        if schema.names.count(theirs) > 1:
            raise MissingColumn(f"{file.label} has more than one column {theirs!r}: write the file with one of them")
        kind = schema.field(theirs).type
        if not _is_read(kind, ours):
            meant = "a time, a text or a number" if ours == "time" else "a text or a number"
            raise InputError(f"{file.label}: its column {theirs!r} is of type {_named(kind)}; {ours} must be {meant}")


def _named(kind: pa.DataType) -> str:
    """The kind in one word; what a nested one holds may have names of its own."""
    return str(kind).split("<")[0].split("[")[0]


def parquet_reader(
    files: list[LogFile], columns: Mapping[str, str] | None, times: TimeParser, attributes: Sequence[str] = ()
) -> ParquetReader:
    """A reader of Parquet files, each by its own schema."""
    mappings = resolve_each(columns, [names_of(file) for file in files], [file.label for file in files], attributes)
    for file, mapping in zip(files, mappings, strict=True):
        check_columns(file, mapping)
    others = other_columns(_readable_names(files[0]), mappings[0])
    return ParquetReader(mappings, times, others)


def _readable_names(file: LogFile) -> list[str]:
    """Names of columns that hold texts, numbers or truth values, and that no other column has."""
    schema = open_parquet(file).schema_arrow
    return [each.name for each in schema if _is_read(each.type, "") and schema.names.count(each.name) == 1]
