"""Columns of a search log: one row for each click, or for a search without one.

Times are whole microseconds inside an engine, the same on all of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir
import pyarrow as pa

_EPOCH = "1970-01-01"
MINUTE = 60_000_000


def microseconds_of(time: ir.TimestampValue) -> ir.IntegerValue:
    """Microseconds since 1970: engines' own epoch seconds differ, one keeps fractions and another cuts them."""
    return time.delta(ibis.timestamp(_EPOCH), unit="microsecond")


def pause_before(table: ir.Table, order: list[ir.Value]) -> ir.IntegerValue:
    """Microseconds since the same user's row before, in the given order; null for the first."""
    at = microseconds_of(table.time)
    return at - at.lag().over(ibis.window(group_by=table.user, order_by=order))


ROWS = pa.schema(
    [
        pa.field("user", pa.string(), metadata={"meaning": "the privacy unit: the user who is protected"}),
        pa.field("time", pa.timestamp("us"), metadata={"meaning": "when it was asked: UTC, or as the log says"}),
        pa.field("query", pa.string(), metadata={"meaning": "what was asked, normalised unless told otherwise"}),
        pa.field("rank", pa.int32(), metadata={"meaning": "position of the clicked result; null without a click"}),
        pa.field("url", pa.string(), metadata={"meaning": "what was clicked, an address or an object's id, or null"}),
    ]
)  # fmt: skip
COLUMNS: tuple[str, ...] = tuple(ROWS.names)
REQUIRED: tuple[str, ...] = ("user", "time", "query")

# Readers mark every row: 0 is kept, anything else the number of the check that rejected it.
MARKED_ROWS = ROWS.append(pa.field("code", pa.int16()))
# The same for methods that ignore clicks.
MARKED_SEARCHES = pa.schema([MARKED_ROWS.field(name) for name in (*REQUIRED, "code")])

CLICKED = pa.field("clicked", pa.bool_(), metadata={"meaning": "whether the result shown was clicked"})
SHOWN = pa.field("shown", pa.list_(pa.string()), metadata={"meaning": "ids of the results shown, by rank"})
VIEWS: tuple[str, ...] = ("user", "time", "query", "url", "rank", "clicked")
VIEW_COLUMNS: tuple[str, ...] = (CLICKED.name, SHOWN.name)
"""Columns about results shown: `clicked` with a row for each result, or `shown`, a list; a log has one or neither."""


def with_records(schema: pa.Schema, attributes: Sequence[str], views: pa.Field | None = None) -> pa.Schema:
    """Columns of marked rows, with the attributes as texts and what was shown (None: not read) before the code."""
    if not attributes and views is None:
        return schema
    more = [pa.field(name, pa.string()) for name in attributes]
    *fields, code = list(schema)
    return pa.schema([*fields, *more, *([] if views is None else [views]), code])


# Place and content of a row, for the owner's private file of rejected rows.
ORIGIN = pa.schema(
    [
        pa.field("file", pa.int32()),
        pa.field("line", pa.int64()),
        pa.field("fields", pa.int32()),
        pa.field("content", pa.binary()),
    ]
)
