"""`python -m bench.selection.released LOG --table clicks`: keys and covered volume of seeded releases of the product.

Covered volume is one minus the missing mass: the share of (user, key) entries whose key came out. LOG must be synthetic
or public: what is printed compares releases with the log itself.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.selection_yields import STANDARD_BUDGETS
from querycloak.engines import connect
from querycloak.logs.searchlog import SearchLog, read
from querycloak.methods.clicks.method import Clicks
from querycloak.methods.queries.method import Queries
from querycloak.privacy.sampling.randomness import Randomness

TABLES = {"clicks": Clicks, "queries": Queries}
FIRST_SEED = 100


class Measured(NamedTuple):
    """A mean, and twice its standard error."""

    mean: float
    margin: float

    @classmethod
    def of(cls, values: list[float]) -> Measured:
        """Over at least two runs."""
        return cls(float(np.mean(values)), 2 * float(np.std(values, ddof=1)) / math.sqrt(len(values)))


def measured(log: SearchLog, table: str, selection: str, runs: int) -> Iterator[tuple[float, Measured, Measured]]:
    """Epsilon, number of keys, and covered volume in percent, for each standard budget."""
    every, engine = TABLES[table](epsilon=8, delta=1e-6, selection="weighted"), log.engine
    key = list(every.keys[table])
    contributions = every.contributions(log)[table]
    holders = engine.stage(contributions.group_by(key).agg(n=contributions.count()))
    entries = engine.fetch(holders.aggregate(n=holders.n.sum()))["n"][0].as_py()
    for epsilon, delta in STANDARD_BUDGETS:
        method = TABLES[table](epsilon=epsilon, delta=delta, selection=selection)
        keys, volumes = [], []
        for seed in range(FIRST_SEED, FIRST_SEED + runs):
            released = method.release(log, randomness=Randomness(seed=seed)).table(table)
            if not isinstance(released, pa.Table):
                raise TypeError("a table that fits memory is expected")
            joined = holders.inner_join(engine.upload(released.select(key)), key)
            covered = engine.fetch(joined.aggregate(n=joined.n.sum()))["n"][0].as_py() or 0
            keys.append(float(released.num_rows))
            volumes.append(100 * covered / entries)
        yield epsilon, Measured.of(keys), Measured.of(volumes)


def main() -> None:
    """Release, compare and show."""
    parser = argparse.ArgumentParser(prog="python -m bench.selection.released", description=__doc__)
    parser.add_argument("log", nargs="+")
    parser.add_argument("--table", choices=TABLES, action="append")
    parser.add_argument("--selection", default="multi-round")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    for path in given.log:
        with read(path, engine=connect(threads=1, memory="3GB")) as log:
            for table in given.table or TABLES:
                for epsilon, keys, volume in measured(log, table, given.selection, given.runs):
                    counts = f"{keys.mean:,.1f} ± {keys.margin:.1f} keys"
                    print(f"{path} {table} epsilon {epsilon:g}: {counts}; {volume.mean:.2f} ± {volume.margin:.2f} %")


if __name__ == "__main__":
    main()
