"""User names that only one release has: a keyed hash whose key is drawn for it and forgotten."""

from __future__ import annotations

from collections.abc import Sequence

import ibis.expr.types as ir

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keyed_digest import NAME_DIGITS, keyed_digest
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Stream


def streamed(log: SearchLog, rows: ir.Table, columns: Sequence[str], randomness: Randomness) -> Stream:
    """These columns under fresh names, sorted by them, so that their order says nothing about the log.

    They may be as many as the log's, so they are streamed when the release is saved: the log must still be open then.
    """
    ordered = renamed(rows, randomness).select(*columns).order_by(list(columns))
    return Stream(ordered.schema().to_pyarrow(), lambda: log.engine.stream(ordered))


def renamed(rows: ir.Table, randomness: Randomness) -> ir.Table:
    """The rows under fresh names, the same one for the same user."""
    return rows.mutate(user=keyed_digest(rows.user, randomness.secret(), NAME_DIGITS))
