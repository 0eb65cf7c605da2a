"""Counts of the query pool, in the order of query_pool.md: queries, then transitions and clicks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
from querycloak.methods.keys.thresholded import KeyCounts, by_count, by_noisy_count, release_keys
from querycloak.methods.keys.weighted_selection import WeightedSelection
from querycloak.methods.method import Drawn
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.query_pool.outside_plan import OutsidePlan
from querycloak.methods.query_pool.pool_accuracy import of_pairs
from querycloak.privacy.calibration.accuracy import TableAccuracy
from querycloak.privacy.calibration.weighted import WeightedPlan
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import Randomness

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
        self.left_out: str | None = None

    def release_public(
        self, counts: KeyCounts, public: PublicKeys, noise: Noise, threshold: int, randomness: Randomness
    ) -> pa.Table:
        """The public keys with a noisy count above the threshold."""
        return release_public(counts, public, noise, threshold, randomness)

    def release_keys(
        self, counts: KeyCounts, noise: Noise, threshold: int, randomness: Randomness, tie: float
    ) -> pa.Table:
        """The keys of the log with a noisy count above the threshold, or equal to it and passed by chance."""
        return release_keys(counts, noise, threshold, randomness, tie_probability=tie).table

    def count(self, contributions: ir.Table, key: Sequence[str]) -> KeyCounts:
        """Count contributions by key."""
        return KeyCounts.of(self.engine, contributions, key)

    def queries(self) -> ir.Table:
        """Each user's first distinct queries, with or without clicks."""
        return once_per_key(self.asked().select("user", "time", "query"), QUERY, self.method.bounds["queries"])

    def asked(self) -> ir.Table:
        """Rows whose queries count together: all that are kept."""
        return self.rows

    def transitions(self, released: ir.Table) -> ir.Table:
        """Each user's first transitions between released queries, once each; no other query of `rows` lies between."""
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
        return Drawn(tables, counts="public-keys", reach=self.reached(queries.num_rows), parameters=self.chosen())

    def reached(self, queries: int) -> dict[str, TableAccuracy]:
        """Accuracy of tables with thresholds that depend on the number of released queries."""
        return of_pairs(self.method, queries)

    def chosen(self) -> dict[str, str | None]:
        """Parameters that follow from released queries."""
        return {}

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
            self.release_keys(outside, noise, threshold, randomness, self.method.ties()["queries"]),
        ]
        return by_count(pa.concat_tables(parts), QUERY)

    def _released_clicks(self, released: ir.Table, names: pa.Array, randomness: Randomness) -> pa.Table:
        method = self.method
        if "urls" not in method.lists:
            counts = self.count(self.clicks(released, None), CLICK)
            noise, threshold = method.noises["clicks"], method.thresholds["clicks"]
            return self.release_keys(counts, noise, threshold, randomness, method.ties()["clicks"])
        urls = urls_of(method.lists["urls"], self.choices)
        clicked = self.clicks(released, self.engine.upload(pa.table({"url": urls})))
        return self._released_pairs(clicked, PublicKeys({"query": names, "url": urls}), "clicks", randomness)

    def _released_pairs(
        self, contributions: ir.Table, public: PublicKeys, table: str, randomness: Randomness
    ) -> pa.Table:
        noise = self.method.noises[table]
        counts = self.count(contributions, list(public.columns))
        threshold = self.method.pairs_threshold(table, public.size)
        return self.release_public(counts, public, noise, threshold, randomness)


class SelectingPooling(Pooling):
    """The pool with Gaussian noise, and selections of keys outside public lists (query_pool.md, *Selections*)."""

    def __init__(self, method: QueryPool, plan: OutsidePlan, log: SearchLog) -> None:
        self.plan = plan
        super().__init__(method, log)
        if method.off_pool:
            outside = self.rows.anti_join(self._pool_table, "query").select("user", "time", "query")
            self.outside = self.engine.stage(once_per_key(outside, QUERY, plan.selected["queries"].per_user))

    def reached(self, queries: int) -> dict[str, TableAccuracy]:
        """The accuracy of each table; without a budget for transitions, with the reason."""
        reached = super().reached(queries)
        if self.left_out is not None:
            moved = "" if self.plan.clicks_alone is None else ", and clicks by selection got the budget"
            note = f"Nothing was drawn{moved}: {self.left_out}."
            reached["transitions"] = replace(reached["transitions"], spurious=0.0, notes=(note,))
        return reached

    def chosen(self) -> dict[str, str | None]:
        """Reason that transitions got nothing, as a parameter; None if they got their part."""
        return {"transitions_left_out": self.left_out} if "transitions" in self.plan.public else {}

    def asked(self) -> ir.Table:
        """Queries of the pool: others are counted apart."""
        return self.rows.semi_join(self._pool_table, "query") if self.method.off_pool else self.rows

    def released_queries(self, randomness: Randomness) -> pa.Table:
        """The queries of the pool above their threshold, and others that are selected."""
        noise, threshold = self.method.noises["queries"], self.method.thresholds["queries"]
        queries = self.release_public(self.counts, PublicKeys({"query": self.pool}), noise, threshold, randomness)
        if not self.method.off_pool:
            return queries
        others = self.released_selection(self.selected(self.outside, QUERY, self.plan.selected["queries"]), randomness)
        both = pa.concat_tables([queries, others.select(queries.column_names)])
        return by_noisy_count(both.select(QUERY), both["count"].fill_null(0).to_numpy(), QUERY)

    def selected(self, contributions: ir.Table, key: Sequence[str], plan: WeightedPlan) -> WeightedSelection:
        """The selection of these keys, which the engine keeps."""
        return WeightedSelection.of(self.engine, contributions, key, plan, kept=True)

    def tables_given(self, queries: pa.Table, randomness: Randomness) -> dict[str, pa.Table]:
        """The tables that look at which queries came out, and at their noisy counts."""
        if "transitions" in self.plan.public:
            self.left_out = self.plan.no_transitions(queries)
        return super().tables_given(queries, randomness)

    def clicks_selected(self, released: ir.Table, plan: WeightedPlan) -> WeightedSelection:
        """The selection among clicks of released queries."""
        clicked = self.rows.filter(self.rows.url.notnull()).semi_join(released, "query")
        return self.selected(self.engine.stage(once_per_key(clicked, CLICK, plan.per_user)), CLICK, plan)

    def _released_clicks(self, released: ir.Table, names: pa.Array, randomness: Randomness) -> pa.Table:
        if "clicks" not in self.plan.selected:
            return super()._released_clicks(released, names, randomness)
        plan = self.plan.clicks_after(self.left_out)
        return self.released_selection(self.clicks_selected(released, plan), randomness)

    def released_selection(self, selection: WeightedSelection, randomness: Randomness) -> pa.Table:
        """The keys that are selected, with counts."""
        return selection.release(randomness).table

    def no_pairs(self, public: PublicKeys) -> pa.Table:
        """A table of no pair."""
        return public.none

    def _released_pairs(
        self, contributions: ir.Table, public: PublicKeys, table: str, randomness: Randomness
    ) -> pa.Table:
        if table == "transitions" and self.left_out is not None:
            return self.no_pairs(public)
        return super()._released_pairs(contributions, public, table, randomness)


def between(steps: ir.Table, released: ir.Table) -> ir.Table:
    """The steps from one released query to another."""
    return steps.semi_join(released, "query").semi_join(released.select(next_query=released.query), "next_query")
