"""`python -m bench.auto_choice NAME=LOG ... [--runs 20] [--csv FILE]`: what `auto` releases beside every fixed choice.

Logs must be synthetic or public. Each choice of selection and bound is simulated on what users hold, with the product's
own plans; `auto` pays for its choice, fixed ones pay nothing. A row says how far the mean of `auto` lies below that of
the best fixed choice, and what two standard errors of the difference are.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import NDArray

from bench.selection import ours
from bench.selection.holdings import Holdings, clicks_of, queries_of, sessions_of
from bench.selection.our_plans import fixed_plan, our_plan
from querycloak.engines import connect
from querycloak.errors import ParameterError
from querycloak.logs.searchlog import read
from querycloak.methods.keys.selection_plan import Choice, Selection

BUDGETS = ((1.0, 1e-6), (8.0, 2.25e-7))
TABLES = {"clicks": clicks_of, "queries": queries_of, "sessions": sessions_of}
BOUNDS: dict[Selection, tuple[int, ...]] = {
    "laplace": (1, 2, 4),
    "gaussian": (8, 32),
    "weighted": (16, 256),
    "multi-round": (4, 16, 64, 256),
}
FIXED = tuple(Choice(bound, selection) for selection, bounds in BOUNDS.items() for bound in bounds)
MANY_ENTRIES, FEW_RUNS = 500_000, 2
"""A log of so many entries releases so many keys that a few runs tell."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AutoRow:
    """Means over runs: keys, or the share of all entries whose key came out."""

    log: str
    table: str
    epsilon: float
    delta: float
    measure: str
    best: str
    fixed: float
    auto: float
    ratio: float
    two_errors: float
    """Two standard errors of the difference, as a share of the best."""
    runs: int


def measured(held: Holdings, table: str, budget: tuple[float, float], choice: Choice | None, runs: int) -> Floats:
    """Keys and volume of each run."""
    found = np.zeros((runs, 2))
    for run in range(runs):
        draw = np.random.default_rng([7, run])
        if choice is None:
            plan, bounded = our_plan("auto", table, held, budget, draw, counts=True)
        else:
            plan, bounded = fixed_plan(choice, table, held, budget)
        chosen = ours.select(bounded, plan, draw)
        found[run] = chosen.size, held.holders[chosen].sum() / max(held.key.size, 1)
    return found


def compared(log: str, table: str, held: Holdings, budget: tuple[float, float], runs: int) -> Iterator[AutoRow]:
    """One row for keys, one for volume."""
    runs = min(runs, FEW_RUNS) if held.key.size > MANY_ENTRIES else runs
    fixed: dict[str, Floats] = {}
    for choice in FIXED:
        try:
            fixed[str(choice)] = measured(held, table, budget, choice, runs)
        except ParameterError:
            continue  # a bound that the table does not have, or a budget too small for it
    auto = measured(held, table, budget, None, runs)
    for place, measure in enumerate(("keys", "volume")):
        best = max(fixed, key=lambda name: float(fixed[name][:, place].mean()))
        most, mean = float(fixed[best][:, place].mean()), float(auto[:, place].mean())
        errors = [each[:, place].var(ddof=1) / runs for each in (fixed[best], auto)] if runs > 1 else [0.0]
        spread = 2 * float(np.sqrt(sum(errors))) / most if most else 0.0
        yield AutoRow(log, table, *budget, measure, best, most, mean, mean / most if most else 1.0, spread, runs)


def main() -> None:
    """Compare, show, write."""
    parser = argparse.ArgumentParser(prog="python -m bench.auto_choice", description=__doc__)
    parser.add_argument("log", nargs="+", metavar="NAME=LOG")
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--first", type=int, help="only the first keys of each user, as if people came once")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    found = []
    for each in given.log:
        name, _, path = each.partition("=")
        for table in given.table or TABLES:
            with read(path, engine=connect(threads=1, memory="4GB")) as log:
                held = TABLES[table](log)
            held = held if given.first is None else held.first(given.first)
            for budget in BUDGETS:
                for row in compared(name, table, held, budget, given.runs):
                    found.append(asdict(row))
                    print(
                        f"{row.log:10}{row.table:9}({row.epsilon:g}, {row.delta:.3g}) {row.measure:7}best {row.best:12}"
                        f"{row.fixed:10,.4g}  auto {row.auto:10,.4g}  {row.ratio:6.1%} (+-{row.two_errors:.1%})",
                        flush=True,
                    )
            if given.csv is not None:
                pyarrow.csv.write_csv(pa.Table.from_pylist(found), given.csv)


if __name__ == "__main__":
    main()
