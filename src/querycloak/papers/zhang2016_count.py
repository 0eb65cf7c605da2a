"""Counts of the query pool of Zhang, Yang and Singh (SIGIR 2016) (query_pool.md, paper variant)."""

from __future__ import annotations

from collections.abc import Sequence

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.contribution_bounding import first_records
from querycloak.methods.keys.public_keys import PublicKeys, release_public
from querycloak.methods.keys.public_lists import queries_of
from querycloak.methods.keys.thresholded import KeyCounts, by_count, release_keys
from querycloak.methods.method import Drawn
from querycloak.methods.query_pool.count import CLICK, QUERY, TRANSITION, between
from querycloak.methods.query_pool.method import QueryPool
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import Randomness

_RARE = 5


class PaperPooling:
    """Filter by the rows of all users, then bound, then release all keys that occur."""

    def __init__(self, method: QueryPool, log: SearchLog) -> None:
        self.method, self.engine = method, log.engine
        self.pool = queries_of(method.lists["pool"], log.source.choices)
        rows = self.engine.stage(log.rows)
        self.clean = self.engine.stage(rows.semi_join(cleaned_queries(rows), "query"))
        self.counts = KeyCounts.of(self.engine, self.queries(), QUERY)

    def queries(self) -> ir.Table:
        """Each user's first searches among those that the filter left."""
        searches = self.clean.select("user", "time", "query").distinct()
        return first_records(searches, self.method.bounds["queries"])

    def draw(self, randomness: Randomness) -> Drawn:
        """Draw, table after table."""
        queries = self.released_queries(randomness)
        return Drawn({"queries": queries, **self.tables_given(queries, randomness)}, counts="one-draw")

    def released_queries(self, randomness: Randomness) -> pa.Table:
        """Noisy counts above a threshold, of the pool's queries and of all other queries that occur."""
        noise, threshold = self.method.noises["queries"], self.method.thresholds["queries"]
        pool = self.engine.upload(pa.table({"query": self.pool}))
        asked = self.counts.table
        inside, outside = (
            KeyCounts(self.engine, self.engine.stage(part), QUERY)
            for part in (asked.semi_join(pool, "query"), asked.anti_join(pool, "query"))
        )
        parts = [
            self.release_public(inside, PublicKeys({"query": self.pool}), noise, threshold, randomness),
            self.release_keys(outside, noise, threshold, randomness),
        ]
        return by_count(pa.concat_tables(parts), QUERY)

    def tables_given(self, queries: pa.Table, randomness: Randomness) -> dict[str, pa.Table]:
        """The tables of the queries that came out."""
        released = self.engine.upload(queries.select(QUERY))
        tables = {"clicks": self._fuzzed(self._clicks(released), CLICK, "clicks", randomness)}
        if "transitions" in self.method.bounds:
            steps = self._transitions(released)
            tables["transitions"] = self._fuzzed(steps, TRANSITION, "transitions", randomness)
        return tables

    def _clicks(self, released: ir.Table) -> ir.Table:
        clicked = self.clean.filter(self.clean.url.notnull())
        return first_records(clicked, self.method.bounds["clicks"]).semi_join(released, "query")

    def _transitions(self, released: ir.Table) -> ir.Table:
        searches = self.queries()
        order = ibis.window(group_by=searches.user, order_by=[searches.time, searches.query])
        steps = searches.select("user", query=searches.query.lag().over(order), next_query=searches.query)
        return between(steps.filter(steps.query.notnull()), released)

    def _fuzzed(self, records: ir.Table, key: Sequence[str], table: str, randomness: Randomness) -> pa.Table:
        """Noisy counts of all keys that occur, which the paper publishes: they are not private."""
        counted = records.group_by(list(key)).agg(n=records.count())
        occurring = self.engine.fetch(counted).sort_by([(name, "ascending") for name in key])
        return by_count(self.with_noise(occurring, self.method.noises[table], randomness), key)

    def with_noise(self, counts: pa.Table, noise: Noise, randomness: Randomness) -> pa.Table:
        """The keys with noisy counts `count` in place of their counts `n`."""
        noisy = counts["n"].to_numpy() + randomness.noise(noise, counts.num_rows)
        return counts.drop_columns(["n"]).append_column("count", pa.array(noisy))

    def release_public(
        self, counts: KeyCounts, public: PublicKeys, noise: Noise, threshold: int, randomness: Randomness
    ) -> pa.Table:
        """The public keys whose noisy count exceeds the threshold."""
        return release_public(counts, public, noise, threshold, randomness)

    def release_keys(self, counts: KeyCounts, noise: Noise, threshold: int, randomness: Randomness) -> pa.Table:
        """The keys of the log whose noisy count exceeds the threshold."""
        return release_keys(counts, noise, threshold, randomness).table


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
