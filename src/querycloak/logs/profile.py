"""The profile of a log: true counts, hence private output."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

import ibis.expr.types as ir

from querycloak.logs.preflight import RowsPerUser, action_counts, rows_per_user
from querycloak.logs.reading.schema import MINUTE, pause_before
from querycloak.logs.searchlog import SearchLog, check_log
from querycloak.privacy.parameters import number_above_zero
from querycloak.shown_in_notebooks import ShownInNotebooks

MOST_WORDS = 5
GAP_MINUTES = 30


@dataclass(frozen=True)
class WordsPerQuery:
    """Words of a search's query: the mean, and the share of searches with 1, 2, 3, 4, and 5 or more."""

    mean: float
    shares: dict[str, float]


@dataclass(frozen=True)
class Coverage:
    """Share of searches, and of distinct queries, with a noun of WordNet."""

    searches: float
    distinct_queries: float


@dataclass(frozen=True, repr=False)
class Profile(ShownInNotebooks):
    """Figures that `inspect` shows."""

    rows_read: int
    rows_kept: int
    rejected: dict[str, int]
    users: int
    searches: int
    clicks: int
    distinct_queries: int
    distinct_pairs: int
    one_user_share: float
    words_per_query: WordsPerQuery
    wordnet_coverage: Coverage
    sessions: int
    first_time: datetime | None
    last_time: datetime | None
    rows_per_user: RowsPerUser
    actions: dict[str, int]
    """Events of a UBI log by action; empty for other formats."""
    views: int | None = None
    """Results shown; None if the log does not say it."""
    attributes: dict[str, int] = field(default_factory=dict)
    """Number of different values by attribute."""

    def __repr__(self) -> str:
        return f"<Profile: {self.rows_kept:,} rows, {self.users:,} users, {self.searches:,} searches (private)>"

    @property
    def set_aside(self) -> dict[str, int]:
        """Former name of `rejected`."""
        return self.rejected

    def to_json(self) -> dict[str, Any]:
        """The values of the profile; the key `set_aside` keeps its former name."""
        values = {"set_aside" if name == "rejected" else name: value for name, value in asdict(self).items()}
        for name in ("first_time", "last_time"):
            moment = values[name]
            values[name] = moment and moment.isoformat()
        return values


def profile(log: SearchLog, gap_minutes: float = GAP_MINUTES) -> Profile:
    """Profile a log. Kept rows are staged and passed over several times; attributes, views and UBI's actions are extra.

    Those may read the log once more each.
    """
    check_log(log)
    number_above_zero("gap_minutes", gap_minutes, "give the pause that ends a session, such as 30")
    rows = log.engine.stage(log.rows.select("user", "time", "query", "url"))
    accounting = log.checked()
    fetch = log.engine.fetch
    people = fetch(_people(rows, gap_minutes)).to_pylist()[0]
    by_query = log.engine.stage(_by_query(rows))
    queries = fetch(_queries(by_query)).to_pylist()[0]
    clicks = fetch(_clicks(rows)).to_pylist()[0]
    searches = queries["searches"] or 0
    shares = {_label(n): (queries[f"words_{n}"] or 0) / max(searches, 1) for n in range(1, MOST_WORDS + 1)}
    return Profile(
        rows_read=accounting.rows_read,
        rows_kept=accounting.rows_kept,
        rejected=accounting.rejected,
        users=people["users"] or 0,
        searches=searches,
        clicks=clicks["clicks"] or 0,
        distinct_queries=queries["distinct"],
        distinct_pairs=clicks["pairs"],
        one_user_share=(queries["one_user"] or 0) / max(queries["distinct"], 1),
        words_per_query=WordsPerQuery((queries["words"] or 0) / max(searches, 1), shares),
        wordnet_coverage=_coverage(log, by_query, searches, queries["distinct"]),
        sessions=people["sessions"] or 0,
        first_time=people["first"],
        last_time=people["last"],
        rows_per_user=rows_per_user(log, rows),
        actions=action_counts(log),
        views=_views(log),
        attributes=_values(log),
    )


def _views(log: SearchLog) -> int | None:
    """Number of shown results; None if the log has none."""
    if not log.shows_views():
        return None
    return int(log.engine.fetch(log.views.agg(views=log.views.count()))["views"][0].as_py())


def _values(log: SearchLog) -> dict[str, int]:
    """Number of values of each attribute."""
    if not log.attributes:
        return {}
    counts = log.rows.agg(**{name: log.rows[name].nunique() for name in log.attributes})
    numbers: dict[str, int] = log.engine.fetch(counts).to_pylist()[0]
    return numbers


def _people(rows: ir.Table, gap_minutes: float) -> ir.Table:
    """Users, sessions and the span of time: rows of one search pause for no time, so rows serve as searches do."""
    steps = rows.select(rows.time, pause=pause_before(rows, [rows.time]))
    return steps.agg(
        users=steps.pause.isnull().sum(),
        sessions=(steps.pause.isnull() | (steps.pause > gap_minutes * MINUTE)).sum(),
        first=steps.time.min(),
        last=steps.time.max(),
    )


def _by_query(rows: ir.Table) -> ir.Table:
    searches = rows.select("user", "time", "query").distinct()
    # A query has one user exactly when its least and greatest user are the same: no set of users is kept.
    return searches.group_by("query").agg(
        searches=searches.count(), one_user=searches.user.min() == searches.user.max()
    )


def _coverage(log: SearchLog, by_query: ir.Table, searches: int, distinct: int) -> Coverage:
    """Share of the log with a concept, which semantic methods can work with."""
    from querycloak.text.query_concepts import ConceptFinder
    from querycloak.text.wordnet import wordnet

    finder = ConceptFinder(wordnet())
    found_searches = found_queries = 0
    for batch in log.engine.stream(by_query.select("query", "searches")):
        known = finder.concepts(batch.column("query")) >= 0
        found_queries += int(known.sum())
        found_searches += int(batch.column("searches").to_numpy(zero_copy_only=False)[known].sum())
    return Coverage(found_searches / max(searches, 1), found_queries / max(distinct, 1))


def _queries(by_query: ir.Table) -> ir.Table:
    """Searches and distinct queries, with the words of each."""
    blanks = by_query.query.length() - by_query.query.replace(" ", "").length()
    counted = by_query.mutate(words=blanks.cast("int64") + 1)
    at_most = counted.words.clip(upper=MOST_WORDS)
    return counted.agg(
        searches=counted.searches.sum(),
        distinct=counted.count(),
        one_user=counted.one_user.sum(),
        words=(counted.words * counted.searches).sum(),
        **{f"words_{n}": counted.searches.sum(where=at_most == n) for n in range(1, MOST_WORDS + 1)},
    )


def _clicks(rows: ir.Table) -> ir.Table:
    clicks = rows.filter(rows.url.notnull())
    pairs = clicks.group_by(["query", "url"]).agg(clicks=clicks.count())
    return pairs.agg(clicks=pairs.clicks.sum(), pairs=pairs.count())


def _label(words: int) -> str:
    return f"{words}+" if words == MOST_WORDS else str(words)
