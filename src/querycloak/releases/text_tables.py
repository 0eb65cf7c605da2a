r"""Tables as tab- or comma-separated text in UTF-8, that any tool can read and that comes back exactly.

The first line names the columns; every line ends with a newline and is one row. A field with the separator or a
quotation mark is quoted, quotation marks inside it are doubled (Python's dialects `excel-tab` and `excel`). Texts
follow the rule of `safe_text`. A missing value is an empty field, an empty text is `""`. Lists are JSON arrays. Times
are written as in 2006-03-01 09:30:00.000000.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from querycloak.releases.folder import WrittenFile
from querycloak.releases.safe_text import escaped_json, original_texts, safe_texts

_LONGEST_HEADER = 1 << 16
_TO_QUOTE_IN_JSON = r'["\\\x00-\x1f\x7f-\x{9f}\x{061c}\x{200e}\x{200f}\x{2028}-\x{202e}\x{2066}-\x{2069}]'


@dataclass(frozen=True)
class TextFormat:
    """Tables as text with one separator."""

    ending: str
    media_type: str
    separator: str
    dialect: str

    def write(self, groups: Iterator[pa.Table], schema: pa.Schema, file: WrittenFile) -> None:
        """Write the header and the groups, one after another."""
        file.write((self.separator.join(schema.names) + "\n").encode())
        for group in groups:
            for batch in group.to_batches():
                *first, last = (self._fields(column) for column in batch.columns)
                lines = _joined(*first, _joined(last, "", between="\n"), between=self.separator)
                # The bytes of an array that was just made are its texts, one after another: the lines.
                file.write(lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py()))

    def _fields(self, column: pa.Array) -> pa.Array:
        if pa.types.is_list(column.type):
            return self._quoted(_json_lists(column))
        texts = pc.cast(column, pa.large_string())
        return (self._quoted(safe_texts(texts)) if pa.types.is_string(column.type) else texts).fill_null("")

    def _quoted(self, texts: pa.Array) -> pa.Array:
        """Fields of texts; None stays None."""
        special = pc.or_(pc.match_substring(texts, self.separator), pc.match_substring(texts, '"'))
        special = pc.or_(special, pc.equal(texts, "")).fill_null(False)
        if not pc.any(special).as_py():
            return texts
        quoted = _joined('"', pc.replace_substring(texts.filter(special), '"', '""'), '"', between="")
        return pc.replace_with_mask(texts, special, quoted)

    def columns(self, path: Path) -> list[str]:
        """The names of the columns."""
        with path.open("rb") as file:
            return file.readline(_LONGEST_HEADER).decode("utf-8", "replace").rstrip("\n").split(self.separator)

    def misses_counts(self, path: Path) -> bool:  # noqa: ARG002 (a field can always be empty)
        """True if counts may be null."""
        return True

    def fits(self, path: Path, schema: pa.Schema, rows: int) -> bool:  # noqa: ARG002 (texts have no types)
        """True if the file has this number of rows."""
        with path.open("rb") as file:
            lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
        return lines == rows + 1

    def read(self, path: Path, schema: pa.Schema, dialect: str | None = None) -> Iterator[pa.RecordBatch]:
        """The rows, a batch at a time; `dialect` is the card's, None for the text of querycloak 0.1 and 0.2."""
        with pyarrow.csv.open_csv(
            path,
            parse_options=pyarrow.csv.ParseOptions(
                delimiter=self.separator,
                quote_char=False if dialect is None else '"',
                double_quote=dialect is not None,
                ignore_empty_lines=False,
            ),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(schema.names, pa.string()),
                strings_can_be_null=dialect is not None,
                quoted_strings_can_be_null=False,
                null_values=[""],
            ),
        ) as reader:
            values = _values if dialect is not None else _backslashed_values
            for batch in reader:
                columns = [values(column, field) for column, field in zip(batch.columns, schema, strict=True)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


TSV = TextFormat("tsv", "text/tab-separated-values", "\t", "excel-tab")
CSV = TextFormat("csv", "text/csv", ",", "excel")


def _joined(*parts: pa.Array | str, between: str) -> pa.Array:
    """Join row by row; large texts, because a group of rows may well be more than 2 GB."""
    large = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in (*parts, between)]
    return pc.binary_join_element_wise(*large)


def _json_lists(column: pa.ListArray) -> pa.Array:
    texts = pc.cast(column.flatten(), pa.large_string())
    odd = pc.match_substring_regex(texts, _TO_QUOTE_IN_JSON)
    if pc.any(odd).as_py():
        escaped = [escaped_json(json.dumps(text, ensure_ascii=False)[1:-1]) for text in texts.filter(odd).to_pylist()]
        texts = pc.replace_with_mask(texts, odd, pa.array(escaped, texts.type))
    quoted = _joined('"', texts, '"', between="")
    ends = pc.cumulative_sum(pc.list_value_length(column))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return _joined(
        "[",
        pc.binary_join(pa.ListArray.from_arrays(offsets, quoted), pa.scalar(",", pa.large_string())),
        "]",
        between="",
    )


def _lists(fields: pa.Array, field: pa.Field) -> pa.Array:
    # One parse for all rows: the fields are JSON, so is a list of them.
    return pa.array(orjson.loads("[" + ",".join(fields.to_pylist()) + "]"), field.type)


def _values(fields: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_list(field.type):
        return _lists(fields, field)
    return original_texts(fields) if pa.types.is_string(field.type) else pc.cast(fields, field.type)


_BACKSLASHED = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r", "\\e": ""}
_BACKSLASHED_FORMULA = re.compile(r"^\\([=+\-@])")
_BACKSLASHED_CHARACTER = re.compile(r"\\[\\tnre]")


def _backslashed_values(fields: pa.Array, field: pa.Field) -> pa.Array:
    r"""Values of text that querycloak 0.1 and 0.2 wrote: \\, \t, \n, \r, \e for an empty text, \= for a formula."""
    if pa.types.is_list(field.type):
        return _lists(fields, field)
    if field.nullable:
        fields = pc.if_else(pc.equal(fields, ""), None, fields)
    if not pa.types.is_string(field.type):
        return pc.cast(fields, field.type)
    escaped = pc.match_substring(fields, "\\")
    if not pc.any(escaped).as_py():
        return fields
    restored = [_without_backslashes(text) for text in fields.filter(escaped).to_pylist()]
    return pc.replace_with_mask(fields, escaped.fill_null(False), pa.array(restored, pa.string()))


def _without_backslashes(text: str) -> str:
    whole = _BACKSLASHED_FORMULA.sub(r"\1", text)
    return _BACKSLASHED_CHARACTER.sub(lambda escape: _BACKSLASHED[escape[0]], whole)
