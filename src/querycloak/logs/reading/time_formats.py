"""Times that an owner describes: `day-first`, `month-first`, or a pattern such as `%d/%b/%Y:%H:%M:%S %z`.

A pattern is written as for Python's `strptime`, and read by a compiled loop over its steps, row by row.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from querycloak.logs.reading.times import (
    Microseconds,
    TimeParser,
    day_first,
    digits_at,
    instant_of,
    iso_or_epoch,
    month_first,
    offset_at,
    within_range,
    zone_at,
)
from querycloak.privacy.parameters import of_kind, refuse
from querycloak.sentence import Sentence
from querycloak.text.compiled import kernel, part
from querycloak.text.spans import Mask, Spans

ORDERS: dict[str, TimeParser] = {"day-first": day_first, "month-first": month_first}
ACCEPTED = (
    "2006-03-01 07:17:12, ISO 8601, 01.03.2006 07:17 (dots: day first), 2006/03/01 07:17 (with AM or PM, an offset, or "
    "a zone such as UTC, CET, EST), a date alone (midnight), or seconds, milli- or microseconds since 1970"
)
_DIRECTIVES = "YymdHIMSfpbBzZ"
_NEEDED = (("Y", "y"), ("m", "b", "B"), ("d",))
_WAY_OUT = "say day-first or month-first for 01/03/2006, or a pattern such as %d/%b/%Y:%H:%M:%S %z"
_DIRECTIVE = 256
_YEAR, _MONTH, _DAY, _HOUR, _MINUTE, _SECOND, _FRACTION, _EAST, _AFTERNOON = range(9)
_MONTHS = np.frombuffer(b"janfebmaraprmayjunjulaugsepoctnovdec", np.uint8)


def forms_of_times(format_name: str, form: str | None) -> Sentence:
    """Ways in which times of a format are written, for error messages; `form` if it has one of its own."""
    if form is not None:
        return Sentence("times of {name} logs are written as {form}", name=format_name, form=form)
    if format_name != "table":
        return Sentence("times must be written as {forms}", forms=ACCEPTED)
    return Sentence(
        "times must be written as {forms}; others, such as 03/01/2006 07:17, need {time_format}", forms=ACCEPTED
    )


def time_parser(time_format: str | None) -> TimeParser:
    """Reads times in the owner's format; without one, times in self-describing formats."""
    if time_format is None:
        return iso_or_epoch
    of_kind("time_format", time_format, str, "a text", _WAY_OUT)
    if time_format in ORDERS:
        return ORDERS[time_format]
    return Pattern(time_format)


@dataclass(frozen=True)
class Pattern:
    """One way of writing times."""

    text: str

    def __post_init__(self) -> None:
        used = [step - _DIRECTIVE for step in _steps(self.text) if step >= _DIRECTIVE]
        letters = "".join(map(chr, used))
        if any(not set(letters) & set(one) for one in _NEEDED) or len(set(letters)) < len(letters):
            self._refuse()
        if set(letters) - set(_DIRECTIVES) or ("I" in letters) != ("p" in letters):
            self._refuse()

    def _refuse(self) -> None:
        refuse("time_format", f"a pattern of year, month and day, each once, with %{' %'.join(_DIRECTIVES)}", self.text, _WAY_OUT)  # noqa: E501  # fmt: skip

    @cached_property
    def _program(self) -> NDArray[np.int64]:
        return np.array(_steps(self.text), np.int64)

    def __call__(self, texts: Spans) -> tuple[Microseconds, Mask]:
        """The times, and which of them could be read."""
        times = np.zeros(len(texts), np.int64)
        readable = np.zeros(len(texts), np.bool_)
        _read(texts.data, texts.starts, texts.ends, self._program, times, readable, np.zeros(9, np.int64))
        return times, readable


def _steps(pattern: str) -> list[int]:
    """Steps of a pattern: bytes, and directives above them."""
    steps, rest = [], iter(pattern.encode())
    for byte in rest:
        if byte != ord("%"):
            steps.append(byte)
            continue
        letter = next(rest, ord("%"))
        steps.append(letter if letter == ord("%") else _DIRECTIVE + letter)
    return steps


@kernel
def _read(data, starts, ends, program, times, readable, parts):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        parts[:] = 0
        parts[_DAY] = parts[_MONTH] = 1
        parts[_AFTERNOON] = -1
        if not _fill(data, starts[row], ends[row], program, parts):
            continue
        instant = instant_of(parts[0], parts[1], parts[2], parts[3], parts[4], parts[5])
        if instant > -(np.int64(1) << 61):
            time = (instant - parts[_EAST]) * 1_000_000 + parts[_FRACTION]
            times[row], readable[row] = time, within_range(time)


@part
def _fill(data, at, end, program, parts):  # type: ignore[no-untyped-def]
    """True if a text is written by the program, step by step."""
    for step in program:
        if step < _DIRECTIVE:
            if at >= end or data[at] != step:
                return False
            at += 1
            continue
        after = _directive(data, at, end, step - _DIRECTIVE, parts)
        if after <= at:
            return False
        at = after
    if parts[_AFTERNOON] >= 0:  # a clock of twelve hours
        if parts[_HOUR] < 1 or parts[_HOUR] > 12:
            return False
        parts[_HOUR] = parts[_HOUR] % 12 + 12 * parts[_AFTERNOON]
    return at == end


@part
def _directive(data, at, end, letter, parts):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911, PLR0912
    """End of a directive's text; equals its start if the text is absent."""
    if letter == 112:  # p
        if at + 2 > end or data[at + 1] | 32 != 109 or (data[at] | 32 != 97 and data[at] | 32 != 112):
            return at
        parts[_AFTERNOON] = 1 if data[at] | 32 == 112 else 0
        return at + 2
    if letter in (98, 66):  # b, B
        return _month(data, at, end, letter == 66, parts)
    if letter == 122:  # z
        return _offset(data, at, end, parts)
    if letter == 90:  # Z
        return _zone(data, at, end, parts)
    if letter == 102:  # f
        value, after = digits_at(data, at, end, 6)
        for _ in range(6 - (after - at)):
            value *= 10
        parts[_FRACTION] = value
        return after
    value, after = digits_at(data, at, end, 4 if letter == 89 else 2)
    if letter == 89:  # Y
        parts[_YEAR] = value
        return after if after == at + 4 else at
    if letter == 121:  # y
        parts[_YEAR] = value + (1900 if value >= 69 else 2000)
        return after if after == at + 2 else at
    if letter == 109:  # m
        parts[_MONTH] = value
    elif letter == 100:  # d
        parts[_DAY] = value
    elif letter == 77:  # M
        parts[_MINUTE] = value
    elif letter == 83:  # S
        parts[_SECOND] = value
    else:  # H, I
        parts[_HOUR] = value
    return after


@part
def _month(data, at, end, whole, parts):  # type: ignore[no-untyped-def]
    """A month by its English name, or by the first three letters of it."""
    if at + 3 > end:
        return at
    for month in range(12):
        same = True
        for i in range(3):
            same &= data[at + i] | 32 == _MONTHS[3 * month + i]
        if same:
            parts[_MONTH] = month + 1
            after = at + 3
            while whole and after < end and 97 <= data[after] | 32 <= 122:
                after += 1
            return after
    return at


@part
def _zone(data, at, end, parts):  # type: ignore[no-untyped-def]
    """A zone's name, as far as its capital letters go."""
    after = at
    while after < end and 65 <= data[after] <= 90:
        after += 1
    east = zone_at(data, at, after) if after > at + 1 else np.int64(-1)
    if east == -1:
        return at
    parts[_EAST] = east if east >= 0 else east + 1
    return after


@part
def _offset(data, at, end, parts):  # type: ignore[no-untyped-def]
    """An offset: `Z`, `+0200` or `+02:00`."""
    for length in (6, 5, 1):
        if at + length <= end:
            east = offset_at(data, at, at + length)
            if east != -1:
                parts[_EAST] = east if east >= 0 else east + 1
                return at + length
    return at
