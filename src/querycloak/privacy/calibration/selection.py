"""One budget for the tables of a release, and a plan for selecting and counting the keys of each table.

Keys that an earlier release made public take a share of the budget (proof: methods/keys/known_keys.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from types import MappingProxyType

from querycloak.errors import EngineError, ParameterError
from querycloak.privacy.accounting.draws import Draw, GaussianRounds, PublicCounts
from querycloak.privacy.accounting.gaussian_filter import COUNTS_SMOOTHING, cost_of
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.gaussian import gaussian_delta, largest_loss
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan, plan_keys_only
from querycloak.privacy.calibration.table_plan import TablePlan, Times
from querycloak.privacy.calibration.threshold import LAWS, calibrate, calibrate_times, plan_for_filter, spend_of
from querycloak.privacy.calibration.weighted import GRID, ROUNDS, ROUNDS_OF_PARTS, WEIGHTED, WeightedPlan, plan_weighted
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import one_of, refuse, whole
from querycloak.privacy.sampling.exact import four_digits_up, rounded_down, rounded_up, stated
from querycloak.privacy.sampling.noise import Gaussian
from querycloak.sentence import Parameter, Sentence

SELECTIONS = (*LAWS, "weighted", "multi-round")
PER_USER: Mapping[str, int] = MappingProxyType({"laplace": 1, "gaussian": 32, "weighted": 256, "multi-round": 256})
"""Default number of keys of a user that count: large where the threshold hardly grows with it."""
LEAST_DELTA = 1e-15
"""Below this delta the slack of claim 1 is not negligible."""
COUNTED_PER_USER, COUNTED_SESSIONS = 16, 4
"""Number of released keys that a user counts for, where counts are drawn anew after the selection."""
PARTS_OF_TABLES: Mapping[str, str] = MappingProxyType({"clicks": "query", "sessions": "queries"})
"""Part of the key in the first preselection round, in tables whose keys have parts."""
COUNTING = Fraction(1, 5)
"""Share of epsilon for counts of clicks under Laplace selection; weights have the same."""
OWN_KEYS = Fraction(1, 2)
"""Share of delta for keys that one user alone holds; the rest is for noise."""
KEPT_BY_SCOUTS = 4
"""Preselection rounds keep about one key in four: measured on logs like AOL's, an assumption for others."""


@dataclass(frozen=True)
class TablePlans:
    """A plan for each table, and what they guarantee together."""

    plans: Mapping[str, TablePlan]
    epsilon: float
    delta: float
    later_loss: float = 0.0
    """The mu^2 that is left for rounds of Gaussian noise that depend on these tables; 0 for none."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "plans", MappingProxyType(dict(self.plans)))

    def guarantee(self, unprotected: tuple[str, ...] = ()) -> Guarantee:
        """Return the proven guarantee of all tables together."""
        reasons = {name: plan.guarantee().because for name, plan in self.plans.items()}
        because = "; ".join(f"{name}: {reason}" if len(reasons) > 1 else reason for name, reason in reasons.items())
        return user_guarantee(self.epsilon, self.delta, because, unprotected)


def plan_tables(
    epsilon: float,
    delta: float,
    per_user: Mapping[str, int],
    *,
    selection: str | None = None,
    split: Mapping[str, int] | None = None,
    two_draws: bool = False,
    priors: bool = False,
    counted: bool = True,
    times: Times | None = None,
    for_filter: bool = False,
    later: Fraction = Fraction(0),
    squared_share: float = 1.0,
) -> TablePlans:
    """Return a plan for each table named in `per_user` (how many keys a user may add to) within one budget.

    selection: None if a formula chooses between Laplace and Gaussian noise.
    split: the number of parts of the budget for each table; None for equal parts.
    priors: whether users prefer keys by public knowledge. counted: whether keys are published with counts.
    times: the bound on one user's clicks where clicks are counted; None where users are.
    for_filter: whether plans of one draw are for a ledger that adds up squared losses (accounting/filter.md).
    later: the part of mu^2 that is left for rounds without own keys that depend on these tables (weights only).
    squared_share: the part of the squared loss for these tables, where all noise is Gaussian.
    """
    budget = Budget(epsilon, delta)
    epsilon, delta = budget.epsilon, budget.delta
    if selection is not None:
        one_of("selection", selection, SELECTIONS, "or leave it out: a formula chooses")
    parts = _parts(per_user, split)
    if selection in ("weighted", "multi-round"):
        _check_weighted(selection, delta, two_draws=two_draws)
        return _weighted_tables(
            epsilon, delta, per_user, parts, selection,
            priors=priors, counted=counted, times=times, later=later, squared_share=squared_share,
        )  # fmt: skip
    if later:
        raise EngineError("only rounds of Gaussian noise share a mu^2; this is a bug in querycloak")
    planned: Callable[[float, float, int], TablePlan]
    if times is not None:
        planned = partial(plan_times, selection=selection, times=times)
    elif not counted:
        planned = partial(plan_without_counts, selection=selection)
    elif for_filter and selection in (None, "gaussian") and not two_draws:
        planned = partial(plan_for_filter, squared_share=squared_share)
    else:
        planned = partial(calibrate, law=selection, two_draws=two_draws)
    plans = {
        name: planned(rounded_down(stated(epsilon) * parts[name]), rounded_down(stated(delta) * parts[name]), bound)
        for name, bound in per_user.items()
    }
    total_epsilon = sum((stated(plan.epsilon) for plan in plans.values()), Fraction(0))
    total_delta = sum((stated(plan.delta) for plan in plans.values()), Fraction(0))
    return TablePlans(plans, rounded_up(total_epsilon), rounded_up(total_delta))


def _check_weighted(selection: str, delta: float, *, two_draws: bool) -> None:
    """Refuse options that a weighted selection does not support: a tiny delta, a second draw."""
    chosen = Parameter("selection", selection)
    if delta < LEAST_DELTA:
        rule = Sentence("at least {least:g} for {chosen}", least=LEAST_DELTA, chosen=chosen)
        refuse("delta", rule, delta, Sentence("take {selection:laplace} or {selection:gaussian}"))
    if two_draws:
        raise ParameterError.of("{chosen} counts with fresh noise anyway: leave {two_draws} out", chosen=chosen)


def plan_times(epsilon: float, delta: float, per_user: int, selection: str | None, times: Times) -> TablePlan:
    """Return the plan of one draw per key that decides by users, and a second one that counts clicks."""
    if selection == "gaussian":
        raise ParameterError.of(
            "{count_of:clicks} goes with {selection:laplace}, {selection:weighted} and {selection:multi-round}; "
            "take one of these, or leave {selection} out"
        )
    return calibrate_times(epsilon, delta, per_user, times, COUNTING)


def plan_without_counts(epsilon: float, delta: float, per_user: int, selection: str | None) -> KeysOnlyPlan:
    """Return the plan of one draw per key where only keys come out."""
    if selection == "gaussian":
        raise ParameterError.of(
            "{selection:gaussian} decides by the count that it publishes, so that {counts:none} gains nothing with "
            "it; take {selection:laplace}, {selection:weighted} or {selection:multi-round}, or leave {selection} "
            "out"
        )
    return plan_keys_only(epsilon, delta, per_user)


def _parts(tables: Mapping[str, int], split: Mapping[str, int] | None) -> dict[str, Fraction]:
    if split is not None and set(split) != set(tables):
        refuse("split", f"a part for each of {', '.join(tables)}", dict(split), "such as clicks=1,sessions=2")
    parts = {name: Fraction((split or {}).get(name, 1)) for name in tables}
    return {name: part / sum(parts.values()) for name, part in parts.items()}


def _weighted_tables(
    epsilon: float,
    delta: float,
    per_user: Mapping[str, int],
    parts: Mapping[str, Fraction],
    selection: str,
    *,
    priors: bool,
    counted: bool,
    times: Times | None,
    later: Fraction,
    squared_share: float,
) -> TablePlans:
    own = float(stated(delta) * OWN_KEYS)
    if selection == "multi-round":
        own /= 1 + own  # in claim 6 chances o add o/(1 - o) to delta
    squared = largest_loss(epsilon, float(stated(delta) * (1 - OWN_KEYS)) * (1 - 1e-9)) * squared_share
    plans: dict[str, WeightedPlan] = {}
    for name, bound in per_user.items():
        part = float(parts[name]) * (1 - 1e-12)
        counts = min(COUNTED_SESSIONS if name == "sessions" else COUNTED_PER_USER, bound)
        spend = GaussianRounds(squared * part * float(1 - later), own * part)
        looked_at = PARTS_OF_TABLES.get(name)
        shares = WEIGHTED if selection == "weighted" else ROUNDS_OF_PARTS if looked_at else ROUNDS
        if not counted:
            shares = replace(shares, counting=0.0)
        plan = plan_weighted(
            spend,
            bound,
            counts,
            shares,
            epsilon,
            delta,
            priors=priors,
            times=times and times.within(bound),
            parts=looked_at,
        )
        plans[name] = replace(plan, delta=together(epsilon, plan.draw()))
    left = squared * float(later) * (1 - 1e-12)
    reached = together(epsilon, *(plan.draw() for plan in plans.values()), GaussianRounds(left, 0.0))
    if reached > delta:
        raise EngineError(f"delta {delta!r} was missed by rounding; this is a bug in querycloak")
    return TablePlans(plans, epsilon, reached, left)


def together(epsilon: float, *draws: GaussianRounds) -> float:
    """Return the delta of tables with these draws, rounded up (selection.md, claims 4 and 6)."""
    squared = sum(draw.squared_loss for draw in draws) * (1 + 1e-12)
    own = min(1.0, sum(draw.own_keys for draw in draws) * (1 + 1e-12))
    if own >= 1:
        return 1.0
    if any(draw.averaged for draw in draws):
        # Products of 1 - own_keys are at least 1 - the sum of own_keys, so this is at least claim 6's product.
        return min(1.0, (own / (1 - own) + gaussian_delta(squared, epsilon)) * (1 + 1e-12))
    loss = -math.log1p(-own) * (1 + 1e-12)
    return min(1.0, max(own + gaussian_delta(squared, epsilon), gaussian_delta(squared, epsilon - loss)) * (1 + 1e-12))


def default_selection(
    epsilon: float,
    delta: float,
    per_user: int | None,
    *,
    tables: int = 1,
    two_draws: bool = False,
    for_filter: bool = False,
) -> str | None:
    """Return multi-round if it brings out a key with fewer users than one draw per key, else None; it reads no log.

    None leaves the choice between Laplace and Gaussian noise to the smaller threshold. per_user: the number of keys of
    every user in this comparison; None for multi-round with its default bound, wherever the budget admits it. tables:
    the number of tables that share the budget in equal parts. for_filter: as in `plan_tables`.
    """
    if two_draws:
        return None
    try:
        rooms = dict.fromkeys(map(str, range(tables)), per_user or PER_USER["multi-round"])
        plan = plan_tables(epsilon, delta, rooms, selection="multi-round").plans["0"]
    except ParameterError:
        return None  # a budget too small for weights
    if per_user is None:
        return "multi-round"
    one_draw = (plan_for_filter if for_filter else calibrate)(epsilon / tables, delta / tables, per_user)
    weight = math.isqrt(GRID * GRID // max(2, per_user // KEPT_BY_SCOUTS))
    return "multi-round" if plan.threshold < one_draw.threshold * weight else None


def parse_split(text: str) -> dict[str, int]:
    """Return the parts of a text such as clicks=1,sessions=2."""
    parts: dict[str, int] = {}
    for piece in text.split(","):
        name, equals, number = piece.partition("=")
        name = name.strip()
        if not equals or not number.strip().isdecimal() or name in parts:
            refuse("split", "tables with a whole number of parts each", text, "such as clicks=1,sessions=2")
        parts[name] = whole("split", int(number), "give each table at least one part", least=1)
    return parts


KNOWN_PER_USER = 16
"""Default number of known keys of one user that count, as for counts of selected keys."""


def known_draw(epsilon: float, delta: float, share: float, per_user: int = KNOWN_PER_USER) -> PublicCounts:
    """Return the counts of known keys that take this share of the budget's squared loss."""
    squared = spend_of(epsilon, delta).squared_loss * share * (1 - 1e-9)
    sigma = four_digits_up(math.sqrt(per_user / squared * (1 + 2.0**-38) + COUNTS_SMOOTHING))
    return PublicCounts(Gaussian(sigma), per_user)


def total_delta(epsilon: float, draws: Sequence[Draw]) -> float:
    """Return the delta at epsilon of draws of Gaussian noise together, rounded up (selection.md, claims 4 and 6)."""
    cost = cost_of(user_guarantee(epsilon, None, "draws of Gaussian noise"), [draw.to_json() for draw in draws])
    own = -math.expm1(-cost.own) * (1 + 2.0**-40) + cost.exceptions
    averaged = any(isinstance(draw, GaussianRounds) and draw.averaged for draw in draws)
    return together(epsilon, GaussianRounds(cost.squared, own, averaged))
