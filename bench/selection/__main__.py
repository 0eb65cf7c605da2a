"""`python -m bench.selection [--log LOG] [--glosses DIR] [--csv FILE]`: the field beside our selections.

LOG must be synthetic or public (the standard log is made if none is given): what is printed compares releases with
the log itself. DIR holds WordNet's files (Debian's wordnet-base): its definitions are a public text collection.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv

import querycloak as qc
from bench.selection.field import Row, rows
from bench.selection.holdings import Holdings, clicks_of, glosses_of, sessions_of
from bench.selection_yields import STANDARD_BUDGETS
from querycloak.engines import connect
from querycloak.logs.searchlog import read
from querycloak.synthetic.log_writer import PRESETS

COLLECTIONS = {"clicks": clicks_of, "sessions": sessions_of}


def collections(given: argparse.Namespace) -> Iterator[tuple[str, str, Holdings]]:
    """Name, table and holdings of everything that is compared."""
    for log in given.log:
        with read(log, engine=connect(threads=1, memory="4GB")) as opened:
            for table in given.table or COLLECTIONS:
                yield Path(log).name.split(".")[0], table, COLLECTIONS[table](opened)
    if given.glosses is not None:
        yield "glosses", "words", glosses_of(given.glosses)


def show(row: Row, seconds: float) -> None:
    """One line."""
    print(
        f"{row.log:10}{row.table:9}({row.epsilon:g}, {row.delta:.3g})  {row.algorithm:22}{row.keys:10,.1f} keys"
        f" (+-{row.error:.1f})  volume {row.volume:7.3%}  {seconds:5.1f} s  {row.parameters}",
        flush=True,
    )


def main() -> None:
    """Compare, show, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.selection", description=__doc__)
    parser.add_argument("--log", action="append", default=[])
    parser.add_argument("--table", choices=COLLECTIONS, action="append")
    parser.add_argument("--glosses", type=Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--ours", action="store_true", help="ours and the limit alone; other rows of the file stay")
    given = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        if not given.log and given.glosses is None:
            given.log = [standard_log(Path(folder))]
        for name, table, held in collections(given):
            print(f"{name} {table}: {held.users:,} users, {held.keys:,} keys, {held.key.size:,} entries", flush=True)
            last = time.perf_counter()
            for row in rows(name, table, held, STANDARD_BUDGETS, given.runs, given.seed, ours_only=given.ours):
                show(row, time.perf_counter() - last)
                last = time.perf_counter()
                found.append(asdict(row))
    if given.csv is not None:
        pyarrow.csv.write_csv(pa.Table.from_pylist(_with_others(found, given.csv) if given.ours else found), given.csv)


def _with_others(found: list[dict[str, Any]], path: Path) -> list[dict[str, Any]]:
    """The rows of the file that were not measured anew, and then those that were, budget by budget."""
    anew = {_place(row) for row in found}
    kept = [row for row in pyarrow.csv.read_csv(path).to_pylist() if _place(row) not in anew]
    columns = dict.fromkeys(name for row in [*kept, *found] for name in row)
    rows = [{name: row.get(name) for name in columns} for row in [*kept, *found]]
    return sorted(rows, key=lambda row: (row["table"], row["epsilon"]))


def _place(row: dict[str, Any]) -> tuple[object, ...]:
    return row["table"], row["epsilon"], row["delta"], row["algorithm"]


def standard_log(folder: Path) -> str:
    """The standard synthetic log, made anew."""
    path = folder / "standard.parquet"
    qc.synthesize(path, PRESETS["standard"].users, seed=PRESETS["standard"].seed)
    return str(path)


if __name__ == "__main__":
    main()
