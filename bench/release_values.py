"""`python -m bench.release_values`: every task on a release of every method, on the standard synthetic log, as a table.

`--users 5000` tries a smaller log; `--out FILE` keeps all rows.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import querycloak as qc
from bench.standard_releases import STANDARD, releases, standard_split
from querycloak.utility.evaluation_rows import Row
from querycloak.utility.profiles import Profiles
from querycloak.utility.subjects import Released
from querycloak.utility.tasks import TASKS

# What of each task stands in the table: measure, slice, readings.
SHOWN: tuple[tuple[str, str, str | None, tuple[str, ...]], ...] = (
    ("suggestion", "P@5", None, ("answered", "common", "all")),
    ("suggestion", "R@5", None, ("answered", "common", "all")),
    ("completion", "RR@10", None, ("answered", "common", "all")),
    ("retrieval-walk", "nDCG@10", None, ("answered", "common", "all")),
    ("retrieval-feedback", "nDCG@10", None, ("answered", "common", "all")),
    ("retrieval-feedback", "nDCG@10", "feedback=own (circular)", ("answered",)),
    ("retrieval-feedback", "nDCG@10", "feedback=own (circular),order=random", ("answered",)),
    ("ranking", "tau-b", None, ("answered", "common")),
    ("counts", "median_relative_error", "table=clicks", ("all",)),
    ("counts", "volume_share", "table=clicks", ("all",)),
    ("counts", "volume_share", "table=queries", ("all",)),
    ("pairs", "precision", "support=0.0005", ("all",)),
    ("pairs", "recall", "support=0.0005", ("all",)),
    ("pairs", "association_error", "support=0.0005", ("all",)),
    ("profiles", "pooled_loss", "topics=4", ("all",)),
    ("profiles", "profile_loss", "topics=4", ("all",)),
    ("loss", "ncp", None, ("all",)),
)


def table(rows: Sequence[Row]) -> str:
    """A markdown table: releases by measures, value and interval; the share of cases answered where there are cases."""
    found = {(row.release, row.task, row.measure, row.slice, row.reading): row for row in rows}
    names = list(dict.fromkeys(row.release for row in rows))
    lines = ["| task | measure | reading | " + " | ".join(names) + " |", "|---" * (len(names) + 3) + "|"]
    for task, measure, part, readings in SHOWN:
        for reading in readings:
            cells = [_cell(found.get((name, task, measure, part, reading))) for name in names]
            label = measure if part is None else f"{measure}, {part}"
            lines.append(f"| {task} | {label} | {reading} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cell(row: Row | None) -> str:
    if row is None or row.value is None:
        return "-"
    interval = "" if row.low is None or row.high is None else f" [{row.low:.3g}, {row.high:.3g}]"
    share = f" of {row.answered / row.cases:.0%}" if row.reading == "answered" and row.cases and row.answered else ""
    return f"{row.value:.3g}{interval}{share}"


def main() -> None:
    """Release, evaluate, and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.release_values", description=__doc__)
    parser.add_argument("--users", type=int, default=STANDARD.users)
    parser.add_argument("--out", type=Path)
    parser.add_argument("names", nargs="*")
    given = parser.parse_args()
    with standard_split(given.users) as sides:
        made = list(releases(sides.train, given.names))
        owners = {each.name: each.owners.rename_columns(["user", "owner"]) for each in made if each.owners is not None}
        tasks = [Profiles(owners) if name == Profiles.name else name for name in TASKS]
        began, busy = time.perf_counter(), time.process_time()
        found = qc.evaluate(sides.train, sides.test, [Released(each.name, each.release) for each in made], tasks)
        took, used = time.perf_counter() - began, time.process_time() - busy
    if given.out:
        found.save(given.out)
    sys.stdout.write(table(found.rows) + "\n")
    sys.stdout.write(f"{len(made)} releases in all tasks: {took:.0f} s, {used:.0f} s of processor time\n")


if __name__ == "__main__":
    main()
