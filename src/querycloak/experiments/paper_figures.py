"""`python -m querycloak.experiments.paper_figures PAPER LOG`: a paper's tables and figures for a log as JSON.

Everything in it is computed from the log without noise: private output, unless the log is synthetic or public.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from querycloak.errors import QuerycloakError
from querycloak.logs.searchlog import SearchLog, read

BOUNDS = (1, 2, 5, 10, 20, 50, 100)


def affinity(log: SearchLog, truth: Path) -> dict[str, Any]:
    """Figures 5 to 7 and Table 4 of Carpineto and Romano; without the truth, those that need no labels."""
    from querycloak.experiments.affinity_figures import affinity_figures

    labels = truth / "sensitive.parquet"
    return affinity_figures(log, sensitive=pq.read_table(labels) if labels.exists() else None).to_json()


def semantic(log: SearchLog, _: Path) -> dict[str, Any]:
    """Figures 2 to 4 of Sanchez et al., both readings of the budget, and what fewer queries per user give."""
    from querycloak.experiments.semantic_figures import fewer_queries, points, profiled_users

    people = profiled_users(log)
    return {
        "private": True,
        "users": len(people.concepts),
        "points": [point.to_json() for point in points(people)],
        "fewer_queries": [asdict(each) for each in fewer_queries(people, 10.0, BOUNDS)],
    }


def optimal(log: SearchLog, _: Path) -> dict[str, Any]:
    """Tables 4 to 7 and figures 3 to 6 of Hong et al.: printed, possible, reached."""
    from querycloak.experiments.optimal_tables import OptimalTables
    from querycloak.methods.optimal.paper.holdings import of_log
    from querycloak.privacy.chance.randomness import Randomness

    return {"private": True, **OptimalTables(of_log(log)).all(Randomness())}


PAPERS: Mapping[str, Callable[[SearchLog, Path], dict[str, Any]]] = {
    "affinity": affinity,
    "semantic": semantic,
    "optimal": optimal,
}


def main(arguments: list[str] | None = None) -> int:
    """Print the document; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m querycloak.experiments.paper_figures", description=__doc__)
    parser.add_argument("paper", choices=PAPERS)
    parser.add_argument("log", type=Path)
    given = parser.parse_args(arguments)
    try:
        with read(given.log) as log:
            found = PAPERS[given.paper](log, Path(f"{given.log}.truth"))
    except QuerycloakError as error:
        sys.stderr.write(f"querycloak: {error}\n")
        return error.exit_code
    json.dump(found, sys.stdout, indent=1)
    sys.stdout.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
