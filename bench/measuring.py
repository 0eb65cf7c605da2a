"""Time and memory of a piece of work in a process of its own."""

from __future__ import annotations

import multiprocessing
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

THREADS, MEMORY = 2, "3GB"
Work = Callable[[str, str], Any]


@dataclass(frozen=True)
class Run:
    """What one run took and gave."""

    seconds: float
    gigabytes: float
    result: Any
    processor_seconds: float
    """Of all threads: what a busy machine does not change much."""


def best_of_two(work: Work, path: Path, spill: Path, first: Path | None = None) -> Run:
    """The faster of two runs: the machine's other work disturbs it least."""
    return min((once(work, path, spill, first) for _ in range(2)), key=lambda run: run.seconds)


def once(work: Work, path: Path, spill: Path, first: Path | None = None) -> Run:
    """One run, for what takes minutes; `first` is a small log, read before time counts: imports are not measured."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(_run, work, str(path), str(spill), None if first is None else str(first)).result()


def _run(work: Work, path: str, spill: str, first: str | None) -> Run:
    if first is not None:
        work(first, spill)
    start, busy = time.perf_counter(), time.process_time()
    result = work(path, spill)
    seconds, processor = time.perf_counter() - start, time.process_time() - busy
    return Run(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, result, processor)


def duckdb_connection(spill: str) -> Any:
    """DuckDB alone, with the threads and memory that our engine gets."""
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
