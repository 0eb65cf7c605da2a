"""`release clicks` from the file to the folder, against DuckDB alone doing the counting."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from bench.measuring import MEMORY, THREADS, best_of_two, duckdb_connection

PER_USER, EPSILON, DELTA = 4, 8.0, 2.25e-7


def duckdb_counts(path: str, spill: str) -> Any:
    statement = (Path(__file__).parent / "floors" / "clicks-4.sql").read_text()
    return duckdb_connection(spill).execute(statement, {"path": path}).fetchall()[0]


def our_release(path: str, spill: str) -> Any:
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.methods.clicks.method import Clicks
    from querycloak.methods.keys import partition_selection as selecting
    from querycloak.methods.keys import thresholded

    drawn: list[thresholded.ReleasedKeys] = []
    release_keys = thresholded.release_keys

    def watched(*arguments: Any, **more: Any) -> thresholded.ReleasedKeys:
        drawn.append(release_keys(*arguments, **more))
        return drawn[-1]

    selecting.release_keys = watched  # type: ignore[attr-defined]
    with (
        tempfile.TemporaryDirectory(dir=spill) as folder,
        read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log,
    ):
        Clicks(epsilon=EPSILON, delta=DELTA, max_keys_per_user=PER_USER).release(log).save(Path(folder) / "out")
    return {"released": drawn[0].table.num_rows, "draws": drawn[0].draws}


def our_rounds(path: str, spill: str) -> Any:
    """The default: preselection rounds, a decision, counts."""
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.methods.clicks.method import Clicks

    with (
        tempfile.TemporaryDirectory(dir=spill) as folder,
        read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log,
    ):
        release = Clicks(epsilon=EPSILON, delta=DELTA).release(log)
        release.save(Path(folder) / "out")
        return {"released": release.table("clicks").num_rows}


def main(path: Path, rows: int, folder: Path) -> None:
    """One line of JSON."""
    ours, theirs = (best_of_two(work, path, folder) for work in (our_release, duckdb_counts))
    report = {
        "rows": rows,
        "bench": f"release clicks, {PER_USER} per user",
        "seconds": round(ours.seconds, 1),
        "duckdb_seconds": round(theirs.seconds, 1),
        "ratio": round(ours.seconds / theirs.seconds, 2),
        "peak_gb": round(ours.gigabytes, 2),
        "keys": theirs.result[0],
        **ours.result,
    }
    print(json.dumps(report), flush=True)
    rounds = best_of_two(our_rounds, path, folder)
    report = {
        "rows": rows,
        "bench": "release clicks, multi-round",
        "seconds": round(rounds.seconds, 1),
        "duckdb_seconds": round(theirs.seconds, 1),
        "ratio": round(rounds.seconds / theirs.seconds, 2),
        "peak_gb": round(rounds.gigabytes, 2),
        **rounds.result,
    }
    print(json.dumps(report), flush=True)
