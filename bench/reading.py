"""Reading against DuckDB's own: the parse alone, and everything that `inspect` counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.measuring import MEMORY, THREADS, Work, best_of_two, duckdb_connection

CSV = """read_csv('{path}', delim = '\t', quote = '', escape = '', header = true, columns = {{
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'}})"""
TOUCH = 'count(*), max(time), sum(length(query)), sum(length(url)), sum(rank), sum(length("user"))'


def duckdb_parse(path: str, spill: str) -> Any:
    return duckdb_connection(spill).sql(f"SELECT {TOUCH} FROM {CSV.format(path=path)}").fetchall()[0]


def our_parse(path: str, _: str) -> Any:
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        rows = log.rows
        touched = rows.agg(
            rows=rows.count(),
            last=rows.time.max(),
            query=rows.query.length().sum(),
            url=rows.url.length().sum(),
            rank=rows["rank"].sum(),
            user=rows.user.length().sum(),
        )
        return tuple(log.engine.fetch(touched).to_pylist()[0].values())


def duckdb_inspect(path: str, spill: str) -> Any:
    return (
        duckdb_connection(spill)
        .execute((Path(__file__).parent / "inspect.sql").read_text(), {"path": path})
        .fetchall()[0]
    )


def our_inspect(path: str, _: str) -> Any:
    from querycloak.engines import connect
    from querycloak.logs.profile import profile
    from querycloak.logs.searchlog import read

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        found = profile(log)
    return (
        found.users, found.first_time, found.last_time, found.sessions, found.searches, found.distinct_queries,
        found.one_user_share, found.words_per_query.mean, found.clicks, found.distinct_pairs,
    )  # fmt: skip


def close(first: Any, second: Any) -> bool:
    return all(
        abs(a - b) <= 1e-9 * abs(b) if isinstance(b, float) else a == b for a, b in zip(first, second, strict=True)
    )


def compare(name: str, ours: Work, theirs: Work, path: Path, spill: Path) -> dict[str, Any]:
    """Ours beside theirs, if both count the same."""
    our, their = best_of_two(ours, path, spill), best_of_two(theirs, path, spill)
    if not close(our.result, their.result):
        raise SystemExit(f"{name}: the two do not count the same: {our.result} and {their.result}")
    return {
        "bench": name,
        "seconds": round(our.seconds, 1),
        "duckdb_seconds": round(their.seconds, 1),
        "ratio": round(our.seconds / their.seconds, 2),
        "peak_gb": round(our.gigabytes, 2),
    }


def main(path: Path, rows: int, folder: Path) -> None:
    """One line of JSON for each bench."""
    for name, ours, theirs in (
        ("parse and normalise", our_parse, duckdb_parse),
        ("inspect", our_inspect, duckdb_inspect),
    ):
        print(json.dumps({"rows": rows, **compare(name, ours, theirs, path, folder)}), flush=True)
