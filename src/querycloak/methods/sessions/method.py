"""Noisy counts of query sequences within sessions, and of clicks beside them (proof: sessions.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import ParameterError
from querycloak.methods.clicks import method as clicks
from querycloak.methods.keys.auto_bound import AUTO, BoundChooser, check_auto
from querycloak.methods.method import VARIANTS, budget_or_knobs, checked_choice
from querycloak.methods.unprotected import of_paper_variant, with_thresholds
from querycloak.privacy.chance.noise import Laplace
from querycloak.privacy.guarantee import Guarantee, compose
from querycloak.privacy.parameters import natural, number_above_zero, whole
from querycloak.privacy.prices.calibration import LAWS, calibrate
from querycloak.privacy.prices.one_draw import Plan, checked_bound, paper_guarantees, price
from querycloak.privacy.prices.paper_knobs import paper_knobs
from querycloak.privacy.prices.selection import (
    PER_USER,
    PRIORS,
    SELECTIONS,
    TablePlan,
    checked_budget,
    default_selection,
    parse_split,
    plan_parameters,
    plan_tables,
)

if TYPE_CHECKING:
    import ibis.expr.types as ir
    import pyarrow as pa

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.books.ledger import Ledger
    from querycloak.privacy.chance.randomness import Randomness
    from querycloak.privacy.composing.draws import Mechanism
    from querycloak.releases.release import Release
    from querycloak.releases.tables import Table

KEYS = {"clicks": clicks.KEY, "sessions": ("queries",)}
# Sessions per user, queries per session: room for as many keys as clicks have there.
BOUNDS = {"laplace": (1, 2), "gaussian": (8, 3), "weighted": (32, 3), "rounds": (32, 3), "paper": (1, 3)}
GAP_MINUTES = 30
LONGEST_SESSION = 10
MOST_KEYS = 250
QUERIES_IF_CHOSEN = 3
"""How many queries of a session count where the other bounds are chosen on the log."""


@dataclass(frozen=True, kw_only=True)
class Sessions:
    """Release the sequences of queries that enough users asked within a session, and the pairs that enough clicked.

    Give the budget (epsilon, delta), or the knobs (noise, threshold), which then hold for both tables.
    """

    name: ClassVar[str] = "sessions"

    epsilon: float | None = None
    delta: float | None = None
    noise: float | None = None
    threshold: int | None = None
    selection: str | None = None
    sessions_per_user: int | None = None
    queries_per_session: int | None = None
    gap_minutes: float = GAP_MINUTES
    per_user: int | str | None = None
    auto_share: float | None = None
    no_clicks: bool = False
    split: str | None = None
    priors: str | None = None
    two_draws: bool = False
    force: bool = False
    variant: str = "default"
    plans: Mapping[str, TablePlan] = field(init=False, repr=False)
    _bounds: tuple[int, int] = field(init=False, repr=False)
    _guarantees: tuple[Guarantee | None, Guarantee] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_choice("variant", self.variant, VARIANTS)
        if self.selection is not None:
            checked_choice("selection", self.selection, SELECTIONS)
        if self.priors is not None:
            checked_choice("priors", self.priors, PRIORS)
        number_above_zero("gap_minutes", self.gap_minutes, "give the pause that ends a session, such as 30")
        given = budget_or_knobs(
            {"epsilon": self.epsilon, "delta": self.delta}, {"noise": self.noise, "threshold": self.threshold}
        )
        check_auto(self.per_user, self.auto_share, given, self.variant)
        self._check_one_table()
        if self.per_user == AUTO:
            if self.sessions_per_user is not None:
                raise ParameterError(f"per_user {AUTO} chooses sessions_per_user too: leave it out")
            object.__setattr__(self, "_bounds", self.at_bound(1)._bounds)
            self._set({}, None, self.chooser.guarantee(with_thresholds()))
        elif self.variant == "paper":
            self._set_paper_plans(given)
        else:
            self._set_plans(given)

    def _check_one_table(self) -> None:
        """Refuse what is about clicks where there are none."""
        if not self.no_clicks:
            return
        if self.split is not None:
            raise ParameterError("split must be left out with no_clicks: it divides a budget between two tables")
        if self.per_user not in (None, AUTO):
            raise ParameterError(
                "per_user must be left out with no_clicks: it bounds clicks; sessions_per_user and "
                "queries_per_session bound sessions"
            )

    @property
    def chooser(self) -> BoundChooser:
        """How `auto` finds its bounds."""
        return BoundChooser(self.epsilon, self.delta, self.auto_share, self.at_bound)  # type: ignore[arg-type]

    def at_bound(self, bound: int, epsilon: float | None = None) -> Sessions:
        """The same method with room for so many keys of a user in each table, perhaps with another epsilon."""
        queries = QUERIES_IF_CHOSEN if self.queries_per_session is None else self.queries_per_session
        return replace(
            self,
            per_user=None if self.no_clicks else bound,
            sessions_per_user=max(1, bound // max(1, sensitivity(1, queries))),
            queries_per_session=queries,
            auto_share=None,
            epsilon=epsilon or self.epsilon,
        )

    def _set_plans(self, given: str) -> None:
        plans, proven = self._of_knobs() if given == "knobs" else self._of_budget()
        self._set(plans, None, proven)

    def _set(self, plans: Mapping[str, TablePlan], claimed: Guarantee | None, proven: Guarantee) -> None:
        object.__setattr__(self, "plans", plans)
        object.__setattr__(self, "_guarantees", (claimed, proven))

    def _of_knobs(self) -> tuple[Mapping[str, TablePlan], Guarantee]:
        law = self.selection or "laplace"
        if law not in LAWS:
            raise ParameterError(f"selection {law} has many knobs: give the budget (epsilon, delta) instead")
        if self.split is not None:
            raise ParameterError("split is for a budget: noise and threshold hold for all tables alike; leave it out")
        noise, room = clicks.noise_of(law, self.noise), self._room(law)
        fresh = noise if self.two_draws else None
        return _one_histogram(price(noise, self.threshold, sum(room.values()), fresh=fresh), room)  # type: ignore[arg-type]

    def _of_budget(self) -> tuple[Mapping[str, TablePlan], Guarantee]:
        epsilon, delta = checked_budget(self.epsilon, self.delta)
        law = self.selection or self._default_selection(epsilon, delta)
        room = self._room(law or "gaussian")
        split = None if self.split is None else parse_split(self.split)
        if law in (None, *LAWS) and (split is None or len(room) == 1):
            together = calibrate(epsilon, delta, sum(room.values()), law=law, two_draws=self.two_draws)
            return _one_histogram(together, room)
        priors = self.priors is not None
        planned = plan_tables(epsilon, delta, room, selection=law, split=split, two_draws=self.two_draws, priors=priors)
        return planned.plans, planned.guarantee(with_thresholds(*planned.plans.values()))

    def _default_selection(self, epsilon: float, delta: float) -> str | None:
        """By formula; a bound that was given decides what is best for it."""
        if (self.sessions_per_user, self.queries_per_session, self.per_user) == (None, None, None):
            return default_selection(epsilon, delta, None, two_draws=self.two_draws)
        most = max(self._room("gaussian").values())
        return default_selection(epsilon, delta, most, two_draws=self.two_draws)

    def _room(self, law: str) -> dict[str, int]:
        """How many keys one user may add to, by table; it also settles the bounds."""
        sessions, queries = BOUNDS[law]
        bounds = (
            natural(
                "sessions_per_user",
                sessions if self.sessions_per_user is None else self.sessions_per_user,
                "say how many sessions of one user may count",
            ),
            whole(
                "queries_per_session",
                queries if self.queries_per_session is None else self.queries_per_session,
                f"give 2 to {LONGEST_SESSION}: each more doubles a session's sequences, and --force does not lift this",
                least=2,
                most=LONGEST_SESSION,
            ),
        )
        object.__setattr__(self, "_bounds", bounds)
        keys = checked_bound(sensitivity(*bounds))
        if keys > MOST_KEYS and not self.force:
            raise ParameterError(
                f"sessions_per_user times the subsequences of a session must be at most {MOST_KEYS}; {bounds[0]:,} "
                f"times {sensitivity(1, bounds[1]):,} would make up to {keys:,} rows for each user, "
                f"{keys:,} million for a million users; lower queries_per_session, or insist: --force"
            )
        if self.no_clicks:
            return {"sessions": keys}
        default = clicks.PAPER_PER_USER if law == "paper" else PER_USER[law]
        return {"clicks": checked_bound(default if self.per_user is None else self.per_user), "sessions": keys}

    def _set_paper_plans(self, given: str) -> None:
        if self.selection not in (None, "laplace") or self.two_draws or self.split or self.priors:
            raise ParameterError(
                "the paper variant has Laplace noise, two draws and one scale for both tables: leave those options out"
            )
        room = self._room("paper")
        if given == "knobs":
            noise, threshold = Laplace(self.noise), self.threshold  # type: ignore[arg-type]
        else:
            noise, threshold = paper_knobs(*checked_budget(self.epsilon, self.delta), *room.values())
        parts = {
            table: paper_guarantees(noise, threshold, bound)  # type: ignore[arg-type]
            for table, bound in room.items()
        }
        plans = {
            table: Plan(noise, threshold, room[table], proven.epsilon, proven.delta, noise)  # type: ignore[arg-type]
            for table, (_, proven) in parts.items()
        }
        proven = replace(compose(proven for _, proven in parts.values()), unprotected=of_paper_variant(*plans.values()))
        self._set(plans, _weaker([claimed for claimed, _ in parts.values()]), proven)

    def parameters(self) -> dict[str, Any]:
        """What was given and what was solved for; how sessions are cut, as the card must say it."""
        if self.per_user == AUTO:
            return {**self.chooser.parameters(), **self._cutting()}
        said = {table: plan_parameters(plan) for table, plan in self.plans.items()}
        bounds = {table: parameters.pop("per_user") for table, parameters in said.items()}
        first = said["sessions"]
        shared = {name: value for name, value in first.items() if all(s[name] == value for s in said.values())}
        apart = {table: {name: s[name] for name in s if name not in shared} for table, s in said.items()}
        return {
            **shared,
            **{table: parameters for table, parameters in apart.items() if parameters},
            "per_user": bounds.get("clicks"),
            "sessions_per_user": self._bounds[0],
            "sequences_per_user": bounds["sessions"],
            **self._cutting(),
        }

    def _cutting(self) -> dict[str, Any]:
        return {
            "queries_per_session": self._bounds[1],
            "gap_minutes": self.gap_minutes,
            "consecutive_repeats": "one query",
            "split": self.split,
            "priors": self.priors,
        }

    def mechanisms(self) -> list[Mechanism]:
        """What is drawn, for whoever adds up."""
        from querycloak.privacy.composing.draws import mechanism_of

        return self.chooser.mechanisms() if self.per_user == AUTO else [mechanism_of(p) for p in self.plans.values()]

    def claimed(self) -> Guarantee | None:
        """What Zhang and Yang say, in the paper variant."""
        return self._guarantees[0]

    def proven(self) -> Guarantee:
        """What sessions.md proves."""
        return self._guarantees[1]

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """What each user may add to each table: a row for each 1 that is counted, before a plan's bound on keys."""
        from querycloak.logs import sequences
        from querycloak.methods.keys.contribution_bounding import first_records, once_per_key

        most_sessions, most_queries = self._bounds
        sessions = sequences.session_queries(log.rows, self.gap_minutes, most_queries)
        if self.variant == "paper":
            sessions = sequences.first_sessions(sessions, most_sessions)
        found = sequences.subsequences(sessions, most_queries, escape=not log.source.choices.normalise)
        tables = {"sessions": found if self.variant == "paper" else sequences.once_per_sequence(found)}
        if not self.no_clicks:
            paper = self.variant == "paper"
            every = log.clicks
            pairs = first_records(every, self.plans["clicks"].per_user) if paper else once_per_key(every, clicks.KEY)
            tables = {"clicks": pairs, **tables}
        if self.priors is not None:
            from querycloak.methods.keys.public_priors import with_prior

            tables = {table: with_prior(log.engine, rows, KEYS[table][0]) for table, rows in tables.items()}
        return tables

    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Count, charge, draw."""
        from querycloak.methods.keys.partition_selection import count, count_records, counts_of
        from querycloak.methods.releasing import Run

        run = Run.begin(self, log, ledger, population, randomness)
        if self.per_user == AUTO:
            from querycloak.methods.keys.auto_bound_draw import release_at_chosen_bound

            return release_at_chosen_bound(run, self.chooser, self.contributions(log), KEYS, published=_published)
        counting = count_records if self.variant == "paper" else count
        counted = {
            table: counting(log.engine, rows, KEYS[table], self.plans[table])
            for table, rows in self.contributions(log).items()
        }
        log.checked()
        return run.finish(
            lambda: {table: _published(table, each.release(run.drawing).table) for table, each in counted.items()},
            counts=counts_of(self.plans["sessions"]),
        )


def sensitivity(sessions: int, queries: int) -> int:
    """How many subsequences of two or more queries so many sessions of so many queries have (sessions.md)."""
    return sessions * ((1 << queries) - 1 - queries)


def _one_histogram(plan: Plan, room: Mapping[str, int]) -> tuple[Mapping[str, TablePlan], Guarantee]:
    """The keys of all tables as one histogram, to which a user adds as much as to all of them (sessions.md)."""
    proven = plan.guarantee(with_thresholds(plan))
    if len(room) > 1:
        shares = " and ".join(f"{bound} of {table}" for table, bound in room.items())
        proven = replace(proven, because=f"{shares} are one histogram: {proven.because} (sessions.md)")
    return {table: replace(plan, per_user=bound) for table, bound in room.items()}, proven


def _weaker(claims: list[Guarantee]) -> Guarantee:
    """What the paper claims of both outputs: the weaker of its parts; budgets of the same users add up, though."""
    return replace(
        claims[0],
        epsilon=max(claim.epsilon or 0.0 for claim in claims),
        delta=max(claim.delta or 0.0 for claim in claims),
    )


def _published(table: str, released: pa.Table) -> Table:
    import pyarrow as pa

    from querycloak.logs.sequences import as_lists

    if table != "sessions":
        return released
    return pa.table({"queries": as_lists(released["queries"]), "count": released["count"]})
