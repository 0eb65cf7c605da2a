"""Queries that k users asked, or queries like them (what that means: affinity.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from querycloak.methods.forcing_accounts import accounts_beside, forced_out_rule
from querycloak.methods.method import Counted, CountedRows, Drawn, Method, Variant
from querycloak.methods.option import option
from querycloak.methods.unprotected import SEARCHES_OF_EACH, TWO_RELEASES, WITHOUT_GUARANTEE
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import number_above_zero, of_kind, refuse, whole
from querycloak.privacy.sampling.exact import stated
from querycloak.releases.row_kinds import RowKind
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.affinity.neighbourhood import Explained
    from querycloak.privacy.calibration.accuracy import TableAccuracy
    from querycloak.privacy.sampling.randomness import Randomness
    from querycloak.releases.tables import Table

DEFAULT_CONCEPT_USERS = 0.0001
MOST_MIN_USERS = 1_000_000
_MILLION = 1_000_000
_UNPROTECTED = (
    *WITHOUT_GUARANTEE,
    "which queries belong to one person: together they can name somebody, although each passed the rule alone",
    "that somebody asked a certain rare query: a released query may have only one user, and somebody who saw it typed "
    "finds everything else that this user asked",
    "words of few users: a word that is no concept weighs nothing, and a rare concept weighs little, so both come out "
    "together with a frequent word; whole names of people come out if each of their words has enough users",
    "that a query came out or did not: this depends on all queries of all users",
    "whether the log has concepts at all: an error says so to the person who runs it",
    SEARCHES_OF_EACH,
    TWO_RELEASES,
)


@dataclass(frozen=True, kw_only=True)
class Affinity(Method):
    """Release searches if at least `min_users` users asked their query, or queries with a cosine of `theta` to it."""

    name = "affinity"
    summary = "What k users asked, or something like it."
    explains_queries = True

    min_users: int | None = option(
        help="k: how many users must have asked a query, or queries like it that also come out."
    )
    theta: float = option(0.9, help="Two queries are alike if their cosine is at least this; at most six decimals.")
    concept_users: float = option(
        DEFAULT_CONCEPT_USERS,
        help="How many users must use a word or phrase for it to count in comparisons; below 1, a share of all users.",
    )
    min_word_users: int | None = option(
        help="w: how many users must use every word of a released query; k if not given, 2 in the paper variant."
    )
    max_neighbours: int | None = option(
        help="Compare each query with at most this many like it: less memory, but degrees become lower bounds."
    )
    keep_time: bool = option(False, help="Release times too; nothing protects them.")
    variant: Variant = option("default", help="paper: as published, with w = 2, to compare with.")
    k: int = field(init=False, repr=False)
    w: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.check_choices()
        way_out = "say how many users must protect a query, such as 10"
        k = whole("min_users", self.min_users, way_out, least=2, most=MOST_MIN_USERS)
        object.__setattr__(self, "k", k)
        object.__setattr__(self, "theta", _checked_theta(self.theta))
        object.__setattr__(self, "concept_users", _checked_concept_users(self.concept_users))
        words = self.usual_word_users if self.min_word_users is None else self.min_word_users
        w = whole("min_word_users", words, "say how many users each word needs, such as 10", least=2)
        object.__setattr__(self, "w", w)
        if self.max_neighbours is not None:
            whole("max_neighbours", self.max_neighbours, "leave it out for exact degrees", least=1)

    @property
    def usual_word_users(self) -> int:
        """The number of users that every word needs if it is not given: as many as a query."""
        return self.k

    def parameters(self) -> dict[str, Any]:
        """Given options."""
        return {
            "min_users": self.min_users,
            "theta": self.theta,
            "concept_users": self.concept_users,
            "min_word_users": self.w,
            "max_neighbours": self.max_neighbours,
            "keep_time": self.keep_time,
        }

    def proven(self) -> Guarantee:
        """A rule about single queries of the output; no bound on what they tell."""
        probe = (
            "who else used a word (the word probe): somebody who asks a frequent query with one more word, from "
            f"{_accounts(self.w - 1)}, sees in the release whether anybody else used that word"
        )
        rule = forced_out_rule(self.name, self.variant, self.parameters())
        accounts = () if rule is None else (accounts_beside(rule),)
        times = ("when each search was made",) if self.keep_time else ()
        return Guarantee(
            kind="syntactic",
            unit="query",
            neighbours=None,
            k=self.k,
            unprotected=(*_UNPROTECTED, probe, *accounts, *times),
            because=f"a query comes out if at least {self.min_users} users asked it or queries like it that come out "
            f"(cosine {self.theta:g} or more), and if each of its words has at least {self.w} users (affinity.md)",
        )

    @property
    def millionths(self) -> int:
        """theta as the whole number that cosines are compared with."""
        return int(stated(self.theta) * _MILLION)

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Users that a query needs: one, if enough users asked similar queries, up to `min_users`, if nobody did."""
        from querycloak.methods.counted_users import NO_COUNT
        from querycloak.privacy.calibration.accuracy import Range, TableAccuracy

        users = Range(1, max(self.k, self.w))
        note = "A query of one user comes out if queries like it bring enough users together."
        return {"log": TableAccuracy(NO_COUNT, users50=users, users95=users, spurious=0.0, notes=(note,))}

    def count(self, log: SearchLog) -> Counted:
        """Count degrees and filter."""
        from querycloak.methods.distinct_queries import uses_of

        uses = uses_of(log)
        log.checked()  # before the long part
        passed = self._passed(log, uses)

        def drawn(randomness: Randomness) -> Drawn:
            tables = {"log": self._renamed(log, uses, passed, randomness)}
            return Drawn(tables, counts="exact", rows=RowKind.ALIKE)

        return CountedRows(drawn)

    def _passed(self, log: SearchLog, uses: ir.Table) -> ir.Table:
        """The queries that come out, in the engine."""
        import pyarrow as pa

        from querycloak.methods.affinity.cores import degrees_at, expand_log

        if log.engine.name == "spark" and self.max_neighbours is None:
            from querycloak.methods.affinity.clustered_core import Rule, passed_queries

            return passed_queries(log, uses, Rule(self.concept_users, self.w, self.millionths, self.k))
        expansion = expand_log(log, uses, self.concept_users, self.w, log.progress)
        degrees = degrees_at(
            expansion,
            self.millionths,
            self.k,
            max_neighbours=self.max_neighbours,
            threads=log.engine.threads,
            progress=lambda share: log.progress("comparing queries", share),
        )
        log.progress("writing", 0.0)
        enough = pa.array(degrees >= self.k)
        return log.engine.upload(pa.table({"query": expansion.expanded.queries.filter(enough)}))

    def _renamed(self, log: SearchLog, uses: ir.Table, passed: ir.Table, randomness: Randomness) -> Table:
        """The searches for passed queries, under names that only this release has."""
        from querycloak.methods.distinct_queries import searches_of
        from querycloak.methods.keyed_digest import streamed

        if self.keep_time:
            searches = log.asked.distinct().semi_join(passed, "query")
            return streamed(log, searches, ["user", "query", "time"], randomness)
        return streamed(log, searches_of(uses.semi_join(passed, "query")), ["user", "query"], randomness)

    def cautions(self) -> Sequence[Sentence]:
        """Words of fewer users than a query needs come out with it."""
        if self.w >= self.k:
            return ()
        return (
            Sentence(
                "words of only {users} users, surnames among them, come out beside frequent words; {more} holds them "
                "back",
                users=self.w,
                more=Parameter("min_word_users", str(self.k)),
            ),
        )

    def explain(self, log: SearchLog, query: str) -> Explained:
        """Protection of a query: private output."""
        from querycloak.logs.searchlog import check_log
        from querycloak.methods.affinity.neighbourhood import explain

        check_log(log)
        of_kind("query", query, str, "the text of a query", "as it was asked")
        return explain(self, log, query)


def _accounts(number: int) -> str:
    return "one account" if number == 1 else f"{number:,} accounts"


def _checked_theta(theta: object) -> float:
    rule, way_out = "a number above 0 and at most 1", "give a cosine such as 0.9"
    number = number_above_zero("theta", theta, way_out)
    if number > 1:
        refuse("theta", rule, theta, way_out)
    if (stated(number) * _MILLION).denominator != 1:
        refuse("theta", "a number of at most six decimals", theta, way_out)
    return number


def _checked_concept_users(given: object) -> float | int:
    way_out = "give a share of users such as 0.0001, or a number such as 65"
    number = number_above_zero("concept_users", given, way_out)
    if number >= 1 and stated(number) != Fraction(int(number)):
        refuse("concept_users", "a share below 1 or a whole number", given, way_out)
    return number if number < 1 else int(number)
