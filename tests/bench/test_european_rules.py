"""The EU's new rule as the bench reads it: words of enough users, no long queries, visits in place of people."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from bench.european_rules import ruled

NUMBERS = {"term_users": 2, "most_words": 2, "gap_minutes": 30, "most_searches": 2}
ASKED = [
    ("a", 10, 0, "red shoes"),
    ("a", 10, 10, "blue shoes"),
    ("a", 10, 20, "red"),
    ("a", 12, 0, "blue"),
    ("b", 10, 0, "red blue shoes"),
    ("c", 10, 0, "red secret42"),
]


def test_what_the_new_rule_leaves(tmp_path: Path) -> None:
    user, hour, minute, query = zip(*ASKED, strict=True)
    times = [datetime(2026, 3, 1, *at) for at in zip(hour, minute, strict=True)]
    none = pa.nulls(len(ASKED))
    log = pa.table(
        {"user": user, "time": times, "query": query, "rank": none.cast(pa.int32()), "url": none.cast(pa.string())}
    )
    pq.write_table(log, tmp_path / "log.parquet")
    with ruled(tmp_path / "log.parquet", NUMBERS) as made:
        kept = {row[0] for row in made.execute("select query from kept").fetchall()}
        visits = made.execute("select list(query order by query) from released group by user").fetchall()
        whole = made.execute("select count(distinct user), count(*) from whole").fetchone()
    assert kept == {"red shoes", "blue shoes", "red", "blue"}  # not the word of one user, not three words
    # Of the first visit two searches; nobody's visits have one name.
    assert sorted(visit[0] for visit in visits) == [["blue"], ["blue shoes", "red shoes"]]
    assert whole == (4, len(ASKED))
