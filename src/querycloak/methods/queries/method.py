"""Noisy counts of queries, of any words that people typed (proof: queries.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from querycloak.methods.keys.one_table import OneTable

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog

TABLE = "queries"
KEY = ("query",)


@dataclass(frozen=True, kw_only=True)
class Queries(OneTable):
    """Release the queries that enough users asked, each with a noisy number of users; the log needs no clicks.

    Give the budget (epsilon, delta), or explicit noise and a threshold: the scale of Laplace or the sigma of Gaussian
    noise, and the count that a query must exceed.
    """

    name = "queries"
    summary = "Noisy counts of queries; needs no clicks."
    keys: ClassVar = {TABLE: KEY}

    def rows(self, log: SearchLog) -> ir.Table:
        """All rows, because a row with a click is a search, too."""
        return log.asked
