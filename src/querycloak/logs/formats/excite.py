"""Excite's logs of the nineties: user, time as yymmddHHMMSS, query. No clicks."""

from __future__ import annotations

from querycloak.logs.formats.declaration import DelimitedFormat, Layout
from querycloak.logs.reading.times import compact

FORMAT = DelimitedFormat(
    name="excite",
    accepted="user, yymmddHHMMSS, query with tabs",
    line=r"[^\t]*\t\d{12}\t[^\t]*",
    layout=Layout(columns={"user": 0, "time": 1, "query": 2}, field_counts=(3,), times=compact),
    time_form="970916105432",
)
