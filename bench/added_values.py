"""`python -m bench.added_values`: what releases add to no data, on the standard synthetic log, at three budgets.

`--csv docs/tables/added-standard.csv` keeps what docs/evaluation.md shows; `scripts/make_evaluation_page.py` puts it
there. `--users 5000` tries a smaller log.
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
from querycloak.evaluation.task_registry import TASKS
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


def released(train: SearchLog) -> Iterator[Target]:
    """A release of each method at each budget, named as in `clicks, 8`."""
    for epsilon, delta in BUDGETS:
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
    began, busy = time.perf_counter(), time.process_time()
    with standard_split(given.users) as sides:
        targets = []
        for target in released(sides.train):
            targets.append(target)
            _tell(f"{target.name} is released", 0.0)
        tasks = [name for name in TASKS if name != WITHOUT_VIEWS]
        rows = qc.evaluate(sides.train, sides.test, targets, tasks, on_step=_tell).rows
    write_csv(shown(rows), given.csv)
    took, used = time.perf_counter() - began, time.process_time() - busy
    sys.stdout.write(f"{len(targets)} releases in {len(tasks)} tasks: {took:.0f} s, {used:.0f} s of processor time\n")


if __name__ == "__main__":
    main()
