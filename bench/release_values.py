"""`python -m bench.release_values`: every task on a release of every method, on the standard synthetic log.

`--csv docs/tables/values-standard.csv` keeps what docs/evaluation.md shows; `scripts/make_evaluation_page.py` puts it
there. `--users 5000` tries a smaller log; `--out FILE` keeps all rows; names choose among the releases.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

import querycloak as qc
from bench.standard_releases import STANDARD, releases, standard_split
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import TASKS
from querycloak.evaluation.tasks.profiles import Profiles

ONE_BUDGET = ("clicks", "queries", "sessions", "query-pool", "optimal", "semantic", "affinity, w k", "generalize")
"""One release of every method; k-anonymity and the original stand beside them anyway."""
# What of each task is kept: measure, slice.
SHOWN: tuple[tuple[str, str, str | None], ...] = (
    ("suggestion", "P@5", None),
    ("suggestion", "R@5", None),
    ("completion", "RR@10", None),
    ("retrieval-walk", "nDCG@10", None),
    ("retrieval-walk", "AP", None),
    ("retrieval-feedback", "nDCG@10", None),
    ("retrieval-feedback", "nDCG@10", "feedback=none"),
    ("retrieval-feedback", "nDCG@10", "feedback=own (circular)"),
    ("retrieval-feedback", "nDCG@10", "feedback=own (circular),order=random"),
    ("ranking", "tau-b", None),
    ("counts", "key_share", "table=clicks"),
    ("counts", "volume_share", "table=clicks"),
    ("counts", "bias", "table=clicks"),
    ("counts", "median_relative_error", "table=clicks"),
    ("counts", "volume_share", "table=queries"),
    ("counts", "bias", "table=queries"),
    ("counts", "median_relative_error", "table=queries"),
    ("pairs", "precision", "support=0.0005"),
    ("pairs", "recall", "support=0.0005"),
    ("pairs", "support_distance", "support=0.0005"),
    ("pairs", "diversity", None),
    ("pairs", "association_error", "support=0.0005"),
    ("profiles", "pooled_loss", "topics=4"),
    ("profiles", "pooled_loss_on_topics", "topics=4"),
    ("profiles", "profile_loss", "topics=4"),
    ("loss", "ncp", None),
    ("loss", "share_released", None),
)


def shown(rows: Iterable[Row]) -> list[Row]:
    """The rows to keep: these measures in all readings, and the intervals of their differences."""
    kept = {(task, measure, each) for task, measure, part in SHOWN for each in (part, _difference(part))}
    refused = {(task, measure, None) for task, measure, _ in SHOWN}  # a task that a release cannot do has no slices
    return [row for row in rows if (row.task, row.measure, row.slice) in kept | refused]


def _difference(part: str | None) -> str:
    return "difference" if part is None else f"{part},difference"


def write_csv(rows: Sequence[Row], path: Path) -> None:
    """Four digits of each value: more would change with every machine."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [name for name in asdict(rows[0]) if name != "digest"], extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow({key: f"{v:.4g}" if isinstance(v, float) else v for key, v in asdict(row).items()})


def _tell(step: str, _: float) -> None:
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {step}\n")


def main() -> None:
    """Release, evaluate, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.release_values", description=__doc__)
    parser.add_argument("--users", type=int, default=STANDARD.users)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--csv", type=Path)
    parser.add_argument("names", nargs="*", default=ONE_BUDGET)
    given = parser.parse_args()
    with standard_split(given.users) as sides:
        made = []
        for each in releases(sides.train, given.names):
            made.append(each)
            _tell(f"{each.name} is released", 0.0)
        owners = {each.name: each.owners.rename_columns(["user", "owner"]) for each in made if each.owners is not None}
        tasks = [Profiles(owners) if name == Profiles.name else name for name in TASKS]
        began, busy = time.perf_counter(), time.process_time()
        released = [Target.of(each.release, each.name) for each in made]
        found = qc.evaluate(sides.train, sides.test, released, tasks, on_step=_tell)
        took, used = time.perf_counter() - began, time.process_time() - busy
    if given.out:
        found.save(given.out)
    if given.csv:
        write_csv(shown(found.rows), given.csv)
    sys.stdout.write(f"{len(made)} releases in all tasks: {took:.0f} s, {used:.0f} s of processor time\n")


if __name__ == "__main__":
    main()
