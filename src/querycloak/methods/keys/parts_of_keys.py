"""The parts of keys, which a first scout looks at: the query of a clicked pair, the queries of a sequence.

Whether a part is shared is easier to see than whether the key is: as many users have it, or more, and each has fewer of
them (privacy/calibration/selection.md, claim 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ibis.expr.types as ir

from querycloak.engines import Engine
from querycloak.logs.sequences import queries_of
from querycloak.methods.runs import run_of


def pieces_of(
    engine: Engine, held: ir.Table, key: Sequence[str], parts: str, bucket: Callable[[ir.StringValue], ir.StringValue]
) -> ir.Table:
    """A row for every part of what users hold, with its `bucket`.

    parts: "query", which is a column of the key: these are computed as they are asked for, so that texts are not kept
    twice; or "queries", which its only column joins: user, key, number and bucket of these are kept.
    """
    if parts == "query":
        return held.mutate(bucket=bucket(held["query"]))
    queries = queries_of(held[key[0]])
    rows = held.select("user", *key, parts=queries.length(), part=queries.unnest())
    return engine.stage(rows.select("user", *key, "parts", bucket=bucket(rows.part)))


def whole_keys(held: ir.Table, pieces: ir.Table, key: Sequence[str], parts: str, passed: ir.Table) -> ir.Table:
    """Of what users hold, what has all of its parts among those that passed; by run, if these are."""
    found = pieces.inner_join(passed, "bucket")
    if parts == "query":
        return found.drop("bucket")
    each = [*run_of(found), "user", *key]
    counted = found.group_by(each).agg(found=found.count(), parts=found.parts.max())
    whole = counted.filter(counted.found == counted.parts).select(*each)
    return held.inner_join(whole, ["user", *key])
