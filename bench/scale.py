"""Defaults of methods at any size, beside the engine's own time: `python -m bench.scale LOG... [--only NAME ...]`.

Methods that count views or attributes take logs in Parquet that `querycloak synth --views --attributes ...` makes.

The floor of a method is SQL (bench/floors/) for every grouping that it needs, run by DuckDB alone with the same threads
and memory, noise left out. Rows are kept in docs/tables/scale.csv, each with the load of the machine; the stages of
each run in docs/tables/scale-stages.csv. On a busy machine processor seconds say more than seconds.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from bench.json_reading import beginning_of
from bench.measuring import MEMORY, THREADS, Run, duckdb_connection, once

FLOORS = Path(__file__).parent / "floors"
TABLES = Path(__file__).parents[1] / "docs" / "tables"
EPSILON, DELTA = 8.0, 2.25e-7
BUDGET: Mapping[str, Any] = {"epsilon": EPSILON, "delta": DELTA}
METHODS: dict[str, tuple[str, Mapping[str, Any], tuple[str, ...]]] = {
    "clicks --max-keys-per-user 4": ("Clicks", {**BUDGET, "max_keys_per_user": 4}, ("clicks-4",)),
    "clicks": ("Clicks", BUDGET, ("clicks",)),
    "k-anonymity": ("KAnonymity", {"min_users": 5}, ("k-anonymity",)),
    "sessions": ("Sessions", BUDGET, ("sessions", "clicks")),
    "query-pool": ("QueryPool", {"epsilon": EPSILON}, ("query-pool",)),
    "optimal": ("Optimal", BUDGET, ("optimal",)),
    "phrases": ("Phrases", BUDGET, ("phrases",)),
    "clicks --by device --views": ("Clicks", {**BUDGET, "by": "device", "views": True}, ("clicks-views",)),
    "queries --by country,week": (
        "Queries",
        {**BUDGET, "by": "country,week", "domain_of": "country=iso3166"},
        ("queries-by",),
    ),
}
"""The method's class, its options, and the floors that it needs."""
PERIOD = datetime(2006, 3, 1), datetime(2006, 6, 1)
COLUMNS = (
    "method", "rows", "seconds", "processor_seconds", "floor_seconds", "floor_processor_seconds", "ratio",
    "processor_ratio", "peak_gb", "released", "draws", "memory", "load",
)  # fmt: skip


def our_release(name: str, memory: str, path: str, spill: str) -> dict[str, Any]:
    """What is released of the log, and how long every stage took."""
    import pyarrow.parquet as pq

    import querycloak as qc
    from querycloak.engines import connect
    from querycloak.logs.choices import Choices
    from querycloak.logs.searchlog import read

    kind, options, _ = METHODS[name]
    method = getattr(qc, kind)(**options)
    choices = Choices(*PERIOD, attributes=method.attributes) if "by" in options else None
    stages, drawn = _watched_engine(), _watched_draws()
    stages.clear()
    drawn.clear()
    begun = time.process_time()
    with (
        tempfile.TemporaryDirectory(dir=spill) as folder,
        read(path, engine=connect(threads=THREADS, memory=memory), choices=choices) as log,
    ):
        release = method.release(log)
        counted = time.process_time()
        release.save(Path(folder) / "out")
        released = sum(pq.read_metadata(path).num_rows for path in Path(folder).glob("out/*.parquet"))
    stages.append(("saving", time.process_time() - counted))
    known = sum(seconds for _, seconds in stages)
    stages.append(("drawing, and all else in Python", max(0.0, time.process_time() - begun - known)))
    return {"released": released, "draws": sum(drawn), "stages": stages}


@cache
def _watched_engine() -> list[tuple[str, float]]:
    """Processor seconds of everything that DuckDB is asked for, as it happens."""
    from querycloak.engines.duckdb import DuckDBEngine

    stages: list[tuple[str, float]] = []

    def watched(kind: str) -> None:
        work = getattr(DuckDBEngine, kind)

        def timed(engine: Any, table: Any) -> Any:
            begun = time.process_time()
            found = work(engine, table)
            columns = table.column_names if hasattr(table, "column_names") else table.columns
            stages.append((f"{kind} {', '.join(columns)}", time.process_time() - begun))
            return found

        setattr(DuckDBEngine, kind, timed)

    for kind in ("stage", "fetch", "upload"):
        watched(kind)
    return stages


@cache
def _watched_draws() -> list[int]:
    """How many random numbers are drawn, whatever their law."""
    from querycloak.privacy.sampling.randomness import Randomness

    drawn: list[int] = []

    def watched(kind: str, size: Callable[..., int]) -> None:
        work = getattr(Randomness, kind)

        def counted(self: Any, *arguments: Any) -> Any:
            drawn.append(size(*arguments))
            return work(self, *arguments)

        setattr(Randomness, kind, counted)

    watched("noise", lambda _, size: size)
    watched("many", lambda _, size: size)
    watched("binomial", lambda *_: 1)
    watched("choose", lambda _, size: size)
    return drawn


def floor(name: str, path: str, spill: str) -> Any:
    """The last result of each statement that the method needs."""
    found: list[Any] = []
    for each in METHODS[name][2]:
        connection = duckdb_connection(spill)
        pool = _pool_file(Path(spill)) if each == "query-pool" else None
        for statement in (FLOORS / f"{each}.sql").read_text().split(";\n"):
            given = {"path": path} if "$path" in statement else None
            if "$pool" in statement:
                given = {"path": path, "pool": str(pool)}
            answer = connection.execute(statement, given)
            found = found if answer is None else answer.fetchall()
        connection.close()
    return found[0]


def _pool_file(folder: Path) -> Path:
    """The public queries that `query-pool` comes with."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from querycloak.logs.choices import Choices
    from querycloak.methods.keys.public_lists import queries_of
    from querycloak.methods.query_pool.method import QueryPool

    path = folder / "pool.parquet"
    pq.write_table(pa.table({"query": queries_of(QueryPool(epsilon=1).lists["pool"], Choices())}), path)
    return path


class Ours:
    """A release as `once` runs it."""

    def __init__(self, name: str, memory: str) -> None:
        self.name, self.memory = name, memory

    def __call__(self, path: str, spill: str) -> Any:
        return our_release(self.name, self.memory, path, spill)


class Floor:
    """The floor as `once` runs it."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, path: str, spill: str) -> Any:
        return floor(self.name, path, spill)


def row(name: str, path: Path, memory: str, ours: Run, theirs: Run | None) -> dict[str, Any]:
    """One row of the table."""
    rows = _rows(path)
    busy, quiet = ours.processor_seconds, None if theirs is None else theirs.processor_seconds
    return {
        "method": name,
        "rows": rows,
        "seconds": round(ours.seconds, 1),
        "processor_seconds": round(busy, 1),
        "floor_seconds": None if theirs is None else round(theirs.seconds, 1),
        "floor_processor_seconds": None if quiet is None else round(quiet, 1),
        "ratio": None if theirs is None else round(ours.seconds / theirs.seconds, 2),
        "processor_ratio": None if quiet is None else round(busy / quiet, 2),
        "peak_gb": round(ours.gigabytes, 2),
        "released": ours.result["released"],
        "draws": ours.result["draws"],
        "memory": memory,
        "load": " ".join(f"{each:.1f}" for each in os.getloadavg()[:2]),
    }


def _rows(path: Path) -> int:
    """Rows of a log."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        return int(pq.read_metadata(path).num_rows)
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 24), b"")) - 1


def _beginning(path: Path, folder: Path) -> Path:
    """A short log with the first rows of this one."""
    if path.suffix != ".parquet":
        return beginning_of(path, folder)
    import pyarrow as pa
    import pyarrow.parquet as pq

    short = folder / f"{path.stem}-beginning.parquet"
    pq.write_table(pa.Table.from_batches([next(pq.ParquetFile(path).iter_batches(1000))]), short)
    return short


def keep(path: Path, rows: list[dict[str, Any]]) -> None:
    """Put rows into a table, in the place of what it said of the same methods, or tools, and sizes."""
    anew = {_measured(row) for row in rows}
    kept: list[dict[str, Any]] = []
    if path.exists():
        with path.open(newline="") as file:
            kept = [row for row in csv.DictReader(file) if _measured(row) not in anew]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows([*kept, *rows])


def _measured(row: Mapping[str, Any]) -> tuple[str, str, Any, Any]:
    return str(row.get("method") or row.get("tool")), str(row["rows"]), row.get("memory"), row.get("task")


def main() -> None:
    """Measure, and add to the tables."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument(
        "logs", type=Path, nargs="+", help="logs that `querycloak synth` writes: in AOL's form, or Parquet"
    )
    parser.add_argument("--only", nargs="+", choices=METHODS, help="all that fit the log if not given")
    parser.add_argument("--memory", default=MEMORY)
    parser.add_argument("--no-floor", action="store_true")
    given = parser.parse_args()
    spill = Path(tempfile.mkdtemp(prefix="querycloak-bench-"))
    for path in given.logs:
        short = _beginning(path, spill)
        fitting = [name for name in METHODS if ("--by" in name) == (path.suffix == ".parquet")]
        for name in given.only or fitting:
            theirs = None if given.no_floor else once(Floor(name), path, spill)
            ours = once(Ours(name, given.memory), path, spill, short)
            found = row(name, path, given.memory, ours, theirs)
            print(found, flush=True)
            keep(TABLES / "scale.csv", [found])
            stages = [
                {"method": name, "rows": found["rows"], "stage": stage, "processor_seconds": round(seconds, 2)}
                for stage, seconds in ours.result["stages"]
            ]
            keep(TABLES / "scale-stages.csv", stages)


if __name__ == "__main__":
    main()
