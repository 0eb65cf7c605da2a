"""Each user's queries, once: what methods about single queries start from."""

from __future__ import annotations

import ibis
import ibis.expr.types as ir

from querycloak.logs.searchlog import SearchLog


def uses_of(log: SearchLog) -> ir.Table:
    """user, query and the number of searches, in the engine's private space."""
    searches = log.asked.distinct()
    return log.engine.stage(searches.group_by(["user", "query"]).agg(searches=searches.count()))


def searches_of(uses: ir.Table) -> ir.Table:
    """user and query, a row for each search."""
    return uses.select("user", "query", number=ibis.range(0, uses.searches).unnest())


def sorted_uses(uses: ir.Table) -> ir.Table:
    """query and user, sorted: the uses of a query follow each other."""
    return uses.select("query", "user").order_by(["query", "user"])
