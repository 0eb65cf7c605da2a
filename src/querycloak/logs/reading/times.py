"""Times as logs write them, to microseconds since 1970, compiled: one function for each way of writing.

A time that does not exist (30 February, 25 o'clock), or lies outside 1900 to 2199, is unreadable.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from querycloak.text import array_forms
from querycloak.text.compiled import inlined, kernel, kernel_or, part
from querycloak.text.spans import Mask, Spans

Microseconds = NDArray[np.int64]
TimeParser = Callable[[Spans], tuple[Microseconds, Mask]]
SECOND = 1_000_000
_NO_PAIR = 1_000
_EARLIEST = -2_208_988_800 * SECOND
_LATEST = 7_258_118_400 * SECOND
_AS_WRITTEN, _DAY_FIRST, _MONTH_FIRST = 0, 1, 2
# Names of zones with one meaning, in hours east of UTC: those of RFC 5322, and Europe's.
ZONES = {
    "UTC": 0, "GMT": 0, "UT": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8,
    "PDT": -7, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2, "EEST": 3,
}  # fmt: skip
_ZONE_NAMES = np.frombuffer("".join(ZONES).encode(), np.uint8)
_ZONE_STARTS = np.cumsum([0, *map(len, ZONES)])
_ZONE_EAST = np.array([hours * 3600 - (hours < 0) for hours in ZONES.values()], np.int64)  # written as `offset_at` does


def iso_or_epoch(texts: Spans) -> tuple[Microseconds, Mask]:
    """`2006-03-01 07:17:12`, ISO 8601 with T, fraction and offset, `01.03.2006 07:17`, a date alone, or epoch seconds.

    Each row tells by itself: were a form guessed from other rows, one user could turn how all of them are read.
    """
    return _parse_dated(texts, _AS_WRITTEN)


def day_first(texts: Spans) -> tuple[Microseconds, Mask]:
    """Times as `iso_or_epoch` reads them, with the day first: `01/03/2006 07:17` is in March."""
    return _parse_dated(texts, _DAY_FIRST)


def month_first(texts: Spans) -> tuple[Microseconds, Mask]:
    """Times as `iso_or_epoch` reads them, with the month first: `01/03/2006 07:17` is in January."""
    return _parse_dated(texts, _MONTH_FIRST)


def compact(texts: Spans) -> tuple[Microseconds, Mask]:
    """`970916105432` (years 70 to 99 are of the last century) or `19970916105432`."""
    return _parse(_compact, texts)


def time_of_day(texts: Spans) -> tuple[Microseconds, Mask]:
    """`23:59:59`, on 1 January 1970."""
    return _parse(_time_of_day, texts)


def in_range(times: Microseconds) -> Mask:
    """True for times from 1900 to 2199."""
    within: Mask = (times >= _EARLIEST) & (times < _LATEST)
    return within


def _parse(read: Callable[..., None], texts: Spans) -> tuple[Microseconds, Mask]:
    times = np.zeros(len(texts), np.int64)
    readable = np.zeros(len(texts), np.bool_)
    read(texts.data, texts.starts, texts.ends, times, readable)
    return times, readable


def _parse_dated(texts: Spans, order: int) -> tuple[Microseconds, Mask]:
    """The most frequent form first; what reads the others takes seconds to compile, and many a log needs none."""
    times, readable = _parse(_plain_times, texts)
    if not readable.all() and ((texts.ends > texts.starts) & ~readable).any():
        _dated_or_epoch(texts.data, texts.starts, texts.ends, times, readable, order)
    return times, readable


@part
def within_range(time):  # type: ignore[no-untyped-def]
    """True if a time lies in 1900 to 2199."""
    return _EARLIEST <= time < _LATEST


@part
def _number(data, start, length):  # type: ignore[no-untyped-def]
    """The decimal number of exactly `length` digits, or -1."""
    value = np.int64(0)
    for i in range(start, start + length):
        digit = np.int64(data[i]) - 48
        if digit < 0 or digit > 9:
            return np.int64(-1)
        value = value * 10 + digit
    return value


@part
def instant_of(year, month, day, hour, minute, second):  # type: ignore[no-untyped-def]
    """Seconds since 1970 of a civil time, or -2^62 if there is no such time."""
    none = -(np.int64(1) << 62)
    if year < 1900 or year > 2199 or month < 1 or month > 12 or day < 1:
        return none
    if hour < 0 or hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return none
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    longest = 31
    if month == 2:
        longest = 29 if leap else 28
    elif month in (4, 6, 9, 11):
        longest = 30
    if day > longest:
        return none
    # Days since 1970-01-01, with years that begin in March so that the leap day comes last.
    from_march = year - 1 if month <= 2 else year
    day_of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    days = from_march * 365 + from_march // 4 - from_march // 100 + from_march // 400 + day_of_year - 719468
    return ((days * 24 + hour) * 60 + minute) * 60 + second


@part
def offset_at(data, start, end):  # type: ignore[no-untyped-def]
    """Seconds east of UTC of `Z`, `+02`, `+0200` or `+02:00`; -1 if it is none of these."""
    length = end - start
    if length == 1 and (data[start] == 90 or data[start] == 122):
        return np.int64(0)
    if length not in (3, 5, 6) or (data[start] != 43 and data[start] != 45):
        return np.int64(-1)
    hours, minutes = _number(data, start + 1, 2), np.int64(0)
    if length > 3:
        if length == 6 and data[start + 3] != 58:
            return np.int64(-1)
        minutes = _number(data, end - 2, 2)
    if hours < 0 or hours > 18 or minutes < 0 or minutes > 59:
        return np.int64(-1)
    seconds = hours * 3600 + minutes * 60
    return -seconds - 1 if data[start] == 45 and seconds else seconds


@part
def zone_at(data, start, end):  # type: ignore[no-untyped-def]
    """Seconds east of UTC of an offset, or of a zone of `ZONES`; -1 if it is neither."""
    if end - start > 1 and 65 <= data[start] <= 90:
        for zone in range(_ZONE_EAST.size):
            name = _ZONE_STARTS[zone]
            if _ZONE_STARTS[zone + 1] - name == end - start:
                same = True
                for i in range(end - start):
                    same &= data[start + i] == _ZONE_NAMES[name + i]
                if same:
                    return _ZONE_EAST[zone]
        return np.int64(-1)
    return offset_at(data, start, end)


@part
def _half_day(data, at, end):  # type: ignore[no-untyped-def]
    """0 for `AM`, 1 for `PM`, behind a blank or not, and where it ends; -1 and the same place for neither."""
    first = at + 1 if at < end and data[at] == 32 else at
    if first + 2 > end or data[first + 1] | 32 != 109:
        return -1, at
    if first + 2 < end and data[first + 2] != 32:
        return -1, at
    letter = data[first] | 32
    return (0, first + 2) if letter == 97 else (1, first + 2) if letter == 112 else (-1, at)


@part
def _clock(data, at, end):  # type: ignore[no-untyped-def]  # noqa: C901
    """Microseconds of `07:17`, `7:17:12 PM` or `07:17:12.5`, with an offset or zone or without; whether it is one."""
    hour, colon = digits_at(data, at, end, 2)
    if colon == at or end - colon < 3 or data[colon] != 58:
        return np.int64(0), False
    minute = _number(data, colon + 1, 2)
    at, second, fraction = colon + 3, np.int64(0), np.int64(0)
    if at < end and data[at] == 58:
        if at + 3 > end:
            return np.int64(0), False
        second = _number(data, at + 1, 2)
        at += 3
        if at < end and (data[at] == 46 or data[at] == 44):
            at, scale, first = at + 1, np.int64(100_000), at + 1
            while at < end and 48 <= data[at] <= 57:
                fraction += (np.int64(data[at]) - 48) * scale
                scale //= 10
                at += 1
            if at == first:
                return np.int64(0), False
    afternoon, at = _half_day(data, at, end)
    if afternoon >= 0:
        if hour < 1 or hour > 12:
            return np.int64(0), False
        hour = hour % 12 + 12 * afternoon
    if hour > 23 or minute < 0 or minute > 59 or second < 0 or second > 59:
        return np.int64(0), False
    seconds = (hour * 60 + minute) * 60 + second
    if at < end:
        if data[at] == 32:
            at += 1
        east = zone_at(data, at, end)
        if east == -1:
            return np.int64(0), False
        seconds -= east if east >= 0 else east + 1
    return seconds * SECOND + fraction, True


@part
def digits_at(data, at, end, most):  # type: ignore[no-untyped-def]
    """The number that begins here, of at most this number of digits, and where it ends; itself where there is none."""
    value = np.int64(0)
    while at < end and most > 0 and 48 <= data[at] <= 57:
        value = value * 10 + np.int64(data[at]) - 48
        at, most = at + 1, most - 1
    return value, at


@part
def _date(data, start, end, order):  # type: ignore[no-untyped-def]
    """Seconds at which a date begins and where its text ends, which is its start if it is none.

    Dots mean day first. Slashes and dashes after a day or a month say nothing about which it is: `order` must.
    """
    first, at = digits_at(data, start, end, 4)
    width = at - start
    if at >= end or width not in (1, 2, 4):
        return np.int64(0), start
    separator = data[at]
    second, after_second = digits_at(data, at + 1, end, 2)
    if after_second >= end or data[after_second] != separator:
        return np.int64(0), start
    third, after = digits_at(data, after_second + 1, end, 2 if width == 4 else 4)
    if width == 4:
        if separator == 45 and (after_second - at != 3 or after - after_second != 3):
            return np.int64(0), start  # ISO 8601 has two digits
        year, month, day = first, second, third
    else:
        year, month, day = third, second, first
        if after - after_second != 5:
            return np.int64(0), start
        if separator != 46:
            if order == _MONTH_FIRST:
                month, day = first, second
            elif order != _DAY_FIRST:
                return np.int64(0), start
    if separator not in (45, 46, 47):
        return np.int64(0), start
    instant = instant_of(year, month, day, 0, 0, 0)
    return instant, after if instant > -(np.int64(1) << 61) else start


@part
def _dated(data, start, end, order):  # type: ignore[no-untyped-def]
    """Microseconds of a date, a blank or T, and a time of day, or of a date alone: midnight; whether it is one."""
    instant, at = _date(data, start, end, order)
    if at == start:
        return np.int64(0), False
    if at == end:
        return instant * SECOND, within_range(instant * SECOND)
    if at + 1 < end and data[at] == 44 and data[at + 1] == 32:  # `01.03.2006, 07:17`
        at += 1
    if at >= end or (data[at] != 32 and data[at] != 84 and data[at] != 116):
        return np.int64(0), False
    clock, readable = _clock(data, at + 1, end)
    time = instant * SECOND + clock
    return time, readable and within_range(time)


@part
def _epoch(data, start, end):  # type: ignore[no-untyped-def]
    """Microseconds of epoch seconds (10 digits), milliseconds (13) or microseconds (16)."""
    length = end - start
    for i in range(start, end):
        if data[i] == 46 and i - start == 10:  # seconds with a fraction
            length = 10
            break
    if length not in (10, 13, 16):
        return np.int64(0), False
    value = _number(data, start, length)
    if value < 0:
        return np.int64(0), False
    for _ in range((16 - length) // 3):
        value *= 1000
    at, scale = start + length + 1, np.int64(100_000)
    if at == end:
        return np.int64(0), False
    while at < end:
        digit = np.int64(data[at]) - 48
        if digit < 0 or digit > 9:
            return np.int64(0), False
        value += digit * scale
        scale //= 10
        at += 1
    return value, value < _LATEST


@inlined
def _plain(data, start, end):  # type: ignore[no-untyped-def]
    """Microseconds of `2006-03-01 07:17:12` or `2006-03-01T07:17:12.345Z`, by far the most frequent, or else False."""
    length = end - start
    if length != 19 and (length != 24 or data[start + 19] != 46 or data[start + 23] != 90):
        return np.int64(0), False
    if data[start + 4] != 45 or data[start + 7] != 45 or (data[start + 10] != 32 and data[start + 10] != 84):
        return np.int64(0), False
    if data[start + 13] != 58 or data[start + 16] != 58:
        return np.int64(0), False
    thousandths = _number(data, start + 20, 3) if length == 24 else np.int64(0)
    century, year = _pair(data, start), _pair(data, start + 2)
    month, day = _pair(data, start + 5), _pair(data, start + 8)
    hour, minute, second = _pair(data, start + 11), _pair(data, start + 14), _pair(data, start + 17)
    if thousandths < 0 or century + year + month + day + hour + minute + second >= _NO_PAIR:
        return np.int64(0), False
    instant = instant_of(century * 100 + year, month, day, hour, minute, second)
    return instant * SECOND + thousandths * 1000, instant > -(np.int64(1) << 61)


@inlined
def _pair(data, start):  # type: ignore[no-untyped-def]
    """The number of two digits, or one too large for any sum of others."""
    tens, ones = np.int64(data[start]) - 48, np.int64(data[start + 1]) - 48
    digits = (tens >= 0) & (tens <= 9) & (ones >= 0) & (ones <= 9)
    return tens * 10 + ones if digits else _NO_PAIR


@kernel_or(array_forms.plain_times)
def _plain_times(data, starts, ends, times, readable):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        times[row], readable[row] = _plain(data, np.int64(starts[row]), np.int64(ends[row]))


@kernel
def _dated_or_epoch(data, starts, ends, times, readable, order):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        start, end = np.int64(starts[row]), np.int64(ends[row])
        if readable[row] or start == end:
            continue
        time, is_read = _dated(data, start, end, order)
        if not is_read:
            time, is_read = _epoch(data, start, end)
        times[row], readable[row] = time, is_read


@kernel
def _compact(data, starts, ends, times, readable):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        start, length = starts[row], ends[row] - starts[row]
        if length == 12:
            year = _number(data, start, 2)
            if year >= 0:
                year += 1900 if year >= 70 else 2000
            start += 2
        elif length == 14:
            year = _number(data, start, 4)
            start += 4
        else:
            continue
        instant = instant_of(
            year,
            _number(data, start, 2),
            _number(data, start + 2, 2),
            _number(data, start + 4, 2),
            _number(data, start + 6, 2),
            _number(data, start + 8, 2),
        )
        if instant > -(np.int64(1) << 61):
            times[row], readable[row] = instant * SECOND, True


@kernel
def _time_of_day(data, starts, ends, times, readable):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        start = starts[row]
        if ends[row] - start != 8 or data[start + 2] != 58 or data[start + 5] != 58:
            continue
        instant = instant_of(
            1970,
            1,
            1,
            _number(data, start, 2),
            _number(data, start + 3, 2),
            _number(data, start + 6, 2),
        )
        if instant > -(np.int64(1) << 61):
            times[row], readable[row] = instant * SECOND, True
