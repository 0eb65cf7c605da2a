"""The query pool of Zhang, Yang and Singh (SIGIR 2016): the paper variant of `query-pool`. It is not private.

Rare queries are filtered by everybody's rows, then each user is bounded, then all keys that occur are released
(query_pool.md, counterexamples).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import ibis
import ibis.expr.types as ir
import pyarrow as pa

from querycloak.errors import ParameterError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.keys.contribution_bounding import first_records
from querycloak.methods.keys.public_keys import PublicKeys, release_public
from querycloak.methods.keys.public_lists import queries_of
from querycloak.methods.keys.thresholded import KeyCounts, by_count, release_keys
from querycloak.methods.method import Counted, Drawn
from querycloak.methods.query_pool.count import CLICK, QUERY, TRANSITION, between
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.sampling.exact import rounded_up
from querycloak.privacy.sampling.noise import Noise
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy


NOT_PRIVATE = (
    "which of all other users' queries count: one more user can bring rare queries over the filter, and this changes "
    "every other user's first queries (query_pool.md: a change of 8M+1 from one user)",
    "that a query outside the pool, a url or a transition occurs at all: one user alone can make it appear",
)


@dataclass(frozen=True, kw_only=True)
class PaperQueryPool(QueryPool):
    """The queries, clicks and transitions that the paper's filter leaves, with noise."""

    # The paper does not say: 100 comes nearest to its epsilon, 29.99 at b = 10.
    usual_bound: ClassVar[int] = 100

    def check_lists(self) -> None:
        """Refuse options of the default."""
        others = (self.clicks, self.urls, self.off_pool, self.split, self.selection, self.max_keys_per_user)
        if any(others) or self.delta is not None:
            raise ParameterError(
                Sentence(
                    "the paper variant releases all queries, clicks and transitions its own way: leave {clicks}, "
                    "{urls}, {off_pool}, {split}, {selection}, {max_keys_per_user} and {delta} out"
                )
            )

    @property
    def counts_clicks(self) -> bool:
        """There is always a table of clicks."""
        return True

    def parts(self) -> Mapping[str, int]:
        """In parts as large as the bounds, the three scales are one."""
        return self.bounds

    def guarantee(self) -> Guarantee:
        """No differential privacy."""
        return Guarantee(
            kind="syntactic",
            unit="user",
            neighbours=None,
            unprotected=(*NOT_PRIVATE, *ALWAYS, *self.public_lists()),
            because="not differentially private for any epsilon: rare queries are filtered by all users' rows before "
            "each user is bounded, and keys outside public lists come out (query_pool.md, counterexamples)",
        )

    def claimed(self) -> Guarantee:
        """The epsilon that the paper states, over its three tables."""
        parts = [bound / Fraction(self.noises[name].size) for name, bound in self.bounds.items()]
        return user_guarantee(
            rounded_up(sum(parts, Fraction(0))),
            None,
            "Zhang, Yang and Singh, SIGIR 2016, state epsilon with delta = 0, and no formula: this is the sum "
            "over their three tables",
        )

    def parameters(self) -> dict[str, Any]:
        """Given options, and the numbers computed from them; options of the default are None."""
        return {
            **super().parameters(),
            "clicks": None,
            "pairs_threshold": None,
            "transitions": None,
            "gap_minutes": None,
        }

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Release probability of queries if one user adds up to the bound to a single count."""
        from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage

        stage = Stage(self.noises["queries"], self.thresholds["queries"])
        return {"queries": [ReleaseProbability((stage,), most=self.bounds["queries"])]}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Queries above a threshold; every click and transition of theirs that occurs, with noise."""
        from querycloak.methods.counted_users import counted_records
        from querycloak.privacy.calibration.accuracy import TableAccuracy, rows_of_nobody

        noise = self.noises["queries"]
        counted = counted_records("queries", self.bounds["queries"], noise.words)
        spurious = rows_of_nobody(noise, self.thresholds["queries"], self.lists["pool"].size)
        (route,) = self.routes()["queries"]
        reached = {"queries": TableAccuracy.of_route(route, counted, spurious=spurious)}
        for table in ("clicks", "transitions"):
            if table in self.bounds:
                reached[table] = _of_all_that_occurs(self.noises[table], table, self.bounds[table])
        return reached

    def count(self, log: SearchLog) -> Counted:
        """Filter, bound and count."""

        return PaperPooling(self, log)


def _of_all_that_occurs(noise: Noise, table: str, bound: int) -> TableAccuracy:
    from querycloak.methods.counted_users import counted_records
    from querycloak.privacy.calibration.accuracy import Range, TableAccuracy, margin

    one, off = Range(1, 1), margin(noise)
    note = "What a single user did with a released query comes out; therefore this variant is not private."
    return TableAccuracy(counted_records(table, bound, noise.words), Range(off, off), one, one, 0.0, (note,))


_RARE = 5


class PaperPooling:
    """Filter by everybody's rows, then bound, then release all keys that occur."""

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
        """Every query of the pool, and every other that occurs, above a threshold."""
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
        """Every key that occurs, with noise: what the paper publishes, and what makes it not private."""
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
