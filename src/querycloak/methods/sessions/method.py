"""Noisy counts of query sequences within sessions, and of clicks beside them (proof: sessions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from querycloak.errors import ParameterError
from querycloak.methods.clicks import method as clicks
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.selection_plan import (
    Priors,
    SelectionPlan,
    check_counts,
    check_given_bound,
    chosen_on_log,
    shared_and_own,
)
from querycloak.methods.method import Variant
from querycloak.methods.option import option
from querycloak.methods.queries import method as queries
from querycloak.methods.sessions.joint_plans import (
    BOUNDS,
    CHARACTERS_PER_USER,
    MOST_KEYS,
    SessionBounds,
    check_one_table,
    checked_bounds,
    checked_tables,
    of_released,
    parts_of,
    plans_of_budget,
    plans_of_noise,
    plans_with_public,
    sensitivity,
)
from querycloak.methods.sessions.public_plans import PARTS, REFORMULATIONS, PublicPlans
from querycloak.privacy.budget import Budget, ExplicitNoise, Given, budget_or_noise
from querycloak.privacy.calibration.selection import PER_USER, default_selection
from querycloak.privacy.parameters import checked_bound, number_above_zero

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.key_tables import LaterTables
    from querycloak.privacy.calibration.accuracy import TableAccuracy
    from querycloak.releases.tables import Table

TABLE = "sessions"
GAP_MINUTES = 30
Repeats = Literal["drop", "keep"]
Sequences = Literal["released", "selected"]
QUERIES_IF_CHOSEN = 3
"""Number of queries of a session that count if the other bounds are chosen on the log."""


@dataclass(frozen=True, kw_only=True)
class Sessions(KeysMethod):
    """Release the sequences of queries that enough users asked within a session, and the pairs that enough clicked.

    Give the budget (epsilon, delta), or explicit noise and a threshold, which then hold for all tables.
    """

    name = "sessions"
    summary = "Noisy counts of query sequences, and of clicks."
    drawn_with = ("querycloak.methods.sessions.count",)
    keys: ClassVar = {
        queries.TABLE: queries.KEY, clicks.TABLE: clicks.KEY, TABLE: ("queries",), REFORMULATIONS: ("kind", "word"),
    }  # fmt: skip

    epsilon: float | None = option(help="Budget: epsilon, for all tables together.")
    delta: float | None = option(help="Budget: delta, for all tables together; far below 1/users.")
    noise: float | None = option(
        help="Instead of a budget: the scale of Laplace or sigma of Gaussian noise, for all tables."
    )
    threshold: int | None = option(help="Instead of a budget: a key comes out if its noisy count exceeds this.")
    sessions_per_user: int | None = option(
        help="How many sessions of one user count: 32 if not given, 8 with Gaussian noise, 1 with Laplace and in the "
        "paper variant."
    )
    queries_per_session: int | None = option(
        help="How many queries of a session count: 3 if not given, 2 with Laplace noise except in the paper variant."
    )
    gap_minutes: float = option(GAP_MINUTES, help="The pause that ends a session.")
    sequences: Sequences | None = option(
        help="released: pairs of queries that another table released come out if their noisy count exceeds a cut; "
        "a pair without users can come out. selected: sequences of any length that enough users share. If not given: "
        "released, if only a budget is given and there are other tables.",
    )
    repeats: Repeats | None = option(
        help="keep: sequences with a query twice in a row come out, too. If not given: drop; keep in the paper variant."
    )
    max_keys_per_user: int | Literal["auto"] | None = option(
        formerly="per_user",
        help="How many clicked pairs of one user count, as for clicks, and how many queries. auto chooses this number "
        "on the log, for a part of epsilon; if no bound and no selection is given, auto also chooses the number of "
        "sessions and the selection.",
    )
    tables: str | None = option(
        help="Which tables come out: sessions, with clicks or queries or both, and reformulations beside released "
        "pairs, such as queries,sessions. If not given: clicks,sessions, and reformulations beside released pairs."
    )
    no_clicks: bool = option(False, help="Release sessions alone, with the whole budget.")
    split: str | None = option(
        help="How the budget is divided, such as clicks=1,sessions=2. If not given: equal parts, or one draw for both"
        " tables if that costs less; beside released pairs 13 parts for the tables before them, 2 for sessions and 1 "
        "for reformulations."
    )
    priors: Priors | None = option(help="public: prefer keys that are likely to be shared, as for clicks.")
    force: bool = option(False, help="Allow more than 250 sequences of one user.")
    variant: Variant = option("default", help="paper: as published, to compare with.")
    bounds: SessionBounds = field(init=False, repr=False)
    released: tuple[str, ...] = field(init=False, repr=False)
    """The tables that come out."""
    pairs: bool = field(init=False, repr=False)
    """Whether sequences are pairs of queries that another table released."""
    public: PublicPlans | None = field(init=False, repr=False, default=None)
    """The plans of tables with keys that follow from released queries, if they are known before the data."""

    def __post_init__(self) -> None:
        self.check_choices()
        number_above_zero("gap_minutes", self.gap_minutes, "give the pause that ends a session, such as 30")
        given = budget_or_noise(self.epsilon, self.delta, self.noise, self.threshold)
        object.__setattr__(self, "pairs", of_released(self, given))
        object.__setattr__(self, "released", checked_tables(self, given))
        check_one_table(self)
        object.__setattr__(self, "bounds", self.bounds_for(given))
        object.__setattr__(self, "plan", self.plan_for(given))

    def bounds_for(self, given: Given) -> SessionBounds:
        """The bounds that these options give; where they are chosen on the log, each candidate has its own."""
        if self.chooses(given):
            return self.checked_bounds(SessionBounds(1, QUERIES_IF_CHOSEN))
        return self.checked_bounds(BOUNDS[self._law(given) or "gaussian"])

    def _law(self, given: Given) -> str | None:
        """Selection of keys, which decides the bounds that are not given."""
        if isinstance(given, ExplicitNoise):
            return self.selection or "laplace"
        return self.selection or self._default_selection(given)

    def _default_selection(self, given: Budget) -> str | None:
        """The selection that a formula chooses, for the given bound if there is one."""
        most = None
        if (self.sessions_per_user, self.queries_per_session, self.max_keys_per_user) != (None, None, None):
            most = max(self.room(PER_USER["gaussian"], self.checked_bounds(BOUNDS["gaussian"])).values())
        return default_selection(given.epsilon, given.delta, most, two_draws=self.two_draws, for_filter=self.for_filter)

    def checked_bounds(self, default: SessionBounds) -> SessionBounds:
        """The bounds that are given, and the others by default."""
        sessions = default.sessions if self.sessions_per_user is None else self.sessions_per_user
        queries = default.queries if self.queries_per_session is None else self.queries_per_session
        return checked_bounds(sessions, queries, force=self.force)

    def plan_for(self, given: Given) -> SelectionPlan:
        """The plan that these options give."""
        check_counts(self.counts, given, two_draws=self.two_draws)
        if self.chooses(given):
            if self.sessions_per_user is not None:
                raise ParameterError.of("{max_keys_per_user:auto} chooses {sessions_per_user} too: leave it out")
            return chosen_on_log(self, given)
        check_given_bound(self.max_keys_per_user, self.auto_share)
        law = self._law(given)
        room = self.room(PER_USER[law or "gaussian"], self.bounds)
        if self.pairs and isinstance(given, Budget):
            plan, public = plans_with_public(
                given,
                room,
                law,
                parts_of(self),
                priors=self.priors is not None,
                counted=self.counts == "noisy",
                for_filter=self.for_filter,
            )
            object.__setattr__(self, "public", public)
            return plan
        if isinstance(given, ExplicitNoise):
            if self.split is not None:
                raise ParameterError.of(
                    "{split} is for a budget: {noise} and {threshold} hold for all tables alike; leave it out"
                )
            return plans_of_noise(given, room, self.selection or "laplace", two_draws=self.two_draws)
        return plans_of_budget(
            given,
            room,
            law,
            split=self.split,
            two_draws=self.two_draws,
            priors=self.priors is not None,
            counted=self.counts == "noisy",
            for_filter=self.for_filter,
        )

    def chooses(self, given: Given) -> bool:
        """True if bounds are chosen on the log: for auto, or for a budget without bounds and selection."""
        if self.max_keys_per_user is not None:
            return super().chooses(given)
        open_bounds = self.sessions_per_user is None and self.queries_per_session is None
        return open_bounds and super().chooses(given)

    @property
    def keeps_repeats(self) -> bool:
        """True if a sequence may hold a query twice in a row."""
        return self.repeats == "keep"

    def reads(self) -> object:
        """Number of queries of a session that count."""
        return self.bounds.queries

    def options_at(self, bound: int) -> dict[str, Any]:
        """Options with which this number of keys of a user counts in each table."""
        if self.pairs:
            return {"sequences": "released", "max_keys_per_user": bound}
        # Room for one sequence is that of two queries.
        default = QUERIES_IF_CHOSEN if bound > 1 else 2
        queries = default if self.queries_per_session is None else self.queries_per_session
        room = bound if self.force else min(bound, MOST_KEYS)
        return {
            "max_keys_per_user": None if self.released == (TABLE,) else bound,
            "sessions_per_user": max(1, room // max(1, sensitivity(1, queries))),
            "queries_per_session": queries,
        }

    def room(self, default: int, bounds: SessionBounds) -> dict[str, int]:
        """Number of keys that one user may add to, by table; default: of pairs and of queries, if it is not given."""
        if self.released == (TABLE,):
            return {TABLE: bounds.sequences}
        single = checked_bound(default if self.max_keys_per_user is None else self.max_keys_per_user)
        if self.pairs:
            return {table: single for table in self.released if table not in PARTS}
        return {table: bounds.sequences if table == TABLE else single for table in self.released}

    def parameters(self) -> dict[str, Any]:
        """Given options and solved numbers; with the rule that cuts sessions, as the card must state it."""
        if self.plan.candidates:
            return {**self.plan.choice_parameters(), **self._cutting()}
        solved = {table: plan.parameters() for table, plan in self.plans.items()}
        bounds = {table: parameters.pop("per_user") for table, parameters in solved.items()}
        if self.public is not None:
            bounded = {"per_user": next(iter(bounds.values())), **self.public.parameters()}
        else:
            bounded = {
                "per_user": bounds.get(clicks.TABLE, bounds.get(queries.TABLE)),
                "sessions_per_user": self.bounds.sessions,
                "sequences_per_user": bounds[TABLE],
            }
        return {**shared_and_own(solved), **bounded, **self._cutting()}

    def _cutting(self) -> dict[str, Any]:
        queries = self.queries_per_session if self.plan.candidates else self.bounds.queries
        return {
            "sequences": "released" if self.pairs else "selected",
            "queries_per_session": 2 if self.pairs else queries,
            "gap_minutes": self.gap_minutes,
            "consecutive_repeats": "one query",
            "repeats": "keep" if self.keeps_repeats else "drop",
            "characters_per_user": CHARACTERS_PER_USER,
            "tables": self.tables,
            "split": self.split,
            "priors": self.priors,
            "counts": None if self.counts == "noisy" else self.counts,
            **({} if self.accounting is None else {"accounting": self.accounting}),
        }

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """Contributions of each user to each table: a row for each counted 1, before a plan's bound on keys."""
        tables: dict[str, ir.Table] = {}
        if not self.pairs:
            from querycloak.methods.sessions.count import sequences_of

            tables = {TABLE: sequences_of(log, self.bounds, self.gap_minutes, repeats=self.keeps_repeats)}
        if clicks.TABLE in self.released:
            from querycloak.methods.clicked import clicks_of
            from querycloak.methods.keys.contribution_bounding import once_per_key

            tables = {clicks.TABLE: once_per_key(clicks_of(log), clicks.KEY), **tables}
        if queries.TABLE in self.released:
            from querycloak.methods.keys.contribution_bounding import once_per_key

            tables = {queries.TABLE: once_per_key(log.asked, queries.KEY), **tables}
        if self.priors is not None:
            from querycloak.methods.keys.public_priors import with_prior

            tables = {table: with_prior(log.engine, rows, self.keys[table][0]) for table, rows in tables.items()}
        return tables

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of counts by the plan; if the bound is chosen on the log, over all plans."""
        if not self.pairs:
            return super().reach()
        if self.public is not None:
            return {**super().reach(), **self.public.reach(counted=self.counts == "noisy")}
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        each = [candidate.method.reach() for candidate in self.plan.candidates]
        last = {
            table: TableAccuracy.over([one[table] for one in each], each[0][table].counts, notes=each[0][table].notes)
            for table in self.released
            if table in PARTS
        }
        return {**super().reach(), **last}

    def later_tables(self, log: SearchLog) -> LaterTables | None:
        """Pairs of released queries, and reformulations."""
        if self.public is None:
            return None
        from querycloak.methods.sessions.public_tables import PublicTables

        counted = self.counts == "noisy"
        return PublicTables.of(log, self.gap_minutes, self.public, repeats=self.keeps_repeats, counted=counted)

    def published(self, table: str, released: pa.Table) -> Table:
        """Sequences as lists of queries."""
        from querycloak.methods.sessions.count import with_lists

        return with_lists(released) if table == TABLE else released
