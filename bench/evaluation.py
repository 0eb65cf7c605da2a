"""`split` and every task of `evaluate` on a synthetic log of the same size; suggestions beside a SQL statement."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from bench.affinity import synthetic_log
from bench.measuring import MEMORY, THREADS, Run, duckdb_connection, once

EPSILON, DELTA = 8, 2.25e-7
# Beyond this the SQL statement, which compares with everything, takes longer than anybody waits.
MOST_ROWS_IN_SQL = 6_000_000
STATEMENT = Path(__file__).with_name("suggestion.sql")


def prepare(path: str, folder: str) -> Any:
    """The split, and a release with clicks and sequences."""
    from querycloak import Sessions, read, split
    from querycloak.engines import connect

    place = Path(folder) / f"{Path(path).stem}-split"
    if place.exists():
        return None
    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        made = split(log, place, by="user")
    with read(made.train, engine=connect(threads=THREADS, memory=MEMORY)) as train:
        Sessions(epsilon=EPSILON, delta=DELTA).release(train).save(place / "sessions")
    return [side.rows for side in made.sides]


def evaluated(place: str, task: str) -> Any:
    """One task, or all, on the release, the original and k-anonymity; the seconds of each step."""
    import time

    from querycloak import evaluate, read
    from querycloak.engines import connect

    folder, seconds, last = Path(place), dict[str, float](), [("opening", time.perf_counter())]

    def step(name: str, _: float) -> None:
        now = time.perf_counter()
        before, since = last[-1]
        seconds[before] = round(now - since, 1)
        last.append((name, now))

    engine = connect(threads=THREADS, memory=MEMORY)
    with read(folder / "train.parquet", engine=engine) as train:
        test = read(folder / "test.parquet", engine=engine)
        tasks = None if task == "all" else [task]
        found = evaluate(train, test, [folder / "sessions"], tasks, on_step=step)
    step("end", 1.0)
    return {"steps": seconds, "figures": len(found.rows)}


def in_sql(place: str, folder: str) -> Any:
    """The suggestions of the original, as one would write them down."""
    connection = duckdb_connection(folder)
    found = None
    for statement in STATEMENT.read_text().split(";\n"):
        code = "\n".join(line for line in statement.splitlines() if not line.startswith("--")).strip()
        if code:
            files = {name: f"{place}/{name}.parquet" for name in ("train", "test") if f"${name}" in code}
            for name, file in files.items():
                code = code.replace(f"${name}", f"'{file}'")
            found = connection.execute(code).fetchall()
    return found


def suggested(place: str, _: str) -> Any:
    """The same suggestions by us, with reading and numbering both sides."""
    import numpy as np

    from querycloak import read
    from querycloak.engines import connect
    from querycloak.evaluation.similar_queries import click_index, followers, suggested
    from querycloak.evaluation.subjects import Original
    from querycloak.evaluation.task import Logs
    from querycloak.evaluation.tasks.suggestion import COSINE_SHARE, MOST, KnownPrefixes

    engine = connect(threads=THREADS, memory=MEMORY)
    with read(f"{place}/train.parquet", engine=engine) as train:
        original = Original(train)
        graphs = Logs(train, read(f"{place}/test.parquet", engine=engine), (original,)).graphs
        asked = np.unique(KnownPrefixes.of(graphs.logs.test.steps, graphs.logs.queries).query)
        index = click_index(graphs.clicks(original), graphs.logs.urls)
        lists = suggested(asked, index, followers(graphs.later(original)), COSINE_SHARE, MOST, THREADS)
        return int((lists >= 0).sum())


def main(path: Path, rows: int, folder: Path) -> None:  # noqa: ARG001  (the other benches' log has no sessions)
    """A line for the split, one for each task, one for all of them, one for suggestions beside SQL."""
    from querycloak.evaluation.task import TASKS

    log = synthetic_log(folder, rows)
    made = once(prepare, log, folder)
    place = folder / f"{log.stem}-split"
    _tell(rows, "split and release", made)
    for task in (*TASKS, "all"):
        run = once(evaluated, place, Path(task))
        _tell(rows, f"evaluate, {task}", run, **run.result)
    if rows <= MOST_ROWS_IN_SQL:
        ours, theirs = once(suggested, place, folder), once(in_sql, place, folder)
        if not math.isclose(ours.result, theirs.result[0][0], rel_tol=1e-3):
            raise RuntimeError(f"{ours.result} suggestions against {theirs.result[0][0]} in SQL")
        ratio = round(ours.seconds / theirs.seconds, 2)
        _tell(rows, "suggestions", ours, sql_seconds=round(theirs.seconds, 1), ratio=ratio)


def _tell(rows: int, what: str, run: Run, **more: Any) -> None:
    facts = {
        "rows": rows,
        "bench": what,
        "seconds": round(run.seconds, 1),
        "processor_seconds": round(run.processor_seconds, 1),
        "peak_gb": round(run.gigabytes, 2),
        **more,
    }
    print(json.dumps(facts), flush=True)
