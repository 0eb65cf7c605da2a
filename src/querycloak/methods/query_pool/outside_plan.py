"""One budget for public counts and for selections of keys outside public lists (query_pool.md, *Selections*)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from querycloak.errors import EngineError
from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.gaussian import largest_loss
from querycloak.privacy.calibration.public_counts import SPURIOUS, PublicPlan, cut_for
from querycloak.privacy.calibration.selection import COUNTED_PER_USER, OWN_KEYS, PER_USER, together
from querycloak.privacy.calibration.weighted import ROUNDS, ROUNDS_OF_PARTS, WeightedPlan, plan_weighted
from querycloak.privacy.sampling.exact import stated

if TYPE_CHECKING:
    import pyarrow as pa

    from querycloak.privacy.calibration.accuracy import ReleaseProbability
    from querycloak.privacy.sampling.noise import Noise

POOL_OF_QUERIES = 0.3
"""Part of the queries' budget for the pool if other queries come out, too."""
POOL_PER_USER, TRANSITIONS_PER_USER = 8, 1
"""Default bounds with Gaussian noise, which grows with their roots."""
MAX_KEYS_PER_USER = PER_USER["multi-round"]
SPLIT: Mapping[str, int] = {"queries": 8, "clicks": 7, "transitions": 1}
"""Parts of mu^2; transitions of released queries are few, and need many users (sessions.md)."""
TRANSITION_OF_QUERY = 20
"""A transition seldom has more than 1/20 of the users of the second most frequent query (sessions.md)."""
FEW_QUERIES = "fewer than two queries came out"
RARE_QUERIES = "the queries that came out are so rare that no transition is likely to exceed the threshold"


@dataclass(frozen=True)
class OutsidePlan:
    """Public counts by table, and selections of keys outside public lists by table.

    clicks_alone: selection of clicks if transitions get nothing; None if one of the two tables is missing.
    public_loss, transitions_loss: mu^2 of all public counts together, and of transitions among them.
    """

    epsilon: float
    delta: float
    public: Mapping[str, PublicPlan]
    selected: Mapping[str, WeightedPlan]
    clicks_alone: WeightedPlan | None
    public_loss: float
    transitions_loss: float

    def draws(self) -> list[GaussianRounds]:
        """Draws, recorded for composition; those of clicks cover both ways that transitions may go."""
        recorded = {name: plan.draw() for name, plan in self.selected.items()}
        if self.clicks_alone is not None:
            clicks, alone = recorded["clicks"], self.clicks_alone.draw()
            squared = max(clicks.squared_loss, alone.squared_loss - self.transitions_loss * (1 - 1e-12))
            recorded["clicks"] = replace(clicks, squared_loss=squared, own_keys=max(clicks.own_keys, alone.own_keys))
        return [*recorded.values(), GaussianRounds(self.public_loss, 0.0)]

    def no_transitions(self, queries: pa.Table) -> str | None:
        """Reason that transitions get nothing if these queries came out, by noisy numbers; None if they get theirs."""
        number = queries.num_rows
        if number < 2:
            return FEW_QUERIES
        second = sorted(queries["count"].fill_null(1).to_pylist(), reverse=True)[1]
        threshold = transitions_threshold(self.public["transitions"].noise, number * (number - 1))
        return RARE_QUERIES if second < TRANSITION_OF_QUERY * threshold else None

    def clicks_after(self, reason: str | None) -> WeightedPlan:
        """The selection of clicks if transitions get nothing for this reason, or get theirs."""
        return self.selected["clicks"] if reason is None or self.clicks_alone is None else self.clicks_alone

    @property
    def only_selected(self) -> frozenset[str]:
        """Tables without a public key."""
        return frozenset(self.selected) - frozenset(self.public)

    @property
    def noises(self) -> dict[str, Noise]:
        """The noise of published counts by table; of queries, that of the pool."""
        counted = {name: plan.counting or plan.noise for name, plan in self.selected.items()}
        return {**counted, **{name: plan.noise for name, plan in self.public.items()}}

    def routes(self, table: str) -> list[ReleaseProbability]:
        """Ways for a key outside public lists to come out of this table; empty if none does."""
        plans = [self.selected[table]] if table in self.selected else []
        if table == "clicks" and self.clicks_alone is not None:
            plans.append(self.clicks_alone)
        return [plan.route() for plan in plans]

    @property
    def because(self) -> str:
        """The reason that the guarantee holds, in clauses."""
        public = ", ".join(
            f"{name}: each user counts for at most {plan.per_user}, with {plan.noise.words}"
            for name, plan in self.public.items()
        )
        selected = "; ".join(f"other {name}: {plan.guarantee().because}" for name, plan in self.selected.items())
        moved = "" if self.clicks_alone is None else "; clicks get the part of transitions if these are left out"
        return f"every key of a public list is drawn, zeros included ({public}); {selected}{moved}"

    def parameters(self) -> dict[str, Any]:
        """The selections, as a card has them."""
        outside = {table: plan.parameters() for table, plan in self.selected.items()}
        if self.clicks_alone is not None:
            outside["clicks_without_transitions"] = self.clicks_alone.parameters()
        return {"selection": "multi-round", "outside": outside}


@lru_cache(maxsize=4096)
def transitions_threshold(noise: Noise, keys: int) -> int:
    """The least threshold at which one spurious transition is expected in a hundred releases."""
    return cut_for(noise, keys, SPURIOUS)


@lru_cache(maxsize=64)
def plan_outside(
    budget: Budget,
    split: tuple[tuple[str, int], ...],
    bounds: tuple[tuple[str, int], ...],
    max_keys: int,
    *,
    off_pool: bool,
) -> OutsidePlan:
    """The plan of these parts of mu^2 by table; bounds: of public counts, by table. Other tables are selected."""
    parts, public_bounds = dict(split), dict(bounds)
    shares = {name: part / sum(parts.values()) for name, part in parts.items()}
    squared = largest_loss(budget.epsilon, float(stated(budget.delta) * (1 - OWN_KEYS)) * (1 - 1e-9)) * (1 - 1e-9)
    public = {name: shares[name] for name in public_bounds}
    chosen = {name: share for name, share in shares.items() if name not in public_bounds}
    if off_pool:
        chosen = {"queries": shares["queries"] * (1 - POOL_OF_QUERIES), **chosen}
        public["queries"] = shares["queries"] * POOL_OF_QUERIES
    own = _own_keys(budget, chosen)

    def selection(name: str, share: float) -> WeightedPlan:
        rounds, parts = (ROUNDS_OF_PARTS, "query") if name == "clicks" else (ROUNDS, None)
        spend = GaussianRounds(squared * share, own[name])
        counted = min(COUNTED_PER_USER, max_keys)
        return plan_weighted(spend, max_keys, counted, rounds, budget.epsilon, budget.delta, parts=parts)

    selected = {name: selection(name, share) for name, share in chosen.items()}
    both = "clicks" in selected and "transitions" in public
    alone = selection("clicks", chosen["clicks"] + public["transitions"]) if both else None
    tables = {name: PublicPlan.of_loss(squared * share, public_bounds[name]) for name, share in public.items()}
    loss = squared * sum(public.values())
    transitions = squared * public.get("transitions", 0.0)
    plan = OutsidePlan(budget.epsilon, budget.delta, tables, selected, alone, loss, transitions)
    return replace(plan, delta=_joint_delta(budget, plan))


def _own_keys(budget: Budget, chosen: Mapping[str, float]) -> dict[str, float]:
    """The chance of own keys of each selection, in proportion to its part of mu^2 (selection.md, claim 6)."""
    own = float(stated(budget.delta) * OWN_KEYS)
    own /= 1 + own
    return {name: own * share / sum(chosen.values()) * (1 - 1e-12) for name, share in chosen.items()}


def _joint_delta(budget: Budget, plan: OutsidePlan) -> float:
    """The delta of all draws at the budget's epsilon, of the larger loss and the larger own keys of the two ways.

    Which way is taken depends on noise, so neither way's delta alone is that of both.
    """
    delta = together(budget.epsilon, *plan.draws())
    if delta > budget.delta:
        raise EngineError(f"delta {budget.delta!r} was missed by rounding; this is a bug in querycloak")
    return delta
