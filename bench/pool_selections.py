"""`python -m bench.pool_selections LOG ... [--runs 5]`: rows of `query-pool --off-pool` by its two selections.

Logs must be synthetic or public. Queries of the pool and outside it, clicks and transitions of a release: mean over
runs, and two standard errors.
"""

from __future__ import annotations

import argparse
import math
import sys
from itertools import product
from typing import Literal

import numpy as np
import pyarrow.compute as pc

import querycloak as qc
from querycloak.logs.choices import Choices
from querycloak.methods.keys.public_lists import PublicList, queries_of
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.release import Release

BUDGETS = {"1, 1e-6": (1.0, 1e-6), "3, e^-10": (3.0, math.exp(-10)), "8, 2.25e-7": (8.0, 2.25e-7)}
SELECTIONS: tuple[Literal["laplace", "multi-round"], ...] = ("laplace", "multi-round")


def rows_of(release: Release, pool: object) -> tuple[int, int, int, int]:
    """Queries of the pool and outside it, clicks and transitions."""
    in_pool = pc.sum(pc.is_in(release.table("queries")["query"], value_set=pool)).as_py() or 0
    others = (release.table(name).num_rows if name in release.tables else 0 for name in ("clicks", "transitions"))
    return in_pool, release.table("queries").num_rows - in_pool, *others


def main(words: list[str] | None = None) -> None:
    """Print a row for each log and selection."""
    parser = argparse.ArgumentParser(prog="bench.pool_selections")
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    pool = queries_of(PublicList.of("pool", None), Choices())
    sys.stdout.write("| log | budget | selection | queries of the pool | other queries | clicks | transitions |\n")
    sys.stdout.write("|---|---|---|---|---|---|---|\n")
    for path in given.logs:
        with qc.read(path) as log:
            for (budget, (epsilon, delta)), selection in product(BUDGETS.items(), SELECTIONS):
                method = qc.QueryPool(epsilon=epsilon, delta=delta, off_pool=True, selection=selection)
                values = np.array(
                    [rows_of(method.release(log, randomness=Randomness(run + 1)), pool) for run in range(given.runs)]
                )
                errors = 2 * values.std(0, ddof=1) / np.sqrt(given.runs) if given.runs > 1 else np.zeros(4)
                cells = [f"{mean:.1f} ± {error:.1f}" for mean, error in zip(values.mean(0), errors, strict=True)]
                sys.stdout.write(f"| {path} | {budget} | {selection} | {' | '.join(cells)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
