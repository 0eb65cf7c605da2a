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
    """Release the queries that enough users asked, each with a noisy number of users; a log needs no clicks for it.

    Give the budget (epsilon, delta), or the knobs (noise, threshold): scale of Laplace or sigma of Gaussian noise,
    and the count that a query must exceed.
    """

    name = "queries"
    summary = "Noisy counts of queries; needs no clicks."
    keys: ClassVar = {TABLE: KEY}

    def rows(self, log: SearchLog) -> ir.Table:
        """Every row: one with a click is a search as well."""
        return asked(log)


def asked(log: SearchLog) -> ir.Table:
    """user, time and query of every row; which result was clicked does not matter here."""
    return log.asked
