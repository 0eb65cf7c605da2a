"""Digests that say nothing without their secret; an engine makes them, so that names and texts stay there."""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

NAME_DIGITS = 16
"""Length of a made-up name."""


def keyed_digest(text: ir.StringValue, secret: str, digits: int | None = None) -> ir.StringValue:
    """The digest of each text behind the secret, in hexadecimal; its first digits, if their number is given."""
    digest = (ibis.literal(secret) + text).hexdigest("sha256")
    return digest if digits is None else digest.substr(0, digits)
