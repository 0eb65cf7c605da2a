"""The clicks of a log, for methods that count them; a log that can hold none is refused before anything is paid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from querycloak.errors import InputError
from querycloak.sentence import Action

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog

_WITHOUT_CLICKS = {
    "queries": Action("qc.Queries(...)", ("querycloak", "release", "queries")),
    "sequences": Action("qc.Sessions(..., no_clicks=True)", ("querycloak", "release", "sessions", "--no-clicks")),
    "pool": Action("qc.QueryPool(...)", ("querycloak", "release", "query-pool", "--clicks", "none")),
    "shared": Action(
        "qc.KAnonymity(..., keys='queries')", ("querycloak", "release", "k-anonymity", "--keys", "queries")
    ),
}


def clicks_of(log: SearchLog) -> ir.Table:
    """The rows with a click; whether there can be any follows from the log's format and columns alone."""
    if not log.source.reader.holds_clicks:
        raise InputError.of(
            "this log has no column of clicked urls (its format is {format}), so there is nothing to count; what "
            "works without clicks: {queries}; {sequences}; {pool}; {shared}",
            format=log.format,
            **_WITHOUT_CLICKS,
        )
    return log.clicks
