"""Reader of one record a line and one character between fields: declared formats, and any CSV or TSV."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from querycloak.errors import UnknownFormat
from querycloak.logs.choices import Choices
from querycloak.logs.formats.columns import other_columns, resolve
from querycloak.logs.formats.declared_formats import DelimitedFormat, Layout
from querycloak.logs.formats.marked_rows import (
    any_longer,
    contents_of,
    line_numbers,
    marked_batch,
    query_texts,
    where_judged,
)
from querycloak.logs.formats.shown_results import clicked_values, listed_texts, shown_texts, views_field
from querycloak.logs.formats.signs import Head, fields_of, mark_other_formats, separator_of
from querycloak.logs.reading.blocks import LONGEST_RECORD, Block, Part, read_blocks
from querycloak.logs.reading.checks import LONGEST_FIELD, Candidates, mark
from querycloak.logs.reading.encodings import to_utf8
from querycloak.logs.reading.fields import Fields, first_words, integers, split, split_lines, without_brackets
from querycloak.logs.reading.files import LogFile
from querycloak.logs.reading.schema import CLICKED, MARKED_ROWS
from querycloak.logs.reading.times import TimeParser
from querycloak.logs.reading.urls import url_texts
from querycloak.text.spans import Mask, Spans


class DelimitedReader:
    """Reads one layout; lines equal to a header are not rows, wherever they stand.

    `own` is the layout's format, `doubted` says that its header may be none: see `signs.mark_other_formats`.
    """

    schema = MARKED_ROWS
    divisible = True

    def __init__(
        self,
        layout: Layout,
        encoding: str = "utf-8",
        headers: Iterable[bytes] = (),
        *,
        own: str = "csv",
        doubted: bool = False,
        other_columns: tuple[str, ...] = (),
    ) -> None:
        self._layout, self._encoding, self._headers = layout, encoding, tuple(headers)
        self.other_columns = other_columns
        self._own, self._doubted = own, doubted

    @property
    def holds_clicks(self) -> bool:
        """True if the layout has a url."""
        return "url" in self._layout.columns

    @property
    def views(self) -> pa.Field | None:
        """Layout's declaration of shown results; None if it has none."""
        return views_field(self._layout.columns)

    @property
    def repeats_searches(self) -> bool:
        """True if there is a row for each result shown."""
        return self.views is CLICKED

    def blocks(self, file: LogFile, part: Part, *, numbered: bool = False) -> Iterator[Block]:
        """The records of a part of a file."""
        return read_blocks(file, part, numbered=numbered)

    def parse(
        self, block: Block, choices: Choices, *, origin: bool = False, clicks: bool = True, views: bool = False
    ) -> pa.RecordBatch:
        """The block's rows, each with its code."""
        records, fields = self._split(block)
        lines = line_numbers(block, records)
        for text in self._headers:
            header = records.equal_to(text)
            if header.any():
                records, lines = records.where(~header), lines[~header]
                fields = fields and fields.where(~header)
        contents = contents_of(records) if origin else None
        rows = self._candidates(records, fields, choices, overlong=block.overlong, clicks=clicks, views=views)
        codes = mark_other_formats(mark(rows), records, self._own, all_rows=self._doubted)
        return marked_batch(rows, codes, block.file, lines, contents, clicks=clicks, views=views)

    def _split(self, block: Block) -> tuple[Spans, Fields | None]:
        """The records, and their fields where both can be found in one go: plain UTF-8, as nearly always."""
        layout = self._layout
        if block.overlong or layout.quotes or self._encoding != "utf-8":
            return block.records(), None
        return split_lines(np.frombuffer(block.data, np.uint8), layout.separator[0], max(layout.field_counts))

    def _candidates(
        self, records: Spans, fields: Fields | None, choices: Choices, *, overlong: bool, clicks: bool, views: bool
    ) -> Candidates:
        layout = self._layout
        records, undecodable = to_utf8(records, self._encoding)
        if fields is None:
            fields = split(records, layout.separator[0], max(layout.field_counts), quotes=layout.quotes)
        else:
            fields = fields.blank(undecodable)
        too_long = _too_long(records, fields, overlong=overlong)
        columns = {name: fields.spans[index].blank(too_long) for name, index in layout.columns.items()}
        nothing = Spans.empty(len(records))
        query, rank = columns["query"], columns.get("rank", nothing).trimmed()
        rank_values, rank_readable = integers(first_words(rank) if layout.rank_is_first_word else rank)
        rank_present = rank.lengths > 0
        url = columns.get("url", nothing)
        if not clicks:
            url = where_judged(url, rank_present, rank_readable)
        time, time_readable = layout.times(columns["time"].trimmed())
        return Candidates(
            user=columns["user"].trimmed(),
            time=time,
            time_readable=time_readable,
            query=query_texts(without_brackets(query) if layout.bracketed_query else query, choices),
            url=url_texts(url, choices),
            rank=rank_values,
            rank_readable=rank_readable,
            rank_present=rank_present,
            choices=choices,
            undecodable=undecodable,
            overlong=too_long,
            wrong_fields=~np.logical_or.reduce([fields.counts == count for count in layout.field_counts]),
            fields=fields.counts,
            attributes={name: columns[name].trimmed() for name in choices.attributes if name in columns},
            clicked=clicked_values(columns["clicked"]) if "clicked" in columns else None,
            shown=shown_texts(listed_texts(columns["shown"]), choices) if views and "shown" in columns else None,
        )


def _too_long(records: Spans, fields: Fields, *, overlong: bool) -> Mask:
    """Records that are too long, or have a field that is."""
    if not overlong and records.lengths.max(initial=0) <= LONGEST_FIELD:
        return np.zeros(len(records), np.bool_)  # nearly always: no need to look at every field
    return any_longer([records], LONGEST_RECORD) | any_longer(fields.spans) | overlong


def declared_reader(form: DelimitedFormat, heads: list[Head], encoding: str) -> DelimitedReader:
    """A reader of a declared format; its header may be spelled in any case."""
    spelled = {head.lines[0] for head in heads if head.has_header_of(form)}
    return DelimitedReader(form.layout, encoding, {form.header_line, *spelled} if form.header else (), own=form.name)


def csv_reader(
    heads: list[Head],
    columns: Mapping[str, str] | None,
    encoding: str,
    times: TimeParser,
    attributes: Sequence[str] = (),
    *,
    named: bool,
) -> DelimitedReader:
    """A reader of a CSV or TSV by its header, which all files must share."""
    head = heads[0]
    separator = separator_of(head)
    names = fields_of(head.lines[0], separator, head.encoding)
    mapping = resolve(columns, names, head.label, attributes=attributes)
    for other in heads[1:]:
        if other.lines[0] != head.lines[0]:
            raise UnknownFormat(f"the header of {other.label} differs from that of {head.label}: read them apart")
    layout = Layout(
        columns={ours: names.index(theirs) for ours, theirs in mapping.items()},
        field_counts=(len(names),),
        separator=separator,
        quotes=separator != b"\t",
        times=times,
    )
    others = other_columns(names, mapping)
    # What was taken for a header may be a row that somebody wrote in front of a log without one.
    return DelimitedReader(layout, encoding, {head.lines[0]}, own="csv", doubted=not named, other_columns=others)
