"""The delimited formats: name, layout and signs by which each is recognised, in one value.

A format that is added to `DECLARED` is recognised, named in messages and read.
"""

from __future__ import annotations

from dataclasses import dataclass

from querycloak.logs.reading.encodings import UTF8_OR_GB18030
from querycloak.logs.reading.times import TimeParser, compact, iso_or_epoch, time_of_day


@dataclass(frozen=True)
class Layout:
    """Position of each column in a record, and the number of fields that a record may have."""

    columns: dict[str, int]
    field_counts: tuple[int, ...]
    separator: bytes = b"\t"
    quotes: bool = False
    times: TimeParser = iso_or_epoch
    bracketed_query: bool = False
    rank_is_first_word: bool = False


@dataclass(frozen=True)
class DelimitedFormat:
    """A format of one record a line."""

    name: str
    accepted: str
    """Its columns, for messages."""
    line: str
    """Regular expression of a row, in the syntax that Python and Arrow share."""
    layout: Layout
    header: tuple[str, ...] = ()
    """Names in the first line; empty: a file begins with a row."""
    encoding: str = "utf-8"
    """Encoding if the owner names none."""
    time_form: str | None = None
    """An example of its times; None: times of any form that needs no option."""

    @property
    def header_line(self) -> bytes:
        """The header as a line; empty if there is none."""
        return self.layout.separator.join(name.encode() for name in self.header)


AOL = DelimitedFormat(
    name="aol",
    accepted="AnonID, Query, QueryTime, ItemRank, ClickURL with tabs",
    line=r"[^\t]*\t[^\t]*\t\d{4}-\d\d-\d\d[ T]\d\d:\d\d[^\t]*(\t\d*\t[^\t]*)?",
    layout=Layout(columns={"user": 0, "query": 1, "time": 2, "rank": 3, "url": 4}, field_counts=(3, 5)),
    header=("AnonID", "Query", "QueryTime", "ItemRank", "ClickURL"),
)
"""AOL's log of 2006. Quotes are plain characters. A search without a click has two empty fields at its end, or ends
after its time."""

EXCITE = DelimitedFormat(
    name="excite",
    accepted="user, yymmddHHMMSS, query with tabs",
    line=r"[^\t]*\t\d{12}\t[^\t]*",
    layout=Layout(columns={"user": 0, "time": 1, "query": 2}, field_counts=(3,), times=compact),
    time_form="970916105432",
)
"""Excite's logs of the nineties, without clicks."""

SOGOU = DelimitedFormat(
    name="sogou",
    accepted="time, user, [query], rank and order, url with tabs",
    line=r"\d\d:\d\d:\d\d\t[^\t]*\t\[[^\t]*\]\t\d+ \d+\t[^\t]*",
    layout=Layout(
        columns={"time": 0, "user": 1, "query": 2, "rank": 3, "url": 4},
        field_counts=(5,),
        times=time_of_day,
        bracketed_query=True,
        rank_is_first_word=True,
    ),
    encoding=UTF8_OR_GB18030,
    time_form="23:59:59",
)
"""Sogou's log of 2008; GB18030 or UTF-8, line by line. It gives no date, so every time is on 1 January 1970."""

DECLARED = (AOL, EXCITE, SOGOU)
