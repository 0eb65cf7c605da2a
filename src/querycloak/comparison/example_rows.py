"""A few rows of a release to look at, and the secrets that came out with it (private output)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.audits.attacks.planted_secrets import secrets_of
from querycloak.evaluation.target import Target
from querycloak.logs.searchlog import SearchLog
from querycloak.releases.release import Release
from querycloak.releases.tables import batches_of

ROWS = 5
_MOST_READ = 200_000


def example_rows(release: Release) -> dict[str, dict[str, Any]]:
    """Number of rows of each table, and five of them, from the most frequent to the rare.

    Of a log, five rows under one name: what a reader sees of one person.
    """
    described: dict[str, dict[str, Any]] = {}
    for kind in release.tables:
        head, rows = _head(release, kind)
        chosen = _one_name(head) if kind == "log" else _spread(head)
        described[kind] = {"rows": rows, "columns": head.column_names, "examples": _plain(chosen)}
    return described


def _head(release: Release, kind: str) -> tuple[pa.Table, int]:
    """The beginning of a table, and its number of rows."""
    kept: list[pa.RecordBatch] = []
    rows = 0
    table = release.tables[kind]
    for batch in batches_of(table):
        if rows < _MOST_READ:
            kept.append(batch)
        rows += batch.num_rows
    return pa.Table.from_batches(kept, table.schema), rows


def _spread(table: pa.Table) -> pa.Table:
    """Rows at places that grow by the same factor: the first, and ever rarer ones."""
    if table.num_rows <= ROWS:
        return table
    places = np.unique(np.geomspace(1, table.num_rows, ROWS).astype(np.int64)) - 1
    return table.take(pa.array(places))


def _one_name(table: pa.Table) -> pa.Table:
    """Different queries of the name that has about twice as many as it takes, filled up with the first rows."""
    if table.num_rows <= ROWS:
        return table
    naming = "user" if "user" in table.column_names else "session"
    counted = table.group_by(naming).aggregate([("query", "count_distinct")])
    distance = np.abs(counted["query_count_distinct"].to_numpy() - 2 * ROWS)
    name = counted[naming][int(np.lexsort((counted[naming].to_numpy(zero_copy_only=False), distance))[0])]
    placed = table.append_column("place", pa.array(np.arange(table.num_rows)))
    own = placed.filter(pc.equal(table[naming], name)).group_by("query").aggregate([("place", "min")])
    places = dict.fromkeys([*own["place_min"].sort().to_pylist(), *range(2 * ROWS)])
    return table.take(pa.array(list(places)[:ROWS]))


def _plain(table: pa.Table) -> list[list[Any]]:
    """The rows as plain values, in the order of the columns."""
    rows = zip(*(column.to_pylist() for column in table.columns), strict=True)
    return [[value if isinstance(value, str | int | float | list | None) else str(value) for value in row]
            for row in rows]  # fmt: skip


def secrets_out(release: Target, truth: Path | None, train: SearchLog) -> dict[str, Any] | None:
    """Number of secrets in the release word for word, and the one that fewest people asked; None without a truth."""
    if truth is None:
        return None
    secrets = secrets_of(truth, normalised=train.source.choices.normalise)
    asked = train.rows.select("user", "query").distinct()
    asked = asked.semi_join(train.engine.upload(secrets.select(["query"])), "query")
    users = train.engine.fetch(asked.group_by("query").agg(users=asked.count()))
    inside = secrets.filter(pc.is_in(secrets["query"], users["query"].combine_chunks()))
    out = pa.chunked_array([], pa.string())
    for texts in release.texts():
        matches = texts.filter(pc.is_in(texts, inside["query"].combine_chunks())).unique()
        out = pa.chunked_array([*out.chunks, matches])
    let_out = inside.filter(pc.is_in(inside["query"], out.combine_chunks())).select(["query", "kind"])
    let_out = let_out.group_by(["query", "kind"]).aggregate([]).join(users, "query")
    let_out = let_out.sort_by([("users", "ascending"), ("kind", "ascending"), ("query", "ascending")])
    first = let_out.slice(0, 1).to_pylist()
    return {"out": let_out.num_rows, "planted": len(pc.unique(inside["query"])), "example": first[0] if first else None}
