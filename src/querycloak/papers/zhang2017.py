"""A_Click and A_Session of Zhang and Yang (ICTIR 2017): the paper variants of `clicks` and `sessions`.

A user's records are bounded, not a user's keys: one user may count several times for one key. One draw decides, a
second one is published (histogram.md, claim 5). `paper_claimed` is the formula behind their Table 4.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Self

from querycloak.errors import ParameterError
from querycloak.methods.clicks.method import Clicks, refuse_clicks
from querycloak.methods.keys.method import KeysMethod
from querycloak.methods.keys.selection_plan import AUTO, SelectionPlan, check_given_bound, refuse_keys_alone
from querycloak.methods.sessions.joint_plans import SessionBounds
from querycloak.methods.sessions.method import Sessions
from querycloak.privacy.budget import Budget, ExplicitNoise, Given
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.deltas import FORMULA_ROUNDING, any_passes, tail_bounds
from querycloak.privacy.calibration.histogram_plan import HistogramPlan, check_delta
from querycloak.privacy.calibration.threshold import laplace_noise
from querycloak.privacy.guarantee import Guarantee, compose, user_guarantee
from querycloak.privacy.parameters import checked_bound, whole
from querycloak.privacy.sampling.exact import rounded_up, stated
from querycloak.privacy.sampling.noise import Laplace

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.methods.keys.key_tables import KeyTables
    from querycloak.privacy.accounting.draws import Draw
    from querycloak.privacy.calibration.accuracy import ReleaseProbability, TableAccuracy

RECORDS_PER_USER = 4
"""Default number of records of one user that count."""


def paper_claimed(scale: float, threshold: float, sensitivity: int) -> tuple[float, float]:
    """Return (epsilon, delta) as Zhang and Yang (ICTIR 2017) state them for A_Click and A_Session."""
    # 1 + 1/(2 e^((K-1)/b) - 1) without overflow.
    unseen = -math.log1p(-math.exp(-(threshold - 1) / scale) / 2) if threshold >= 1 else math.inf
    log_alpha = max(1 / scale, unseen)
    exponent = min((sensitivity - threshold) / scale, 700.0)
    return sensitivity * (log_alpha + 1 / scale), sensitivity / 2 * math.exp(exponent)


def paper_proven(noise: Laplace, threshold: int, sensitivity: int, *, continuous: bool = False) -> float:
    """Return the delta of the paper's variant at epsilon = 2 sensitivity/scale, for sensitivity <= threshold (claim 5).

    continuous: for Laplace noise on the real numbers, as published, instead of integer noise.
    """
    if continuous:
        all_on_one = math.exp((sensitivity - threshold) / noise.scale) / 2 * (1 + FORMULA_ROUNDING)
        one = math.exp((1 - threshold) / noise.scale) / 2 * (1 + FORMULA_ROUNDING)
    else:
        all_on_one = tail_bounds(noise, threshold + 1 - sensitivity)[1]
        one = tail_bounds(noise, threshold)[1]
    return max(all_on_one, any_passes(one, sensitivity))


def paper_guarantees(noise: Laplace, threshold: int, sensitivity: int) -> tuple[Guarantee, Guarantee]:
    """Return what Zhang and Yang (ICTIR 2017) claim for A_Click or A_Session, and what is proven of it."""
    threshold = whole("threshold", threshold, "give the count K that a key must exceed", least=1)
    sensitivity = checked_bound(sensitivity)
    epsilon, delta = paper_claimed(noise.scale, threshold, sensitivity)
    # A claimed delta below 1 also makes the sensitivity at most the threshold, as claim 5 needs.
    check_delta(delta, threshold)
    # A claim below every float is stated as the least one: it is above 0.
    claimed = user_guarantee(epsilon, max(delta, sys.float_info.min), "as stated by Zhang and Yang, ICTIR 2017")
    proven = user_guarantee(
        rounded_up(2 * sensitivity / Fraction(noise.scale)),
        paper_proven(noise, threshold, sensitivity),
        because=f"each user adds at most {sensitivity} to all counts together; a key comes out if its count, with "
        f"{noise.words}, exceeds {threshold}, and a second count is published, with fresh noise of the same scale "
        "(privacy/calibration/histogram.md, claim 5)",
    )
    return claimed, proven


def paper_noise(epsilon: float, delta: float, *bounds: int) -> tuple[Laplace, int]:
    """Return the noise and the least threshold whose proven guarantee, added up over tables, stays within a budget."""
    budget = Budget(epsilon, delta)
    noise = laplace_noise(2 * checked_bound(sum(bounds)), stated(budget.epsilon))
    return noise, smallest_integer(lambda threshold: _fits(noise, threshold, budget.delta, bounds))


def _fits(noise: Laplace, threshold: int, delta: float, bounds: tuple[int, ...]) -> bool:
    if threshold < max(bounds):  # as claim 5 needs
        return False
    # A claimed delta of 1 or more would not even be a claim.
    claimable = all(paper_claimed(noise.scale, threshold, bound)[1] < 1 for bound in bounds)
    return claimable and sum(paper_proven(noise, threshold, bound) for bound in bounds) * (1 + 2**-40) <= delta


@dataclass(frozen=True, kw_only=True)
class RecordsBounded(KeysMethod):
    """Tables of records: of each user the first ones count, perhaps all for one key."""

    def draws(self) -> Sequence[Draw]:
        """Empty: a user may count several times for one key, so only the guarantee composes."""
        return ()

    def routes(self) -> Mapping[str, Sequence[ReleaseProbability]]:
        """Release probabilities of the keys of each table if one user adds up to the bound to a single count."""
        return {table: [replace(plan.route(), most=plan.per_user)] for table, plan in self.plans.items()}

    def reach(self) -> Mapping[str, TableAccuracy]:
        """Accuracy of the counts of each table."""
        from querycloak.methods.counted_users import counted_records
        from querycloak.privacy.calibration.accuracy import TableAccuracy

        reached = {}
        for table, (route,) in self.routes().items():
            bound, noise = self.plans[table].per_user, route.published_noise or self.plans[table].noise
            spread = f"The range of users runs from users who add {bound} each to this row to users who add 1."
            reached[table] = TableAccuracy.of_route(route, counted_records(table, bound, noise.words), notes=[spread])
        return reached

    def count(self, log: SearchLog) -> KeyTables:
        """Count the records, which are bounded already, by key."""
        from querycloak.methods.keys.key_tables import KeyTables
        from querycloak.methods.keys.partition_selection import count_records

        counted = {
            table: count_records(log.engine, rows, self.keys[table], self.plans[table])
            for table, rows in self.contributions(log).items()
        }
        return KeyTables(counted, list(self.plans.values())[-1].counts, self.published)

    def refuse_auto(self) -> None:
        """Refuse what goes with a bound that is chosen on the log."""
        if self.max_keys_per_user == AUTO:
            raise ParameterError.of(
                "the paper variant has no way of choosing a bound: give {max_keys_per_user} a number, not auto"
            )
        check_given_bound(self.max_keys_per_user, vars(self)["auto_share"])
        if self.accounting is not None or vars(self).get("known") is not None:
            raise ParameterError.of("the paper variant has Laplace noise: leave {accounting} and {known} out")

    def accounted(self, accounting: str) -> Self:  # noqa: ARG002
        """The paper's noise, for any ledger."""
        return self


@dataclass(frozen=True, kw_only=True)
class PaperClicks(RecordsBounded, Clicks):
    """A_Click: the clicks of each user that come first are counted by pair, and released by two draws."""

    def check_count_of(self) -> None:
        """Refuse clicks that are counted in a release of their own."""
        super().check_count_of()
        if self.count_of == "clicks":
            refuse_clicks()

    def plan_for(self, given: Given) -> SelectionPlan:
        """The paper's noise and threshold."""
        if self.counts == "none":
            refuse_keys_alone()
        self.refuse_auto()
        if self.selection not in (None, "laplace") or self.two_draws or self.priors:
            raise ParameterError.of(
                "the paper variant has Laplace noise and two draws of its own: leave {selection}, {two_draws} and "
                "{priors} out"
            )
        bound = RECORDS_PER_USER if self.max_keys_per_user is None else self.max_keys_per_user
        plans, claims, proofs = paper_plans(given, {self.table: checked_bound(bound)})
        return SelectionPlan(proofs[0], plans, claims[0])

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """Each user's first clicks, with a row for each count of 1."""
        from querycloak.methods.keys.contribution_bounding import first_records

        return {self.table: first_records(self.rows(log), self.plans[self.table].per_user)}


@dataclass(frozen=True, kw_only=True)
class PaperSessions(RecordsBounded, Sessions):
    """A_Session beside A_Click: the sequences of each user's first sessions, and the first clicks."""

    @property
    def keeps_repeats(self) -> bool:
        """The paper counts every subsequence."""
        return True

    def bounds_for(self, given: Given) -> SessionBounds:  # noqa: ARG002 (the paper's do not depend on it)
        """The bounds that are given, and the paper's."""
        return self.checked_bounds(SessionBounds(sessions=1, queries=3))

    def plan_for(self, given: Given) -> SelectionPlan:
        """The paper's noise and threshold for each table; the proven budgets add up, against the paper's claim."""
        if self.counts == "none":
            refuse_keys_alone()
        self.refuse_auto()
        if self.selection not in (None, "laplace") or self.two_draws or self.split or self.priors or self.tables:
            raise ParameterError.of(
                "the paper variant has Laplace noise, two draws, one scale and its own two tables: leave "
                "{selection}, {two_draws}, {split}, {priors} and {tables} out"
            )
        if self.repeats == "drop" or self.sequences == "released":
            raise ParameterError.of(
                "the paper variant counts every subsequence: leave {repeats:drop} and {sequences:released} out"
            )
        plans, claims, proofs = paper_plans(given, self.room(RECORDS_PER_USER, self.bounds))
        # The paper claims the weaker of its parts for both tables; budgets of the same users add up, though.
        epsilons, deltas = zip(*(claim.numbers for claim in claims), strict=True)
        claimed = replace(claims[0], epsilon=max(epsilons), delta=max(deltas))
        return SelectionPlan(compose(proofs), plans, claimed)

    def contributions(self, log: SearchLog) -> dict[str, ir.Table]:
        """The records of each user's first sessions, and the first clicks: a row for each 1 that is counted."""
        from querycloak.logs.sequences import first_sessions
        from querycloak.methods.clicked import clicks_of
        from querycloak.methods.keys.contribution_bounding import first_records
        from querycloak.methods.sessions.count import kept_sessions, subsequences

        sessions = first_sessions(kept_sessions(log, self.gap_minutes, self.bounds.queries), self.bounds.sessions)
        tables = {"sessions": subsequences(log, sessions, self.bounds, repeats=self.keeps_repeats)}
        if "clicks" in self.released:
            tables = {"clicks": first_records(clicks_of(log), self.plans["clicks"].per_user), **tables}
        return tables


def paper_plans(
    given: Given, room: Mapping[str, int]
) -> tuple[dict[str, HistogramPlan], list[Guarantee], list[Guarantee]]:
    """The plans of all tables, and for each table what is claimed and what is proven.

    room: bound on one user's contribution to each table.
    """
    noise, threshold = (
        (Laplace(given.noise), given.threshold)
        if isinstance(given, ExplicitNoise)
        else paper_noise(given.epsilon, given.delta, *room.values())
    )
    plans, claims, proofs = {}, [], []
    for table, bound in room.items():
        claimed, proven = paper_guarantees(noise, threshold, bound)
        plans[table] = HistogramPlan(noise, threshold, bound, *proven.numbers, noise)
        claims.append(claimed)
        proofs.append(proven)
    return plans, claims, proofs
