"""AOL's log of 2006: user, query, time, rank and address of the click, with a header line.

Quotes are plain characters. A search without a click has two empty fields at its end, or ends after its time.
"""

from __future__ import annotations

from querycloak.logs.formats.delimited import Layout
from querycloak.logs.reading.times import iso_or_epoch

HEADER = ("AnonID", "Query", "QueryTime", "ItemRank", "ClickURL")
LAYOUT = Layout(
    columns={"user": 0, "query": 1, "time": 2, "rank": 3, "url": 4},
    field_counts=(3, 5),
    times=iso_or_epoch,
)
