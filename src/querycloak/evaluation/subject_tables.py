"""The queries, clicks and sequences that a subject has, from any of its tables; as text, in one form each."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from querycloak.evaluation.task import Subject

CLICKS, LATER, NEXT, QUERIES, ROWS = "clicks", "later", "next", "queries", "rows"
"""query, url, count · query, next_query (anywhere later in a session), count · the same, right after · query, count ·
user, time, query."""
_SEARCHES = 10**9
"""Searches of which counts of probable queries are a share."""
_LEFT_OUT = "its rows hold other texts in place of what was asked"


def _log_of(subject: Subject, column: str) -> bool:
    """True if the subject has a log of what was asked, with this column."""
    return "log" in subject.kinds and subject.rows.is_verbatim and column in subject.columns["log"]


def source_of(subject: Subject, known: str) -> str | None:
    """The table that tells what is to be known; the first that there is."""
    in_log = {CLICKS: "url", LATER: "time", NEXT: "time", QUERIES: "query", ROWS: "time"}[known]
    tables = {
        CLICKS: ("clicks",),
        LATER: ("sessions", "transitions"),
        NEXT: ("transitions", "sessions"),
        QUERIES: ("phrases", "queries", "clicks", "sessions"),
        ROWS: (),
    }[known]
    present = [table for table in tables if table in subject.kinds]
    return present[0] if present else "log" if _log_of(subject, in_log) else None


def lacks(subject: Subject, *known: str) -> str | None:
    """Reason that the subject knows none of these; None if it knows one."""
    if any(source_of(subject, each) for each in known):
        return None
    if "log" in subject.kinds and not subject.rows.is_verbatim:
        return _LEFT_OUT
    named = {CLICKS: "clicks", LATER: "sequences of queries", NEXT: "sequences of queries", QUERIES: "queries"}
    return f"it has no {' and no '.join(dict.fromkeys(named[each] for each in known))}"


def table_of(subject: Subject, known: str) -> pa.Table:
    """The table in its one form; only for what the subject knows."""
    source = source_of(subject, known)
    if source is None:
        raise TypeError(f"{subject.name} knows no {known}")
    table = subject.table(source)
    if source == "sessions":
        table = _pairs(table)
    if known == CLICKS:
        return _clicks_of_log(table) if source == "log" else table
    if source == "phrases":
        return _probable_queries(table, subject)
    if known == QUERIES:
        return _counted_queries(table)
    return table.select(["user", "time", "query"]) if source == "log" else table


def _probable_queries(phrases: pa.Table, subject: Subject) -> pa.Table:
    """query and count: the queries that the model of phrases finds probable, of a billion searches."""
    from querycloak.releases.release_model import model_of_phrases

    whole: dict[str, float] = {}
    if "queries" in subject.kinds:
        table = subject.table("queries")
        whole = dict(zip(table["query"].to_pylist(), map(float, table["count"].to_pylist()), strict=True))
    if not phrases.num_rows and not whole:
        return pa.table({"query": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    model = model_of_phrases(phrases.to_batches(), whole)
    probable = model.most_probable()
    counts = [int(_SEARCHES * model.score(query, probability)) for query, probability in probable.items()]
    return pa.table({"query": pa.array(list(probable), pa.string()), "count": pa.array(counts, pa.int64())})


def _pairs(sessions: pa.Table) -> pa.Table:
    """Of sequences those of two queries: longer ones count the same event again."""
    two = sessions.filter(pc.equal(pc.list_value_length(sessions["queries"]), 2))
    columns = [pc.list_element(two["queries"], place) for place in (0, 1)]
    return pa.table([*columns, two["count"]], ["query", "next_query", "count"])


def _clicks_of_log(rows: pa.Table) -> pa.Table:
    return _summed(_with_count(rows.filter(pc.is_valid(rows["url"]))), ["query", "url"])


def _counted_queries(table: pa.Table) -> pa.Table:
    """query and count: sums over all other columns, so a user may count several times."""
    table = _with_count(table)
    if "next_query" in table.column_names:
        first, second = (table.select([name, "count"]) for name in ("query", "next_query"))
        table = pa.concat_tables([first, second.rename_columns(["query", "count"])])
    return _summed(table, ["query"])


def _with_count(rows: pa.Table) -> pa.Table:
    """Rows of a log that are not counted count one each."""
    if "count" in rows.column_names:
        return rows
    return rows.append_column("count", pa.repeat(pa.scalar(1, pa.int64()), rows.num_rows))


def _summed(table: pa.Table, key: list[str]) -> pa.Table:
    counts = pc.max_element_wise(table["count"], 0)  # noise may take a count below 0
    whole = table.select(key).append_column("count", counts)
    return whole.group_by(key).aggregate([("count", "sum")]).rename_columns([*key, "count"])
