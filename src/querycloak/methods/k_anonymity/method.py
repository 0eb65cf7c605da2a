"""Queries and clicks shared by at least k users (proof note: k_anonymity.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from querycloak.errors import ParameterError
from querycloak.methods.forcing_accounts import accounts_of_a_rule
from querycloak.methods.keys.attributes import grouping_of
from querycloak.methods.method import Counted, CountedRows, Drawn, Method
from querycloak.methods.option import option
from querycloak.methods.unprotected import TWO_RELEASES, WITHOUT_GUARANTEE
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import whole
from querycloak.sentence import Parameter

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.calibration.accuracy import TableAccuracy
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.releases.tables import Table

Keys = Literal["queries", "clicks", "log"]
DMA_QUERY_USERS, DMA_PAIR_USERS = 30, 5
DMA_2024 = "dma-2024"
_ASSUMED = (
    "assumed by us: the log is the rule's 13 months, all its users are signed in, the 5 users of a pair clicked it, "
    "quarters are the calendar's"
)
DMA_ATTRIBUTES = "country,device"
_UNPROTECTED = (
    *WITHOUT_GUARANTEE,
    "exact numbers of users: somebody who knows all users of a key except one learns whether that one is among them",
    TWO_RELEASES,
)
_UNPROTECTED_IN = {
    "log": (
        "which queries belong to one person: together they can name somebody, although each is shared by k users",
        "how many rows each person has",
    ),
    "dma": ("device and country: the DMA's obligation counts users by them, and this preset does not",),
    DMA_2024: ("in which quarter, in which country and on which device five users clicked a result",),
}


@dataclass(frozen=True, kw_only=True)
class KAnonymity(Method):
    """Release queries, pairs or rows of queries that at least `min_users` users share."""

    name = "k-anonymity"
    summary = "What at least k users share; a baseline."

    min_users: int | None = option(help="A key comes out at this many users or more (the papers' KA(K) is K + 1).")
    keys: Keys | None = option(help="What is counted; log: rows under made-up names. clicks if not given.")
    preset: Literal["dma", "dma-2024"] | None = option(
        help="dma: 30 users of a query, 5 of a pair of query and url. dma-2024: the 5 users in one quarter, country "
        "and device."
    )
    by: str | None = option(help="With dma-2024: its attributes as the log names them; country,device if not given.")
    k: int = field(init=False, repr=False)
    counted: Keys = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        if self.preset is not None and (self.min_users is not None or self.keys is not None):
            preset = Parameter("preset", self.preset)
            raise ParameterError.of("{chosen} sets {min_users} and {keys} itself: leave these out", chosen=preset)
        if self.by is not None and self.preset != DMA_2024:
            raise ParameterError.of("{by} goes with {preset:dma-2024}: leave it out")
        grouping = grouping_of(self.by or DMA_ATTRIBUTES, None)
        if len(grouping.attributes) < len(grouping.by) or "quarter" in grouping.by:
            raise ParameterError.of("{by} must name columns of the log other than times: a row has its quarter")
        least = DMA_QUERY_USERS if self.preset else self.min_users
        k = whole("min_users", least, "say how many users must share a key, such as 30", least=2)
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "counted", self.keys or "clicks")

    @property
    def attributes(self) -> tuple[str, ...]:
        """Attributes that a log must be read with: those of dma-2024."""
        return grouping_of(self.by or DMA_ATTRIBUTES, None).attributes if self.preset == DMA_2024 else ()

    def parameters(self) -> dict[str, Any]:
        """The options that were given."""
        if self.preset:
            by = {"by": ",".join(self.attributes)} if self.attributes else {}
            return {"preset": self.preset, "min_users": DMA_QUERY_USERS, "min_users_of_pairs": DMA_PAIR_USERS, **by}
        return {"keys": self.counted, "min_users": self.k}

    def proven(self) -> Guarantee:
        """A rule about the output; no bound on the information in it."""
        return Guarantee(
            kind="syntactic",
            unit="user",
            neighbours=None,
            k=DMA_PAIR_USERS if self.preset else self.k,
            unprotected=(
                *_UNPROTECTED,
                accounts_of_a_rule(DMA_QUERY_USERS if self.preset else self.k, "key"),
                *_UNPROTECTED_IN.get(self.preset or self.counted, ()),
            ),
            because=self._because(),
        )

    def _because(self) -> str:
        if self.preset:
            rule = (
                f"queries of fewer than {DMA_QUERY_USERS} users and pairs of fewer than {DMA_PAIR_USERS} are left out"
            )
            if self.preset == DMA_2024:
                rule += f", pairs by quarter, {' and '.join(self.attributes)}"
        elif self.counted == "log":
            rule = f"rows whose query has fewer than {self.k} users are left out, and urls that fewer clicked"
        else:
            rule = f"{'pairs' if self.counted == 'clicks' else 'queries'} of fewer than {self.k} users are left out"
        return f"{rule} (k_anonymity.md)"

    def cautions(self) -> tuple[str, ...]:
        """Assumptions about dma-2024; none for other rules."""
        return (_ASSUMED,) if self.preset == DMA_2024 else ()

    def reach(self) -> Mapping[str, TableAccuracy]:
        """The rule itself: keys of at least this many users, with exact counts."""
        from querycloak.methods.counted_users import NO_COUNT, TABLES
        from querycloak.privacy.calibration.accuracy import Range, TableAccuracy

        def exact(table: str, users: int, *notes: str) -> TableAccuracy:
            return TableAccuracy.of_rule(f"{TABLES[table].holders}, all of them", Range(users, users), notes=notes)

        if self.preset:
            note = f"A pair comes out only if its query does: from {DMA_QUERY_USERS} users of the query on."
            return {"queries": exact("queries", DMA_QUERY_USERS), "clicks": exact("clicks", DMA_PAIR_USERS, note)}
        if self.counted == "log":
            users = Range(self.k, self.k)
            return {"log": TableAccuracy(NO_COUNT, users50=users, users95=users, spurious=0.0)}
        return {self.counted: exact(self.counted, self.k)}

    def count(self, log: SearchLog) -> Counted:
        """Count distinct users, and keep the keys that enough of them share."""
        if self.preset or self.counted == "clicks":
            from querycloak.methods.clicked import clicks_of

            clicks_of(log)
        if self.counted == "log" and not self.preset:
            shared = _shared_in_rows(log, self.k)
            return CountedRows(
                lambda randomness: Drawn({"log": _pseudonymised(log, *shared, randomness)}, counts="exact")
            )
        tables = self._tables(log)
        return CountedRows(lambda _: Drawn(tables, counts="exact"))

    def _tables(self, log: SearchLog) -> dict[str, Table]:
        """Tables of the keys shared by at least k users."""
        if self.preset:
            pair = ["query", "url", *self.attributes, *(("quarter",) if self.attributes else ())]
            queries = log.engine.stage(_shared(log.rows, ["query"], DMA_QUERY_USERS))
            pairs = _shared(self._clicks(log), pair, DMA_PAIR_USERS)
            return {
                "queries": _sorted(log, queries, "query"),
                "clicks": _sorted(log, pairs.semi_join(queries, "query"), *pair),
            }
        if self.counted == "queries":
            return {"queries": _sorted(log, _shared(log.asked, ["query"], self.k), "query")}
        return {"clicks": _sorted(log, _shared(log.clicks, ["query", "url"], self.k), "query", "url")}

    def _clicks(self, log: SearchLog) -> ir.Table:
        """Clicks; with attributes also the values of these (`other` for none) and the quarter of the year."""
        from querycloak.methods.keys.cell_counts import check_attributes, with_values

        if not self.attributes:
            return log.clicks
        check_attributes(log, grouping_of(",".join(self.attributes), None))
        clicks = with_values(log.clicks, self.attributes)
        quarter = clicks.time.year().cast("string") + "-Q" + clicks.time.quarter().cast("string")
        return clicks.mutate(quarter=quarter)


def _shared_in_rows(log: SearchLog, least: int) -> tuple[ir.Table, ir.Table]:
    """Queries and pairs of at least this number of users, kept in the engine."""
    queries = log.engine.stage(_shared(log.rows, ["query"], least).select("query"))
    # A url may name a person, as a query may: it comes out if as many users clicked it for this query.
    pairs = _shared(log.clicks, ["query", "url"], least).select("query", "url", shared=True)
    return queries, log.engine.stage(pairs)


def _shared(rows: ir.Table, key: list[str], least: int) -> ir.Table:
    counted = rows.group_by(key).agg(count=rows.user.nunique())
    return counted.filter(counted["count"] >= least)


def _sorted(log: SearchLog, table: ir.Table, *key: str) -> Table:
    from querycloak.methods.keys.thresholded import by_count

    return by_count(log.engine.fetch(table.select(*key, "count")), key)


def _pseudonymised(log: SearchLog, queries: ir.Table, pairs: ir.Table, randomness: Randomness) -> Table:
    """Rows under user names that were made for this release."""
    import ibis

    from querycloak.methods.keyed_digest import streamed

    rows = log.rows.semi_join(queries, "query")
    shared = rows.left_join(pairs, ["query", "url"]).drop("query_right", "url_right")
    kept = shared.mutate(url=ibis.ifelse(shared.shared.notnull(), shared.url, ibis.null("string")))
    return streamed(log, kept, ["user", "query", "url"], randomness)
