"""A synthetic log of AOL's size: time and memory beside DuckDB copying the same file, and AOL's figures held."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from bench.measuring import MEMORY, THREADS, Run, duckdb_connection, once
from querycloak.synthetic.aol_figures import AOL_USERS, FIGURES

USERS_PER_ROW = AOL_USERS / 36_389_567


def main(_: Path, rows: int, spill: Path) -> None:
    """Print a line for the log of so many rows; at AOL's size, also whether its figures are held."""
    users = round(rows * USERS_PER_ROW)
    made = once(_synth, spill / f"synthetic-{users}.tsv", spill)
    floor = once(_copy, spill / f"synthetic-{users}.tsv", spill)
    _tell(users, made, floor)
    if users == AOL_USERS:
        values = once(_measure, spill / f"synthetic-{users}.tsv", spill)
        held = {figure.name: figure.holds(values.result[figure.name]) for figure in FIGURES if figure.held_at(users)}
        broken = [name for name, holds in held.items() if holds is False]
        print(json.dumps({"bench": "synthetic, figures", "values": values.result, "not held": broken}))


def _tell(users: int, made: Run, floor: Run) -> None:
    facts = {
        "bench": "synthetic",
        "users": users,
        "rows": made.result,
        "seconds": round(made.seconds, 1),
        "gigabytes": round(made.gigabytes, 2),
        "duckdb copies it in": round(floor.seconds, 1),
        "ratio": round(made.seconds / floor.seconds, 2),
    }
    print(json.dumps(facts))


def _synth(path: str, _: str) -> int:
    from querycloak.synthetic.log_writer import synthesize

    Path(path).unlink(missing_ok=True)
    shutil.rmtree(f"{path}.truth", ignore_errors=True)
    return synthesize(path, round(int(path.rpartition("-")[2].removesuffix(".tsv"))), workers=THREADS).rows


def _copy(path: str, spill: str) -> None:
    copied = Path(spill) / "copied.tsv"
    source = f"read_csv('{path}', delim = '\t', header = true, all_varchar = true, quote = '')"
    duckdb_connection(spill).execute(f"COPY (FROM {source}) TO '{copied}' (delimiter '\t', header true)")
    copied.unlink()


def _measure(path: str, _: str) -> dict[str, Any]:
    from querycloak.engines import connect
    from querycloak.logs.searchlog import read
    from querycloak.synthetic.aol_figures import measure

    with read(path, engine=connect(threads=THREADS, memory=MEMORY)) as log:
        return measure(log, Path(f"{path}.truth"))
