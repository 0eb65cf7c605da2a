"""`python -m bench.tail [--users N] [--log FILE] [--budgets 1 3 8] [--csv FILE]`: phrases beside queries.

For each budget a release of `queries`, `phrases` and `phrases --queries` of nine tenths of the users, judged by the
others: what can be expressed, bits, completion, suggestion; and the paired difference from `queries` (no-data for
suggestion) with its interval over users. Completion also with whole queries and public text, without any word: what of
the gain is due to public text. docs/phrases.md has the figures.
"""

from __future__ import annotations

import argparse
import csv
import math
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

import querycloak as qc
from bench.standard_releases import SEED, STANDARD
from querycloak.evaluation.aggregations import intervals
from querycloak.evaluation.subjects import NoData, Original
from querycloak.evaluation.target import Target
from querycloak.evaluation.task import NO_DATA, CaseScores, Logs, Subject, tasks_named
from querycloak.logs.searchlog import SearchLog
from querycloak.privacy.sampling.randomness import Randomness

DELTAS = {1.0: 1e-6, 3.0: math.exp(-10), 8.0: 1e-6}
SHOWN = {"language": ("expressible", "bits_per_query"), "completion": ("RR@10", "Success@10"), "suggestion": ("R@5",)}
PUBLIC = "queries + public text"
COLUMNS = ("release", "rows", "task", "measure", "value", "difference", "low", "high", "cases")


KINDS = ("queries", "phrases", "phrases --queries")


def releases(train: SearchLog, epsilons: Sequence[float], kinds: Sequence[str]) -> Iterator[Target]:
    """A release of each kind at each budget, from a known seed."""
    for epsilon in epsilons:
        given: dict[str, Any] = {"epsilon": epsilon, "delta": DELTAS[epsilon]}
        whole, words, both = qc.Queries(**given), qc.Phrases(**given), qc.Phrases(**given, queries=True)
        for name, method in zip(KINDS, (whole, words, both), strict=True):
            if name not in kinds:
                continue
            began = time.perf_counter()
            release = method.release(train, randomness=Randomness(SEED))
            sys.stderr.write(f"{name}, {epsilon:g}: {time.perf_counter() - began:.0f} s\n")
            yield Target.of(release, f"{name}, {epsilon:g}")
            if name == "queries":
                yield _with_public_text(Target.of(release, f"{PUBLIC}, {epsilon:g}"))


def _with_public_text(queries: Target) -> Target:
    """A release of queries with a table of no phrase: its model completes by whole queries and public text."""
    marks = {"begins": pa.bool_(), "ends": pa.bool_()}
    columns = pa.schema({"phrase": pa.string(), "words": pa.int64(), **marks, "count": pa.int64()})
    return replace(queries, tables={"phrases": columns.empty_table(), **queries.tables})


def compared(logs: Logs, task: str) -> Iterator[dict[str, Any]]:
    """A row for each subject and measure of a task."""
    (chosen,) = tasks_named([task])
    prepared = chosen.prepare(logs)
    scored: dict[str, Mapping[str, CaseScores]] = {}
    for subject in logs.subjects:
        if chosen.unsupported_reason(subject) is None and (task == "completion" or not subject.name.startswith(PUBLIC)):
            scores = [each for each in prepared.scores(subject) if isinstance(each, CaseScores) and each.slice is None]
            scored[subject.name] = {each.measure.name: each for each in scores}
    for subject in logs.subjects:
        base = NO_DATA if task == "suggestion" else f"queries, {subject.name.rpartition(' ')[2]}"
        for measure in SHOWN[task] if subject.name in scored else ():
            mine = scored[subject.name][measure]
            beside = scored[base][measure] if base in scored and subject.name != base else None
            yield {
                "release": subject.name,
                "rows": _rows(subject),
                "task": task,
                "measure": measure,
                **_row(mine, beside),
            }


def _row(mine: CaseScores, beside: CaseScores | None) -> dict[str, Any]:
    """The mean over all cases, and the paired difference with its interval over users."""
    values = np.nan_to_num(mine.scores)
    row: dict[str, Any] = {"value": float(values.mean()), "cases": len(values)}
    if beside is None:
        return row
    users = int(mine.users.max()) + 1
    changes = values - np.nan_to_num(beside.scores)
    differences = np.bincount(mine.users, weights=changes, minlength=users).astype(np.float64)
    cases = np.bincount(mine.users, minlength=users).astype(np.float64)
    ((low, high),) = intervals([differences], [cases])
    return {**row, "difference": float(differences.sum() / cases.sum()), "low": low, "high": high}


def shared(train: Path, test: Path) -> Iterator[str]:
    """Share of the test's queries that are, or whose words are, asked by a number of users: the limit without noise."""
    con = duckdb.connect()
    for name, path in (("train", train), ("test", test)):
        con.read_parquet(str(path)).select('"user", query').distinct().create(name)
    con.execute(
        "create table queries as select query as text, count(*) as users from train group by 1;"
        "create table words as select text, count(*) as users from"
        " (select distinct \"user\", unnest(string_split(query, ' ')) as text from train) group by 1;"
        "create table cases as select row_number() over () as place, query from test"
    )
    pieces = {"queries": "[query]", "words": "string_split(query, ' ')"}
    for users in (1, 2, 3, 4, 5, 10, 20, 30, 50, 100):
        shares = [
            con.execute(
                f"select avg(least::int) from (select place, min(coalesce(users, 0)) >= {users} as least from"
                f" (select place, unnest({texts}) as text from cases) left join {table} using (text) group by 1)"
            ).fetchall()[0][0]
            for table, texts in pieces.items()
        ]
        yield f"asked by {users} users: queries {shares[0]:.3f}, all words {shares[1]:.3f}\n"


def _rows(subject: Subject) -> int | None:
    return sum(subject.table(kind).num_rows for kind in subject.kinds) if isinstance(subject, Target) else None


def main() -> None:
    """Release, judge, print and write the table."""
    parser = argparse.ArgumentParser(prog="python -m bench.tail", description=__doc__)
    parser.add_argument("--users", type=int, default=20_000)
    parser.add_argument("--log", type=Path, help="Another log than the synthetic one.")
    parser.add_argument("--seed", type=int, default=STANDARD.seed)
    parser.add_argument("--budgets", type=float, nargs="+", default=list(DELTAS), choices=list(DELTAS))
    parser.add_argument("--tasks", nargs="+", default=list(SHOWN), choices=list(SHOWN))
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    parser.add_argument("--original", action="store_true", help="Judge the log itself, too.")
    parser.add_argument("--shared", action="store_true", help="Only count what enough users share, without noise.")
    parser.add_argument("--csv", type=Path)
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        log = given.log or qc.synthesize(Path(folder) / "log.parquet", given.users, seed=given.seed).log
        with qc.read(log) as whole:
            sides = qc.split(whole, Path(folder) / "split", by="user")
        if given.shared:
            sys.stdout.writelines(shared(sides.train, sides.test))
            return
        engine = qc.connect("duckdb")
        train, test = (qc.read(side, engine=engine) for side in (sides.train, sides.test))
        original = (Original(train),) if given.original else ()
        subjects: tuple[Subject, ...] = (*original, NoData(train), *releases(train, given.budgets, given.kinds))
        logs = Logs(train, test, subjects)
        for task in given.tasks:
            for row in compared(logs, task):
                rows.append(row)
                shown = {name: f"{value:.4g}" if isinstance(value, float) else value for name, value in row.items()}
                sys.stdout.write(f"{shown}\n")
                sys.stdout.flush()
        engine.close()
    if given.csv:
        with given.csv.open("w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            for row in rows:
                writer.writerow({key: f"{v:.4g}" if isinstance(v, float) else v for key, v in row.items()})


if __name__ == "__main__":
    main()
