"""Which format a log is written in: named by its owner, or told by its first lines.

Nothing else is told by them: how a row is read never depends on rows of others, or no bound per user would hold.

Nothing here ever quotes a line: messages say what is accepted, not what was found.
"""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from querycloak.errors import InputError, ParameterError, UnknownFormat
from querycloak.logs.blocks import Part
from querycloak.logs.choices import Choices
from querycloak.logs.encodings import UTF8_OR_GB18030, checked_encoding
from querycloak.logs.files import LogFile
from querycloak.logs.formats import aol, excite, sogou, table
from querycloak.logs.formats.delimited import DelimitedReader, Layout
from querycloak.logs.formats.json_lines import parse_object
from querycloak.logs.formats.ubi import UbiReader, is_ubi
from querycloak.logs.schema import REQUIRED
from querycloak.privacy.parameters import one_of
from querycloak.sentence import Sentence

FORMATS = ("aol", "excite", "sogou", "ubi", "table")
ACCEPTED = Sentence(
    "aol (AnonID, Query, QueryTime, ItemRank, ClickURL with tabs), excite (user, yymmddHHMMSS, query with tabs), "
    "sogou (time, user, [query], rank and order, url with tabs), ubi (OpenSearch UBI as JSON lines), and any "
    "CSV, TSV, JSON lines or Parquet with {mapping}",
    mapping=table.mapping_of("user", "time", "query"),
)
_LINES_LOOKED_AT = 200
_FITTING_SHARE = 0.8
_NO_TEXT = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\v\x1b")
_NO_TEXT_SHARE = 0.02


class Reader(Protocol):
    """One format, ready to read."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that it makes."""
        ...

    @property
    def holds_clicks(self) -> bool:
        """Whether its rows can have a clicked url: by format and columns alone, never by what rows hold."""
        ...

    @property
    def divisible(self) -> bool:
        """Whether a plain file can be read from the middle."""
        ...

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[Any]:
        """The raw blocks of a part of a file; `numbered` if anybody will ask for line numbers."""
        ...

    def parse(self, block: Any, choices: Choices, *, origin: bool = False) -> pa.RecordBatch:
        """The rows of a block, each with its code."""
        ...


@dataclass(frozen=True)
class Head:
    """The beginning of a file."""

    label: str
    data: bytes
    lines: list[bytes]
    encoding: str

    @property
    def is_parquet(self) -> bool:
        """Whether it begins as Parquet does."""
        return self.data.startswith(b"PAR1")


def choose_reader(
    files: list[LogFile],
    log_format: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
) -> tuple[str, Reader]:
    """The name of the log's format and a reader for it; all files must agree."""
    if log_format is not None:
        one_of("log_format", log_format, FORMATS, "leave it out if the log tells it by itself")
    if columns is not None:
        if log_format not in (None, "table"):
            raise ParameterError(
                Sentence("{columns} goes with {log_format:table}, got {given!r}; leave one out", given=log_format)
            )
        log_format, columns = "table", table.checked_mapping(columns)
    heads = [_head(file, encoding) for file in files]
    names = [log_format or _sniff(head) for head in heads]
    if len(set(names)) > 1:
        others = ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))
        raise UnknownFormat(f"the log's files are of several formats ({others}): read them one format at a time")
    used = UTF8_OR_GB18030 if names[0] == "sogou" and encoding is None else heads[0].encoding
    if names[0] == "table":
        return "table", _table_reader(files, heads, columns, used)
    return names[0], _READERS[names[0]](heads, used)


def _head(file: LogFile, encoding: str | None) -> Head:
    data = file.head()
    if not data:
        raise InputError(f"{file.label} is empty")
    if data.startswith(b"PAR1"):
        return Head(file.label, data, [], "utf-8")
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise UnknownFormat(f"{file.label} is written in UTF-16: save it as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    lines = data.split(b"\n")
    if len(lines) > 1:
        lines.pop()  # the last may be cut, or is what follows the last line feed
    lines = [line.removesuffix(b"\r").removeprefix(codecs.BOM_UTF8) for line in lines[:_LINES_LOOKED_AT]]
    return Head(file.label, data, lines, checked_encoding(encoding) if encoding else "utf-8")


def _sniff(head: Head) -> str:
    if head.is_parquet:
        return "table"
    fitting = [name for name, fits in _SIGNS.items() if fits(head)]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        several = " or ".join(fitting)
        raise UnknownFormat(
            Sentence("{label} could be {several}: say which with {log_format}", label=head.label, several=several)
        )
    if len(head.data) - len(head.data.translate(None, _NO_TEXT)) > _NO_TEXT_SHARE * len(head.data):
        raise UnknownFormat(
            Sentence("{label} is not text (a binary file?). Accepted are {formats}", label=head.label, formats=ACCEPTED)
        )
    raise UnknownFormat(
        Sentence(
            "the format of {label} is not known. Accepted are {formats}; name it with {log_format}",
            label=head.label,
            formats=ACCEPTED,
        )
    )


def _share(lines: list[bytes], fits: Callable[[bytes], object]) -> bool:
    filled = [line for line in lines if line.strip()]
    return bool(filled) and sum(bool(fits(line)) for line in filled) >= _FITTING_SHARE * len(filled)


_TIME = rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d"
_AOL_LINE = re.compile(rb"[^\t]*\t[^\t]*\t" + _TIME + rb"[^\t]*(\t\d*\t[^\t]*)?")
_EXCITE_LINE = re.compile(rb"[^\t]*\t\d{12}\t[^\t]*")
_SOGOU_LINE = re.compile(rb"\d\d:\d\d:\d\d\t[^\t]*\t\[[^\t]*\]\t\d+ \d+\t[^\t]*")
_AOL_HEADER = "\t".join(aol.HEADER).encode().lower()


def _is_aol(head: Head) -> bool:
    if head.lines[0].strip().lower() == _AOL_HEADER:
        return True
    return _share(head.lines, _AOL_LINE.fullmatch)


def _is_table(head: Head) -> bool:
    """A header with our own column names."""
    names = _first_fields(head, _separator(head))
    return table.looks_like_names(names) and set(REQUIRED) <= {name.lower() for name in names}


_SIGNS: dict[str, Callable[[Head], bool]] = {
    "aol": _is_aol,
    "excite": lambda head: _share(head.lines, _EXCITE_LINE.fullmatch),
    "sogou": lambda head: _share(head.lines, _SOGOU_LINE.fullmatch),
    "ubi": lambda head: _share(head.lines, lambda line: is_ubi(parse_object(line))),
    "table": lambda head: _is_table(head) or _is_our_json(head),
}


def _is_our_json(head: Head) -> bool:
    """Objects with our own column names."""
    ours = table.JsonColumns()
    return _share(head.lines, lambda line: all(ours.has(parse_object(line), name) for name in REQUIRED))


def _aol_reader(heads: list[Head], encoding: str) -> Reader:
    spelled = {head.lines[0] for head in heads if head.lines[0].strip().lower() == _AOL_HEADER}
    return DelimitedReader(aol.LAYOUT, encoding, {"\t".join(aol.HEADER).encode(), *spelled})


def _ubi_reader(_: list[Head], encoding: str) -> Reader:
    return UbiReader(encoding)


_READERS: dict[str, Callable[[list[Head], str], Reader]] = {
    "aol": _aol_reader,
    "excite": lambda _, encoding: DelimitedReader(excite.LAYOUT, encoding),
    "sogou": lambda _, encoding: DelimitedReader(sogou.LAYOUT, encoding),
    "ubi": _ubi_reader,
}


def _table_reader(files: list[LogFile], heads: list[Head], columns: Mapping[str, str] | None, encoding: str) -> Reader:
    kinds = {(head.is_parquet, _is_json(head)) for head in heads}
    if len(kinds) > 1:
        raise UnknownFormat("the log's files are of several formats: read Parquet, JSON lines and other text apart")
    is_parquet, is_json = kinds.pop()
    if is_parquet:
        names = [table.open_parquet(file).schema_arrow.names for file in files]
        return table.ParquetReader(table.resolve_each(columns, names, [file.label for file in files]))
    if is_json:
        found = table.JsonColumns(columns)
        label = heads[0].label if len(heads) == 1 else "the log's files"
        found.require_in((parse_object(line) for head in heads for line in head.lines), label)
        return table.JsonLinesReader(found, encoding)
    return _csv_reader(heads, columns, encoding)


def _is_json(head: Head) -> bool:
    return _share(head.lines, lambda line: line.startswith(b"{"))


def _csv_reader(heads: list[Head], columns: Mapping[str, str] | None, encoding: str) -> Reader:
    head = heads[0]
    separator = _separator(head)
    names = _first_fields(head, separator)
    mapping = table.resolve(columns, names, head.label)
    for other in heads[1:]:
        if other.lines[0] != head.lines[0]:
            raise UnknownFormat(f"the header of {other.label} differs from that of {head.label}: read them apart")
    layout = Layout(
        columns={ours: names.index(theirs) for ours, theirs in mapping.items()},
        field_counts=(len(names),),
        separator=separator,
        quotes=separator != b"\t",
    )
    return DelimitedReader(layout, encoding, {head.lines[0]})


def _separator(head: Head) -> bytes:
    """The separator that cuts the first line into most fields."""
    return max(table.SEPARATORS, key=head.lines[0].count)


def _first_fields(head: Head, separator: bytes) -> list[str]:
    """The fields of the first line: column names, unless there is no header."""
    text = head.lines[0].decode(head.encoding, "replace")
    try:
        return [name.strip() for name in next(csv.reader([text], delimiter=separator.decode()), [])]
    except csv.Error:  # nothing that could be a header
        return []
