"""`python -m bench.added_values`: what releases add to no data, on the standard synthetic log, at three budgets.

`--csv docs/tables/added-standard.csv` keeps what docs/evaluation.md shows; `scripts/make_evaluation_page.py` puts it
there. Releases of the last budget do all tasks, the others the quick ones. `--users 5000` tries a smaller log.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import querycloak as qc
from bench.standard_releases import SEED, STANDARD, standard_split
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import TASKS
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import Method
from querycloak.privacy.sampling.randomness import Randomness

BUDGETS = ((1.0, 1e-6), (3.0, math.exp(-10)), (8.0, 2.25e-7))
METHODS: dict[str, Callable[..., Method]] = {
    "queries": qc.Queries, "clicks": qc.Clicks, "sessions": qc.Sessions, "optimal": qc.Optimal,
    "query-pool": qc.QueryPool, "phrases": qc.Phrases,
}  # fmt: skip
WITHOUT_VIEWS = "click-model"
"""The log does not say which results were shown, so this task has no value on it."""
QUICK_TASKS = ("completion", "retrieval-feedback", "ranking", "counts", "pairs")
"""Tasks of the smaller budgets: together they take a fifth of the time of all."""
# What of each task is kept: measure, slice.
SHOWN: tuple[tuple[str, str, str | None], ...] = (
    ("suggestion", "R@5", None),
    ("completion", "RR@10", None),
    ("language", "bits_per_query", None),
    ("language", "expressible", None),
    ("retrieval-walk", "nDCG@10", None),
    ("retrieval-feedback", "nDCG@10", None),
    ("ranking", "tau-b", None),
    ("counts", "volume_share", "table=queries"),
    ("counts", "volume_share", "table=clicks"),
    ("pairs", "recall", "support=0.0005"),
    ("profiles", "pooled_loss_on_topics", "topics=19"),
    ("loss", "ncp", None),
)
COLUMNS = ("release", "task", "measure", "slice", "value", "low", "high", "cases", "answered")


def released(train: SearchLog, budgets: Sequence[tuple[float, float]]) -> Iterator[Target]:
    """A release of each method at each of these budgets, named as in `clicks, 8`."""
    for epsilon, delta in budgets:
        for name, method in METHODS.items():
            yield Target.of(
                method(epsilon=epsilon, delta=delta).release(train, randomness=Randomness(SEED)), f"{name}, {epsilon:g}"
            )


def shown(rows: Iterable[Row]) -> list[Row]:
    """The rows to keep: these measures over all cases."""
    return [row for row in rows if (row.task, row.measure, row.slice) in SHOWN and row.reading == "all"]


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Four digits of each value; empty if a release cannot do the task."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for row in rows:
            values = [getattr(row, name) for name in COLUMNS]
            writer.writerow([f"{value:.4g}" if isinstance(value, float) else value for value in values])


def _tell(step: str, _: float) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {time.process_time():.0f} s: {step}\n")


def main() -> None:
    """Release, evaluate, and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.added_values", description=__doc__)
    parser.add_argument("--users", type=int, default=STANDARD.users)
    parser.add_argument("--csv", type=Path, required=True)
    given = parser.parse_args()
    began, rows = time.perf_counter(), list[Row]()
    plan = ((BUDGETS[-1:], [name for name in TASKS if name != WITHOUT_VIEWS]), (BUDGETS[:-1], list(QUICK_TASKS)))
    with standard_split(given.users) as sides:
        for budgets, tasks in plan:
            targets = []
            for target in released(sides.train, budgets):
                targets.append(target)
                _tell(f"{target.name} is released", 0.0)
            made = qc.evaluate(sides.train, sides.test, targets, tasks, on_step=_tell).rows
            names = {target.name for target in targets}
            first = not rows  # the original, k-anonymity and no data once
            rows += [row for row in shown(made) if first or row.release in names]
            write_csv(rows, given.csv)
    took, used = time.perf_counter() - began, time.process_time()
    sys.stdout.write(f"{given.users:,} users: {took:.0f} s, {used:.0f} s of processor time\n")


if __name__ == "__main__":
    main()
