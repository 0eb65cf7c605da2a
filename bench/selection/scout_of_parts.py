"""`python -m bench.selection.scout_of_parts LOG ...`: `multi-round` with and without the scout that looks at queries.

LOG must be synthetic or public: what is printed compares releases with the log itself.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import numpy as np

from bench.selection import ours
from bench.selection.holdings import Holdings, clicks_of, sessions_of
from bench.selection_yields import STANDARD_BUDGETS
from querycloak.engines import connect
from querycloak.logs.searchlog import read
from querycloak.methods.sessions.joint_plans import BOUNDS
from querycloak.privacy.calibration.selection import PER_USER, plan_tables

TABLES = {"clicks": (clicks_of, PER_USER["multi-round"]), "sessions": (sessions_of, BOUNDS["multi-round"].sequences)}
WITHOUT_PARTS = "keys"
"""A table of this name has keys without parts, whatever the keys are."""


def released(
    held: Holdings, table: str, bound: int, budget: tuple[float, float], runs: int, seed: int
) -> Iterator[tuple[str, float, float]]:
    """Without and with the scout: how many keys came out on average, and the standard error of that."""
    for words, name in (("without", WITHOUT_PARTS), ("with", table)):
        plan = plan_tables(*budget, {name: bound}, selection="multi-round").plans[name]
        draws = (np.random.default_rng([seed, run]) for run in range(runs))
        sizes = np.array([ours.select(held, plan, draw).size for draw in draws], float)
        yield words, float(sizes.mean()), float(sizes.std(ddof=1) / np.sqrt(runs))


def main() -> None:
    """Compare and show."""
    parser = argparse.ArgumentParser(prog="python -m bench.selection.scout_of_parts", description=__doc__)
    parser.add_argument("log", nargs="+")
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for log in given.log:
        with read(log, engine=connect(threads=1, memory="4GB")) as opened:
            for table in given.table or TABLES:
                of_log, bound = TABLES[table]
                held = of_log(opened)
                for budget in STANDARD_BUDGETS:
                    for words, keys, error in released(held, table, bound, budget, given.runs, given.seed):
                        place = f"{log} {table} ({budget[0]:g}, {budget[1]:.3g})"
                        print(f"{place} {words:8}{keys:10,.1f} keys (+-{error:.1f})", flush=True)


if __name__ == "__main__":
    main()
