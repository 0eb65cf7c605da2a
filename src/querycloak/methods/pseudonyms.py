"""User names that only one release has: a keyed hash whose key is drawn for it and forgotten."""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

from querycloak.privacy.randomness import Randomness

_SECRET_BYTES = 32
_LENGTH = 16


def renamed(rows: ir.Table, randomness: Randomness) -> ir.Table:
    """The rows under fresh names, the same one for the same user."""
    secret = ibis.literal(bytes(randomness.below(256, _SECRET_BYTES).tolist()).hex())
    return rows.mutate(user=(secret + rows.user).hexdigest("sha256").substr(0, _LENGTH))
