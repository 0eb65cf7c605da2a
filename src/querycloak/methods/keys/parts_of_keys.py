"""The parts of keys, which a first scout looks at: the query of a clicked pair, the queries of a sequence.

Whether a part is shared is easier to see than whether the key is: as many users have it, or more, and each has fewer of
them (privacy/prices/selection.md, claim 5).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ibis.expr.types as ir

from querycloak.logs.sequences import queries_of
from querycloak.methods.runs import run_of


def pieces_of(
    held: ir.Table, key: Sequence[str], parts: str, bucket: Callable[[ir.StringValue], ir.StringValue]
) -> ir.Table:
    """user, key and `bucket`: a row for every part of what users hold.

    parts: "query", which is a column of the key, or "queries", which its only column joins; these are numbered.
    """
    if parts == "query":
        return held.select("user", *key, bucket=bucket(held["query"]))
    queries = queries_of(held[key[0]])
    rows = held.select("user", *key, parts=queries.length(), part=queries.unnest())
    return rows.select("user", *key, "parts", bucket=bucket(rows.part))


def whole_keys(pieces: ir.Table, key: Sequence[str], parts: str, passed: ir.Table) -> ir.Table:
    """user and key, once each, of what has all of its parts among those that passed; by run, if these are."""
    found = pieces.inner_join(passed, "bucket")
    each = [*run_of(found), "user", *key]
    if parts == "query":
        return found.select(*each)
    counted = found.group_by(each).agg(found=found.count(), parts=found.parts.max())
    return counted.filter(counted.found == counted.parts).select(*each)
