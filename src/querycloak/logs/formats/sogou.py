"""Sogou's log of 2008: time of day, user, [query], rank and click order, address. GB18030 or UTF-8, line by line.

The log gives no date, so every time is on 1 January 1970.
"""

from __future__ import annotations

from querycloak.logs.formats.declaration import DelimitedFormat, Layout
from querycloak.logs.reading.encodings import UTF8_OR_GB18030
from querycloak.logs.reading.times import time_of_day

FORMAT = DelimitedFormat(
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
