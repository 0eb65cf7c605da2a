"""Excite's logs of the nineties: user, time as yymmddHHMMSS, query. No clicks."""

from __future__ import annotations

from querycloak.logs.formats.delimited import Layout
from querycloak.logs.reading.times import compact

LAYOUT = Layout(columns={"user": 0, "time": 1, "query": 2}, field_counts=(3,), times=compact)
