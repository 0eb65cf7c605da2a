"""Reading against DuckDB's own: the parse alone, and everything that `inspect` counts."""

from __future__ import annotations

import json
import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

THREADS, MEMORY = 2, "3GB"
CSV = """read_csv('{path}', delim = '\t', quote = '', escape = '', header = true, columns = {{
    'user': 'VARCHAR', 'query': 'VARCHAR', 'time': 'TIMESTAMP', 'rank': 'INTEGER', 'url': 'VARCHAR'}})"""
TOUCH = 'count(*), max(time), sum(length(query)), sum(length(url)), sum(rank), sum(length("user"))'


def duckdb_parse(path: str, spill: str) -> Any:
    return _duckdb(spill).sql(f"SELECT {TOUCH} FROM {CSV.format(path=path)}").fetchall()[0]


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
    return _duckdb(spill).execute((Path(__file__).parent / "inspect.sql").read_text(), {"path": path}).fetchall()[0]


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


def _duckdb(spill: str) -> Any:
    import duckdb

    settings: dict[str, Any] = {
        "threads": THREADS,
        "memory_limit": MEMORY,
        "temp_directory": spill,
        "preserve_insertion_order": False,
    }
    connection = duckdb.connect(config=settings)
    connection.execute("SET enable_progress_bar = false")
    return connection


def measured(work: Callable[[str, str], Any], path: Path, spill: Path) -> tuple[float, float, Any]:
    """Seconds, peak memory in GB and result of the work, in a process of its own."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_work, work, str(path), str(spill)).result()


def _work(work: Callable[[str, str], Any], path: str, spill: str) -> tuple[float, float, Any]:
    start = time.perf_counter()
    result = work(path, spill)
    seconds = time.perf_counter() - start
    return seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, result


def close(first: Any, second: Any) -> bool:
    return all(
        abs(a - b) <= 1e-9 * abs(b) if isinstance(b, float) else a == b for a, b in zip(first, second, strict=True)
    )


def compare(name: str, ours: Callable[..., Any], theirs: Callable[..., Any], path: Path, spill: Path) -> dict[str, Any]:
    """Ours, theirs, ours, theirs: the better of each, which the machine's other work disturbs least."""
    runs = {work: [measured(work, path, spill) for _ in range(2)] for work in (ours, theirs)}
    best = {work: min(found, key=lambda run: run[0]) for work, found in runs.items()}
    if not close(best[ours][2], best[theirs][2]):
        raise SystemExit(f"{name}: the two do not count the same: {best[ours][2]} and {best[theirs][2]}")
    return {
        "bench": name,
        "seconds": round(best[ours][0], 1),
        "duckdb_seconds": round(best[theirs][0], 1),
        "ratio": round(best[ours][0] / best[theirs][0], 2),
        "peak_gb": round(best[ours][1], 2),
    }


def main(rows: list[int], folder: Path) -> None:
    """One line of JSON for each bench and size."""
    from bench.aol_shaped import write_log

    for count in rows:
        path = folder / f"aol-shaped-{count}.tsv"
        if not path.exists():
            write_log(path, count)
        for name, ours, theirs in (
            ("parse and normalise", our_parse, duckdb_parse),
            ("inspect", our_inspect, duckdb_inspect),
        ):
            print(json.dumps({"rows": count, "gb": round(path.stat().st_size / 2**30, 2), **compare(name, ours, theirs, path, folder)}), flush=True)  # noqa: E501  # fmt: skip
