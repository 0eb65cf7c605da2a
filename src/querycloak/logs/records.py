"""Records of a log: a row for each result shown or clicked, or for a search without one."""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir

from querycloak.logs.reading.schema import COLUMNS, REQUIRED, SHOWN

_NO_RANK = ibis.null("int32")


def records_of(searches: ir.Table, events: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """Records of searches with lists of results (`shown`) and of events that tell a result and whether it was clicked.

    A result counts once for a search: at its place in the list, else at its least rank, and as clicked if any event
    clicked it. A result that was clicked and is on no list was shown as well.
    """
    names = [*REQUIRED, *attributes]
    lists = searches.select(*names, url=searches.shown).unnest("url", offset="place")
    listed = lists.select(*names, "url", listed=(lists.place + 1).cast("int32"), rank=_NO_RANK, clicked=False)
    results = listed.union(events.select(*names, "url", "rank", "clicked", listed=_NO_RANK).select(*listed.columns))
    each = results.group_by([*REQUIRED, "url"]).agg(
        rank=ibis.coalesce(results.listed.min(), results["rank"].min()),
        clicked=results.clicked.max(),
        **{name: results[name].min() for name in attributes},
    )
    alone = _alone(searches.select(*names), each, attributes)
    order = [*COLUMNS, "clicked", *attributes]
    return each.select(*order).union(alone.select(*order))


def rows_of(records: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """The rows of a log that has a row for each result shown: its clicks, and the searches without one, once."""
    clicks = records.filter(records.clicked & records.url.notnull()).select(*COLUMNS, *attributes)
    return clicks.union(_alone(records, clicks, attributes).select(*COLUMNS, *attributes))


def listed_events(rows: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """The clicks among rows whose searches have lists of results."""
    return rows.filter(rows.url.notnull()).select(*COLUMNS, *attributes, clicked=True)


def listed_searches(rows: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """The searches among rows, with their lists of results."""
    return rows.select(*REQUIRED, *attributes, SHOWN.name)


def _alone(searches: ir.Table, results: ir.Table, attributes: Sequence[str]) -> ir.Table:
    """Searches without any of the results, once each."""
    once = searches.group_by(list(REQUIRED)).agg(**{name: searches[name].min() for name in attributes})
    alone = once.distinct().anti_join(results, list(REQUIRED))
    return alone.mutate(rank=ibis.null("int32"), url=ibis.null("string"), clicked=ibis.literal(False))
