"""What one user may contribute: the rule that makes every sensitivity finite.

Ties break by (time, rank, query, url), never by the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from querycloak.errors import ParameterError

TIES = ("time", "rank", "query", "url")


def once_per_key(table: ir.Table, key: Sequence[str], most: int | None = None) -> ir.Table:
    """Each user's keys once, at their earliest; with `most`, the user's first so many of them."""
    _check(key, table, most)
    first = _numbered(table, ["user", *key])
    earliest = first.filter(first.place == 0).drop("place")
    return earliest if most is None else first_records(earliest, most)


def first_records(table: ir.Table, most: int) -> ir.Table:
    """Each user's first so many records."""
    _check((), table, most)
    numbered = _numbered(table, ["user"])
    return numbered.filter(numbered.place < most).drop("place")


def _numbered(table: ir.Table, group: Sequence[str]) -> ir.Table:
    order = [table[name] for name in TIES if name in table.columns and name not in group]
    window = ibis.window(group_by=[table[name] for name in group], order_by=order)
    return table.mutate(place=ibis.row_number().over(window))


def _check(key: Sequence[str], table: ir.Table, most: int | None) -> None:
    missing = [name for name in ("user", *key) if name not in table.columns]
    if missing:
        raise ParameterError(f"the table has no column {missing[0]!r}; it has {', '.join(table.columns)}")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ParameterError(f"a bound per user must be a whole number of at least 1; it is {most!r}")
