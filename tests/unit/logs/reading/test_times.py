"""The oracle is `datetime`, behind a pattern that states which ways of writing are meant to be read.

Meant, beyond strict ISO 8601: a blank for the T, small t and z, a comma before the fraction, no seconds, one
blank before the offset, an offset without colon or minutes. Digits beyond microseconds are cut, not rounded.
Dates may also be `2006/3/1`, `2006.03.01`, and with dots day first: `1.3.2006`; a comma may stand before a blank.
A date alone is its midnight. Hours may have one digit, AM or PM behind them, and a zone's name for an offset.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from querycloak.errors import ParameterError
from querycloak.logs.reading.time_formats import time_parser
from querycloak.logs.reading.times import (
    ZONES,
    TimeParser,
    compact,
    day_first,
    in_range,
    iso_or_epoch,
    month_first,
    time_of_day,
)
from tests.unit.text.columns import spans_of

EPOCH = datetime(1970, 1, 1)
EARLIEST, LATEST = datetime(1900, 1, 1), datetime(2200, 1, 1)
ZONE = b"|".join([rb"[Zz]|[+-]\d\d(?::?\d\d)?", *(name.encode() for name in ZONES)])
CLOCK = rb"(?:(?:,? |[Tt])(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d+))?)?(?: ?([AaPp])[Mm](?= |\Z))?(?: ?(" + ZONE + rb"))?)?"
ISO = re.compile(rb"(\d{4})-(\d\d)-(\d\d)" + CLOCK)
DATES: dict[bytes, tuple[int, ...]] = {
    rb"(\d{4})-(\d\d)-(\d\d)": (0, 1, 2),
    rb"(\d{4})/(\d\d?)/(\d\d?)": (0, 1, 2),
    rb"(\d{4})\.(\d\d?)\.(\d\d?)": (0, 1, 2),
    rb"(\d\d?)\.(\d\d?)\.(\d{4})": (2, 1, 0),
}
EPOCHS = re.compile(rb"(\d{10})(?:\.(\d+))?|(\d{13})|(\d{16})")
MOMENTS = st.datetimes(EARLIEST, LATEST - timedelta(microseconds=1))
OFFSETS = st.integers(-18 * 60 - 59, 18 * 60 + 59).filter(lambda minutes: abs(minutes) < 19 * 60)


def read(parser: TimeParser, text: bytes) -> int | None:
    # Digits on both sides: a parser that looks beyond its text reads another time.
    times, readable = parser(spans_of([text], between=b"0"))
    return int(times[0]) if readable[0] else None


def since_epoch(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def slow_iso_or_epoch(text: bytes) -> int | None:
    if found := EPOCHS.fullmatch(text):
        seconds, fraction, milliseconds, microseconds = found.groups(b"")
        digits = (
            (seconds + fraction[:6].ljust(6, b"0"))
            if seconds
            else (milliseconds + b"000" if milliseconds else microseconds)
        )
        return int(digits) if int(digits) < since_epoch(LATEST) else None
    if not (pieces := dated(text, DATES)):
        return None
    (year, month, day), (hour, minute, second, fraction, half, offset) = pieces
    hours = int(hour or 0)
    if half:
        if not 1 <= hours <= 12:
            return None
        hours = hours % 12 + 12 * (half in b"Pp")
    return slow_time(year, month, day, hours, int(minute or 0), second, fraction, offset)


def dated(text: bytes, dates: dict[bytes, tuple[int, ...]]) -> tuple[list[int], list[bytes]] | None:
    """Year, month and day of a text, and the pieces of its clock."""
    for date, order in dates.items():
        if found := re.fullmatch(date + CLOCK, text):
            parts = found.groups(b"")
            return [int(parts[place]) for place in order], list(parts[3:])
    return None


def slow_time(
    year: int, month: int, day: int, hour: int, minute: int, second: bytes, fraction: bytes, offset: bytes
) -> int | None:
    try:
        moment = datetime(year, month, day, hour, minute, int(second or 0), int(fraction[:6].ljust(6, b"0")))
        if offset.decode() in ZONES:
            moment -= timedelta(hours=ZONES[offset.decode()])
        elif offset not in (b"", b"Z", b"z"):
            hours, minutes = int(offset[1:3]), int(offset[-2:]) if len(offset) > 3 else 0
            if hours > 18 or minutes > 59:
                return None
            moment -= (1 if offset[:1] == b"+" else -1) * timedelta(hours=hours, minutes=minutes)
    except (ValueError, OverflowError):
        return None
    return since_epoch(moment) if EARLIEST <= moment < LATEST else None


def civil_year_is_read(text: bytes) -> bool:
    """Whether the year as written lies in the range, where an offset could carry the time into it."""
    found = dated(text, DATES)
    return found is None or 1900 <= found[0][0] <= 2199


@given(
    MOMENTS,
    st.sampled_from(" Tt"),
    st.sampled_from(["auto", "minutes", "seconds", "milliseconds", "microseconds"]),
    st.sampled_from(".,"),
    st.text("0123456789", max_size=6),
)
@settings(deadline=None, max_examples=300)
def test_local_times_are_read_as_datetime_writes_them(
    moment: datetime, between: str, spec: str, point: str, beyond: str
) -> None:
    text = moment.isoformat(between, spec)
    exact = datetime.fromisoformat(text.replace("t", "T"))
    if "." in text:
        text = text.replace(".", point) + (beyond if len(text) == 26 else "")
    assert read(iso_or_epoch, text.encode()) == since_epoch(exact)


@given(MOMENTS, OFFSETS, st.sampled_from(["", " "]), st.booleans())
@settings(deadline=None, max_examples=300)
def test_times_with_an_offset_are_read_in_utc(moment: datetime, east: int, blank: str, colon: bool) -> None:
    moment = moment.replace(tzinfo=timezone(timedelta(minutes=east)))
    in_utc = moment.astimezone(UTC).replace(tzinfo=None)
    assume(EARLIEST <= in_utc < LATEST)
    stem, offset = moment.isoformat()[:-6], moment.isoformat()[-6:]
    text = stem + blank + (offset if colon else offset.replace(":", ""))
    assert read(iso_or_epoch, text.encode()) == since_epoch(in_utc)


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        (b"2006-03-01 07:17:12", datetime(2006, 3, 1, 7, 17, 12)),
        (b"2006-03-01T07:17:12Z", datetime(2006, 3, 1, 7, 17, 12)),
        (b"2006-03-01t07:17z", datetime(2006, 3, 1, 7, 17)),
        (b"2006-03-01T07:17:12+02:00", datetime(2006, 3, 1, 5, 17, 12)),
        (b"2006-03-01T07:17:12 -0330", datetime(2006, 3, 1, 10, 47, 12)),
        (b"2006-03-01T07:17+02", datetime(2006, 3, 1, 5, 17)),
        (b"2006-03-01T07:17:12-00:00", datetime(2006, 3, 1, 7, 17, 12)),
        (b"2006-03-01T07:17:12,5", datetime(2006, 3, 1, 7, 17, 12, 500_000)),
        (b"2006-03-01T07:17:12.9999999", datetime(2006, 3, 1, 7, 17, 12, 999_999)),
        (b"2004-02-29 00:00:00", datetime(2004, 2, 29)),
        (b"2000-02-29 00:00:00", datetime(2000, 2, 29)),
        (b"1900-01-01 00:00:00", datetime(1900, 1, 1)),
        (b"2199-12-31 23:59:59.999999", datetime(2199, 12, 31, 23, 59, 59, 999_999)),
        (b"1969-12-31 23:59:59.5", datetime(1969, 12, 31, 23, 59, 59, 500_000)),
        (b"1141197432", datetime(2006, 3, 1, 7, 17, 12)),
        (b"1141197432.25", datetime(2006, 3, 1, 7, 17, 12, 250_000)),
        (b"1141197432250", datetime(2006, 3, 1, 7, 17, 12, 250_000)),
        (b"1141197432250001", datetime(2006, 3, 1, 7, 17, 12, 250_001)),
        (b"0000000000", datetime(1970, 1, 1)),
        (b"01.03.2024 00:04:13", datetime(2024, 3, 1, 0, 4, 13)),
        (b"1.3.2024 00:04", datetime(2024, 3, 1, 0, 4)),
        (b"31.12.2024, 23:59", datetime(2024, 12, 31, 23, 59)),
        (b"12.11.2024T23:59:01.5+01:00", datetime(2024, 11, 12, 22, 59, 1, 500_000)),
        (b"2024/03/01 00:04:13", datetime(2024, 3, 1, 0, 4, 13)),
        (b"2024/3/1 00:04", datetime(2024, 3, 1, 0, 4)),
        (b"2024.03.01 00:04", datetime(2024, 3, 1, 0, 4)),
        (b"7258118399", datetime(2199, 12, 31, 23, 59, 59)),
    ],
)
def test_golden(text: bytes, utc: datetime) -> None:
    assert read(iso_or_epoch, text) == since_epoch(utc) == slow_iso_or_epoch(text)


@given(MOMENTS.filter(lambda moment: since_epoch(moment) >= 10**15), st.text("0123456789", max_size=9))
@settings(deadline=None)
def test_epoch_seconds_milliseconds_and_microseconds_agree(moment: datetime, beyond: str) -> None:
    micros = since_epoch(moment)
    assert read(iso_or_epoch, b"%d" % (micros // 10**6)) == micros // 10**6 * 10**6
    assert read(iso_or_epoch, b"%d" % (micros // 10**3)) == micros // 10**3 * 10**3
    assert read(iso_or_epoch, b"%d" % micros) == micros
    assert read(iso_or_epoch, f"{micros // 10**6}.{micros % 10**6:06}{beyond}".encode()) == micros


@pytest.mark.parametrize(
    "text",
    [
        b"", b" ", b"2006", b"2006-03", b"2006-03-01T", b"2006-03-01 07", b"2006-03-01 07:1", b"2006-03-01 07:17:1",
        b"2006-03-01 07:17:", b"2006-03-01 07:17:12.", b"2006-03-01 07:17:12 ", b"2006-03-01  07:17:12",
        b"01/03/2006 07:17:12", b"01-03-2006 07:17:12", b"2006-03-01_07:17:12", b"2006-3-1 07:17:12",
        b"2006-02-29 00:00:00", b"2006-02-30 00:00:00", b"1900-02-29 00:00:00", b"2100-02-29 00:00:00",
        b"2006-04-31 00:00:00", b"2006-13-01 00:00:00", b"2006-00-01 00:00:00", b"2006-01-00 00:00:00",
        b"2006-01-01 24:00:00", b"2006-01-01 23:60:00", b"2006-12-31 23:59:60", b"-006-01-01 00:00:00",
        b"1899-12-31 23:59:59", b"2200-01-01 00:00:00", b"0000-01-01 00:00:00", b"9999-12-31 23:59:59",
        b"2006-01-01 00:00:00+", b"2006-01-01 00:00:00+2", b"2006-01-01 00:00:00+2:00", b"2006-01-01 00:00:00+02:0",
        b"2006-01-01 00:00:00+02:60", b"2006-01-01 00:00:00+19:00", b"2006-01-01 00:00:00+02:00:00",
        b"2006-01-01 00:00:00ZZ", b"2006-01-01 00:00:00  Z", b"2006-01-01 00:00:00 IST", b"2006-01-01 00:00:00*02:00",
        b"2006-01-01 00:00 AM", b"2006-01-01 13:00 PM", b"2006-01-01 1:00 XM", b"2006-01-01 1:00 PMx",
        b"2006-01-01 00:00.5", b"2006-01-01 00:00:00.5.5", b"2006-01-01 00:00:-1",
        b"-1141197432", b"+1141197432", b"114119743", b"11411974321", b"114119743225", b"1141197432.2x",
        b"1141197432,5", b"1141197432250.5", b"7258118400", b"7258118400000", b"7258118400000000", b"9999999999999999",
        "２００６-03-01 07:17:12".encode(),
    ],
)  # fmt: skip
def test_what_is_no_time(text: bytes) -> None:
    assert slow_iso_or_epoch(text) is None
    assert read(iso_or_epoch, text) is None


@st.composite
def nearly_times(draw: st.DrawFn) -> bytes:
    """A good time with a few bytes changed, put in or taken out."""
    moment = draw(st.datetimes(datetime(1899, 12, 31), datetime(2200, 1, 2)))
    offset = draw(st.sampled_from(["", "Z", "+02:00", " -0330", "+18", "-19:00", " PM", "am", " CET", " PM EST"]))
    text = bytearray((moment.isoformat(draw(st.sampled_from(" T"))) + offset).encode())
    if draw(st.booleans()):
        text = bytearray(b"%d" % draw(st.integers(10**9, 10**17)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(text)))
        text[at : at + draw(st.integers(0, 2))] = draw(st.text("0123456789-:.,+ TZz/APMCE", max_size=2)).encode()
    return bytes(text)


@given(
    nearly_times() | st.binary(max_size=30) | st.from_regex(ISO, fullmatch=True) | st.from_regex(EPOCHS, fullmatch=True)
)
@settings(deadline=None, max_examples=500)
def test_nothing_is_read_as_a_time_but_what_the_oracle_reads_as_the_same(text: bytes) -> None:
    assume(civil_year_is_read(text))
    assert read(iso_or_epoch, text) == slow_iso_or_epoch(text)


def test_a_point_without_a_fraction_is_no_time_after_epoch_seconds_either() -> None:
    assert read(iso_or_epoch, b"2006-03-01 07:17:12.") is None
    assert read(iso_or_epoch, b"1141197432.") is None


@pytest.mark.parametrize("text", [b"1900-01-01 00:00+01", b"2199-12-31 23:59-01", b"2199-12-31 23:59:59.5-00:01"])
def test_a_time_that_its_offset_carries_out_of_the_range_is_unreadable(text: bytes) -> None:
    assert read(iso_or_epoch, text) is None


def test_in_range_is_1900_to_2199() -> None:
    first, beyond = since_epoch(EARLIEST), since_epoch(LATEST)
    times = np.array([first - 1, first, beyond - 1, beyond], np.int64)
    assert in_range(times).tolist() == [False, True, True, False]


@given(MOMENTS.map(lambda moment: moment.replace(microsecond=0)))
@settings(deadline=None)
def test_compact_times_of_fourteen_digits_are_read_as_strftime_writes_them(moment: datetime) -> None:
    assert read(compact, moment.strftime("%Y%m%d%H%M%S").encode()) == since_epoch(moment)


@given(
    st.datetimes(datetime(1970, 1, 1), datetime(2069, 12, 31, 23, 59, 59)).map(
        lambda moment: moment.replace(microsecond=0)
    )
)
@example(datetime(1999, 12, 31, 23, 59, 59))
@example(datetime(2000, 1, 1))
@settings(deadline=None)
def test_compact_times_of_twelve_digits_are_of_1970_to_2069(moment: datetime) -> None:
    assert read(compact, moment.strftime("%y%m%d%H%M%S").encode()) == since_epoch(moment)


@given(st.binary(max_size=16) | st.from_regex(rb"\d{12}|\d{14}|[\d:-]{11,15}", fullmatch=True))
@settings(deadline=None, max_examples=500)
def test_compact_reads_nothing_but_twelve_or_fourteen_digits_of_a_time_that_exists(text: bytes) -> None:
    expected = None
    if text.isdigit() and len(text) in (12, 14):
        year = text[:-10] if len(text) == 14 else (b"19" if text[:2] >= b"70" else b"20") + text[:2]
        try:
            moment = datetime.strptime((year + text[-10:]).decode(), "%Y%m%d%H%M%S")
            expected = since_epoch(moment) if EARLIEST <= moment < LATEST else None
        except ValueError:  # of which strptime's second 60 and 61 are a part: they come out as another time
            expected = None
        if text[-2:] > b"59":
            expected = None
    assert read(compact, text) == expected


@pytest.mark.parametrize(
    "text", [b"970230105432", b"970916245432", b"970916105460", b"18991231235959", b"22000101000000"]
)
def test_compact_times_that_do_not_exist(text: bytes) -> None:
    assert read(compact, text) is None


@given(st.binary(max_size=9) | st.from_regex(rb"[0-9:]{7,9}|\d\d:\d\d:\d\d", fullmatch=True))
@settings(deadline=None, max_examples=500)
def test_times_of_day_are_two_digits_each_of_a_time_that_exists(text: bytes) -> None:
    expected = None
    if re.fullmatch(rb"([01]\d|2[0-3]):[0-5]\d:[0-5]\d", text):
        hour, minute, second = map(int, text.split(b":"))
        expected = since_epoch(datetime(1970, 1, 1, hour, minute, second))
    assert read(time_of_day, text) == expected


@pytest.mark.parametrize("parser", [iso_or_epoch, compact, time_of_day])
def test_each_text_is_read_by_itself(parser: TimeParser) -> None:
    texts = [b"2006-03-01 07:17:12", b"", b"19970916105432", b"23:59:59", b"x", b"970916105432", b"1141197432"]
    times, readable = parser(spans_of(texts))
    alone = [read(parser, text) for text in texts]
    assert [int(time) if good else None for time, good in zip(times, readable, strict=True)] == alone
    assert any(time is not None for time in alone)


@given(
    st.from_regex(
        rb"(\d{4}[-/.]\d\d?[-/.]\d\d?|\d\d?[-/.]\d\d?[-/.]\d{2,4})(,? |T)\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z?",
        fullmatch=True,
    )
)
@settings(deadline=None, max_examples=500)
def test_dates_are_read_row_by_row_and_slashes_never_guessed(text: bytes) -> None:
    assume(civil_year_is_read(text))
    assert read(iso_or_epoch, text) == slow_iso_or_epoch(text)


@given(MOMENTS, st.sampled_from("/-"))
@example(datetime(2024, 3, 1), "/")
@example(datetime(2024, 12, 13), "/")  # no 13th month: still not guessed
@settings(deadline=None)
def test_slashes_mean_what_the_owner_says_and_nothing_otherwise(moment: datetime, between: str) -> None:
    exact = moment.replace(second=0, microsecond=0)
    first = f"{moment.day}{between}{moment.month:02}{between}{moment.year} {moment:%H:%M}".encode()
    second = f"{moment.month}{between}{moment.day:02}{between}{moment.year} {moment:%H:%M}".encode()
    assert read(iso_or_epoch, first) is read(iso_or_epoch, second) is None
    assert read(day_first, first) == read(month_first, second) == since_epoch(exact)
    dotted = f"{moment.day}.{moment.month}.{moment.year} {moment:%H:%M}".encode()
    assert read(day_first, dotted) == read(month_first, dotted) == read(iso_or_epoch, dotted) == since_epoch(exact)


PATTERNS = [
    "%d/%b/%Y:%H:%M:%S %z", "%m/%d/%Y %I:%M:%S %p", "%d.%m.%y %H:%M", "%Y%m%dT%H%M%S.%f", "%B %d, %Y %H:%M",
    "%H:%M %% %d-%m-%Y", "%d.%m.%Y", "%Y-%m-%d",
]  # fmt: skip


@given(MOMENTS, st.sampled_from(PATTERNS), st.sampled_from([0, -330, 60]))
@settings(deadline=None, max_examples=300)
def test_a_pattern_reads_what_strftime_writes_by_it(moment: datetime, pattern: str, east: int) -> None:
    assume("%y" not in pattern or 1969 <= moment.year <= 2068)
    zoned = moment.replace(tzinfo=timezone(timedelta(minutes=east)))
    text = zoned.strftime(pattern)
    exact = datetime.strptime(text, pattern)
    if exact.tzinfo is not None:
        exact = exact.astimezone(UTC).replace(tzinfo=None)
        assume(EARLIEST <= exact < LATEST)
    assert read(time_parser(pattern), text.encode()) == since_epoch(exact)


@given(st.sampled_from(PATTERNS), st.binary(max_size=24) | st.from_regex(r"[0-9/:. APMZ+-]{8,24}").map(str.encode))
@settings(deadline=None, max_examples=500)
def test_what_a_pattern_reads_strptime_reads_too(pattern: str, text: bytes) -> None:
    if read(time_parser(pattern), text) is not None:
        assert datetime.strptime(text.decode(), pattern)


@pytest.mark.parametrize(
    "text", [b"30.02.2024 10:00", b"1/3/24 10:00", b"01.03.24 10:00", b"01.03.24", b"01/03/2024", b"1.3/2024 10:00"]
)
def test_other_dates_are_unreadable(text: bytes) -> None:
    assert read(iso_or_epoch, text) is None


@pytest.mark.parametrize(
    "pattern", ["dd/mm/yyyy", "%m/%Y %H:%M", "%d/%m/%Y %I:%M", "%d/%d/%Y %H", "%Q%Y%m%d%H", "", "%d/%m/%Y %H:%M %"]
)
def test_a_pattern_without_a_date_is_refused_with_what_may_stand_in_one(pattern: str) -> None:
    if pattern.endswith("%"):
        assert read(time_parser(pattern), b"01/03/2024 10:00 %") is not None  # a sign like any other
        return
    with pytest.raises(ParameterError, match=r"time_format must be a pattern of year, month and day.*day-first"):
        time_parser(pattern)


@pytest.mark.parametrize(
    ("parser", "text", "expected"),
    [
        (iso_or_epoch, b"2025-12-21", "2025-12-21"),
        (iso_or_epoch, b"21.12.2025", "2025-12-21"),
        (day_first, b"21/12/2025", "2025-12-21"),
        (month_first, b"12/21/2025", "2025-12-21"),
        (time_parser("%d.%m.%y"), b"21.12.25", "2025-12-21"),
        (day_first, b"21/12/2025 7:05 PM", "2025-12-21 19:05"),
        (day_first, b"21/12/2025 12:00:30 am", "2025-12-21 00:00:30"),
        (iso_or_epoch, b"2025-12-21 07:05 CET", "2025-12-21 06:05"),
        (iso_or_epoch, b"2025-12-21 07:05 PM EST", "2025-12-22 00:05"),
        (time_parser("%d.%m.%Y %H:%M %Z"), b"21.12.2025 07:05 MESZ", "2025-12-21 05:05"),
    ],
)
def test_dates_alone_twelve_hours_and_named_zones(parser: TimeParser, text: bytes, expected: str) -> None:
    assert read(parser, text) == since_epoch(datetime.fromisoformat(expected))
