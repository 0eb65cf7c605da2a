"""Plans for several tables about the same users: one histogram of all keys, or a part of the budget for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction

from querycloak.methods.keys.selection_plan import Selection, SelectionPlan, SplitBudget, noise_of
from querycloak.methods.sessions.public_plans import PublicPlans
from querycloak.privacy.budget import Budget, ExplicitNoise
from querycloak.privacy.calibration.gaussian_histogram import plan_for_filter
from querycloak.privacy.calibration.histogram_plan import HistogramPlan, price
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.selection import parse_split, plan_tables, plan_without_counts
from querycloak.privacy.calibration.threshold import LAWS, calibrate

Room = Mapping[str, int]
"""Number of keys that one user may add to, by table."""


def plans_of_knobs(given: ExplicitNoise, room: Room, law: Selection, *, two_draws: bool) -> SelectionPlan:
    """The same noise and threshold for all tables."""
    noise = noise_of(law, given.noise)
    return _one_histogram(
        price(noise, given.threshold, sum(room.values()), published_noise=noise if two_draws else None), room
    )


def plans_of_budget(
    given: Budget,
    room: Room,
    law: str | None,
    *,
    split: str | None,
    two_draws: bool,
    priors: bool,
    counted: bool,
    for_filter: bool = False,
) -> SelectionPlan:
    """Plans that the budget buys: one histogram if neither the law nor the owner divides it."""
    parts = None if split is None else parse_split(split)
    if law in (None, *LAWS) and (parts is None or len(room) == 1):
        if not counted:
            return _one_histogram(plan_without_counts(given.epsilon, given.delta, sum(room.values()), law), room)
        if for_filter and law in (None, "gaussian") and not two_draws:
            return _one_histogram(plan_for_filter(given.epsilon, given.delta, sum(room.values())), room)
        plan = calibrate(given.epsilon, given.delta, sum(room.values()), law=law, two_draws=two_draws)
        return _one_histogram(plan, room)
    planned = plan_tables(
        given.epsilon,
        given.delta,
        room,
        selection=law,
        split=parts,
        two_draws=two_draws,
        priors=priors,
        counted=counted,
        for_filter=for_filter,
    )
    return SelectionPlan(planned.guarantee(), planned.plans)


def plans_with_public(
    given: Budget,
    room: Room,
    law: str | None,
    parts: Mapping[str, int],
    *,
    priors: bool,
    counted: bool,
    for_filter: bool = False,
) -> tuple[SelectionPlan, PublicPlans]:
    """Plans of tables that come out first, and of those whose keys are public then, within one budget.

    parts: of all tables. With weights all tables share one mu^2, otherwise epsilons add up (sessions.md).
    """
    last = {name: Fraction(part) for name, part in parts.items() if name not in room}
    later = sum(last.values()) / Fraction(sum(parts.values()))
    of_last = {name: part / sum(last.values()) for name, part in last.items()}
    first = {name: parts[name] for name in room}
    if law in ("weighted", "multi-round"):
        planned = plan_tables(
            given.epsilon, given.delta, room, selection=law, split=first, later=later, priors=priors, counted=counted
        )
        before = SelectionPlan(planned.guarantee(), planned.plans)
        public = PublicPlans.of_loss(planned.later_loss, of_last)
    else:
        budget = SplitBudget.of(given.epsilon, float(later))
        split = None if len(set(first.values())) == 1 else ",".join(f"{name}={part}" for name, part in first.items())
        own = Budget(budget.releasing, given.delta)
        before = plans_of_budget(
            own, room, law, split=split, two_draws=False, priors=priors, counted=counted, for_filter=for_filter
        )
        public = PublicPlans.of_epsilon(budget.choosing, of_last)
    because = f"{before.proven.because}; then {public.because} (sessions.md, pairs of released queries)"
    proven = replace(before.proven, epsilon=given.epsilon, because=because)
    return replace(before, proven=proven, later=tuple(public.draws)), public


def _one_histogram(plan: HistogramPlan | KeysOnlyPlan, room: Room) -> SelectionPlan:
    """The keys of all tables as one histogram, to which a user adds as much as to all of them (sessions.md)."""
    proven = plan.guarantee()
    if len(room) > 1:
        shares = " and ".join(f"{bound} of {table}" for table, bound in room.items())
        proven = replace(proven, because=f"{shares} are one histogram: {proven.because} (sessions.md)")
    return SelectionPlan(proven, {table: replace(plan, per_user=bound) for table, bound in room.items()})
