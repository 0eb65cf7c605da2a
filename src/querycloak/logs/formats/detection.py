"""Format of a log: named by its owner, or detected from its first lines.

They decide nothing else: how a row is read never depends on rows of other users, or no bound per user would hold.

Nothing here ever quotes a line: messages say what is accepted, not what was found.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import pyarrow as pa

from querycloak.errors import InputError, MissingColumn, ParameterError, UnknownFormat
from querycloak.logs.choices import Choices
from querycloak.logs.formats.columns import checked_mapping, mapping_of
from querycloak.logs.formats.declared_formats import DECLARED
from querycloak.logs.formats.delimited import csv_reader, declared_reader
from querycloak.logs.formats.json_lines import json_reader
from querycloak.logs.formats.json_objects import parse_object
from querycloak.logs.formats.parquet_logs import parquet_reader
from querycloak.logs.formats.signs import (
    FITTING_SHARE,
    Head,
    braces_share,
    declared_share,
    fields_of,
    header_share,
    our_json_share,
    separator_of,
    share_of,
)
from querycloak.logs.formats.ubi import UbiReader
from querycloak.logs.formats.ubi_documents import is_ubi
from querycloak.logs.reading.blocks import Part
from querycloak.logs.reading.encodings import checked_encoding
from querycloak.logs.reading.files import LogFile, OnStep, tell_of_many
from querycloak.logs.reading.time_formats import forms_of_times, time_parser
from querycloak.logs.reading.times import TimeParser
from querycloak.privacy.parameters import one_of
from querycloak.sentence import Parameter, Sentence

TABLES = ("table", "csv", "jsonl", "parquet")
_DECLARED = {form.name: form for form in DECLARED}
FORMATS = (*_DECLARED, "ubi", *TABLES)
ACCEPTED = Sentence(
    "{declared}, ubi (OpenSearch UBI as JSON lines), and any CSV, TSV, JSON lines or Parquet with {mapping}",
    declared=", ".join(f"{form.name} ({form.accepted})" for form in DECLARED),
    mapping=mapping_of("user", "time", "query"),
)
_KINDS = {".csv": "csv", ".tsv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
_LINES_LOOKED_AT = 200
_HEADS_KEPT = 1_000
"""Files whose beginnings are kept while a format is chosen; of others only the first line is."""
_PARQUET = b"PAR1"
_NO_TEXT = bytes(byte for byte in range(32) if byte not in b"\t\n\r\f\v\x1b")
_NO_TEXT_SHARE = 0.02


class Reader(Protocol):
    """A format, with its reader."""

    @property
    def schema(self) -> pa.Schema:
        """The columns that it makes."""
        ...

    @property
    def holds_clicks(self) -> bool:
        """True if its rows can have a clicked url: by format and columns alone, never by what rows hold."""
        ...

    @property
    def views(self) -> pa.Field | None:
        """The column of shown results (`CLICKED` or `SHOWN`), by format and columns; None if there is none."""
        ...

    @property
    def repeats_searches(self) -> bool:
        """True if a search has a row for each result shown: by format and columns alone."""
        ...

    @property
    def other_columns(self) -> tuple[str, ...]:
        """Columns that are none of ours and could be attributes, as far as a header or a schema names them."""
        ...

    @property
    def divisible(self) -> bool:
        """True if a plain file can be read from the middle."""
        ...

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[Any]:
        """The raw blocks of a part of a file; numbered: whether blocks have the numbers of their lines."""
        ...

    def parse(
        self, block: Any, choices: Choices, *, origin: bool = False, clicks: bool = True, views: bool = False
    ) -> pa.RecordBatch:
        """The rows of a block, each with its code, which is the same with and without clicks and views."""
        ...


@dataclass(frozen=True)
class Recognised:
    """A log's format, True if its owner named it, and evidence against it if it is a guess."""

    name: str
    named: bool
    doubt: Sentence | None = None


def choose_reader(
    files: list[LogFile],
    log_format: str | None = None,
    columns: Mapping[str, str] | None = None,
    encoding: str | None = None,
    time_format: str | None = None,
    attributes: Sequence[str] = (),
    on_step: OnStep = lambda _what, _share: None,
) -> tuple[Recognised, Reader]:
    """The log's format and a reader for it; all files must agree."""
    times = time_parser(time_format)
    log_format, columns = _checked_options(log_format, columns, attributes)
    by_name = _kind_by_name(files) if log_format == "table" else None
    heads, guesses = _beginnings(files, encoding, log_format, by_name, on_step)
    names = [name for name, _ in guesses]
    if len(set(names)) > 1:
        others = ", ".join(f"{names.count(name)} {name}" for name in sorted(set(names)))
        raise UnknownFormat(f"the log's files are of several formats ({others}): read them one format at a time")
    doubts = [*(_compression_doubt(file) for file in files if file.doubtful), *(doubt for _, doubt in guesses if doubt)]
    kind, named = names[0], log_format is not None
    if kind == "table" and by_name is not None:
        kind = by_name
    elif kind == "table" and named and all(_has_header(head, columns) for head in heads):
        kind = "csv"
    elif kind == "table":  # told by first lines, which are somebody's: then the format counts as not named
        kind, doubt = _table_kind(heads)
        doubts += [doubt] if doubt else []
        named = False
    if time_format is not None and names[0] not in TABLES:
        raise ParameterError.of("{time_format} goes with tables; times of {name} logs are always alike", name=names[0])
    recognised = Recognised(names[0], named, doubts[0] if doubts else None)
    used = heads[0].encoding
    if kind in TABLES:
        return recognised, _table_reader(kind, files, heads, columns, used, times, attributes, named=named)
    if kind == "ubi":
        return recognised, UbiReader(used, attributes)
    form = _DECLARED[kind]
    if attributes:
        raise MissingColumn.of(
            "{name} logs have no column {attribute}: they have {accepted}",
            name=kind,
            attribute=attributes[0],
            accepted=form.accepted,
        )
    return recognised, declared_reader(form, heads, form.encoding if encoding is None else used)


def _beginnings(
    files: list[LogFile], encoding: str | None, log_format: str | None, by_name: str | None, on_step: OnStep
) -> tuple[list[Head], list[tuple[str, Sentence | None]]]:
    """The beginning of each file, and the format that it fits; whole beginnings of all files may not fit memory."""
    heads, guesses = [], []
    name_for_message = _kind_by_name(files)
    for number, file in enumerate(files):
        head = _head(file, encoding, by_name or log_format)
        guesses.append((log_format, None) if log_format else _sniff(head, name_for_message))
        heads.append(head if number < _HEADS_KEPT else replace(head, data=b"", lines=head.lines[:1]))
        tell_of_many(on_step, "recognising", number, len(files))
    return heads, guesses


def _checked_options(
    log_format: str | None, columns: Mapping[str, str] | None, attributes: Sequence[str]
) -> tuple[str | None, Mapping[str, str] | None]:
    """The format and the columns that the owner named; columns alone name a table."""
    if log_format is not None:
        one_of("log_format", log_format, FORMATS, "leave it out if the log tells it by itself")
    if columns is None:
        return log_format, None
    if log_format not in (None, *TABLES):
        raise ParameterError.of(
            "{columns} goes with {log_format:table}, got {given!r}; leave one out", given=log_format
        )
    return log_format or "table", checked_mapping(columns, attributes)


def _table_reader(
    kind: str,
    files: list[LogFile],
    heads: list[Head],
    columns: Mapping[str, str] | None,
    encoding: str,
    times: TimeParser,
    attributes: Sequence[str],
    *,
    named: bool,
) -> Reader:
    if kind == "parquet":
        return parquet_reader(files, columns, times, attributes)
    if kind == "jsonl":
        return json_reader(files, heads, columns, encoding, times, attributes)
    return csv_reader(heads, columns, encoding, times, attributes, named=named)


def accepted_times(format_name: str) -> Sentence:
    """Ways in which times of a format are written, for error messages."""
    form = _DECLARED.get(format_name)
    return forms_of_times(format_name, form.time_form if form else None)


def _head(file: LogFile, encoding: str | None, log_format: str | None) -> Head:
    """The beginning of a file; where its format is named, no byte of it is taken for a sign of another."""
    if log_format == "parquet":
        return Head(file.label, b"", [b""], "utf-8", is_parquet=True)
    data = file.head()
    if not data:
        raise InputError(f"{file.label} is empty")
    if log_format in (None, "table"):
        if data.startswith(_PARQUET) and (file.tail(len(_PARQUET)) == _PARQUET or b"\0" in data):
            return Head(file.label, data, [b""], "utf-8", is_parquet=True)
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise UnknownFormat(f"{file.label} is written in UTF-16: save it as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    lines = data.split(b"\n")
    if len(lines) > 1:
        lines.pop()  # the last may be cut, or is what follows the last line feed
    lines = [line.removesuffix(b"\r").removeprefix(codecs.BOM_UTF8) for line in lines[:_LINES_LOOKED_AT]]
    return Head(file.label, data, lines, checked_encoding(encoding) if encoding else "utf-8")


_SIGNS: dict[str, Callable[[Head], float]] = {
    **{form.name: partial(declared_share, form=form) for form in DECLARED},
    "ubi": lambda head: share_of(head.filled, lambda line: is_ubi(parse_object(line))),
    "table": lambda head: max(header_share(head), our_json_share(head)),
}


def _sniff(head: Head, by_name: str | None = None) -> tuple[str, Sentence | None]:
    """The one format that the first lines fit, and evidence against it if some lines do not fit.

    by_name: kind of table that the names of files tell; it changes the message alone.
    """
    if head.is_parquet:
        return "table", None
    shares = {name: share(head) for name, share in _SIGNS.items()}
    fitting = [name for name, share in shares.items() if share >= FITTING_SHARE]
    if len(fitting) == 1:
        return fitting[0], None if shares[fitting[0]] == 1 else _lines_doubt(head, fitting[0])
    if fitting:
        several = " or ".join(fitting)
        raise UnknownFormat.of(
            "{label} could be {several}: say which with {log_format}", label=head.label, several=several
        )
    if len(head.data) - len(head.data.translate(None, _NO_TEXT)) > _NO_TEXT_SHARE * len(head.data):
        raise UnknownFormat.of(
            "{label} is not text (a binary file?). Accepted are {formats}", label=head.label, formats=ACCEPTED
        )
    raise UnknownFormat.of(
        "the format of {label} is not known. Accepted are {formats}; {way_out}",
        label=head.label,
        formats=ACCEPTED,
        way_out=Sentence("name it with {log_format}") if by_name is None else _name_columns(head),
    )


def _name_columns(head: Head) -> Sentence:
    """The options that a table needs; its encoding, too, if its beginning is not UTF-8."""
    try:
        b"\n".join(head.lines).decode()
    except UnicodeDecodeError:
        encoding = Sentence("; it is not UTF-8, so add {encoding}, such as latin-1, cp1252 or gb18030")
    else:
        encoding = Sentence("")
    return Sentence(
        "for a table such as this, say which of its columns is which: {columns} user=A,time=B,query=C and, if it has "
        "clicks, rank=D,url=E{encoding}",
        encoding=encoding,
    )


def _lines_doubt(head: Head, name: str) -> Sentence:
    return Sentence(
        "{label} seems to be {name}, but not all of its first lines are written so: if it is, say {format}",
        label=head.label,
        name=name,
        format=Parameter("log_format", name),
    )


def _compression_doubt(file: LogFile) -> Sentence:
    return Sentence(
        "the name of {label} and its first bytes do not agree on how it is compressed: say {compression:none}, or "
        "{compression:gzip}, {compression:bz2} or {compression:zstd}",
        label=file.label,
    )


def _table_kind(heads: list[Head]) -> tuple[str, Sentence | None]:
    """Parquet, JSON lines or a CSV, and evidence against it."""
    shares = {head.label: braces_share(head) for head in heads if not head.is_parquet}
    kinds = {"jsonl" if share >= FITTING_SHARE else "csv" for share in shares.values()}
    kinds |= {"parquet"} if any(head.is_parquet for head in heads) else set()
    if len(kinds) > 1:
        raise UnknownFormat("the log's files are of several formats: read Parquet, JSON lines and other text apart")
    mixed = [label for label, share in shares.items() if share not in (0, 1)]
    doubt = Sentence(
        "some of the first lines of {label} begin as JSON objects do and others do not: say {log_format:jsonl} or "
        "{log_format:csv}",
        label=mixed[0] if mixed else "",
    )
    return kinds.pop(), doubt if mixed else None


def _kind_by_name(files: list[LogFile]) -> str | None:
    """CSV, JSON lines or Parquet by the endings of names; None if they do not tell, or not the same."""
    kinds = {next((kind for ending, kind in _KINDS.items() if file.name.endswith(ending)), None) for file in files}
    return kinds.pop() if len(kinds) == 1 else None


def _has_header(head: Head, columns: Mapping[str, str] | None) -> bool:
    """True if the first line has every name that the owner typed, or, if none were typed, all of ours."""
    if head.is_parquet:
        return False
    if columns is None:
        return header_share(head) > 0
    return set(columns.values()) <= set(fields_of(head.lines[0], separator_of(head), head.encoding))
