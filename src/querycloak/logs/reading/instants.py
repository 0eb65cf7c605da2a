"""Times as whole numbers inside an engine, the same on all of them."""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

_EPOCH = "1970-01-01"


def microseconds_of(time: ir.TimestampValue) -> ir.IntegerValue:
    """Microseconds since 1970: engines' own epoch seconds differ, one keeps fractions and another cuts them."""
    return time.delta(ibis.timestamp(_EPOCH), unit="microsecond")


def pause_before(table: ir.Table, order: list[ir.Value]) -> ir.IntegerValue:
    """Microseconds since the same user's row before, in the given order; null for the first."""
    at = microseconds_of(table.time)
    return at - at.lag().over(ibis.window(group_by=table.user, order_by=order))
