"""Plans for several tables about the same users: one histogram of all keys, or a part of the budget for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from querycloak.methods.keys.selection_plan import Selection, SelectionPlan, noise_of
from querycloak.privacy.budget import Budget, ExplicitNoise
from querycloak.privacy.calibration.calibration import LAWS, calibrate
from querycloak.privacy.calibration.gaussian_histogram import plan_for_filter
from querycloak.privacy.calibration.histogram_plan import HistogramPlan, price
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.selection import parse_split, plan_tables, plan_without_counts

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


def _one_histogram(plan: HistogramPlan | KeysOnlyPlan, room: Room) -> SelectionPlan:
    """The keys of all tables as one histogram, to which a user adds as much as to all of them (sessions.md)."""
    proven = plan.guarantee()
    if len(room) > 1:
        shares = " and ".join(f"{bound} of {table}" for table, bound in room.items())
        proven = replace(proven, because=f"{shares} are one histogram: {proven.because} (sessions.md)")
    return SelectionPlan(proven, {table: replace(plan, per_user=bound) for table, bound in room.items()})
