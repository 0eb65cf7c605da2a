"""`python -m bench.stated_total LOG ... [--runs 3]`: shares of pairs by `optimal`, with a stated total and without.

Logs must be synthetic or public. For each log and `total_share`: released pairs, and precision, recall and support
distance of pairs that at least 1/1000 of all holdings are, as mean and range over runs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

import querycloak as qc
from querycloak.evaluation.tasks.pairs import output_of, precision, recall, shares, support_distance
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.optimal.holdings import of_log
from querycloak.methods.optimal.noisy_tables import pairs_in_all
from querycloak.privacy.sampling.randomness import Randomness

EPSILON, DELTA = 8.0, 1e-7
SUPPORT = 0.001
NAMES = ("pairs", "precision", "recall", "distance")


def measured(log: SearchLog, total_share: float, runs: int, bound: int | None) -> Iterator[tuple[float, ...]]:
    """Pairs, precision, recall and distance of each run."""
    holdings = of_log(log)
    every = pairs_in_all(log.engine, log.engine.stage(log.clicks.select("user", "query", "url").distinct()))
    for run in range(runs):
        method = qc.Optimal(epsilon=EPSILON, delta=DELTA, total_share=total_share, max_keys_per_user=bound)
        release = method.release(log, randomness=Randomness(run + 1))
        table = release.table("log")
        output = replace(output_of(holdings, table), total=release.parameters.get("total"))
        before, after = shares(holdings, every, output)
        values = [measure(before, after, SUPPORT) for measure in (precision, recall, support_distance)]
        pairs = table.select(["query", "url"]).group_by(["query", "url"]).aggregate([]).num_rows
        yield (pairs, *(np.nan if value is None else value for value in values))


def main(words: list[str] | None = None) -> None:
    """Print a row for each log and share."""
    parser = argparse.ArgumentParser(prog="bench.stated_total")
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--max-keys-per-user", type=int)
    given = parser.parse_args(words)
    sys.stdout.write(f"| log | total share | {' | '.join(NAMES)} |\n|---|---|{'---|' * len(NAMES)}\n")
    for path in given.logs:
        with qc.read(path) as log:
            for total_share in (0.0, 0.01):
                values = np.array(list(measured(log, total_share, given.runs, given.max_keys_per_user)))
                cells = [
                    f"{mean:.4g} [{low:.4g}, {high:.4g}]"
                    for mean, low, high in zip(values.mean(0), values.min(0), values.max(0), strict=True)
                ]
                sys.stdout.write(f"| {path} | {total_share:g} | {' | '.join(cells)} |\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
