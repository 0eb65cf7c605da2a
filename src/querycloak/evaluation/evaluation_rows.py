"""The rows of an evaluation: what was measured of whom, how to read it, with an interval; or why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("release", pa.string(), nullable=False),
        pa.field("digest", pa.string()),
        pa.field("task", pa.string(), nullable=False),
        pa.field("measure", pa.string(), nullable=False),
        pa.field("slice", pa.string()),
        pa.field("reading", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("low", pa.float64()),
        pa.field("high", pa.float64()),
        pa.field("cases", pa.int64()),
        pa.field("answered", pa.int64()),
        pa.field("difference", pa.float64()),
        pa.field("p_value", pa.float64()),
        pa.field("why", pa.string()),
    ]
)
"""The columns, in this order."""


@dataclass(frozen=True)
class Row:
    """One value; its slice says of which part of the cases it is, null of all of them."""

    release: str
    digest: str | None
    task: str
    measure: str
    slice: str | None
    reading: str
    value: float | None = None
    low: float | None = None
    high: float | None = None
    cases: int | None = None
    answered: int | None = None
    difference: float | None = None
    p_value: float | None = None
    why: str | None = None


def table_of(rows: Iterable[Row]) -> pa.Table:
    """The rows as one table."""
    return pa.Table.from_pylist([asdict(row) for row in rows], SCHEMA)
