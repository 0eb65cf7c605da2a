"""The tables that `sessions` releases and the division of their budget; options that do not go together are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from querycloak.errors import ParameterError
from querycloak.methods.clicks import method as clicks
from querycloak.methods.keys.selection_plan import AUTO
from querycloak.methods.queries import method as queries
from querycloak.methods.sessions.public_plans import PAIRS as TABLE
from querycloak.methods.sessions.public_plans import PARTS, PARTS_BEFORE, REFORMULATIONS
from querycloak.privacy.budget import Budget, Given
from querycloak.privacy.calibration.selection import parse_split
from querycloak.privacy.parameters import refuse
from querycloak.sentence import Parameter, Sentence

if TYPE_CHECKING:
    from querycloak.methods.sessions.method import Sessions


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
        raise ParameterError(Sentence("{tables} must be left out with {no_clicks}: both say which tables come out"))
    if REFORMULATIONS in named and (not method.pairs or method.counts == "none"):
        raise ParameterError(
            Sentence("reformulations in {tables} need {sequences:released}, clicks or queries beside them, and counts")
        )
    return tuple(name for name in method.keys if name in named)


def _check_of_released(method: Sessions, given: Given) -> None:
    """Refuse options that do not go with pairs of released queries."""
    if not isinstance(given, Budget) or method.two_draws:
        raise ParameterError(
            Sentence(
                "{sequences:released} needs a budget ({epsilon}, {delta}): leave {noise}, {threshold} and "
                "{two_draws} out"
            )
        )
    if method.sessions_per_user is not None or method.queries_per_session is not None:
        raise ParameterError(
            Sentence(
                "{sequences:released} makes pairs of queries: {sessions_per_user} and {queries_per_session} go with "
                "{sequences:selected}"
            )
        )
    named = (method.tables or f"{clicks.TABLE},{TABLE}").replace(" ", "").split(",")
    if method.no_clicks or not {clicks.TABLE, queries.TABLE} & set(named):
        raise ParameterError(
            Sentence("{sequences:released} needs queries that come out before: clicks or queries in {tables}")
        )


def check_one_table(method: Sessions) -> None:
    """Refuse what is about other tables where there are none."""
    if len(method.released) > 1:
        return
    alone = Parameter("no_clicks") if method.no_clicks else Parameter("tables", TABLE)
    if method.split is not None:
        raise ParameterError(
            Sentence("{split} must be left out with {alone}: it divides a budget between tables", alone=alone)
        )
    if method.max_keys_per_user not in (None, AUTO):
        raise ParameterError(
            Sentence(
                "{max_keys_per_user} must be left out with {alone}: it bounds clicks and queries; "
                "{sessions_per_user} and {queries_per_session} bound sessions",
                alone=alone,
            )
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
