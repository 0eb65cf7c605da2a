"""Noisy counts of (query, url) pairs (proof: clicks.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from querycloak.methods.keys.one_table import OneTable
from querycloak.methods.method import Variant
from querycloak.methods.option import option

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog

TABLE = "clicks"
KEY = ("query", "url")


@dataclass(frozen=True, kw_only=True)
class Clicks(OneTable):
    """Release the pairs that enough users clicked, each with a noisy number of users.

    Give the budget (epsilon, delta), or the knobs (noise, threshold): scale of Laplace or sigma of Gaussian noise,
    and the count that a pair must exceed.
    """

    name = "clicks"
    summary = "Noisy counts of (query, url) pairs."
    keys: ClassVar = {TABLE: KEY}

    variant: Variant = option("default", help="paper: as published, to compare with.")

    def rows(self, log: SearchLog) -> ir.Table:
        """The rows with a click."""
        from querycloak.methods.clicked import clicks_of

        return clicks_of(log)
