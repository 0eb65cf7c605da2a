"""What one user may contribute: the rule that makes every sensitivity finite.

Ties break by (time, rank, query, url), never by the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.reading.schema import microseconds_of
from querycloak.methods.runs import run_of

TIES = ("time", "rank", "query", "url")
# Time and rank in one number, so that one aggregate finds the earliest: ranks from 1,023 on count as equal.
_RANKS = 1024


def once_per_key(table: ir.Table, key: Sequence[str], most: int | None = None, *, with_times: bool = False) -> ir.Table:
    """user, key and `earliest` (its place in time) of each user's keys, once; with `most`, only the first ones.

    with_times: also `times`, how many rows of the user have the key.
    """
    _check(key, table, most)
    rank = ibis.coalesce(table["rank"].clip(lower=0, upper=_RANKS - 1), _RANKS - 1) if "rank" in table.columns else 0
    placed = table.select("user", *key, earliest=microseconds_of(table.time) * _RANKS + rank)
    times = {"times": placed.count().cast("int64")} if with_times else {}
    keys = placed.group_by(["user", *key]).agg(earliest=placed.earliest.min(), **times)
    return keys if most is None else first_keys(keys, key, most)


def first_keys(keys: ir.Table, key: Sequence[str], most: int) -> ir.Table:
    """Each user's first keys of what `once_per_key` gives: by the column `prior` if there is one, then in time."""
    _check(key, keys, most)
    prior = ["prior"] if "prior" in keys.columns else []
    return _first(keys, [*prior, "earliest", *key], most)


def first_of_kept(engine: Engine, keys: ir.Table, key: Sequence[str], most: int) -> ir.Table:
    """The same as `first_keys` of a table that the engine keeps: only users of more keys are put in order, once."""
    _check(key, keys, most)
    held = keys.group_by("user").agg(held=keys.count())
    beyond = engine.stage(held.filter(held.held > most).select("user"))
    first = engine.stage(first_keys(keys.semi_join(beyond, "user"), key, most))
    return keys.anti_join(beyond, "user").union(first)


def first_records(table: ir.Table, most: int) -> ir.Table:
    """Each user's first records, up to this number."""
    _check((), table, most)
    return _first(table, [name for name in TIES if name in table.columns], most)


def _first(table: ir.Table, order: Sequence[str], most: int) -> ir.Table:
    window = ibis.window(
        group_by=[table[name] for name in (*run_of(table), "user")], order_by=[table[name] for name in order]
    )
    numbered = table.mutate(place=ibis.row_number().over(window))
    return numbered.filter(numbered.place < most).drop("place")


def _check(key: Sequence[str], table: ir.Table, most: int | None) -> None:
    missing = [name for name in ("user", *key) if name not in table.columns]
    if missing:
        raise ParameterError(f"the table has no column {missing[0]!r}; it has {', '.join(table.columns)}")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ParameterError(f"a bound per user must be a whole number of at least 1; it is {most!r}")
