"""`python -m bench.made_up_logs [--users N] [--epsilon E] [--out FILE]`: made-up logs beside others and the original.

Prints, for each budget, distances of shapes (total variation) and tasks of `evaluate`; docs/synthetic-release.md has
the figures. The log is a synthetic one: what is printed compares releases with it.
"""

from __future__ import annotations

import argparse
import json
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import querycloak as qc

BUDGETS = ((1, 1e-6), (3, math.exp(-10)), (8, 1e-6))
TASKS = (
    "language", "completion", "suggestion", "retrieval-walk", "retrieval-feedback", "ranking", "counts", "pairs",
    "profiles",
)  # fmt: skip
KEPT = {
    ("language", "bits_per_query", None), ("language", "expressible", None), ("completion", "RR@10", None),
    ("completion", "Success@10", None), ("suggestion", "R@5", None), ("retrieval-feedback", "nDCG@10", None),
    ("ranking", "tau-b", None), ("counts", "volume_share", "table=queries"), ("counts", "volume_share", "table=clicks"),
    ("pairs", "recall", "support=0.0005"), ("retrieval-walk", "nDCG@10", None),
}  # fmt: skip
GAP = 30 * 60


def shapes(rows: pa.Table) -> dict[str, np.ndarray[Any, Any]]:
    """Shares of searches per session, hours of the week, clicks per search, ranks and words of a log's rows."""
    rows = rows.sort_by([("user", "ascending"), ("time", "ascending"), ("query", "ascending")])
    user = rows["user"].combine_chunks().dictionary_encode().indices.to_numpy()
    query = rows["query"].combine_chunks().dictionary_encode().indices.to_numpy()
    time_of = rows["time"].cast(pa.int64()).to_numpy() // 10**6
    begins = np.append(True, (user[1:] != user[:-1]) | (time_of[1:] != time_of[:-1]) | (query[1:] != query[:-1]))
    clicked = pc.is_valid(rows["url"]).to_numpy()
    first = np.flatnonzero(begins)
    clicks = np.add.reduceat(clicked.astype(np.int64), first)
    pause = np.append(10**9, np.diff(time_of[first]))
    starts = np.append(True, user[first][1:] != user[first][:-1]) | (pause > GAP)
    lengths = np.diff(np.append(np.flatnonzero(starts), first.size))
    hours = (time_of[first][starts] // 3600 + 72) % 168
    words = pc.add(pc.count_substring(rows["query"], " "), 1).to_numpy()[first]
    ranks = rows["rank"].filter(pc.is_valid(rows["rank"])).to_numpy()
    sessions = np.bincount(user[first][starts])
    return {
        "sessions per user": _shares(np.minimum(np.log2(sessions).astype(np.int64), 9), 10),
        "searches per session": _shares(np.minimum(lengths, 12), 13),
        "hour of the week": _shares(hours, 168),
        "clicks per search": _shares(np.minimum(clicks, 4), 5),
        "rank": _shares(np.minimum(ranks, 21), 22),
        "words per query": _shares(np.minimum(words, 10), 11),
    }


def _shares(numbers: np.ndarray[Any, Any], cells: int) -> np.ndarray[Any, Any]:
    return np.bincount(numbers, minlength=cells)[:cells] / max(1, numbers.size)


def figures(users: int, budgets: Sequence[tuple[float, float]], folder: Path) -> dict[str, Any]:
    """All figures of a log of this many users."""
    qc.synthesize(folder / "log.parquet", users=users)
    with qc.read(folder / "log.parquet") as log:
        qc.split(log, folder / "split", by="user")
    train, test = (folder / "split" / f"{side}.parquet" for side in ("train", "test"))
    true = shapes(pq.read_table(train, columns=["user", "time", "query", "rank", "url"]))
    releases: dict[str, Path] = {}
    made: dict[str, Any] = {"users": users, "shapes": {}, "seconds": {}, "rows": {}, "tasks": []}
    for epsilon, delta in budgets:
        for method in (qc.Synthetic, qc.Optimal, qc.Queries):
            name = f"{method.name} {epsilon}"
            began = time.monotonic()
            with qc.read(train) as log:
                method(epsilon=epsilon, delta=delta).release(log).save(folder / name)
            made["seconds"][name] = round(time.monotonic() - began, 1)
            releases[name] = folder / name
            print(name, made["seconds"][name], flush=True)
        rows = pq.read_table(folder / f"synthetic {epsilon}" / "log.parquet")
        mine = shapes(rows)
        made["rows"][str(epsilon)] = rows.num_rows
        made["shapes"][str(epsilon)] = {each: round(float(abs(mine[each] - true[each]).sum() / 2), 4) for each in true}
        print(json.dumps(made["shapes"][str(epsilon)]), flush=True)
    rows = qc.evaluate(train, test, releases, list(TASKS)).rows
    for row in rows:
        kept = (row.task, row.measure, row.slice) in KEPT or row.measure == "pooled_loss"
        if kept and row.reading == "all":
            made["tasks"].append([row.release, row.task, row.measure, row.slice, row.value, row.why])
    return made


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.made_up_logs", description=__doc__)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--epsilon", type=float, help="one budget of the three; all if not given")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    budgets = [budget for budget in BUDGETS if given.epsilon in (None, budget[0])]
    with tempfile.TemporaryDirectory() as folder:
        made = figures(given.users, budgets, Path(folder))
    text = json.dumps(made, indent=1)
    if given.out is not None:
        given.out.write_text(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
