"""Loops over bytes and texts as operations on whole arrays, for logs so small that importing numba would take longer.

Each function has the name and the arguments of the compiled loop that it stands for, and does the same; tests compare
the two on texts of every kind.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Positions = NDArray[Any]
Mask = NDArray[np.bool_]
_MONTHS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_PLACES = np.array([0, 2, 5, 8, 11, 14, 17])
"""Places of the pairs of digits in `2006-03-01 07:17:12`."""


def gather(data: Bytes, starts: Positions, ends: Positions, out: Bytes) -> None:
    """Write the bytes of one text after another."""
    index, _ = _inside(starts, ends)
    out[: len(index)] = data[index]


def compare(data: Bytes, starts: Positions, ends: Positions, text: Bytes, same: Mask) -> None:
    """Mark the texts that are equal to one text."""
    same[:] = ends - starts == len(text)
    for place, byte in enumerate(text):
        rows = np.flatnonzero(same)
        same[rows] = data[starts[rows] + place] == byte


def notice(data: Bytes, starts: Positions, ends: Positions, table: NDArray[np.uint8], bits: NDArray[np.uint8]) -> None:
    """Write the bits that the bytes of each text have in a table, taken together."""
    index, offsets = _inside(starts, ends)
    bits[:] = _of_texts(np.bitwise_or, table[data[index]], offsets, 0)


def trim(data: Bytes, starts: Positions, ends: Positions) -> None:
    """Move starts and ends past blanks and control characters."""
    index, offsets = _inside(starts, ends)
    shown = (data[index] > 32) & (data[index] != 127)
    first = _of_texts(np.minimum, np.where(shown, index, len(data)), offsets, len(data))
    last = _of_texts(np.maximum, np.where(shown, index, -1), offsets, -1)
    starts[:] = np.where(last < 0, ends, first)
    ends[:] = np.where(last < 0, ends, last + 1)


def normalise_ascii(
    data: Bytes,
    starts: Positions,
    ends: Positions,
    out: Bytes,
    offsets: Positions,
    beyond_ascii: Mask,
    becomes: Bytes,
    is_blank: Bytes,
) -> int:
    """Write each text in lower case with single blanks, and where it ends; return the number of bytes written."""
    index, before = _inside(starts, ends)
    given = data[index]
    rows = np.repeat(np.arange(len(starts)), np.diff(before))
    blank = is_blank[given] == 1
    after_blank = np.concatenate([[True], blank[:-1]])[: len(blank)]
    after_blank[before[:-1][starts < ends]] = True
    kept = np.flatnonzero(~(blank & after_blank))
    # The last byte that is kept of a text may be a blank; the others are followed by a byte of the same text.
    is_last = np.concatenate([rows[kept][1:] != rows[kept][:-1], [True]])[: len(kept)]
    kept = kept[~(is_last & blank[kept])]
    out[: len(kept)] = becomes[given[kept]]
    np.cumsum(np.bincount(rows[kept], minlength=len(starts)), out=offsets[1:])
    beyond_ascii[:] = _of_texts(np.bitwise_or, given, before, 0) >= 128
    return len(kept)


def mark_delimiters(data: Bytes, separator: int, marks: Mask) -> None:
    """Mark line feeds and separators."""
    np.logical_or(data == 10, data == separator, out=marks[: len(data)])


def list_bits(words: NDArray[np.uint64], places: Positions) -> None:
    """Write the numbers of the bits that are set."""
    bits = np.flatnonzero(np.unpackbits(words.astype("<u8", copy=False).view(np.uint8), bitorder="little"))
    places[: len(bits)] = bits


def assign_fields(
    data: Bytes,
    delimiters: Positions,
    line_starts: Positions,
    line_ends: Positions,
    starts: Positions,
    ends: Positions,
    counts: Positions,
) -> None:
    """Write the places of lines and of their first fields; line feeds and separators are delimiters."""
    at = delimiters.astype(np.int64)
    ends_line = data[at] == 10
    if np.count_nonzero(ends_line) < len(line_starts):
        at, ends_line = np.append(at, len(data)), np.append(ends_line, True)
    row = np.cumsum(ends_line) - ends_line
    start = np.concatenate([[0], at[:-1] + 1])
    first = np.concatenate([[0], np.flatnonzero(ends_line)[:-1] + 1])
    line_starts[:] = start[first]
    after_return = ends_line & (at > line_starts[row])
    after_return[after_return] = data[at[after_return] - 1] == 13
    end = at - after_return
    field = np.arange(len(at)) - first[row]
    wanted = field < len(starts)
    starts[field[wanted], row[wanted]] = np.minimum(start, end)[wanted]
    ends[field[wanted], row[wanted]] = end[wanted]
    line_ends[:], counts[:] = end[ends_line], field[ends_line] + 1


def integers(data: Bytes, starts: Positions, ends: Positions, values: NDArray[np.int32], readable: Mask) -> None:
    """Write whole numbers of up to nine digits, and mark the texts that are one."""
    index, offsets = _inside(starts, ends)
    # Behind the last byte that is no zero: a fraction of zeros alone ends there with its dot.
    at = _of_texts(np.maximum, np.where(data[index] == 48, -1, index), offsets, -1) + 1
    dotted = (at > starts + 1) & (at < ends)
    dotted[dotted] = data[at[dotted] - 1] == 46
    length = np.where(dotted, at - 1, ends) - starts
    readable[:] = (length >= 1) & (length <= 9)
    value = np.zeros(len(starts), np.int64)
    for place in range(9):
        rows = np.flatnonzero(readable & (length > place))
        digit = data[starts[rows] + place].astype(np.int64) - 48
        value[rows] = value[rows] * 10 + digit
        readable[rows] = (digit >= 0) & (digit <= 9)
    values[:] = np.where(readable, value, 0)


def plain_times(data: Bytes, starts: Positions, ends: Positions, times: NDArray[np.int64], readable: Mask) -> None:
    """Write microseconds of `2006-03-01 07:17:12` and `2006-03-01T07:17:12.345Z`, and mark the texts that are one."""
    length = ends - starts
    rows = np.flatnonzero((length == 19) | (length == 24))
    length, at = length[rows], starts[rows].astype(np.int64)
    byte = data[at[:, None] + np.arange(19)]
    correct = (byte[:, [4, 7, 13, 16]] == (45, 45, 58, 58)).all(axis=1) & ((byte[:, 10] == 32) | (byte[:, 10] == 84))
    digits = np.stack([byte[:, _PLACES], byte[:, _PLACES + 1]], axis=2).astype(np.int64) - 48
    correct &= ((digits >= 0) & (digits <= 9)).all(axis=(1, 2))
    century, year, month, day, hour, minute, second = (digits @ np.array([10, 1])).T
    longer = np.flatnonzero(length == 24)
    more = data[at[longer][:, None] + np.arange(19, 24)].astype(np.int64)
    thousandths = np.zeros(len(rows), np.int64)
    thousandths[longer] = (more[:, 1:4] - 48) @ np.array([100, 10, 1])
    correct[longer] &= (more[:, 0] == 46) & (more[:, 4] == 90) & ((more[:, 1:4] >= 48) & (more[:, 1:4] <= 57)).all(1)
    year += century * 100
    correct &= (year >= 1900) & (year <= 2199) & (month >= 1) & (month <= 12) & (hour <= 23) & (minute <= 59)
    leap = ((year % 4 == 0) & (year % 100 != 0)) | (year % 400 == 0)
    correct &= (second <= 59) & (day >= 1) & (day <= _MONTHS[month % 13 - 1] + (leap & (month == 2)))
    months = np.where(correct, (year - 1970) * 12 + month - 1, 0)
    days = months.astype("datetime64[M]").astype("datetime64[D]").astype(np.int64) + day - 1
    instant = ((days * 24 + hour) * 60 + minute) * 60 + second
    times[:], readable[:] = 0, False
    readable[rows] = correct
    times[rows[correct]] = (instant * 1_000_000 + thousandths * 1_000)[correct]


def _inside(starts: Positions, ends: Positions) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index of every byte of one text after another, and the offsets of the texts among them."""
    lengths = (ends - starts).astype(np.int64)
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths), offsets


def _of_texts(combine: np.ufunc, values: NDArray[Any], offsets: NDArray[np.int64], empty: int) -> NDArray[Any]:
    """The values of each text's bytes, combined; `empty` for a text without bytes."""
    combined = np.full(len(offsets) - 1, empty, values.dtype)
    filled = offsets[:-1] < offsets[1:]
    if filled.any():
        combined[filled] = combine.reduceat(values, offsets[:-1][filled])
    return combined
