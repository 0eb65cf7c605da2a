"""Keyed digests of names and texts, computed inside the engine; without the key they reveal nothing.

User names of a release are such digests: the key is drawn for one release and forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from querycloak.logs.searchlog import SearchLog
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.releases.tables import Stream

NAME_DIGITS = 16
"""Length of a made-up name."""


def keyed_digest(text: ir.StringValue, secret: str, digits: int | None = None) -> ir.StringValue:
    """The digest of each text behind the secret, in hexadecimal; its first digits, if their number is given."""
    digest = (ibis.literal(secret) + text).hexdigest("sha256")
    return digest if digits is None else digest.substr(0, digits)


def streamed(log: SearchLog, rows: ir.Table, columns: Sequence[str], randomness: Randomness) -> Stream:
    """These columns under fresh names, sorted by them, so that their order says nothing about the log.

    They may be as many as the log's, so they are streamed when the release is saved: the log must still be open then.
    """
    ordered = renamed(rows, randomness).select(*columns).order_by(list(columns))
    return Stream(ordered.schema().to_pyarrow(), lambda: log.engine.stream(ordered))


def renamed(rows: ir.Table, randomness: Randomness) -> ir.Table:
    """The rows under fresh names, the same one for the same user."""
    return rows.mutate(user=keyed_digest(rows.user, randomness.secret(), NAME_DIGITS))
