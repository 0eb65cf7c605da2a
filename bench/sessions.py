"""`release sessions` from the file to the folder, against DuckDB alone doing the counting."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

from bench import aol_shaped
from bench.measuring import MEMORY, THREADS, best_of_two, duckdb_connection, once

EPSILON, DELTA = 8.0, 2.25e-7


def duckdb_counts(path: str, spill: str) -> Any:
    statement = (Path(__file__).parent / "floors" / "sessions-1-3.sql").read_text()
    return duckdb_connection(spill).execute(statement, {"path": path}).fetchall()[0]


def our_counts(path: str, _: str) -> Any:
    """The same counts by our code, to see that both count the same."""
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.methods.keys.contribution_bounding import first_keys

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        method = _one_draw()
        kept = first_keys(method.contributions(log)["sessions"], ("queries",), method.plans["sessions"].per_user)
        counts = kept.group_by("queries").agg(n=kept.count())
        return tuple(log.engine.fetch(counts.agg(keys=counts.count(), volume=counts.n.sum())).to_pylist()[0].values())


def one_draw(path: str, spill: str) -> Any:
    return _released(path, spill, _one_draw())


def default(path: str, spill: str) -> Any:
    from querycloak.methods.sessions.method import Sessions

    return _released(path, spill, Sessions(epsilon=EPSILON, delta=DELTA))


def _one_draw() -> Any:
    from querycloak.methods.sessions.method import Sessions

    return Sessions(
        epsilon=EPSILON,
        delta=DELTA,
        selection="gaussian",
        sessions_per_user=1,
        queries_per_session=3,
        no_clicks=True,
    )


def _released(path: str, spill: str, method: Any) -> Any:
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read

    with (
        tempfile.TemporaryDirectory(dir=spill) as folder,
        read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log,
    ):
        release = method.release(log)
        release.save(Path(folder) / "out")
        return {kind: table.num_rows for kind, table in release.tables.items()}


def main(_: Path, rows: int, folder: Path) -> None:
    """One line of JSON: the log has sessions, which that of the other benches has not."""
    path = folder / f"aol-sessions-{rows}.tsv"
    if not path.exists():
        aol_shaped.write_log(path, rows, sessions=True)
    theirs = best_of_two(duckdb_counts, path, folder)
    if once(our_counts, path, folder).result != theirs.result:
        raise SystemExit("sessions: the two do not count the same")
    for name, work in (("release sessions, l_s 1, l_q 3", one_draw), ("release sessions and clicks, default", default)):
        ours = best_of_two(work, path, folder)
        report = {
            "rows": rows,
            "bench": name,
            "seconds": round(ours.seconds, 1),
            "duckdb_seconds": round(theirs.seconds, 1),
            "ratio": round(ours.seconds / theirs.seconds, 2),
            "peak_gb": round(ours.gigabytes, 2),
            "keys": theirs.result[0],
            "released": ours.result,
        }
        print(json.dumps(report), flush=True)
