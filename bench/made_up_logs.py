"""`python -m bench.made_up_logs --csv FILE [--users N] [--seed S] ...`: made-up logs beside others and the original.

For each budget: total variation of shapes, and tasks of `evaluate` on held-out users. Figures are kept in the file as
they come, so an interrupted study goes on where it stopped. docs/synthetic-release.md has the figures, by
`python scripts/make_synthetic_release_page.py`. The log is a synthetic one: the figures compare releases with it.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import querycloak as qc
from bench.figure_file import FigureFile, Row
from bench.study_logs import judging_part
from querycloak.logs.searchlog import SearchLog

BUDGETS = ((1, 1e-6), (3, math.exp(-10)), (8, 1e-6))
FIGURES = {
    ("language", "bits_per_query", None): "bits per query",
    ("language", "expressible", None): "expressible queries",
    ("completion", "RR@10", None): "completion RR@10",
    ("completion", "Success@10", None): "completion Success@10",
    ("suggestion", "R@5", None): "suggestion R@5",
    ("retrieval-walk", "nDCG@10", None): "retrieval nDCG@10",
    ("ranking", "tau-b", None): "ranking tau-b",
    ("counts", "volume_share", "table=queries"): "volume of queries",
    ("counts", "volume_share", "table=clicks"): "volume of clicks",
    ("pairs", "recall", "support=0.0005"): "frequent pairs, recall",
    ("pairs", "share_recall", "support=0.001"): "pairs of a thousandth, recall",
}
"""Figures by task, measure and slice; those of the reading `all`."""
READ_APART = ("retrieval nDCG@10", "ranking tau-b")
"""Figures that cases without an answer decide: also of the cases answered, beside the original on the same cases."""
TASKS = tuple(dict.fromkeys(task for task, _, _ in FIGURES))
OTHERS = (qc.Optimal, qc.Queries)
COLUMNS = ("user", "time", "query", "rank", "url")
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


def methods(
    budget: tuple[float, float], splits: Mapping[str, str | None], users: int | None, *, others: bool
) -> Iterator[tuple[str, Any]]:
    """Releases to measure, by name."""
    epsilon, delta = budget
    for name, split in splits.items():
        yield f"{name}, epsilon {epsilon}", qc.Synthetic(epsilon=epsilon, delta=delta, split=split, users=users)
    for method in OTHERS if others else ():
        yield f"{method.name}, epsilon {epsilon}", method(epsilon=epsilon, delta=delta)


def released(method: Any, train: SearchLog, true: Mapping[str, Any], name: str, folder: Path) -> Iterator[Row]:
    """Release, and the shapes of a made-up log beside the original's."""
    began = time.process_time()
    method.release(train).save(folder / name)
    yield {"part": "cost", "release": name, "figure": "processor seconds", "value": time.process_time() - began}
    if method.name == "synthetic":
        rows = pq.read_table(folder / name / "log.parquet")
        yield {"part": "cost", "release": name, "figure": "rows", "value": rows.num_rows}
        mine = shapes(rows)
        for figure, shares in true.items():
            yield {"part": "shapes", "release": name, "figure": figure, "value": abs(mine[figure] - shares).sum() / 2}


def judged(train: SearchLog, test: SearchLog, releases: Mapping[str, Path], tasks: Sequence[str]) -> Iterator[Row]:
    """What tasks say of these releases, of the original and of no data."""
    for row in qc.evaluate(train, test, releases, list(tasks)).rows:
        figure = FIGURES.get((row.task, row.measure, row.slice))
        if figure is None or row.release == "k-anonymity":
            continue
        numbers = {"value": row.value, "low": row.low, "high": row.high}
        if row.reading == "all":
            yield {"part": "tasks", "release": row.release, "figure": figure, **numbers}
        elif figure in READ_APART and row.release not in ("original", "no-data"):
            place = {"answered": "where answered", "common": "original there"}[row.reading]
            yield {"part": "answered", "release": row.release, "figure": f"{figure}, {place}", **numbers}
            if row.reading == "answered" and row.cases and row.answered is not None:
                share = {"figure": f"{figure}, share answered", "value": row.answered / row.cases}
                yield {"part": "answered", "release": row.release, **share}


def study(given: argparse.Namespace, folder: Path) -> None:
    """Measure what the file lacks, budget after budget."""
    kept = FigureFile(given.csv)
    source = given.log or folder / "log.parquet"
    if given.log is None:
        qc.synthesize(source, users=given.users, seed=given.seed)
    with qc.read(source) as log:
        qc.split(log, folder / "split", by="user")
    train_file, test_file = (folder / "split" / f"{side}.parquet" for side in ("train", "test"))
    true = shapes(pq.read_table(train_file, columns=list(COLUMNS)))
    splits = {
        name: shares or None for name, _, shares in (each.partition(":") for each in given.split or ["synthetic"])
    }
    budgets = [budget for budget in BUDGETS if given.epsilon in (None, budget[0])]
    with qc.read(train_file) as train, qc.read(judging_part(test_file, given.judges, folder)) as test:
        for budget in budgets:
            wanted = dict(methods(budget, splits, given.made_up, others=given.others))
            lacking = {name: each for name, each in wanted.items() if kept.lacking("cost", name, ["finished"])}
            for name, method in lacking.items():
                kept.add(released(method, train, true, name, folder))
            for task in given.tasks if lacking else ():
                kept.add(judged(train, test, {name: folder / name for name in lacking}, [task]))
            kept.add({"part": "cost", "release": name, "figure": "finished", "value": 1} for name in lacking)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m bench.made_up_logs", description=__doc__)
    parser.add_argument("--users", type=int, default=20_000, help="users of the synthetic log; a tenth is held out")
    parser.add_argument("--seed", type=int, default=1, help="seed of the synthetic log")
    parser.add_argument("--log", type=Path, help="a log of your own in place of the synthetic one")
    parser.add_argument("--epsilon", type=float, help="one budget of the three; all if not given")
    parser.add_argument("--split", action="append", default=[], metavar="NAME:SHARES", help="shares to compare")
    parser.add_argument(
        "--made-up", type=int, metavar="N", help="users to make up; as many as the log has if not given"
    )
    parser.add_argument("--judges", type=int, default=2_000, help="held-out users by whom tasks judge, at most")
    parser.add_argument("--tasks", nargs="*", default=list(TASKS), help="tasks of `evaluate`; none: shapes only")
    parser.add_argument("--others", action="store_true", help="releases of `optimal` and `queries` beside")
    parser.add_argument("--csv", type=Path, help="a file that keeps the figures")
    with tempfile.TemporaryDirectory() as folder:
        study(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
