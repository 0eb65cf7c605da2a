"""Small logs for evaluations, as rows of (user, seconds, query, url or None, rank or None)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.engines import Engine
from querycloak.logs.reading.schema import ROWS
from querycloak.logs.searchlog import SearchLog, read

Asked = tuple[str, int, str, str | None, int | None]
MINUTE = 60
GAP = 30 * MINUTE


def write_rows(path: Path, rows: Iterable[Asked]) -> Path:
    start = datetime(2006, 3, 1)
    made = [
        {"user": user, "time": start + timedelta(seconds=second), "query": query, "rank": rank, "url": url}
        for user, second, query, url, rank in rows
    ]
    pq.write_table(pa.Table.from_pylist(made, ROWS), path)
    return path


def open_rows(engine: Engine, path: Path, rows: Iterable[Asked]) -> SearchLog:
    return read(write_rows(path, rows), engine=engine)


def some_rows(seed: int, users: int, first: int = 0) -> list[Asked]:
    """Few queries and urls, sessions of all lengths, repeats, clicks without a rank."""
    draw, rows = random.Random(seed), list[Asked]()
    for user in range(first, first + users):
        second = draw.randrange(3600)
        for _ in range(draw.randrange(1, 14)):
            second += draw.choice([0, 1, 60, 60, GAP - 1, GAP, GAP + 1])
            url = draw.choice([None, "http://a/", "http://b/", "http://c/", "http://d/x"])
            rank = None if url is None else draw.choice([1, 2, 3, 7, None])
            rows.append((f"u{user}", second, draw.choice(["a", "ab", "abc", "b", "ba", "c c", "é"]), url, rank))
    return rows


def sessions_of(rows: Iterable[Asked]) -> list[tuple[str, list[str]]]:
    """Users and their sessions, by plain loops: a pause beyond half an hour ends one, a repeat is no new query."""
    mine: dict[str, list[tuple[int, str]]] = {}
    for user, second, query, _, _ in rows:
        mine.setdefault(user, []).append((second, query))
    found: list[tuple[str, list[str]]] = []
    for user, asked in sorted(mine.items()):
        before = None
        for second, query in sorted(asked):
            if before is None or second - before > GAP:
                found.append((user, [query]))
            elif found[-1][1][-1] != query:
                found[-1][1].append(query)
            before = second
    return found
