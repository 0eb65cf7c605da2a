"""Clicks of the keys that came out, bounded for each user (proof: privacy/calibration/histogram.md, claim 9)."""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.engines import Engine
from querycloak.methods.runs import run_of
from querycloak.privacy.calibration.table_plan import Times


def counted_clicks(engine: Engine, held: ir.Table, chosen: pa.Table, key: Sequence[str], most: Times) -> pa.Table:
    """The chosen keys, sorted, with their clicks `n`; `held` has a row for each user and key, with `times`."""
    columns = [*run_of(chosen), *key]
    keys = chosen.select(columns).sort_by([(name, "ascending") for name in columns])
    asked = engine.upload(keys)
    join = held.inner_join if run_of(chosen) else held.semi_join
    mine = join(asked, list(key))
    mine = mine.mutate(wanted=ibis.least(mine.times, most.per_key).cast("int64"))
    prior = ["prior"] if "prior" in mine.columns else []
    users = [mine[name] for name in (*run_of(mine), "user")]
    order = [mine[name] for name in (*prior, "earliest", *key)]
    window = ibis.window(group_by=users, order_by=order, preceding=None, following=0)
    mine = mine.mutate(so_far=mine.wanted.sum().over(window).cast("int64"))
    # What is left of a user's bound when this key's turn comes, and no more than the key may have.
    left = ibis.greatest(most.per_user - (mine.so_far - mine.wanted), 0)
    mine = mine.mutate(given=ibis.least(mine.wanted, left).cast("int64"))
    found = engine.fetch(mine.group_by(columns).agg(n=mine.given.sum().cast("int64")))
    return keys.join(found, columns, join_type="left outer").sort_by([(name, "ascending") for name in columns])
