"""`python -m bench.european_rules`: the EU's old rule for search data, its new one, and ours, on the standard log.

The old rule is `k-anonymity --preset dma`. The new one is the Commission's decision of 16 July 2026 (case DMA.100209),
as far as others quote it: records without names, a query only if enough users used each of its words, the few searches
of one visit together. Every number is an assumption and can be changed here. The standard log has neither place, device
nor language, so that step of the rule does nothing.
"""

from __future__ import annotations

import argparse
import csv
import secrets
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

import querycloak as qc
from bench.standard_releases import DELTA, EPSILON, STANDARD, standard_split
from querycloak.evaluation.target import Target
from querycloak.methods.method import Method

NUMBERS = {"term_users": 50, "most_words": 10, "gap_minutes": 30, "most_searches": 5}
"""Assumed: 50 users of a word is the April draft's; the others are ours."""
SQL = (Path(__file__).parent / "european_rules.sql").read_text()
RULES: dict[str, Method] = {
    "old rule: 30 users of a query": qc.KAnonymity(preset="dma"),
    "queries, epsilon 8": qc.Queries(epsilon=EPSILON, delta=DELTA),
    "queries, epsilon 1": qc.Queries(epsilon=1.0, delta=DELTA),
}
LINKED, SECRETS, ALONE = "50 users, recall 0.85", "all kinds", "m=2 random"
COLUMNS = (
    "release",
    "queries",
    "searches",
    "secrets",
    "visits singled out",
    "of others",
    "linkage precision",
    "of a guess",
)
Row = dict[str, Any]


@contextmanager
def ruled(log: Path, numbers: Mapping[str, int] = NUMBERS) -> Iterator[duckdb.DuckDBPyConnection]:
    """The log under the new rule, in tables of its own."""
    connection = duckdb.connect()
    given = {**numbers, "log": str(log), "secret": secrets.token_hex(16)}
    for statement in filter(str.strip, SQL.split(";\n")):
        used = {name: value for name, value in given.items() if f"${name}" in statement}
        connection.execute(statement, used)
    yield connection
    connection.close()


def kept(connection: duckdb.DuckDBPyConnection, texts: pa.Array) -> Row:
    """Which share of all queries stand in a release, and of all searches."""
    connection.register("out", pa.table({"query": texts}))
    sql = "select avg((query in (select query from out))::int) from {}"
    shares = [
        connection.sql(sql.format(table)).fetchall()[0][0]
        for table in ("(select distinct query from searches)", "searches")
    ]
    return dict(zip(("queries", "searches"), shares, strict=True))


def texts_of(release: Target) -> pa.Array:
    """The different queries that a release tells."""
    return pa.chunked_array([part.unique() for part in release.texts()], pa.string()).unique()


def attacked(name: str, table: pa.Table) -> Target:
    """Rows under names, as an attacker has them."""
    return Target(name=name, tables={"log": table})


def one(rows: tuple[Row, ...], release: str, setting: str) -> Row:
    """The row of a setting; nothing where it could not be measured."""
    return next((row for row in rows if row["release"] == release and row["setting"] == setting), {})


def audited(split: Path, truth: Path) -> list[Row]:
    """A row for the log itself, the new rule, the old one and ours."""
    train, test = split / "train.parquet", split / "test.parquet"
    with ruled(train) as here, ruled(test) as there, tempfile.TemporaryDirectory() as folder:
        for side, connection in (("train", here), ("test", there)):
            connection.execute(f"copy whole to '{folder}/{side}.parquet' (format parquet)")
        bare, new = "bare records", "new rule: 50 users of each word"
        records = [
            attacked(bare, here.sql("select user, query, url from rows").to_arrow_table()),
            attacked(new, here.sql("select * from records").to_arrow_table()),
        ]
        visits = [
            attacked(bare, here.sql("select user, query, url from whole").to_arrow_table()),
            attacked(new, here.sql("select * from released").to_arrow_table()),
        ]
        with qc.read(train) as log, qc.read(test) as others:
            counted = [Target.of(method.release(log), name) for name, method in RULES.items()]
            told = qc.audit_release(
                log,
                [*records, *counted],
                control=others,
                truth=truth,
                attacks=["secrets", "linkage-records"],
                baselines=False,
            ).rows
            shares = {each.name: kept(here, texts_of(each)) for each in (records[0], visits[1], *counted)}
        with qc.read(Path(folder) / "train.parquet") as log, qc.read(Path(folder) / "test.parquet") as others:
            alone = qc.audit_release(log, visits, control=others, attacks=["singling-out"], baselines=False).rows
    return [
        {
            "release": name,
            **share,
            "secrets": one(told, name, SECRETS).get("main"),
            "visits singled out": one(alone, name, ALONE).get("main"),
            "of others": one(alone, name, ALONE).get("control"),
            "linkage precision": one(told, name, LINKED).get("main"),
            "of a guess": one(told, name, LINKED).get("control"),
        }
        for name, share in shares.items()
    ]


def main() -> None:
    """Release by every rule, attack, print."""
    parser = argparse.ArgumentParser(prog="python -m bench.european_rules", description=__doc__)
    parser.add_argument("--users", type=int, default=STANDARD.users)
    parser.add_argument("--split", type=Path, help="a folder of `querycloak split`, in place of the standard log")
    parser.add_argument("--truth", type=Path, help="with it, the truth of its log")
    parser.add_argument("--csv", type=Path, help="keep the table for docs/attacks.md")
    given = parser.parse_args()
    if given.split is not None:
        rows = audited(given.split, given.truth)
    else:
        with standard_split(given.users) as sides:
            rows = audited(sides.folder, sides.truth)
    for target in [sys.stdout] if given.csv is None else [sys.stdout, given.csv.open("w", newline="")]:
        writer = csv.DictWriter(target, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {name: f"{each:.6g}" if isinstance(each, float) else each for name, each in row.items()} for row in rows
        )


if __name__ == "__main__":
    main()
