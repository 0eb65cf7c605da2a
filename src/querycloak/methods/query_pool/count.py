"""Counts of the query pool, in the order of query_pool.md: queries, then transitions and clicks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.logs.reading.schema import MINUTE, pause_before
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.clicked import clicks_of
from querycloak.methods.keys.contribution_bounding import once_per_key
from querycloak.methods.keys.public_keys import PublicKeys, release_public
from querycloak.methods.keys.public_lists import queries_of, urls_of
from querycloak.methods.keys.thresholded import KeyCounts, by_count, release_keys
from querycloak.methods.method import Drawn
from querycloak.methods.query_pool.method import quiet_threshold
from querycloak.methods.query_pool.reached import of_pairs
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness

if TYPE_CHECKING:
    from querycloak.methods.query_pool.method import QueryPool

QUERY, CLICK, TRANSITION = ("query",), ("query", "url"), ("query", "next_query")


class Pooling:
    """Each user is bounded first, by that user's rows and what was released already."""

    def __init__(self, method: QueryPool, log: SearchLog) -> None:
        self.method, self.engine, self.choices = method, log.engine, log.source.choices
        if "clicks" in method.bounds:
            clicks_of(log)  # refuses a log that can hold none
        self.pool = queries_of(method.lists["pool"], self.choices)
        self._pool_table = self.engine.upload(pa.table({"query": self.pool}))
        rows = log.rows if "clicks" in method.bounds else log.asked
        rows = rows if method.off_pool else rows.semi_join(self._pool_table, "query")
        self.rows = self.engine.stage(rows)
        self.counts = self.count(self.queries(), QUERY)

    def release_public(
        self, counts: KeyCounts, public: PublicKeys, noise: Laplace, threshold: int, randomness: Randomness
    ) -> pa.Table:
        """The public keys whose noisy count exceeds the threshold."""
        return release_public(counts, public, noise, threshold, randomness)

    def release_keys(self, counts: KeyCounts, noise: Laplace, threshold: int, randomness: Randomness) -> pa.Table:
        """The keys of the log whose noisy count exceeds the threshold."""
        return release_keys(counts, noise, threshold, randomness).table

    def count(self, contributions: ir.Table, key: Sequence[str]) -> KeyCounts:
        """Count contributions by key."""
        return KeyCounts.of(self.engine, contributions, key)

    def queries(self) -> ir.Table:
        """Each user's first queries, once each, with or without clicks."""
        return once_per_key(self.rows.select("user", "time", "query"), QUERY, self.method.bounds["queries"])

    def transitions(self, released: ir.Table) -> ir.Table:
        """Each user's first transitions between released queries, once each: no other query of ours lies between."""
        rows = self.rows
        order = ibis.window(group_by=rows.user, order_by=[rows.time, rows.query])
        pause = pause_before(rows, [rows.time, rows.query])
        steps = rows.select("user", "time", query=rows.query.lag().over(order), next_query=rows.query, pause=pause)
        steps = steps.filter(
            (steps.query != steps.next_query) & (steps.pause <= self.method.gap_minutes * MINUTE)
        ).select("user", "time", *TRANSITION)
        return once_per_key(between(steps, released), TRANSITION, self.method.bounds["transitions"])

    def clicks(self, released: ir.Table, urls: ir.Table | None) -> ir.Table:
        """Each user's first clicks of released queries, on public urls if there is a list, once each."""
        clicked = self.rows.filter(self.rows.url.notnull()).semi_join(released, "query")
        if urls is not None:
            clicked = clicked.semi_join(urls, "url")
        return once_per_key(clicked, CLICK, self.method.bounds["clicks"])

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw, table after table."""
        queries = self.released_queries(randomness)
        tables = {"queries": queries, **self.tables_given(queries, randomness)}
        return Drawn(tables, counts="public-keys", reach=of_pairs(self.method, queries.num_rows))

    def tables_given(self, queries: pa.Table, randomness: Randomness) -> dict[str, pa.Table]:
        """The tables that look at which queries came out."""
        names = queries["query"].combine_chunks()
        names = names.take(pc.sort_indices(names))
        released = self.engine.upload(pa.table({"query": names}))
        tables = {}
        if "clicks" in self.method.bounds:
            tables["clicks"] = self._released_clicks(released, names, randomness)
        if "transitions" in self.method.bounds:
            pairs = PublicKeys({"query": names, "next_query": names}, different=True)
            steps = self.transitions(released)
            tables["transitions"] = self._released_pairs(steps, pairs, "transitions", randomness)
        return tables

    def released_queries(self, randomness: Randomness) -> pa.Table:
        """The queries of the pool, and others above a threshold if they may come out."""
        noise, threshold = self.method.noises["queries"], self.method.thresholds["queries"]
        public = PublicKeys({"query": self.pool})
        if not self.method.off_pool:
            return self.release_public(self.counts, public, noise, threshold, randomness)
        asked = self.counts.table
        inside, outside = (
            KeyCounts(self.engine, self.engine.stage(part), QUERY)
            for part in (asked.semi_join(self._pool_table, "query"), asked.anti_join(self._pool_table, "query"))
        )
        parts = [
            self.release_public(inside, public, noise, threshold, randomness),
            self.release_keys(outside, noise, threshold, randomness),
        ]
        return by_count(pa.concat_tables(parts), QUERY)

    def _released_clicks(self, released: ir.Table, names: pa.Array, randomness: Randomness) -> pa.Table:
        method = self.method
        if "urls" not in method.lists:
            counts = self.count(self.clicks(released, None), CLICK)
            noise, threshold = method.noises["clicks"], method.thresholds["clicks"]
            return self.release_keys(counts, noise, threshold, randomness)
        urls = urls_of(method.lists["urls"], self.choices)
        clicked = self.clicks(released, self.engine.upload(pa.table({"url": urls})))
        return self._released_pairs(clicked, PublicKeys({"query": names, "url": urls}), "clicks", randomness)

    def _released_pairs(
        self, contributions: ir.Table, public: PublicKeys, table: str, randomness: Randomness
    ) -> pa.Table:
        noise = self.method.noises[table]
        counts = self.count(contributions, list(public.columns))
        threshold = quiet_threshold(noise, max(public.size, 1))
        return self.release_public(counts, public, noise, threshold, randomness)


def between(steps: ir.Table, released: ir.Table) -> ir.Table:
    """The steps from one released query to another."""
    return steps.semi_join(released, "query").semi_join(released.select(next_query=released.query), "next_query")
