"""`release affinity` on a synthetic log of the same size, step by step (its join beside another tool: peers.py)."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from bench.measuring import MEMORY, THREADS, once
from bench.synthetic import USERS_PER_ROW

MIN_USERS, THETAS = 10, (0.9, 0.8)
BOUNDED = 50
FULL_CURVE = 2_000_000  # vertices; beyond, every degree up to 1,000 at 0.8 takes longer than anybody waits
MOST = 1000  # the highest degree that figures ask for


def synthetic_log(folder: Path, rows: int) -> Path:
    """A log of about so many rows."""
    from querycloak.synthetic.log_writer import synthesize

    users = round(rows * USERS_PER_ROW)
    path = folder / f"synthetic-{users}.tsv"
    if not path.exists():
        synthesize(path, users, truth=False, workers=THREADS)
    return path


def our_steps(path: str, _: str) -> Any:
    """Every step of a release, and all degrees up to 1,000."""
    from querycloak.engines import connect
    from querycloak.errors import ResourceError
    from querycloak.logs.searchlog import read
    from querycloak.methods.affinity.cores import Cores
    from querycloak.methods.affinity.expansion import expand
    from querycloak.methods.affinity.ngram_concepts import mine_concepts
    from querycloak.methods.distinct_queries import sorted_uses, uses_of

    seconds: dict[str, float] = {}
    start = time.perf_counter()

    def lap(step: str) -> None:
        nonlocal start
        now = time.perf_counter()
        seconds[step] = round(now - start, 1)
        start = now

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        uses = uses_of(log)
        lap("reading")
        concepts = mine_concepts(log.engine, uses, 0.0001, 2)
        lap("concepts")
        expanded = expand(log.engine.stream(sorted_uses(uses)), concepts)
        lap("expansion")
    released = {}
    for theta in THETAS:
        for most in (MIN_USERS, MOST):
            if (theta, most) == (0.8, MOST) and len(expanded.concepts) > FULL_CURVE:
                continue
            step = f"degrees up to {most} at {theta}"
            try:
                cores = Cores.of(expanded, concepts.weights, int(theta * 10**6), most, threads=THREADS)
            except ResourceError:  # more neighbours than may be listed: a release would be told to bound them
                lap(f"{step}, refused")
                cores = Cores.of(
                    expanded, concepts.weights, int(theta * 10**6), most, threads=THREADS, max_neighbours=BOUNDED
                )
                step = f"{step}, at most {BOUNDED} neighbours"
            degrees = cores.of_queries(expanded)
            lap(step)
            released[step] = int((degrees >= MIN_USERS).sum())
            sys.stderr.write(f"{seconds}\n")
    return {
        "distinct": len(expanded.vertex),
        "expandable": int((expanded.vertex >= 0).sum()),
        "vertices": len(expanded.concepts),
        "concepts": len(concepts),
        "plainly_released": int((expanded.own_users >= MIN_USERS).sum()),
        "released": released,
        "seconds": seconds,
    }


def main(path: Path, rows: int, folder: Path) -> None:  # noqa: ARG001  (the other benches' log has no phrases)
    """One line of JSON."""
    log = synthetic_log(folder, rows)
    run = once(our_steps, log, folder)
    report = {"rows": rows, "bench": "affinity", "peak_gb": round(run.gigabytes, 2), **run.result}
    print(json.dumps(report), flush=True)
