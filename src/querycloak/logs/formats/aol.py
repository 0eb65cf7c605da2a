"""AOL's log of 2006: user, query, time, rank and address of the click, with a header line.

Quotes are plain characters. A search without a click has two empty fields at its end, or ends after its time.
"""

from __future__ import annotations

from querycloak.logs.formats.declaration import DelimitedFormat, Layout

_TIME = r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d"

FORMAT = DelimitedFormat(
    name="aol",
    accepted="AnonID, Query, QueryTime, ItemRank, ClickURL with tabs",
    line=rf"[^\t]*\t[^\t]*\t{_TIME}[^\t]*(\t\d*\t[^\t]*)?",
    layout=Layout(columns={"user": 0, "query": 1, "time": 2, "rank": 3, "url": 4}, field_counts=(3, 5)),
    header=("AnonID", "Query", "QueryTime", "ItemRank", "ClickURL"),
)
