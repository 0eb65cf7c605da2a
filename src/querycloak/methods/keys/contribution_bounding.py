"""Contribution bounding: a limit on each user's rows, which makes every sensitivity finite.

Ties break by (time, rank, query, url), never by the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.errors import ParameterError
from querycloak.logs.reading.schema import microseconds_of
from querycloak.privacy.calibration.table_plan import Times

TIES = ("time", "rank", "query", "url")
# Time and rank in one number, so that one aggregate finds the earliest: ranks from 1,023 on count as equal.
_RANKS = 1024


def once_per_key(table: ir.Table, key: Sequence[str], most: int | None = None, *, with_times: bool = False) -> ir.Table:
    """user, key and `earliest` (its place in time) of each user's keys, once; with `most`, only the first ones.

    with_times: also `times`, how many rows of the user have the key.
    """
    _check(key, table, most)
    earliest = microseconds_of(table.time) * _RANKS
    if "rank" in table.columns:
        earliest = earliest + ibis.least(ibis.greatest(ibis.coalesce(table["rank"], _RANKS - 1), 0), _RANKS - 1)
    placed = table.select("user", *key, earliest=earliest)
    times = {"times": placed.count().cast("int64")} if with_times else {}
    keys = placed.group_by(["user", *key]).agg(earliest=placed.earliest.min(), **times)
    return keys if most is None else first_keys(keys, key, most)


def first_keys(keys: ir.Table, key: Sequence[str], most: int) -> ir.Table:
    """Each user's first `most` keys: by the column `prior` if there is one, then by time; keys: from `once_per_key`."""
    _check(key, keys, most)
    prior = ["prior"] if "prior" in keys.columns else []
    return _first(keys, [*prior, "earliest", *key], most)


def first_of_kept(engine: Engine, keys: ir.Table, key: Sequence[str], most: int) -> ir.Table:
    """`first_keys` for a staged table: it sorts the keys of users beyond the bound alone."""
    _check(key, keys, most)
    users = keys.group_by("user").agg(number=keys.count())
    beyond = engine.stage(users.filter(users.number > most).select("user"))
    if not engine.fetch(beyond.limit(1)).num_rows:
        return keys
    first = engine.stage(first_keys(keys.semi_join(beyond, "user"), key, most))
    return keys.anti_join(beyond, "user").union(first)


def first_records(table: ir.Table, most: int) -> ir.Table:
    """Each user's first `most` records."""
    _check((), table, most)
    return _first(table, [name for name in TIES if name in table.columns], most)


def bounded_clicks(engine: Engine, clicks: ir.Table, chosen: pa.Table, key: Sequence[str], most: Times) -> pa.Table:
    """The chosen keys, sorted, with their clicks `n`, bounded for each user (calibration/histogram.md, claim 9).

    clicks: a row for each user and key, with `times`, the number of this user's clicks.
    """
    keys = chosen.select(key).sort_by([(name, "ascending") for name in key])
    mine = clicks.semi_join(engine.upload(keys), list(key))
    mine = mine.mutate(wanted=ibis.least(mine.times, most.per_key).cast("int64"))
    prior = ["prior"] if "prior" in mine.columns else []
    order = [mine[name] for name in (*prior, "earliest", *key)]
    window = ibis.window(group_by=mine.user, order_by=order, preceding=None, following=0)
    mine = mine.mutate(so_far=mine.wanted.sum().over(window).cast("int64"))
    # What is left of a user's bound when this key's turn comes, and no more than the key may have.
    left = ibis.greatest(most.per_user - (mine.so_far - mine.wanted), 0)
    mine = mine.mutate(given=ibis.least(mine.wanted, left).cast("int64"))
    counts = engine.fetch(mine.group_by(list(key)).agg(n=mine.given.sum().cast("int64")))
    return keys.join(counts, list(key), join_type="left outer").sort_by([(name, "ascending") for name in key])


def _first(table: ir.Table, order: Sequence[str], most: int) -> ir.Table:
    window = ibis.window(group_by=table.user, order_by=[table[name] for name in order])
    numbered = table.mutate(place=ibis.row_number().over(window))
    return numbered.filter(numbered.place < most).drop("place")


def _check(key: Sequence[str], table: ir.Table, most: int | None) -> None:
    missing = [name for name in ("user", *key) if name not in table.columns]
    if missing:
        raise ParameterError(f"the table has no column {missing[0]!r}; it has {', '.join(table.columns)}")
    if most is not None and (isinstance(most, bool) or not isinstance(most, int) or most < 1):
        raise ParameterError(f"a bound per user must be a whole number of at least 1; it is {most!r}")
