"""JSON lines: one object a line, with our columns under names or dotted paths."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from querycloak.errors import MissingColumn
from querycloak.logs.choices import Choices
from querycloak.logs.formats.columns import check_complete, mapping_of
from querycloak.logs.formats.json_members import WantedMembers
from querycloak.logs.formats.json_objects import (
    JsonObject,
    as_text,
    member,
    member_in_any_case,
    parse_object,
    spans_of,
)
from querycloak.logs.formats.json_values import ABSENT, TRUE
from querycloak.logs.formats.marked_rows import (
    RawColumns,
    any_longer,
    contents_of,
    line_numbers,
    marked_batch,
    no_rows,
    ranks_of,
)
from querycloak.logs.formats.shown_results import clicked_values, lists_of, views_field
from querycloak.logs.formats.signs import Head, mark_other_formats, mark_other_objects
from querycloak.logs.formats.ubi_documents import is_ubi
from querycloak.logs.reading.blocks import LONGEST_RECORD, Block, Part, read_blocks
from querycloak.logs.reading.checks import WRONG_FIELDS, mark
from querycloak.logs.reading.encodings import to_utf8
from querycloak.logs.reading.files import LogFile
from querycloak.logs.reading.schema import CLICKED, COLUMNS, MARKED_ROWS, REQUIRED, SHOWN
from querycloak.logs.reading.times import TimeParser, iso_or_epoch
from querycloak.text.spans import Mask, Spans, with_others

_ABSENT = object()


class JsonTexts(NamedTuple):
    """The columns of JSON lines, which lines are no object, and which objects have no query at all.

    An empty query is nothing bad (L106); objects without one are, or a wrong mapping would pass for a log.
    """

    texts: dict[str, Spans]
    not_objects: Mask
    without_query: Mask
    true: Mask
    """Objects whose `clicked` is true; without a column mapping, also those that have no `clicked`."""


@dataclass(frozen=True)
class JsonColumns:
    """Places of our columns in an object; each object is searched alone.

    Keys differ from object to object, and whose object comes first must not decide what is read of the others.
    """

    mapping: Mapping[str, str] | None = None
    attributes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The columns that are read as texts; without a mapping, any object may have a clicked url."""
        clicked = self.mapping is None or CLICKED.name in self.mapping
        return (*COLUMNS, *self.attributes, *((CLICKED.name,) if clicked else ()))

    def path(self, ours: str) -> str | None:
        """The name or path of a column; an attribute that is not mapped has its own name. None: it is not read."""
        if self.mapping is None:
            return ours
        return self.mapping.get(ours, ours if ours in self.attributes else None)

    def values(self, objects: Sequence[JsonObject | None], ours: str, missing: Any = None) -> list[Any]:
        """Value of each object in a column: at the mapping's dotted path, or under our own name in any case."""
        if self.mapping is None:
            return [
                record[ours] if record and ours in record else member_in_any_case(record, ours, missing)
                for record in objects
            ]
        path = self.path(ours)
        if path is None:
            return [missing] * len(objects)
        return [member(record, path, missing) for record in objects]

    @cached_property
    def _wanted(self) -> WantedMembers:
        paths = (self.path(ours) for ours in self.names)
        return WantedMembers([path for path in paths if path is not None], any_case=self.mapping is None)

    def read(self, records: Spans) -> JsonTexts:
        """The columns of records in UTF-8: scanned as bytes, and as objects where that is not enough."""
        members = self._wanted.scan(records)
        paths = [self.path(ours) for ours in self.names]
        texts = [members.text(path) for path in paths]
        clicked = members.kind(self.path(CLICKED.name))
        true = (clicked == TRUE) | ((clicked == ABSENT) & (self.mapping is None))
        not_objects, without_query = no_rows(len(records)), members.kind(paths[COLUMNS.index("query")]) == ABSENT
        if members.odd.any():
            objects = [parse_object(records.bytes_at(index)) for index in np.flatnonzero(members.odd).tolist()]
            others = self.read_objects(objects)
            texts = with_others(texts, members.odd, list(others.texts.values()))
            not_objects[members.odd], without_query[members.odd] = others.not_objects, others.without_query
            true[members.odd] = others.true
        return JsonTexts(dict(zip(self.names, texts, strict=True)), not_objects, without_query, true)

    def read_objects(self, objects: Sequence[JsonObject | None]) -> JsonTexts:
        """The columns of objects, by a full parser: the reference for `read`."""
        values = {ours: self.values(objects, ours, _ABSENT) for ours in self.names}
        return JsonTexts(
            texts={ours: spans_of([as_text(value) for value in column]) for ours, column in values.items()},
            not_objects=np.array([record is None for record in objects], np.bool_),
            without_query=np.array([value is _ABSENT for value in values["query"]], np.bool_),
            true=np.array([self._is_true(value) for value in values.get(CLICKED.name, objects)], np.bool_),
        )

    def _is_true(self, clicked: Any) -> bool:
        """True if a result was clicked; without a mapping, every url of an object that does not say it was."""
        return clicked is True or (clicked is _ABSENT and self.mapping is None)

    def shown(self, records: Spans) -> pa.ListArray | None:
        """The ids in each object's list of results shown; None if the mapping has no such column."""
        if self.mapping is None or SHOWN.name not in self.mapping:
            return None
        return lists_of(self.values([parse_object(record) for record in records.texts()], SHOWN.name))

    def has(self, record: JsonObject | None, ours: str) -> bool:
        """True if the object has the column, also with null."""
        return self.values([record], ours, _ABSENT)[0] is not _ABSENT

    def require_in(self, objects: Iterable[JsonObject | None], label: str) -> None:
        """Refuse a log without any complete object; the message names no key, because keys come from the log."""
        if self.mapping is not None:
            check_complete(self.mapping, "paths may be dotted, such as event.query")
        if any(all(self.has(record, ours) for ours in REQUIRED) for record in objects):
            return
        names = [repr(self.mapping[ours]) if self.mapping else ours for ours in REQUIRED]
        raise MissingColumn.of(
            "no object of {label} has the columns {names}: say which they are with {mapping} "
            "(dotted paths such as event.query)",
            label=label,
            names=", ".join(names),
            mapping=mapping_of(*REQUIRED),
        )


class JsonLinesReader:
    """Reads objects, one a line."""

    schema = MARKED_ROWS
    divisible = True
    other_columns: tuple[str, ...] = ()

    def __init__(self, columns: JsonColumns, encoding: str = "utf-8", times: TimeParser = iso_or_epoch) -> None:
        self._columns, self._encoding, self._read_times = columns, encoding, times

    @property
    def holds_clicks(self) -> bool:
        """True if the mapping has a url; without a mapping any object may have one."""
        return self._columns.mapping is None or "url" in self._columns.mapping

    @property
    def repeats_searches(self) -> bool:
        """True if the mapping has a row for each result shown."""
        return CLICKED.name in (self._columns.mapping or ())

    @property
    def views(self) -> pa.Field | None:
        """Mapping's declaration of shown results; without a mapping any object may have `clicked`."""
        return views_field((*self._columns.names, *(self._columns.mapping or ())))

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[Block]:
        """The lines of a part of a file."""
        return read_blocks(file, part, numbered=numbered)

    def parse(
        self, block: Block, choices: Choices, *, origin: bool = False, clicks: bool = True, views: bool = False
    ) -> pa.RecordBatch:
        """The block's rows, each with its code."""
        records = block.records()
        decoded, undecodable = to_utf8(records, self._encoding)
        texts, not_objects, without_query, true = self._columns.read(decoded)
        columns = RawColumns(
            user=texts["user"],
            time=self._read_times(texts["time"].trimmed()),
            query=texts["query"],
            rank=ranks_of(texts["rank"]),
            url=texts["url"],
            attributes={name: texts[name] for name in choices.attributes},
            clicked=clicked_values(texts[CLICKED.name], true) if CLICKED.name in texts else None,
            shown=self._columns.shown(decoded) if views else None,
        )
        too_long = any_longer([records], LONGEST_RECORD) | block.overlong
        rows = columns.candidates(choices, undecodable, too_long, 1, not_objects, without_query, clicks=clicks)
        contents = contents_of(records) if origin else None
        codes = mark_other_formats(mark(rows), records, "json")
        codes = mark_other_objects(codes, decoded, WRONG_FIELDS, is_ubi)
        return marked_batch(rows, codes, block.file, line_numbers(block, records), contents, clicks=clicks, views=views)


def json_reader(
    files: list[LogFile],
    heads: list[Head],
    columns: Mapping[str, str] | None,
    encoding: str,
    times: TimeParser,
    attributes: Sequence[str] = (),
) -> JsonLinesReader:
    """A reader of JSON lines, if some object has all that a row needs."""
    wanted = JsonColumns(columns, tuple(attributes))
    label = heads[0].label if len(heads) == 1 else "the log's files"
    first = (parse_object(line) for head in heads for line in head.lines)
    # All first lines may be those of one user, who must not decide whether a log can be read: then one looks further.
    wanted.require_in(itertools.chain(first, _objects_of(files, encoding)), label)
    return JsonLinesReader(wanted, encoding, times)


def _objects_of(files: list[LogFile], encoding: str) -> Iterator[JsonObject | None]:
    for number, file in enumerate(files):
        for block in read_blocks(file, Part(number), numbered=False):
            yield from map(parse_object, to_utf8(block.records(), encoding)[0].texts())
