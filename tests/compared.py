"""A small comparison that several tests look at: users have names that nobody else has, and one release fails."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import querycloak as qc
from querycloak.comparison.comparison_plan import PlannedRelease

PLAN = [
    PlannedRelease("clicks-e1", "clicks", {"epsilon": 1.0, "delta": 1e-3}),
    PlannedRelease("clicks-e8", "clicks", {"epsilon": 8.0, "delta": 1e-3}),
    PlannedRelease("rows", "k-anonymity", {"min_users": 3, "keys": "log"}),
    PlannedRelease("broken", "semantic", {"epsilon": 1.0, "max_queries": 1, "taxonomy": "there-is-none.csv"}),
    PlannedRelease("affinity-k3-paper", "affinity", {"min_users": 3, "variant": "paper"}),
]


def make_log(folder: Path, users: int = 250) -> Path:
    """A synthetic log whose users are called person-1 and so on, with its truth."""
    qc.synthesize(folder / "made.parquet", users)
    log = folder / "log.parquet"
    table = pq.read_table(folder / "made.parquet")
    pq.write_table(_named(table), log)
    truth = folder / "log.parquet.truth"
    truth.mkdir()
    pq.write_table(
        _named(pq.read_table(folder / "made.parquet.truth" / "sensitive.parquet")), truth / "sensitive.parquet"
    )
    return log


def _named(table: pa.Table) -> pa.Table:
    place = table.column_names.index("user")
    names = pc.binary_join_element_wise("person", table["user"].cast(pa.string()), "-")
    return table.set_column(place, "user", names)
