"""Small logs of known people, split into those who are in the log and those who are not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from querycloak.audits.audit_data import AuditData
from querycloak.engines import Engine
from querycloak.evaluation.target import Target
from querycloak.logs.searchlog import SearchLog, read
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.releases.row_kinds import RowKind

Asked = Mapping[str, Iterable[str]]
FALSE_PROMISE = user_guarantee(1.0, 1e-6, "as somebody says")


def write_log(path: Path, asked: Asked) -> Path:
    """A log in which everybody asks and clicks once a minute, in this order."""
    rows = [(user, minute, query) for user, queries in asked.items() for minute, query in enumerate(queries)]
    table = pa.table(
        {
            "user": pa.array([row[0] for row in rows], pa.string()),
            "time": pa.array([1_141_205_400 + 60 * row[1] for row in rows], pa.timestamp("s")),
            "query": pa.array([row[2] for row in rows], pa.string()),
            "rank": pa.array([1] * len(rows), pa.int32()),
            "url": pa.array([f"http://{row[2].replace(' ', '-')}.example/" for row in rows], pa.string()),
        }
    )
    pq.write_table(table, path)
    return path


def asked_at_random(first: int, people: int, keys: int) -> dict[str, list[str]]:
    """Everybody asks three of so many queries."""
    random = np.random.default_rng(first)
    return {f"u{first + i}": [f"query {key}" for key in random.choice(keys, 3, replace=False)] for i in range(people)}


def a_log(engine: Engine, folder: Path, name: str, asked: Asked) -> SearchLog:
    return read(write_log(folder / f"{name}.parquet", asked), engine=engine)


def knowing(engine: Engine, folder: Path, train: Asked, control: Asked, **more: object) -> AuditData:
    return AuditData(a_log(engine, folder, "train", train), a_log(engine, folder, "test", control), **more)  # type: ignore[arg-type]


def named_rows(asked: Asked, name: str = "release", *, owned: bool = True, rows: RowKind = RowKind.ASKED) -> Target:
    """Rows under names, each its owner's own name with a p before it."""
    pairs = [(f"p{user}", query) for user, queries in asked.items() for query in queries]
    log = pa.table(
        {"user": pa.array([p for p, _ in pairs], pa.string()), "query": pa.array([q for _, q in pairs], pa.string())}
    )
    owners = pa.table(
        {"name": pa.array([f"p{user}" for user in asked], pa.string()), "user": pa.array(list(asked), pa.string())}
    )
    return Target(name=name, tables={"log": log}, rows=rows, owners=owners if owned else None)


def counted(counts: Mapping[str, int], proven: Guarantee | None = FALSE_PROMISE, name: str = "counts") -> Target:
    """A table of queries with counts."""
    table = pa.table(
        {"query": pa.array(list(counts), pa.string()), "count": pa.array(list(counts.values()), pa.int64())}
    )
    return Target(name=name, tables={"queries": table}, method="anybody's", proven=proven)
