"""Records cut into fields, compiled: plain separators, and quoted fields after RFC 4180, within one line.

A quoted field may not go on in the next line: one quote left open would swallow the rows of other users, and what
one user writes must never change what others contribute.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from querycloak.logs.reading.places import delimiters
from querycloak.text import array_forms
from querycloak.text.compiled import kernel, kernel_or, part
from querycloak.text.spans import Mask, Spans

_LINE_FEED = 10


@dataclass(frozen=True)
class Fields:
    """The first `width` fields of each record as spans, and how many fields each record has."""

    spans: list[Spans]
    counts: NDArray[np.int32]

    def where(self, mask: Mask) -> Fields:
        """The fields of some records."""
        return Fields([span.where(mask) for span in self.spans], self.counts[mask])

    def blank(self, mask: Mask) -> Fields:
        """The fields, those of the records under the mask emptied."""
        return Fields([span.blank(mask) for span in self.spans], self.counts)


def split(records: Spans, separator: int, width: int, *, quotes: bool = False) -> Fields:
    """Cut each record at the separator; fields that a record lacks are empty.

    With quotes, a separator between quotes is text, doubled quotes are one, and a record that ends before its quote
    does has no fields at all.
    """
    if quotes:  # doubled quotes are made single in place
        records = Spans(records.data.copy(), records.starts, records.ends)
    shape = (width, len(records))
    starts, ends = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    counts = np.zeros(len(records), np.int32)
    kernel = _split_quoted if quotes else _split_plain
    kernel(records.data, records.starts, records.ends, separator, starts, ends, counts)
    return Fields([Spans(records.data, starts[i], ends[i]) for i in range(width)], counts)


def split_lines(data: NDArray[np.uint8], separator: int, width: int) -> tuple[Spans, Fields]:
    """The lines of a buffer and their fields, in one go: the same as finding the lines and splitting them."""
    places, lines = delimiters(data, separator)
    if not data.size or data[-1] != _LINE_FEED:
        lines += 1
    shape = (width, lines)
    starts, ends = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
    line_starts, line_ends, counts = (np.empty(lines, np.int32) for _ in range(3))
    _assign_fields(data, places, line_starts, line_ends, starts, ends, counts)
    return Spans(data, line_starts, line_ends), Fields([Spans(data, starts[i], ends[i]) for i in range(width)], counts)


LARGEST_NUMBER = 10**9 - 1
"""The largest number of nine digits."""


def integers(texts: Spans) -> tuple[NDArray[np.int32], Mask]:
    """Whole numbers of up to nine digits, also written `1.0` as pandas does, and which texts are one."""
    values = np.zeros(len(texts), np.int32)
    readable = np.zeros(len(texts), np.bool_)
    _integers(texts.data, texts.starts, texts.ends, values, readable)
    return values, readable


def first_words(texts: Spans) -> Spans:
    """The texts up to their first blanks."""
    ends = texts.ends.copy()
    _cut_at_blank(texts.data, texts.starts, ends)
    return Spans(texts.data, texts.starts, ends)


def without_brackets(texts: Spans) -> Spans:
    """The texts without square brackets around them, if they have both."""
    starts, ends = texts.starts.copy(), texts.ends.copy()
    _unbracket(texts.data, starts, ends)
    return Spans(texts.data, starts, ends)


@kernel_or(array_forms.assign_fields)
def _assign_fields(data, delimiters, line_starts, line_ends, starts, ends, counts):  # type: ignore[no-untyped-def]
    width = starts.shape[0]
    row, field, start, line_start = 0, 0, 0, 0
    for k in range(delimiters.size + 1):
        at = delimiters[k] if k < delimiters.size else data.size
        if at == data.size and row == line_starts.size:
            break
        line_ended = at == data.size or data[at] == 10
        end = at - 1 if line_ended and at > line_start and data[at - 1] == 13 else at
        if field < width:
            starts[field, row], ends[field, row] = min(start, end), end
        field += 1
        start = at + 1
        if line_ended:
            line_starts[row], line_ends[row], counts[row] = line_start, end, field
            row, field, line_start = row + 1, 0, start


@kernel
def _split_plain(data, record_starts, record_ends, separator, starts, ends, counts):  # type: ignore[no-untyped-def]
    width = starts.shape[0]
    for row in range(record_starts.size):
        field, start = 0, record_starts[row]
        for i in range(record_starts[row], record_ends[row]):
            if data[i] == separator:
                if field < width:
                    starts[field, row], ends[field, row] = start, i
                field += 1
                start = i + 1
        if field < width:
            starts[field, row], ends[field, row] = start, record_ends[row]
        counts[row] = field + 1


@kernel
def _split_quoted(data, record_starts, record_ends, separator, starts, ends, counts):  # type: ignore[no-untyped-def]  # noqa: C901
    quote = 34
    width = starts.shape[0]
    for row in range(record_starts.size):
        field, at, stop, closed = 0, record_starts[row], record_ends[row], True
        while True:
            start = end = at
            if at < stop and data[at] == quote:
                start = end = at + 1
                at += 1
                while at < stop:
                    if data[at] == quote:
                        if at + 1 < stop and data[at + 1] == quote:
                            at += 1
                        else:
                            break
                    data[end] = data[at]
                    end += 1
                    at += 1
                closed = at < stop
                # What stands between the closing quote and the separator belongs to the field, as it is.
                at += 1
                while at < stop and data[at] != separator:
                    data[end] = data[at]
                    end += 1
                    at += 1
            else:
                while at < stop and data[at] != separator:
                    at += 1
                end = at
            if field < width:
                starts[field, row], ends[field, row] = start, end
            field += 1
            if at >= stop:
                break
            at += 1
        counts[row] = field if closed else 0


@part
def _without_zeros(data, start, end):  # type: ignore[no-untyped-def]
    """End of a number without its fraction if that is `.0` or more zeros; else its end."""
    at = end
    while at > start and data[at - 1] == 48:
        at -= 1
    return at - 1 if start + 1 < at < end and data[at - 1] == 46 else end


@kernel_or(array_forms.integers)
def _integers(data, starts, ends, values, readable):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        end = _without_zeros(data, starts[row], ends[row])
        length = end - starts[row]
        if length < 1 or length > 9:
            continue
        value = 0
        for i in range(starts[row], end):
            if data[i] < 48 or data[i] > 57:
                break
            value = value * 10 + (data[i] - 48)
        else:
            values[row], readable[row] = value, True


@kernel
def _cut_at_blank(data, starts, ends):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        for i in range(starts[row], ends[row]):
            if data[i] == 32:
                ends[row] = i
                break


@kernel
def _unbracket(data, starts, ends):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        if ends[row] - starts[row] >= 2 and data[starts[row]] == 91 and data[ends[row] - 1] == 93:
            starts[row] += 1
            ends[row] -= 1
