"""`python -m bench [--rows N ...] [--folder DIR] [--only BENCH]`: every bench, one line of JSON each."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from bench import (
    affinity,
    aol_shaped,
    bounds,
    composing,
    counts,
    evaluation,
    json_reading,
    peers,
    pool,
    reading,
    releasing,
    semantic,
    sessions,
    synthetic,
)

_ALL = (
    reading,
    json_reading,
    releasing,
    sessions,
    pool,
    bounds,
    composing,
    peers,
    synthetic,
    affinity,
    semantic,
    counts,
    evaluation,
)
BENCHES = {bench.__name__.rpartition(".")[2]: bench for bench in _ALL}
OWN_LOGS = ("affinity", "counts", "evaluation", "synthetic")
"""Benches that make their logs themselves."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 6_000_000, aol_shaped.ROWS])
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "querycloak-bench")
    parser.add_argument("--only", choices=sorted(BENCHES))
    given = parser.parse_args()
    given.folder.mkdir(mode=0o700, exist_ok=True)
    for rows in given.rows:
        path = given.folder / f"aol-shaped-{rows}.tsv"
        if given.only not in OWN_LOGS and not path.exists():
            aol_shaped.write_log(path, rows)
        for name, bench in BENCHES.items():
            if given.only in (None, name):
                bench.main(path, rows, given.folder)


if __name__ == "__main__":
    main()
