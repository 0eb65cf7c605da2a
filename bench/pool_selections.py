"""`python -m bench.pool_selections LOG ... [--runs 5]`: rows of `query-pool --off-pool` by its two selections.

Logs must be synthetic or public. Queries outside the pool, clicks and transitions of a release at (8, 2.25e-7): mean
over runs, and two standard errors.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
import pyarrow.compute as pc

import querycloak as qc
from querycloak.logs.choices import Choices
from querycloak.methods.keys.public_lists import PublicList, queries_of
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release

EPSILON, DELTA = 8.0, 2.25e-7


def rows_of(release: Release, pool: object) -> tuple[int, int, int]:
    """Queries outside the pool, clicks and transitions."""
    in_pool = pc.sum(pc.is_in(release.table("queries")["query"], value_set=pool)).as_py() or 0
    others = (release.table(name).num_rows if name in release.tables else 0 for name in ("clicks", "transitions"))
    return (release.table("queries").num_rows - in_pool, *others)


def main(words: list[str] | None = None) -> None:
    """Print a row for each log and selection."""
    parser = argparse.ArgumentParser(prog="bench.pool_selections")
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    pool = queries_of(PublicList.of("pool", None), Choices())
    sys.stdout.write("| log | selection | queries outside the pool | clicks | transitions |\n|---|---|---|---|---|\n")
    for path in given.logs:
        with qc.read(path) as log:
            for selection in ("laplace", "multi-round"):
                method = qc.QueryPool(epsilon=EPSILON, delta=DELTA, off_pool=True, selection=selection)
                values = np.array(
                    [rows_of(method.release(log, randomness=Randomness(run + 1)), pool) for run in range(given.runs)]
                )
                errors = 2 * values.std(0, ddof=1) / np.sqrt(given.runs) if given.runs > 1 else np.zeros(3)
                cells = [f"{mean:.1f} ± {error:.1f}" for mean, error in zip(values.mean(0), errors, strict=True)]
                sys.stdout.write(f"| {path} | {selection} | {' | '.join(cells)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
