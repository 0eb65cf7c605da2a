r"""Tables as tab-separated text in UTF-8, that any tool can read and that comes back exactly.

The first line names the columns; every line ends with a newline. In columns of text a backslash, tab, newline and
carriage return are written \\, \t, \n and \r. A text that begins with =, +, - or @ has a backslash before it: a
spreadsheet would compute it, and what people typed must not be computed. A missing value is an empty field; in a column
that may miss values an empty text is written \e. Lists are JSON arrays, which escape all of these by themselves. Times
are written as in 2006-03-01 09:30:00.000000.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from querycloak.releases.folder import WrittenFile

ENDING = "tsv"
MEDIA_TYPE = "text/tab-separated-values"
_LONGEST_HEADER = 1 << 16
_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_MEANT = {"\\\\": "\\", "\\t": "\t", "\\n": "\n", "\\r": "\r", "\\e": ""}
_FORMULA = re.compile(r"^\\([=+\-@])")
_ESCAPED = re.compile(r"\\[\\tnre]")
_JSON_ESCAPES = {"\\": "\\\\", '"': '\\"'} | {chr(code): f"\\u{code:04x}" for code in range(32)}


def write(groups: Iterator[pa.Table], schema: pa.Schema, file: WrittenFile) -> None:
    """Write the header and the groups, one after another."""
    file.write(("\t".join(schema.names) + "\n").encode())
    for group in groups:
        for batch in group.to_batches():
            *first, last = (_fields(column, field) for column, field in zip(batch.columns, schema, strict=True))
            lines = _joined(*first, _joined(last, "", between="\n"), between="\t")
            # The bytes of an array that was just made are its texts, one after another: the lines.
            file.write(lines.buffers()[2].slice(0, pc.sum(pc.binary_length(lines)).as_py()))


def _fields(column: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_list(column.type):
        return _json_lists(column)
    texts = pc.cast(column, pa.large_string())
    if not pa.types.is_string(column.type):
        return texts.fill_null("")
    for plain, escaped in _ESCAPES.items():
        texts = pc.replace_substring(texts, plain, escaped)
    texts = pc.replace_substring_regex(texts, pattern=r"^([=+\-@])", replacement=r"\\\1")
    if field.nullable:
        texts = pc.if_else(pc.equal(texts, ""), pa.scalar("\\e", pa.large_string()), texts)
    return texts.fill_null("")


def _joined(*parts: pa.Array | str, between: str) -> pa.Array:
    """Join row by row; large texts, because a group of rows may well be more than 2 GB."""
    large = [pa.scalar(part, pa.large_string()) if isinstance(part, str) else part for part in (*parts, between)]
    return pc.binary_join_element_wise(*large)


def _json_lists(column: pa.ListArray) -> pa.Array:
    texts = pc.cast(column.flatten(), pa.large_string())
    if pc.any(pc.match_substring_regex(texts, r'["\\\x00-\x1f]')).as_py():
        for plain, escaped in _JSON_ESCAPES.items():
            texts = pc.replace_substring(texts, plain, escaped)
    quoted = _joined('"', texts, '"', between="")
    ends = pc.cumulative_sum(pc.list_value_length(column))
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), ends])
    return _joined(
        "[",
        pc.binary_join(pa.ListArray.from_arrays(offsets, quoted), pa.scalar(",", pa.large_string())),
        "]",
        between="",
    )


def columns(path: Path) -> list[str]:
    """The names of the columns."""
    with path.open("rb") as file:
        return file.readline(_LONGEST_HEADER).decode("utf-8", "replace").rstrip("\n").split("\t")


def fits(path: Path, schema: pa.Schema, rows: int) -> bool:  # noqa: ARG001 (texts have no types)
    """Whether the file has this number of rows."""
    with path.open("rb") as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return lines == rows + 1


def read(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows, a batch at a time."""
    with pyarrow.csv.open_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(delimiter="\t", quote_char=False, ignore_empty_lines=False),
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(schema.names, pa.string())),
    ) as reader:
        for batch in reader:
            values = [_values(column, field) for column, field in zip(batch.columns, schema, strict=True)]
            yield pa.RecordBatch.from_arrays(values, schema=schema)


def _values(fields: pa.Array, field: pa.Field) -> pa.Array:
    if pa.types.is_list(field.type):
        # One parse for all rows: the fields are JSON, so is a list of them.
        return pa.array(orjson.loads("[" + ",".join(fields.to_pylist()) + "]"), field.type)
    if field.nullable:
        fields = pc.if_else(pc.equal(fields, ""), None, fields)
    if not pa.types.is_string(field.type):
        return pc.cast(fields, field.type)
    escaped = pc.match_substring(fields, "\\")
    if not pc.any(escaped).as_py():
        return fields
    # Few rows have a backslash: only these are looked at one by one.
    meant = [_meant(text) for text in fields.filter(escaped).to_pylist()]
    return pc.replace_with_mask(fields, escaped.fill_null(False), pa.array(meant, pa.string()))


def _meant(text: str) -> str:
    return _ESCAPED.sub(lambda found: _MEANT[found[0]], _FORMULA.sub(r"\1", text))
