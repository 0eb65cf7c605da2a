"""Tasks counts, pairs, profiles and loss on a synthetic log of the same size; counts beside a SQL statement."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from bench.affinity import synthetic_log
from bench.measuring import MEMORY, THREADS, duckdb_connection, once

EPSILON, DELTA, PER_USER = 8, 2.25e-7, 32
STATEMENT = Path(__file__).with_name("counts.sql")


def prepare(path: str, folder: str) -> Any:
    """A release of clicks with one draw per pair."""
    from querycloak import Clicks, read
    from querycloak.engines import connect

    place = Path(folder) / f"{Path(path).stem}-clicks"
    if place.exists():
        return None
    method = Clicks(epsilon=EPSILON, delta=DELTA, selection="gaussian", max_keys_per_user=PER_USER)
    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        return str(method.release(log).save(place, output_filter=None).folder)


def judged(path: str, task: str) -> Any:
    """One task on the release alone, with reading the log; the figures of counts that the statement has."""
    from querycloak import read
    from querycloak.engines import connect
    from querycloak.evaluation.target import Target
    from querycloak.evaluation.task import Logs, tasks_named

    subject = Target.in_folder(Path(path).with_name(f"{Path(path).stem}-clicks"))
    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        log.stage()
        prepared = tasks_named([task])[0].prepare(Logs(log, log, (subject,)))
        figures = {(each.measure.name, each.slice): each.value for each in prepared.scores(subject)}  # type: ignore[union-attr]
    wanted = [("bias", "table=clicks"), ("bias_of_bounding", "table=clicks"), ("drop_rate", "table=clicks,users>=10")]
    return [figures.get(key) for key in wanted]


def in_sql(path: str, folder: str) -> Any:
    """The same figures by DuckDB alone."""
    place = Path(path).with_name(f"{Path(path).stem}-clicks")
    statement = STATEMENT.read_text().replace("$path", f"'{path}'").replace("$release", f"'{place}/clicks.parquet'")
    return list(duckdb_connection(folder).execute(statement).fetchall()[0])


def main(path: Path, rows: int, folder: Path) -> None:  # noqa: ARG001  (the other benches' log has no words)
    """A line for each task; that of counts has the ratio to the statement."""
    log = synthetic_log(folder, rows)
    once(prepare, log, folder)
    for task in ("counts", "pairs", "profiles", "loss"):
        run = once(judged, log, Path(task))
        facts = {"rows": rows, "bench": task, "seconds": round(run.seconds, 1), "peak_gb": round(run.gigabytes, 2)}
        if task == "counts":
            theirs = once(in_sql, log, folder)
            if not all(math.isclose(*pair, rel_tol=1e-9) for pair in zip(run.result, theirs.result, strict=True)):
                raise RuntimeError(f"{run.result} against {theirs.result} in SQL")
            facts |= {"sql_seconds": round(theirs.seconds, 1), "ratio": round(run.seconds / theirs.seconds, 2)}
        print(json.dumps(facts), flush=True)
