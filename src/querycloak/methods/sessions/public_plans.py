"""Budget and accuracy of tables with keys that follow from released queries (sessions.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from querycloak.methods.counted_users import counted as counted_users
from querycloak.methods.counted_users import cut_off
from querycloak.privacy.accounting.draws import Anything, Draw, GaussianRounds
from querycloak.privacy.calibration.accuracy import ReleaseProbability, Stage, TableAccuracy
from querycloak.privacy.calibration.public_counts import SPURIOUS, PublicPlan, cut_for, expected_spurious

if TYPE_CHECKING:
    import pyarrow as pa

PAIRS, REFORMULATIONS = "sessions", "reformulations"
PARTS: Mapping[str, int] = {PAIRS: 2, REFORMULATIONS: 1}
"""Parts of the budget, where the tables before them have `PARTS_BEFORE` together."""
PARTS_BEFORE = 13
PER_USER: Mapping[str, Mapping[str, int]] = {
    "laplace": {PAIRS: 1, REFORMULATIONS: 2},
    "gaussian": {PAIRS: 1, REFORMULATIONS: 8},
}
"""How many pairs, and cells of reformulations, of one user count, by the law of the noise.

Users hold one or two pairs of released queries, so one is best on all logs that were tried (docs/selection.md).
"""
PAIR_OF_QUERY = 20
"""A pair seldom has more than 1/20 of the users of the second most frequent query: 1/45 on the logs tried."""
MOST_QUERIES = 1_000_000
"""Released queries, at most, for which ranges are stated before the draw."""
FEWEST_QUERIES = 2
FEW_QUERIES = "fewer than two queries came out"
RARE_QUERIES = "the queries that came out are so rare that no pair of them is likely to exceed the cut"
_SPURIOUS = (
    "Every pair of released queries got noise, asked or not: a row may be spurious, a pair that no user "
    f"has; at most one in {SPURIOUS.denominator} rows is expected to be."
)


@dataclass(frozen=True)
class PublicPlans:
    """A plan for each table; `alone` is that of reformulations if no pair can come out."""

    tables: Mapping[str, PublicPlan]
    alone: PublicPlan | None
    draws: Sequence[Draw]

    @classmethod
    def of_loss(cls, squared: float, parts: Mapping[str, Fraction]) -> PublicPlans:
        """Gaussian noise; parts: of this mu^2, by table, 1 in all."""
        per_user = PER_USER["gaussian"]
        tables = {
            name: PublicPlan.of_loss(squared * float(part) * (1 - 1e-12), per_user[name])
            for name, part in parts.items()
        }
        alone = PublicPlan.of_loss(squared * (1 - 1e-12), per_user[REFORMULATIONS])
        return cls(tables, alone if REFORMULATIONS in parts else None, [GaussianRounds(squared, 0.0)])

    @classmethod
    def of_epsilon(cls, epsilon: float, parts: Mapping[str, Fraction]) -> PublicPlans:
        """Laplace noise; parts: of this epsilon, by table, 1 in all."""
        per_user = PER_USER["laplace"]
        tables = {
            name: PublicPlan.of_epsilon(epsilon * float(part) * (1 - 1e-12), per_user[name])
            for name, part in parts.items()
        }
        alone = PublicPlan.of_epsilon(epsilon * (1 - 1e-12), per_user[REFORMULATIONS])
        return cls(tables, alone if REFORMULATIONS in parts else None, [Anything(epsilon)])

    def given(self, queries: pa.Table) -> tuple[dict[str, PublicPlan], str | None]:
        """The plans by table if these queries (`query`, `count`) came out, and why pairs get nothing, if so."""
        if PAIRS not in self.tables:
            return dict(self.tables), None
        reason = self._no_pairs(queries)
        if reason is None:
            return dict(self.tables), None
        return ({} if self.alone is None else {REFORMULATIONS: self.alone}), reason

    def _no_pairs(self, queries: pa.Table) -> str | None:
        number = queries.num_rows
        if number < FEWEST_QUERIES:
            return FEW_QUERIES
        counts = sorted(queries["count"].drop_null().to_pylist(), reverse=True)
        if len(counts) < FEWEST_QUERIES:  # queries come out without counts
            return None
        return RARE_QUERIES if counts[1] < self.least_second_count(number) else None

    def least_second_count(self, queries: int) -> int:
        """The count that the second most frequent of this number of queries needs, so that pairs get their part."""
        return PAIR_OF_QUERY * cut_for(self.tables[PAIRS].noise, queries * (queries - 1), SPURIOUS)

    @property
    def because(self) -> str:
        """The reason that they keep to their part of the budget, in a clause."""
        shown = " and ".join(
            f"{plan.per_user} {'pairs' if table == PAIRS else 'reformulations'} of each user with {plan.noise.words}"
            for table, plan in self.tables.items()
        )
        return f"every pair of released queries, and every kind and word of them, is counted, held or not: {shown}"

    def parameters(self) -> dict[str, Any]:
        """Its parameters on the card."""
        names = {PAIRS: "pairs", REFORMULATIONS: "reformulations"}
        solved: dict[str, Any] = {}
        for table, plan in self.tables.items():
            solved[f"{names[table]}_noise"] = plan.noise.size
            solved[f"{names[table]}_law"] = plan.noise.law
            solved[f"{names[table]}_per_user"] = plan.per_user
        return solved

    def reach(self, *, counted: bool) -> dict[str, TableAccuracy]:
        """Accuracy of counts, before it is known how many queries come out; counted: pairs have counts."""
        reached = {}
        for table, plan in self.tables.items():
            spread = []
            for each in (plan, *([self.alone] if table == REFORMULATIONS and self.alone else [])):
                most = MOST_QUERIES * (MOST_QUERIES - 1) if table == PAIRS else 3 * MOST_QUERIES
                for cut, keys in ((0, 2), (cut_for(each.noise, most, SPURIOUS), most)):
                    spread.append(
                        reach_of_pairs(each, cut, keys, counted=counted)
                        if table == PAIRS
                        else reach_of_reformulations(each, cut, keys)
                    )
            note = "The cut is chosen after queries came out; the range of users covers 2 to 1,000,000 of them."
            reached[table] = TableAccuracy.over(spread, spread[0].counts, notes=[note, *spread[0].notes[1:]])
        return reached

    def nothing_drawn(self, reason: str, *, counted: bool) -> TableAccuracy:
        """The sentence on pairs that got no budget."""
        note = f"Nothing was drawn, and the budget went to reformulations if they were asked for: {reason}."
        before = self.reach(counted=counted)[PAIRS]
        return TableAccuracy(before.counts, notes=(note,))


def reach_of_pairs(plan: PublicPlan, cut: int, keys: int, *, counted: bool) -> TableAccuracy:
    """Accuracy of counts of pairs at this cut."""
    reached = _reach(
        plan,
        cut,
        keys,
        counted_users(PAIRS, plan.per_user, plan.noise.words),
        [_SPURIOUS, cut_off(PAIRS, plan.per_user)],
    )
    if counted:
        return reached
    words = "there is no count; a row comes out if enough users have it, by its noisy count"
    return replace(reached, counts=words, margin95=None)


def reach_of_reformulations(plan: PublicPlan, cut: int | None, keys: int) -> TableAccuracy:
    """Accuracy of counts of reformulations at this cut; cut: None if there was no word."""
    words = (
        f"users who changed a query in this way within a session; each user counts for the first {plan.per_user} rows "
        f"only, kinds as a whole before words; plus {plan.noise.words}"
    )
    notes = [
        "Kinds as a whole (rows without a word) always come out; a count below 1 is null.",
        "Words are those of released queries; every word got noise for every kind, so a row may have no user.",
    ]
    return _reach(plan, 0 if cut is None else cut, keys, words, notes)


def _reach(plan: PublicPlan, cut: int, keys: int, words: str, notes: list[str]) -> TableAccuracy:
    route = ReleaseProbability((Stage(plan.noise, cut),))
    chosen = f"Cut: a row comes out if its noisy count exceeds {cut:,} ({keys:,} rows could have come out)."
    return TableAccuracy.of_route(
        route, words, spurious=expected_spurious(plan.noise, cut, keys), notes=[chosen, *notes]
    )
