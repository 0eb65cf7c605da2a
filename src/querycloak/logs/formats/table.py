"""Any CSV, TSV, JSON lines or Parquet with a mapping from our columns to the table's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from querycloak.errors import MissingColumn, ParameterError
from querycloak.logs.choices import Choices
from querycloak.logs.formats.json_lines import (
    JsonObject,
    as_text,
    member,
    member_in_any_case,
    no_rows,
    parse_object,
    spans_of,
)
from querycloak.logs.formats.json_members import Wanted
from querycloak.logs.formats.json_values import ABSENT
from querycloak.logs.formats.marked_rows import (
    any_longer,
    contents_of,
    line_numbers,
    marked_batch,
    query_texts,
    where_judged,
)
from querycloak.logs.formats.signs import could_be_names, mark_other_formats, mark_other_objects
from querycloak.logs.formats.ubi_documents import is_ubi
from querycloak.logs.reading.blocks import LONGEST_RECORD, Block, Part, read_blocks
from querycloak.logs.reading.checks import WRONG_FIELDS, Candidates, mark
from querycloak.logs.reading.encodings import to_utf8
from querycloak.logs.reading.fields import integers
from querycloak.logs.reading.files import LogFile
from querycloak.logs.reading.schema import COLUMNS, MARKED_ROWS, REQUIRED
from querycloak.logs.reading.times import TimeParser, iso_or_epoch
from querycloak.logs.reading.urls import url_texts
from querycloak.privacy.parameters import of_kind, refuse
from querycloak.sentence import Action, Sentence
from querycloak.text.spans import Mask, Spans, with_others

_BATCH_ROWS = 1 << 16


def parse_mapping(text: str) -> dict[str, str]:
    """`user=...,time=...,query=...` as a mapping."""
    mapping: dict[str, str] = {}
    for pair in text.split(","):
        ours, equals, theirs = (piece.strip() for piece in pair.partition("="))
        if not equals or not theirs:
            refuse("columns", "written like user=...,time=...,query=...", text, "rank=... and url=... may follow")
        if ours in mapping:
            raise ParameterError(Sentence("{columns} maps {ours!r} twice; say once which column it is", ours=ours))
        mapping[ours] = theirs
    return checked_mapping(mapping)


def checked_mapping(mapping: Mapping[str, str]) -> dict[str, str]:
    """The mapping, if it names our columns and all that a log needs."""
    of_kind(
        "columns",
        mapping,
        Mapping,
        "a mapping from our columns to the table's",
        Sentence("such as {usual}", usual=mapping_of(*REQUIRED)),
    )
    for theirs in mapping.values():
        of_kind("columns", theirs, str, "names of columns", "a name is a text")
    unknown = [name for name in mapping if name not in COLUMNS]
    if unknown:
        known = ", ".join(COLUMNS)
        raise ParameterError(
            Sentence("{columns} maps {unknown!r}, which is none of {known}", unknown=unknown[0], known=known)
        )
    lacking = [name for name in REQUIRED if name not in mapping]
    if lacking:
        names = " and ".join(lacking)
        raise ParameterError(Sentence("{columns} must also say which column is {names}", names=names))
    return dict(mapping)


def mapping_of(*ours: str) -> Action:
    """How to say which columns are ours."""
    python = ", ".join(f'"{name}": ...' for name in ours)
    return Action(f"columns={{{python}}}", ("--columns", ",".join(f"{name}=..." for name in ours)))


def resolve(
    mapping: Mapping[str, str] | None, names: Sequence[str], label: str, *, schema: bool = False
) -> dict[str, str]:
    """The mapping, checked against the names that are there; without one, our own names are looked for.

    Names of a `schema` are names; those of a first line may be somebody's row.
    """
    if mapping is None:
        by_lower = {name.lower(): name for name in names} | {name: name for name in names}
        mapping = {ours: by_lower[ours] for ours in COLUMNS if ours in by_lower}
    shown = _existing(mapping, names, schema=schema)
    for ours in REQUIRED:
        if ours not in mapping:
            raise MissingColumn(
                Sentence(
                    "{label} has no column {ours}: say which it is with {mapping}; {shown}",
                    label=label,
                    ours=ours,
                    mapping=mapping_of(ours),
                    shown=shown,
                )
            )
    for theirs in mapping.values():
        if theirs not in names:
            raise MissingColumn(f"{label} has no column {theirs!r}; {shown}")
    return dict(mapping)


def _existing(mapping: Mapping[str, str], names: Sequence[str], *, schema: bool) -> str:
    """What may be said about a table's columns: they are named only where they are certain to be names."""
    typed = [theirs for theirs in mapping.values() if theirs in names]
    if schema or (typed and could_be_names(names)):
        return f"existing columns: {', '.join(names)}"
    if typed:
        return f"of these its first line has {', '.join(map(repr, typed))}"
    return "its first line has none of the names given, and is not shown: it may be somebody's row"


def resolve_each(
    mapping: Mapping[str, str] | None, names_of_files: Sequence[Sequence[str]], labels: Sequence[str]
) -> list[dict[str, str]]:
    """The mapping of each file by its own names: no file decides what is read of another.

    A file may lack rank and url, which are empty there; a column named in the mapping must be somewhere.
    """
    if mapping is None:
        return [resolve(None, names, label, schema=True) for names, label in zip(names_of_files, labels, strict=True)]
    somewhere = {name for names in names_of_files for name in names}
    for ours, theirs in mapping.items():
        if ours not in REQUIRED and theirs not in somewhere:
            resolve(mapping, names_of_files[0], labels[0], schema=True)
    resolved = []
    for names, label in zip(names_of_files, labels, strict=True):
        there = {ours: theirs for ours, theirs in mapping.items() if ours in REQUIRED or theirs in names}
        resolved.append(resolve(there, names, label, schema=True))
    return resolved


@dataclass(frozen=True)
class RawColumns:
    """The columns of a block before anything is checked."""

    user: Spans
    time: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Mask]
    query: Spans
    rank: Spans
    url: Spans

    def candidates(
        self,
        choices: Choices,
        undecodable: Mask,
        overlong: Mask,
        width: int,
        not_an_object: Mask | None = None,
        wrong_fields: Mask | None = None,
        *,
        clicks: bool = True,
    ) -> Candidates:
        """Candidates for the log."""
        overlong = overlong | any_longer([self.user, self.query, self.url])
        rank, rank_readable = integers(self.rank.trimmed())
        rank_present = self.rank.lengths > 0
        url = self.url if clicks else where_judged(self.url, rank_present, rank_readable)
        return Candidates(
            user=self.user.blank(overlong).trimmed(),
            time=self.time[0],
            time_readable=self.time[1],
            query=query_texts(self.query.blank(overlong), choices),
            url=url_texts(url.blank(overlong), choices),
            rank=rank,
            rank_readable=rank_readable,
            rank_present=rank_present,
            choices=choices,
            undecodable=undecodable,
            overlong=overlong,
            wrong_fields=no_rows(len(self.user)) if wrong_fields is None else wrong_fields,
            fields=np.full(len(self.user), width, np.int32),
            not_an_object=not_an_object,
        )


_ABSENT = object()


class JsonTexts(NamedTuple):
    """The columns of JSON lines, which lines are no object, and which objects have no query at all.

    An empty query is nothing bad (L106); objects without one are, or a wrong mapping would pass for a log.
    """

    texts: dict[str, Spans]
    not_objects: Mask
    without_query: Mask


@dataclass(frozen=True)
class JsonColumns:
    """Where our columns stand in an object, looked for in each object alone.

    Keys differ from object to object, and whose object comes first must not decide what is read of the others.
    """

    mapping: Mapping[str, str] | None = None

    def values(self, objects: Sequence[JsonObject | None], ours: str, missing: Any = None) -> list[Any]:
        """What each object holds in a column: by the mapping's dotted path, or under our own name in any case."""
        if self.mapping is None:
            return [
                held[ours] if held and ours in held else member_in_any_case(held, ours, missing) for held in objects
            ]
        if ours not in self.mapping:
            return [missing] * len(objects)
        path = self.mapping[ours]
        return [member(held, path, missing) for held in objects]

    @cached_property
    def _wanted(self) -> Wanted:
        names = COLUMNS if self.mapping is None else self.mapping.values()
        return Wanted(names, any_case=self.mapping is None)

    def read(self, records: Spans) -> JsonTexts:
        """The columns of records in UTF-8: scanned as bytes, and as objects where that is not enough."""
        found = self._wanted.scan(records)
        paths = [ours if self.mapping is None else self.mapping.get(ours) for ours in COLUMNS]
        texts = [found.text(path) for path in paths]
        not_objects, without_query = no_rows(len(records)), found.kind(paths[COLUMNS.index("query")]) == ABSENT
        if found.odd.any():
            objects = [parse_object(records.bytes_at(index)) for index in np.flatnonzero(found.odd).tolist()]
            others = self.read_objects(objects)
            texts = with_others(texts, found.odd, list(others.texts.values()))
            not_objects[found.odd], without_query[found.odd] = others.not_objects, others.without_query
        return JsonTexts(dict(zip(COLUMNS, texts, strict=True)), not_objects, without_query)

    def read_objects(self, objects: Sequence[JsonObject | None]) -> JsonTexts:
        """The columns of objects: what `read` is held to."""
        values = {ours: self.values(objects, ours, _ABSENT) for ours in COLUMNS}
        return JsonTexts(
            texts={ours: spans_of([as_text(value) for value in column]) for ours, column in values.items()},
            not_objects=np.array([held is None for held in objects], np.bool_),
            without_query=np.array([value is _ABSENT for value in values["query"]], np.bool_),
        )

    def has(self, held: JsonObject | None, ours: str) -> bool:
        """Whether the object has the column, be it null."""
        return self.values([held], ours, _ABSENT)[0] is not _ABSENT

    def require_in(self, objects: Iterable[JsonObject | None], label: str) -> None:
        """Refuse a log none of whose objects has all that a row needs; its keys are somebody's, and not told."""
        if any(all(self.has(held, ours) for ours in REQUIRED) for held in objects):
            return
        names = [repr(self.mapping[ours]) if self.mapping else ours for ours in REQUIRED]
        raise MissingColumn(
            Sentence(
                "no object of {label} has the columns {names}: say which they are with {mapping} "
                "(dotted paths such as event.query)",
                label=label,
                names=", ".join(names),
                mapping=mapping_of(*REQUIRED),
            )
        )


class JsonLinesReader:
    """Reads objects, one a line."""

    schema = MARKED_ROWS
    divisible = True

    def __init__(self, columns: JsonColumns, encoding: str = "utf-8", times: TimeParser = iso_or_epoch) -> None:
        self._columns, self._encoding, self._read_times = columns, encoding, times

    @property
    def holds_clicks(self) -> bool:
        """Whether the mapping has a url; without a mapping any object may have one."""
        return self._columns.mapping is None or "url" in self._columns.mapping

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[Block]:
        """The lines of a part of a file."""
        return read_blocks(file, part, numbered=numbered)

    def parse(self, block: Block, choices: Choices, *, origin: bool = False, clicks: bool = True) -> pa.RecordBatch:
        """The block's rows, each with its code."""
        records = block.records()
        decoded, undecodable = to_utf8(records, self._encoding)
        texts, not_objects, without_query = self._columns.read(decoded)
        columns = RawColumns(
            user=texts["user"],
            time=self._read_times(texts["time"].trimmed()),
            query=texts["query"],
            rank=texts["rank"],
            url=texts["url"],
        )
        too_long = any_longer([records], LONGEST_RECORD) | block.overlong
        rows = columns.candidates(choices, undecodable, too_long, 1, not_objects, without_query, clicks=clicks)
        contents = contents_of(records) if origin else None
        codes = mark_other_formats(mark(rows), records, "json")
        codes = mark_other_objects(codes, decoded, WRONG_FIELDS, is_ubi)
        return marked_batch(rows, codes, block.file, line_numbers(block, records), contents, clicks=clicks)
