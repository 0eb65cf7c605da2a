"""Bounds on sessions, the tables that come out, and their plan: a histogram of all keys, or parts of the budget.

Options that do not go together are refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from querycloak.errors import ParameterError
from querycloak.methods.clicks import method as clicks
from querycloak.methods.keys.selection_plan import AUTO, Selection, SelectionPlan, SplitBudget, noise_of
from querycloak.methods.queries import method as queries
from querycloak.methods.sessions.public_plans import PAIRS as TABLE
from querycloak.methods.sessions.public_plans import PARTS, PARTS_BEFORE, REFORMULATIONS, PublicPlans
from querycloak.privacy.budget import Budget, ExplicitNoise, Given
from querycloak.privacy.calibration.histogram_plan import HistogramPlan, price
from querycloak.privacy.calibration.key_chances import KeysOnlyPlan
from querycloak.privacy.calibration.selection import parse_split, plan_tables, plan_without_counts
from querycloak.privacy.calibration.threshold import LAWS, calibrate, plan_for_filter
from querycloak.privacy.parameters import checked_bound, natural, refuse, whole
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    from querycloak.methods.sessions.method import Sessions


LONGEST_SESSION = 10
MOST_KEYS = 250
CHARACTERS_PER_USER = 1 << 24
"""Largest total length of one user's sequences: sessions beyond it do not count (sessions.md)."""


class SessionBounds(NamedTuple):
    """Number of sessions of a user that count, and of queries of each."""

    sessions: int
    queries: int

    @property
    def sequences(self) -> int:
        """Largest number of sequences of two or more queries."""
        return sensitivity(self.sessions, self.queries)


# Room for as many keys as clicks have there.
BOUNDS = {
    "laplace": SessionBounds(1, 2),
    "gaussian": SessionBounds(8, 3),
    "weighted": SessionBounds(32, 3),
    "multi-round": SessionBounds(32, 3),
}


def sensitivity(sessions: int, queries: int) -> int:
    """Largest number of subsequences of two or more queries in these sessions (sessions.md)."""
    return sessions * ((1 << queries) - 1 - queries)


def checked_bounds(sessions: int, queries: int, *, force: bool) -> SessionBounds:
    """The bounds; refused if they make too many sequences, unless the caller insists."""
    bounds = SessionBounds(
        natural("sessions_per_user", sessions, "say how many sessions of one user may count"),
        whole(
            "queries_per_session",
            queries,
            Sentence(
                "give 2 to {most}: each more doubles a session's sequences, and {force} does not lift this bound",
                most=LONGEST_SESSION,
            ),
            least=2,
            most=LONGEST_SESSION,
        ),
    )
    keys = checked_bound(bounds.sequences)
    if keys > MOST_KEYS and not force:
        raise ParameterError.of(
            "{sessions_per_user} times the subsequences of a session must be at most {most}; {sessions:,} "
            "times {each:,} would make up to {keys:,} rows for each user, {keys:,} million for a million "
            "users; lower {queries_per_session}, or insist: {force:True}",
            most=MOST_KEYS,
            sessions=bounds.sessions,
            each=sensitivity(1, bounds.queries),
            keys=keys,
        )
    return bounds


def of_released(method: Sessions, given: Given) -> bool:
    """Whether sequences are pairs of queries that another table released."""
    if method.variant == "paper":
        return False
    if method.sequences is not None:
        return method.sequences == "released"
    alone = method.no_clicks or (method.tables is not None and method.tables.strip() == TABLE)
    bounds = (method.sessions_per_user, method.queries_per_session, method.selection)
    open_bounds = bounds == (None, None, None) and method.max_keys_per_user in (None, AUTO)
    return isinstance(given, Budget) and open_bounds and not method.two_draws and not alone


def checked_tables(method: Sessions, given: Given) -> tuple[str, ...]:
    """The tables that were asked for, in the order in which a release has them."""
    named = [] if method.tables is None else [name.strip() for name in method.tables.split(",")]
    if named and (TABLE not in named or len(set(named)) < len(named) or not set(named) <= set(method.keys)):
        refuse("tables", f"sessions, and some of {', '.join(method.keys)}", method.tables, "such as queries,sessions")
    if method.pairs:
        _check_of_released(method, given)
    if method.tables is None:
        more = (REFORMULATIONS,) if method.pairs and method.counts == "noisy" else ()
        return (TABLE,) if method.no_clicks else (clicks.TABLE, TABLE, *more)
    if method.no_clicks:
        raise ParameterError.of("{tables} must be left out with {no_clicks}: both say which tables come out")
    if REFORMULATIONS in named and (not method.pairs or method.counts == "none"):
        raise ParameterError.of(
            "reformulations in {tables} need {sequences:released}, clicks or queries beside them, and counts"
        )
    return tuple(name for name in method.keys if name in named)


def _check_of_released(method: Sessions, given: Given) -> None:
    """Refuse options that do not go with pairs of released queries."""
    if not isinstance(given, Budget) or method.two_draws:
        raise ParameterError.of(
            "{sequences:released} needs a budget ({epsilon}, {delta}): leave {noise}, {threshold} and {two_draws} out"
        )
    if method.sessions_per_user is not None or method.queries_per_session is not None:
        raise ParameterError.of(
            "{sequences:released} makes pairs of queries: {sessions_per_user} and {queries_per_session} go with "
            "{sequences:selected}"
        )
    named = (method.tables or f"{clicks.TABLE},{TABLE}").replace(" ", "").split(",")
    if method.no_clicks or not {clicks.TABLE, queries.TABLE} & set(named):
        raise ParameterError.of(
            "{sequences:released} needs queries that come out before: clicks or queries in {tables}"
        )


def check_one_table(method: Sessions) -> None:
    """Refuse options on other tables if there are none."""
    if len(method.released) > 1:
        return
    alone = Parameter("no_clicks") if method.no_clicks else Parameter("tables", TABLE)
    if method.split is not None:
        raise ParameterError.of(
            "{split} must be left out with {alone}: it divides a budget between tables", alone=alone
        )
    if method.max_keys_per_user not in (None, AUTO):
        raise ParameterError.of(
            "{max_keys_per_user} must be left out with {alone}: it bounds clicks and queries; "
            "{sessions_per_user} and {queries_per_session} bound sessions",
            alone=alone,
        )


def parts_of(method: Sessions) -> dict[str, int]:
    """The parts of the budget, by table, where pairs of released queries come out."""
    if method.split is not None:
        parts = parse_split(method.split)
        if set(parts) != set(method.released):
            refuse("split", f"a part for each of {', '.join(method.released)}", method.split, "name each once")
        return parts
    before = [name for name in method.released if name not in PARTS]
    return {name: PARTS[name] * len(before) if name in PARTS else PARTS_BEFORE for name in method.released}


Room = Mapping[str, int]
"""Number of keys that one user may add to, by table."""


def plans_of_noise(given: ExplicitNoise, room: Room, law: Selection, *, two_draws: bool) -> SelectionPlan:
    """Plans with this noise and threshold for all tables."""
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
    """Plans of the tables drawn first, and of the tables with keys that follow from these, within one budget.

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
