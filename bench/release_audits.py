"""`make audit`: every attack on a release of every method, on the standard synthetic log; a line for each.

The short version of this is in the tests. `python -m bench.release_audits --users 5000` tries a smaller log.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import querycloak as qc
from querycloak.audits.attacked import Attacked
from querycloak.audits.owners import owners_under_seed
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method
from querycloak.privacy.chance.randomness import Randomness
from querycloak.synthetic.presets import PRESETS

STANDARD = PRESETS["standard"]
EPSILON, DELTA, FEW, SEED = 8.0, 1e-6, 5, 1
METHODS: dict[str, Method] = {
    "clicks": qc.Clicks(epsilon=EPSILON, delta=DELTA),
    "clicks, epsilon 1": qc.Clicks(epsilon=1.0, delta=DELTA),
    "clicks, laplace 1": qc.Clicks(epsilon=1.0, delta=DELTA, selection="laplace", per_user=1),
    "sessions": qc.Sessions(epsilon=EPSILON, delta=DELTA),
    "sessions, epsilon 3": qc.Sessions(epsilon=3.0, delta=DELTA),
    "query-pool": qc.QueryPool(epsilon=EPSILON),
    "optimal": qc.Optimal(epsilon=EPSILON, delta=DELTA),
    "semantic": qc.Semantic(epsilon=EPSILON),
    "affinity, w 2": qc.Affinity(min_users=FEW, min_word_users=2),
    "affinity, w k": qc.Affinity(min_users=FEW, min_word_users=FEW),
    "generalize": qc.Generalize(min_users=FEW),
}


def releases(log: SearchLog) -> Iterator[Attacked]:
    """A release of each method, from a known seed: whose row is whose is known, and nothing is published."""
    for name, method in METHODS.items():
        release = method.release(log, randomness=Randomness(SEED))
        owners = owners_under_seed(release, log, SEED)
        yield Attacked.of(release, name, owners=owners)


def line(row: dict[str, Any]) -> str:
    """One row, as it is read by people."""
    numbers = " ".join("     -" if row[n] is None else f"{row[n]:.4f}" for n in ("main", "control", "baseline", "risk"))
    return f"{row['release']:20} {row['attack']:15} {numbers}  {row['setting'] or ''}  {row['why'] or ''}".rstrip()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.release_audits", description=__doc__)
    parser.add_argument("--users", type=int, default=STANDARD.users)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        qc.synthesize(place / "log.parquet", given.users, seed=STANDARD.seed)
        with qc.read(place / "log.parquet") as whole:
            sides = qc.split(whole, place / "split", by="user")
        engine = qc.connect("duckdb")
        train, test = (qc.read(side, engine=engine) for side in (sides.train, sides.test))
        attacked = list(releases(train))
        began = time.perf_counter()
        found = qc.audit_release(train, attacked, control=test, truth=place / "log.parquet.truth")
        took = time.perf_counter() - began
        engine.close()
    print("\n".join(map(line, found.rows)))
    print(f"{len(attacked)} releases and three baselines attacked in {took:.0f} s")
    print("\n".join(found.alarms), file=sys.stderr)
    sys.exit(4 if found.alarms else 0)


if __name__ == "__main__":
    main()
