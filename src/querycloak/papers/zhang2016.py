"""The query pool of Zhang, Yang and Singh (SIGIR 2016): the paper variant of `query-pool`. It is not private.

Rare queries are filtered by the rows of all users, then each user is bounded, then all keys that occur are released
(query_pool.md, counterexamples).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import ParameterError
from querycloak.methods.method import Counted
from querycloak.methods.query_pool.method import QueryPool
from querycloak.methods.unprotected import ALWAYS
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.sampling.exact import rounded_up
from querycloak.privacy.sampling.noise import Noise

if TYPE_CHECKING:
    from querycloak.logs.searchlog import SearchLog
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
            raise ParameterError.of(
                "the paper variant releases all queries, clicks and transitions its own way: leave {clicks}, "
                "{urls}, {off_pool}, {split}, {selection}, {max_keys_per_user} and {delta} out"
            )

    @property
    def counts_clicks(self) -> bool:
        """There is always a table of clicks."""
        return True

    def parts(self) -> Mapping[str, int]:
        """Parts in proportion to the bounds, so that all tables have one scale of noise, as in the paper."""
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
        """Accuracy of queries above a threshold, and of all their clicks and transitions that occur, with noise."""
        from querycloak.methods.counted_users import counted_records
        from querycloak.privacy.calibration.accuracy import TableAccuracy, spurious_rows

        noise = self.noises["queries"]
        counted = counted_records("queries", self.bounds["queries"], noise.words)
        spurious = spurious_rows(noise, self.thresholds["queries"], self.lists["pool"].size)
        (route,) = self.routes()["queries"]
        reached = {"queries": TableAccuracy.of_route(route, counted, spurious=spurious)}
        for table in ("clicks", "transitions"):
            if table in self.bounds:
                reached[table] = _of_all_that_occurs(self.noises[table], table, self.bounds[table])
        return reached

    def count(self, log: SearchLog) -> Counted:
        """Filter, bound and count."""
        from querycloak.papers.zhang2016_count import PaperPooling

        return PaperPooling(self, log)


def _of_all_that_occurs(noise: Noise, table: str, bound: int) -> TableAccuracy:
    from querycloak.methods.counted_users import counted_records
    from querycloak.privacy.calibration.accuracy import Range, TableAccuracy, margin

    one, off = Range(1, 1), margin(noise)
    note = "What a single user did with a released query comes out; therefore this variant is not private."
    return TableAccuracy(counted_records(table, bound, noise.words), Range(off, off), one, one, 0.0, (note,))
