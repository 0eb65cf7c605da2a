"""Subjects of an evaluation: the queries, clicks and sequences that each has, from any of its tables.

Beside the releases stand three baselines: the original in a release's form, plain k-anonymity, and `NoData`, a rule
without any log. The rule knows public text and the question that TEST asks. Where a task compares tables with TRAIN,
its tables are those of public phrases with their public frequency (`text/english.py`). A release may keep a large share
of the log's value and add nothing to this rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.numbered_logs import GAP_MINUTES
from querycloak.evaluation.task import K_ANONYMITY, NO_DATA, ORIGINAL, Baseline, Subject
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.sequences import steps_of
from querycloak.methods.k_anonymity.method import KAnonymity
from querycloak.releases.tables import KINDS, OF_DRAWS
from querycloak.text.english import public_phrases

CLICKS, LATER, NEXT, QUERIES, ROWS = "clicks", "later", "next", "queries", "rows"
"""query, url, count · query, next_query (anywhere later in a session), count · the same, right after · query, count ·
user, time, query."""
_LEFT_OUT = "its rows hold other texts in place of what was asked"


def source_of(subject: Subject, known: str) -> str | None:
    """The first table that holds the wanted knowledge."""
    in_log = {CLICKS: "url", LATER: "time", NEXT: "time", QUERIES: "query", ROWS: "time"}[known]
    tables = {
        CLICKS: ("clicks",),
        LATER: ("sessions", "transitions"),
        NEXT: ("transitions", "sessions"),
        QUERIES: ("phrases", "queries", "clicks", "sessions"),
        ROWS: (),
    }[known]
    present = [table for table in tables if table in subject.kinds]
    if present:
        return present[0]
    asked = "log" in subject.kinds and subject.rows.is_verbatim
    return "log" if asked and in_log in subject.columns["log"] else None


def lacks(subject: Subject, *known: str) -> str | None:
    """Reason that the subject knows none of these; None if it knows one."""
    if any(source_of(subject, each) for each in known):
        return None
    if "log" in subject.kinds and not subject.rows.is_verbatim:
        return _LEFT_OUT
    named = {CLICKS: "clicks", LATER: "sequences of queries", NEXT: "sequences of queries", QUERIES: "queries"}
    return f"it has no {' and no '.join(dict.fromkeys(named[each] for each in known))}"


def table_of(subject: Subject, known: str) -> pa.Table:
    """The table in its common form; only for kinds of knowledge that the subject has."""
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
    """query and count: queries in the order of the model of phrases; counts fall by 1 and have no other meaning."""
    from querycloak.releases.release_model import model_of_phrases

    whole: dict[str, float] = {}
    if "queries" in subject.kinds:
        table = subject.table("queries")
        whole = dict(zip(table["query"].to_pylist(), map(float, table["count"].to_pylist()), strict=True))
    if not phrases.num_rows and not whole:
        return pa.table({"query": pa.array([], pa.string()), "count": pa.array([], pa.int64())})
    ranked = model_of_phrases(phrases.to_batches(), whole).ranked()
    places = pa.array(range(len(ranked), 0, -1), pa.int64())
    return pa.table({"query": pa.array(ranked, pa.string()), "count": places})


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


_NOT_OF_A_LOG = frozenset({"phrases", "positions", "cells", *OF_DRAWS})
"""Tables that a log's queries and views hold already."""
MIN_USERS = 5
"""The k of plain k-anonymity."""


class Original(Baseline):
    """TRAIN itself in a release's form: counts are numbers of events, sequences have two queries."""

    name = method = ORIGINAL

    def __init__(self, train: SearchLog) -> None:
        self._train = train

    @property
    def kinds(self) -> tuple[str, ...]:
        """Tables that TRAIN can be written as; no clicks if the log can hold none."""
        left_out = _NOT_OF_A_LOG if _holds_clicks(self._train) else {*_NOT_OF_A_LOG, "clicks"}
        return tuple(kind for kind in KINDS if kind not in left_out)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table; no url if the log can hold no clicks."""
        left_out = () if _holds_clicks(self._train) else ("url",)
        return {kind: tuple(name for name in KINDS[kind].columns if name not in left_out) for kind in self.kinds}

    def table(self, kind: str) -> pa.Table:
        """TRAIN in the form of this table."""
        made: Mapping[str, Callable[[], ir.Table]] = {
            "queries": lambda: _counted(self._train.searches, "query"),
            "clicks": lambda: _counted(self._train.clicks, "query", "url"),
            "transitions": lambda: _counted(_next(self._train), "query", "next_query"),
            "sessions": lambda: _in_lists(_counted(_later(self._train), "query", "next_query")),
            "log": lambda: _counted(self._train.rows, *KINDS["log"].columns),
        }
        return self._train.engine.fetch(made[kind]().select(*KINDS[kind].columns))


def _holds_clicks(log: SearchLog) -> bool:
    """True if there can be clicks, by the log's format and columns alone."""
    return log.source.reader.holds_clicks


def _counted(rows: ir.Table, *key: str) -> ir.Table:
    columns = [name for name in key if name != "count"]
    return rows.group_by(columns).agg(count=rows.count())


def _next(log: SearchLog) -> ir.Table:
    """Two queries that were asked one right after the other in a session."""
    steps = steps_of(log.rows, GAP_MINUTES)
    order = ibis.window(group_by=steps.user, order_by=[steps["at"], steps.query])
    ahead = steps.select(
        "query", next_query=steps.query.lead().over(order), ends=steps.begins.lead().over(order).fill_null(True)
    )
    return ahead.filter(~ahead.ends).select("query", "next_query")


def _later(log: SearchLog) -> ir.Table:
    """Two different queries of one session, in order."""
    steps = steps_of(log.rows, GAP_MINUTES)
    order = [steps["at"], steps.query]
    so_far = ibis.window(group_by=steps.user, order_by=order, preceding=None, following=0)
    numbered = steps.select(
        "user",
        "query",
        session=steps.begins.cast("int64").sum().over(so_far),
        place=ibis.row_number().over(ibis.window(group_by=steps.user, order_by=order)),
    )
    others = numbered.select("user", "session", next_query=numbered.query, next_place=numbered.place)
    both = numbered.inner_join(others, ["user", "session"])
    return both.filter((both.place < both.next_place) & (both.query != both.next_query))


def _in_lists(pairs: ir.Table) -> ir.Table:
    return pairs.select("count", queries=ibis.array([pairs.query, pairs.next_query]))


class PlainKAnonymity(Baseline):
    """Baseline: queries and clicks shared by at least five users of TRAIN, with their numbers of users."""

    name = method = K_ANONYMITY

    def __init__(self, train: SearchLog) -> None:
        keys: tuple[Literal["queries", "clicks"], ...] = ("queries", "clicks")
        self._tables: dict[str, pa.Table] = {
            kind: KAnonymity(min_users=MIN_USERS, keys=kind).release(train).table(kind)
            for kind in (keys if _holds_clicks(train) else keys[:1])
        }

    @property
    def kinds(self) -> tuple[str, ...]:
        """Queries and clicks; no clicks if the log can hold none."""
        return tuple(self._tables)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""
        return {kind: tuple(table.column_names) for kind, table in self._tables.items()}

    parameters: Mapping[str, Any] = MappingProxyType({"min_users": MIN_USERS})

    def table(self, kind: str) -> pa.Table:
        """One of its two tables."""
        return self._tables[kind]


NO_USERS = "without a log nobody's searches are known"
NOT_OF_USERS = "its counts are those of printed books, not of users"
NOTHING, UNKNOWN = -1, -2
"""No further suggestion; a suggestion that stands in neither log."""


class NoData(Baseline):
    """Public phrases by public frequency, and an address guessed from each; `log` decides the form of addresses."""

    name = method = NO_DATA

    def __init__(self, log: SearchLog) -> None:
        self._log = log

    @property
    def kinds(self) -> tuple[str, ...]:
        """Queries and clicks; no clicks if the log can hold none."""
        return ("queries", "clicks") if self._log.source.reader.holds_clicks else ("queries",)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""
        columns = {"queries": ("query", "count"), "clicks": ("query", "url", "count")}
        return {kind: columns[kind] for kind in self.kinds}

    def table(self, kind: str) -> pa.Table:
        """Public phrases; in `clicks` with the address guessed from each."""
        phrases = public_phrases().rename_columns(["query", "count"])
        return phrases if kind == "queries" else with_guesses(phrases, self._log)


def with_guesses(table: pa.Table, log: SearchLog) -> pa.Table:
    """query, url and count: the address http://www.QUERY.com, blanks removed, in the form in which the log keeps it.

    A query that is an address already (www.QUERY.org, QUERY.net) keeps its own ending.
    """
    scheme = "" if log.source.choices.keep_url == "host" else "http://"
    joined = pc.replace_substring(table["query"].cast(pa.string()), " ", "")
    names = pc.replace_substring_regex(joined, r"^(https?://)?(www\.)?", "")
    endings = pc.if_else(pc.match_substring_regex(names, r"\.[a-z]{2,4}$"), "", ".com")
    urls = pc.binary_join_element_wise(f"{scheme}www.", names, endings, "")
    return pa.table({"query": table["query"], "url": urls, "count": table["count"]})


def guessed_clicks(test: SearchLog) -> pa.Table:
    """The guess for each query with clicks of TEST: the question asked, not its answer."""
    queries = test.engine.fetch(test.clicks.select("query").distinct())
    return with_guesses(queries.append_column("count", pa.array(np.ones(queries.num_rows, np.int64))), test)


def without_a_word(queries: pa.Array, texts: pa.Array, most: int) -> NDArray[np.int32]:
    """By query: indices into `texts` of the query without its last word, without its last but one, and so on.

    `NOTHING` follows the last of them: a query of one word has none. `UNKNOWN` is a suggestion that is not in `texts`.
    """
    words = pc.split_pattern(queries.cast(pa.string()), " ")
    lengths = pc.list_value_length(words).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = np.full((len(queries), most), NOTHING, np.int32)
    flat, ends = words.flatten(), np.cumsum(lengths)
    for place in range(most):
        able = lengths > max(1, place)
        dropped = np.zeros(len(flat), np.bool_)
        dropped[ends[able] - 1 - place] = True
        offsets = np.concatenate([[0], np.cumsum(lengths - able)])
        kept = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat.filter(pa.array(~dropped)))
        suggestions = pc.binary_join(kept, " ").cast(texts.type)
        known = pc.fill_null(pc.index_in(suggestions, value_set=texts), UNKNOWN).to_numpy(zero_copy_only=False)
        known = np.where((known[:, None] == numbers[:, :place]).any(axis=1), UNKNOWN, known)  # "new new york", twice
        numbers[able, place] = known[able]
    return numbers
