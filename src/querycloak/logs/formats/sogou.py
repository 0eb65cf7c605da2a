"""Sogou's log of 2008: time of day, user, [query], rank and click order, address. GB18030 or UTF-8, line by line.

The log gives no date, so every time is on 1 January 1970.
"""

from __future__ import annotations

from querycloak.logs.formats.delimited import Layout
from querycloak.logs.reading.times import time_of_day

LAYOUT = Layout(
    columns={"time": 0, "user": 1, "query": 2, "rank": 3, "url": 4},
    field_counts=(5,),
    times=time_of_day,
    bracketed_query=True,
    rank_is_first_word=True,
)
