"""What the query pool asks an engine for, in the order of query_pool.md: queries, then transitions and clicks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.logs.reading.schema import pause_before
from querycloak.logs.searchlog import MINUTE, SearchLog
from querycloak.methods.clicked import clicks_of
from querycloak.methods.keys.contribution_bounding import first_records, once_per_key
from querycloak.methods.keys.public_keys import PublicKeys, release_public
from querycloak.methods.keys.public_lists import queries_of, urls_of
from querycloak.methods.keys.thresholded import KeyCounts, by_count, release_keys
from querycloak.methods.method import Drawn
from querycloak.methods.noiseless import Noiseless, Past, Step
from querycloak.methods.query_pool.method import quiet_threshold
from querycloak.methods.query_pool.reached import of_pairs
from querycloak.methods.query_pool.stand_ins import StandIns
from querycloak.methods.runs import RUN, DrawnRuns, RepeatedDraw, numbered, tables_of_runs_alike
from querycloak.privacy.sampling.randomness import Randomness

if TYPE_CHECKING:
    from querycloak.methods.query_pool.method import QueryPool

QUERY, CLICK, TRANSITION = ("query",), ("query", "url"), ("query", "next_query")
_RARE = 5


class Pooling(RepeatedDraw, Noiseless):
    """The default variant: each user is bounded first, by that user's rows and what was released already."""

    def __init__(self, method: QueryPool, log: SearchLog) -> None:
        self._method, self._engine, self._choices = method, log.engine, log.source.choices
        if "clicks" in method.bounds:
            clicks_of(log)  # refuses a log that can hold none
        self._pool = queries_of(method.lists["pool"], self._choices)
        self._pool_table = self._engine.upload(pa.table({"query": self._pool}))
        rows = log.rows if "clicks" in method.bounds else log.asked
        rows = rows if method.off_pool else rows.semi_join(self._pool_table, "query")
        self._rows = self._engine.stage(rows)
        self._counts = self._count(self.queries(), QUERY)

    def _count(self, contributions: ir.Table, key: Sequence[str]) -> KeyCounts:
        return KeyCounts.of(self._engine, contributions, key)

    def queries(self) -> ir.Table:
        """Each user's first queries, once each, whatever was clicked."""
        return once_per_key(self._rows.select("user", "time", "query"), QUERY, self._method.bounds["queries"])

    def transitions(self, released: ir.Table) -> ir.Table:
        """Each user's first transitions between released queries, once each: no other query of ours lies between."""
        rows = self._rows
        order = ibis.window(group_by=rows.user, order_by=[rows.time, rows.query])
        pause = pause_before(rows, [rows.time, rows.query])
        steps = rows.select("user", "time", query=rows.query.lag().over(order), next_query=rows.query, pause=pause)
        steps = steps.filter(
            (steps.query != steps.next_query) & (steps.pause <= self._method.gap_minutes * MINUTE)
        ).select("user", "time", *TRANSITION)
        return once_per_key(_between(steps, released), TRANSITION, self._method.bounds["transitions"])

    def clicks(self, released: ir.Table, urls: ir.Table | None) -> ir.Table:
        """Each user's first clicks of released queries, on public urls if there is a list, once each."""
        clicked = self._rows.filter(self._rows.url.notnull()).semi_join(released, "query")
        if urls is not None:
            clicked = clicked.semi_join(urls, "url")
        return once_per_key(clicked, CLICK, self._method.bounds["clicks"])

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw, table after table."""
        queries = self._released_queries(randomness)
        tables = {"queries": queries, **self._tables_given(queries, randomness)}
        return Drawn(tables, counts="public-keys", reach=of_pairs(self._method, queries.num_rows))

    def draw_runs(self, randomness: Randomness, runs: int) -> DrawnRuns:
        """Queries in all runs; the other tables for all runs at once of which the same queries came out."""
        queries = self._released_queries(randomness, runs)
        # Of queries that nobody asked, later tables know no more than how many they are.
        asked = self._engine.fetch(self._rows.select("query").distinct())["query"]
        alike = StandIns.of(queries.select([RUN, "query"]), asked)
        others = tables_of_runs_alike(
            alike.table, QUERY, runs, lambda same, number: self._tables_given(same, randomness, number)
        )
        return DrawnRuns(runs, {"queries": queries, **{kind: alike.undone(table) for kind, table in others.items()}})

    def steps(self, past: Past) -> Sequence[Step]:
        """Counts of each table; the later ones for queries that are supposed to have come out."""
        method, pool = self._method, set(self._pool.to_pylist())
        queries = self._counts.numbers()
        steps = [self._step("queries", {key: n for key, n in queries.items() if key in pool})]
        if method.off_pool:
            outside = {key: n for key, n in queries.items() if key not in pool}
            steps.append(self._step("queries", outside, threshold=method.thresholds["queries"]))
        asked = self._engine.fetch(self._rows.select("query").distinct())["query"]
        names = [query for query in asked.to_pylist() if past.came_out(query)]
        released = self._engine.upload(pa.table({"query": pa.array(names, pa.string())}))
        if "clicks" in method.bounds:
            urls = urls_of(method.lists["urls"], self._choices) if "urls" in method.lists else None
            listed = None if urls is None else self._engine.upload(pa.table({"url": urls}))
            counts = self._count(self.clicks(released, listed), CLICK).numbers()
            threshold = method.thresholds["clicks"] if urls is None else None
            steps.append(self._step("clicks", counts, threshold=threshold))
        if "transitions" in method.bounds:
            steps.append(self._step("transitions", self._count(self.transitions(released), TRANSITION).numbers()))
        return steps

    def _step(self, table: str, counts: dict[str, int], threshold: int | None = None) -> Step:
        bound = self._method.bounds[table]
        noise = self._method.noises[table]
        return Step(f"{table}: counts", counts, bound, bound, 1, noise, threshold)

    def _tables_given(self, queries: pa.Table, randomness: Randomness, runs: int | None = None) -> dict[str, pa.Table]:
        """The tables that look at which queries came out."""
        names = queries["query"].combine_chunks()
        names = names.take(pc.sort_indices(names))
        released = self._engine.upload(pa.table({"query": names}))
        tables = {}
        if "clicks" in self._method.bounds:
            tables["clicks"] = self._released_clicks(released, names, randomness, runs)
        if "transitions" in self._method.bounds:
            pairs = PublicKeys({"query": names, "next_query": names}, different=True)
            steps = self.transitions(released)
            tables["transitions"] = self._released_pairs(steps, pairs, "transitions", randomness, runs)
        return tables

    def _released_queries(self, randomness: Randomness, runs: int | None = None) -> pa.Table:
        noise, threshold = self._method.noises["queries"], self._method.thresholds["queries"]
        public = PublicKeys({"query": self._pool})
        if not self._method.off_pool:
            return release_public(self._counts, public, noise, threshold, randomness, runs=runs)
        found = self._counts.table
        inside, outside = (
            KeyCounts(self._engine, self._engine.stage(part), QUERY)
            for part in (found.semi_join(self._pool_table, "query"), found.anti_join(self._pool_table, "query"))
        )
        parts = [
            release_public(inside, public, noise, threshold, randomness, runs=runs),
            release_keys(outside, noise, threshold, randomness, runs=runs).table,
        ]
        return by_count(pa.concat_tables(parts), QUERY)

    def _released_clicks(
        self, released: ir.Table, names: pa.Array, randomness: Randomness, runs: int | None
    ) -> pa.Table:
        method = self._method
        if "urls" not in method.lists:
            counts = self._count(self.clicks(released, None), CLICK)
            noise, threshold = method.noises["clicks"], method.thresholds["clicks"]
            return release_keys(counts, noise, threshold, randomness, runs=runs).table
        urls = urls_of(method.lists["urls"], self._choices)
        clicked = self.clicks(released, self._engine.upload(pa.table({"url": urls})))
        return self._released_pairs(clicked, PublicKeys({"query": names, "url": urls}), "clicks", randomness, runs)

    def _released_pairs(
        self, contributions: ir.Table, public: PublicKeys, table: str, randomness: Randomness, runs: int | None
    ) -> pa.Table:
        noise = self._method.noises[table]
        counts = self._count(contributions, list(public.columns))
        threshold = quiet_threshold(noise, max(public.size, 1))
        return release_public(counts, public, noise, threshold, randomness, runs=runs)


class PaperPooling(RepeatedDraw, Noiseless):
    """The paper's variant: filter by everybody's rows, then bound, then release all keys that occur."""

    def __init__(self, method: QueryPool, log: SearchLog) -> None:
        self._method, self._engine = method, log.engine
        self._pool = queries_of(method.lists["pool"], log.source.choices)
        rows = self._engine.stage(log.rows)
        self._clean = self._engine.stage(rows.semi_join(cleaned_queries(rows), "query"))
        self._counts = KeyCounts.of(self._engine, self.queries(), QUERY)

    def queries(self) -> ir.Table:
        """Each user's first searches among those that the filter left."""
        searches = self._clean.select("user", "time", "query").distinct()
        return first_records(searches, self._method.bounds["queries"])

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw, table after table."""
        queries = self._released_queries(randomness)
        return Drawn({"queries": queries, **self._tables_given(queries, randomness)}, counts="one-draw")

    def draw_runs(self, randomness: Randomness, runs: int) -> DrawnRuns:
        """Queries in all runs; the other tables for all runs at once of which the same queries came out."""
        queries = self._released_queries(randomness, runs)
        asked = self._engine.fetch(self._clean.select("query").distinct())["query"]
        known = queries.filter(pc.is_in(queries["query"], value_set=asked.combine_chunks())).sort_by("query")
        others = tables_of_runs_alike(
            known, QUERY, runs, lambda same, number: self._tables_given(same, randomness, number)
        )
        return DrawnRuns(runs, {"queries": queries, **others})

    def _released_queries(self, randomness: Randomness, runs: int | None = None) -> pa.Table:
        noise, threshold = self._method.noises["queries"], self._method.thresholds["queries"]
        pool = self._engine.upload(pa.table({"query": self._pool}))
        found = self._counts.table
        inside, outside = (
            KeyCounts(self._engine, self._engine.stage(part), QUERY)
            for part in (found.semi_join(pool, "query"), found.anti_join(pool, "query"))
        )
        parts = [
            release_public(inside, PublicKeys({"query": self._pool}), noise, threshold, randomness, runs=runs),
            release_keys(outside, noise, threshold, randomness, runs=runs).table,
        ]
        return by_count(pa.concat_tables(parts), QUERY)

    def steps(self, past: Past) -> Sequence[Step]:  # noqa: ARG002 (the first step refutes it)
        """Counts of queries, against what the paper's claim needs."""
        bound = self._method.bounds["queries"]
        noise, threshold = self._method.noises["queries"], self._method.thresholds["queries"]
        pool = set(self._pool.to_pylist())
        counts = self._counts.numbers()
        inside, outside = (
            {key: n for key, n in counts.items() if (key in pool) is of_pool} for of_pool in (True, False)
        )
        return [
            Step("queries: counts", inside, bound, noise=noise),
            Step("queries: counts", outside, bound, noise=noise, threshold=threshold),
        ]

    def _tables_given(self, queries: pa.Table, randomness: Randomness, runs: int | None = None) -> dict[str, pa.Table]:
        released = self._engine.upload(queries.select(QUERY))
        tables = {"clicks": self._fuzzed(self._clicks(released), CLICK, "clicks", randomness, runs)}
        if "transitions" in self._method.bounds:
            steps = self._transitions(released)
            tables["transitions"] = self._fuzzed(steps, TRANSITION, "transitions", randomness, runs)
        return tables

    def _clicks(self, released: ir.Table) -> ir.Table:
        clicked = self._clean.filter(self._clean.url.notnull())
        return first_records(clicked, self._method.bounds["clicks"]).semi_join(released, "query")

    def _transitions(self, released: ir.Table) -> ir.Table:
        searches = self.queries()
        order = ibis.window(group_by=searches.user, order_by=[searches.time, searches.query])
        steps = searches.select("user", query=searches.query.lag().over(order), next_query=searches.query)
        return _between(steps.filter(steps.query.notnull()), released)

    def _fuzzed(
        self, records: ir.Table, key: Sequence[str], table: str, randomness: Randomness, runs: int | None
    ) -> pa.Table:
        """Every key that occurs, with noise: what the paper publishes, and what makes it not private."""
        counted = records.group_by(list(key)).agg(n=records.count())
        found = self._engine.fetch(counted).sort_by([(name, "ascending") for name in key])
        if runs is not None:
            again = pa.array(np.tile(np.arange(found.num_rows), runs))
            found = numbered(found.take(again), np.repeat(np.arange(runs), found.num_rows))
        noisy = found["n"].to_numpy() + randomness.noise(self._method.noises[table], found.num_rows)
        return by_count(found.drop_columns(["n"]).append_column("count", pa.array(noisy)), key)


def cleaned_queries(rows: ir.Table) -> ir.Table:
    """The queries that the paper keeps: asked five times or more, without a term that only one user has."""
    searches = rows.select("user", "time", "query").distinct()
    asked = searches.group_by("query").agg(
        times=searches.count(), first_user=searches.user.min(), last_user=searches.user.max()
    )
    terms = asked.select("query", "first_user", "last_user", term=asked.query.split(" ").unnest())
    users = terms.group_by("term").agg(first=terms.first_user.min(), last=terms.last_user.max())
    unique = users.filter(users["first"] == users["last"]).select("term")
    with_unique = terms.semi_join(unique, "term").select("query").distinct()
    return asked.filter(asked.times >= _RARE).anti_join(with_unique, "query").select("query")


def _between(steps: ir.Table, released: ir.Table) -> ir.Table:
    """The steps from one released query to another."""
    return steps.semi_join(released, "query").semi_join(released.select(next_query=released.query), "next_query")
