"""`python -m bench.yields LOG [--table clicks] [--csv FILE]`: what each selection releases, beside the paper's variant.

LOG must be synthetic or public: what is printed compares releases with the log itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pyarrow.csv

from bench.selection_yields import TABLES, TRIED, Yield, yields
from querycloak.engines import connect
from querycloak.logs.searchlog import read


def show(row: Yield) -> None:
    times = f"{row.factor:6.1f} x" if row.factor is not None else " " * 8
    print(
        f"{row.table:9}({row.epsilon:g}, {row.delta:.3g})  {row.selection:24}{row.keys:8,} keys {times}"
        f"  volume {row.volume:6.2%}  error {row.median_error:6.1f} ({row.median_relative_error:.0%})",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.yields", description=__doc__)
    parser.add_argument("log")
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--tried", choices=TRIED, action="append")
    parser.add_argument("--csv", type=Path)
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    with read(given.log, engine=connect(threads=given.threads, memory="2GB")) as log:
        found = yields(log, tables=given.table or TABLES, tried=given.tried or tuple(TRIED), on_row=show)
    if given.csv is not None:
        pyarrow.csv.write_csv(found, given.csv)


if __name__ == "__main__":
    main()
