"""From columns of texts to marked rows, the same for every format: candidates, codes, and where a row stood."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.logs.choices import Choices
from querycloak.logs.formats.shown_results import shown_texts
from querycloak.logs.reading.blocks import Block
from querycloak.logs.reading.checks import KEPT, LONGEST_FIELD, Candidates, Clicked, Codes
from querycloak.logs.reading.fields import integers
from querycloak.logs.reading.schema import CLICKED, MARKED_ROWS, MARKED_SEARCHES, ORIGIN, SHOWN, with_records
from querycloak.logs.reading.urls import url_texts
from querycloak.text.normalisation import normalise
from querycloak.text.spans import Mask, Spans, number_array

LONGEST_CONTENT = 1 << 16


def query_texts(queries: Spans, choices: Choices) -> pa.StringArray:
    """The queries as the log will show them."""
    if not choices.normalise:
        return queries.strings()
    # Results of one search often name the same bytes row after row: these are normalised once.
    begins = np.ones(len(queries), np.bool_)
    begins[1:] = (queries.starts[1:] != queries.starts[:-1]) | (queries.ends[1:] != queries.ends[:-1])
    if 2 * np.count_nonzero(begins) > len(queries):
        return normalise(queries)
    return normalise(queries.where(begins)).take(pa.array(np.cumsum(begins) - 1))


class Ranks(NamedTuple):
    """Ranks, and the rows of which they can be read and stand there at all."""

    values: NDArray[np.int32]
    readable: Mask
    present: Mask


def ranks_of(texts: Spans) -> Ranks:
    """Ranks that are written as texts."""
    return Ranks(*integers(texts.trimmed()), texts.lengths > 0)


def where_judged(urls: Spans, rank_present: Mask, rank_readable: Mask) -> Spans:
    """The addresses that decide whether a row is kept, the others emptied: those beside a rank that cannot be read."""
    judged = rank_present & ~rank_readable
    return urls.blank(~judged) if judged.any() else Spans.empty(len(urls))


def no_rows(count: int) -> Mask:
    """A mask of nothing."""
    return np.zeros(count, np.bool_)


def any_longer(spans: Sequence[Spans], limit: int = LONGEST_FIELD) -> Mask:
    """Rows with a field beyond the limit."""
    longer = np.zeros(len(spans[0]), np.bool_)
    for span in spans:
        longer |= span.lengths > limit
    return longer


def line_numbers(block: Block, records: Spans) -> NDArray[np.int64]:
    """The number of each record in its file; 0 if unknown."""
    if not block.line:
        return np.zeros(len(records), np.int64)
    return np.arange(block.line, block.line + len(records))


def contents_of(records: Spans) -> pa.BinaryArray:
    """The records as they stand, at most 64 KiB of each."""
    short = Spans(records.data, records.starts, np.minimum(records.ends, records.starts + LONGEST_CONTENT))
    texts = short.strings()
    return pa.BinaryArray.from_buffers(pa.binary(), len(texts), texts.buffers())


def marked_batch(
    rows: Candidates,
    codes: Codes,
    file: int,
    lines: NDArray[np.int64],
    contents: pa.BinaryArray | None,
    *,
    clicks: bool = True,
    views: bool = False,
) -> pa.RecordBatch:
    """The canonical batch: rejected rows hold nothing but their code (and, on request, their origin).

    views: with the results that were shown; else the results that were not clicked are left out of their rows.
    """
    kept = codes == KEPT
    query = rows.query if kept.all() else Spans.of(rows.query).blank(~kept).strings(kept)
    columns = [rows.user.blank(~kept).strings(kept), number_array(rows.time, pa.timestamp("us"), kept), query]
    if clicks:
        clicked = kept & (rows.url.lengths > 0)
        if rows.clicked is not None and not views:
            clicked &= rows.clicked.values
        columns.append(number_array(rows.rank, pa.int32(), clicked & rows.rank_readable))
        columns.append(rows.url.blank(~clicked).strings(clicked))
    columns += [text.blank(~kept).strings(kept & (text.lengths > 0)) for text in rows.attributes.values()]
    shown = _shown(rows, kept) if views else None
    schema = with_records(MARKED_ROWS if clicks else MARKED_SEARCHES, list(rows.attributes), shown and shown[0])
    columns += [] if shown is None else [shown[1]]
    batch = pa.RecordBatch.from_arrays([*columns, pa.array(codes)], schema=schema)
    return batch if contents is None else with_origin(batch, codes, file, lines, rows.fields, contents)


def _shown(rows: Candidates, kept: Mask) -> tuple[pa.Field, pa.Array] | None:
    """The column of shown results; None if the log has none."""
    if rows.clicked is not None:
        return CLICKED, pa.array(rows.clicked.values, mask=~kept)
    if rows.shown is None:
        return None
    return SHOWN, pc.if_else(pa.array(kept), rows.shown, pa.scalar(None, SHOWN.type))


def with_origin(
    batch: pa.RecordBatch,
    codes: Codes,
    file: int,
    lines: NDArray[np.int64],
    fields: NDArray[np.int32],
    contents: pa.BinaryArray,
) -> pa.RecordBatch:
    """The batch with the place of each row and the content of rejected ones."""
    rejected = Spans.of(contents).strings(codes != KEPT)
    content = pa.BinaryArray.from_buffers(pa.binary(), len(rejected), rejected.buffers())
    origin = [pa.array(np.full(len(codes), file, np.int32)), pa.array(lines), pa.array(fields), content]
    names = batch.schema.names + ORIGIN.names
    return pa.RecordBatch.from_arrays(batch.columns + origin, names=names)


@dataclass(frozen=True)
class RawColumns:
    """The columns of a block before anything is checked."""

    user: Spans
    time: tuple[np.ndarray[tuple[int], np.dtype[np.int64]], Mask]
    query: Spans
    rank: Ranks
    url: Spans
    attributes: Mapping[str, Spans] = field(default_factory=dict)
    clicked: Clicked | None = None
    shown: pa.ListArray | None = None

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
        overlong = overlong | any_longer([self.user, self.query, self.url, *self.attributes.values()])
        ranks = self.rank
        url = self.url if clicks else where_judged(self.url, ranks.present, ranks.readable)
        return Candidates(
            user=self.user.blank(overlong).trimmed(),
            time=self.time[0],
            time_readable=self.time[1],
            query=query_texts(self.query.blank(overlong), choices),
            url=url_texts(url.blank(overlong), choices),
            rank=ranks.values,
            rank_readable=ranks.readable,
            rank_present=ranks.present,
            choices=choices,
            undecodable=undecodable,
            overlong=overlong,
            wrong_fields=no_rows(len(self.user)) if wrong_fields is None else wrong_fields,
            fields=np.full(len(self.user), width, np.int32),
            not_an_object=not_an_object,
            attributes={name: text.blank(overlong).trimmed() for name, text in self.attributes.items()},
            clicked=self.clicked,
            shown=None if self.shown is None else shown_texts(self.shown, choices),
        )
