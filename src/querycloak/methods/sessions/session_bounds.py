"""Bounds on one user's sessions, and the number of sequences in them (sessions.md)."""

from __future__ import annotations

from typing import NamedTuple

from querycloak.errors import ParameterError
from querycloak.privacy.parameters import checked_bound, natural, whole
from querycloak.sentence import Sentence

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
        raise ParameterError(
            Sentence(
                "{sessions_per_user} times the subsequences of a session must be at most {most}; {sessions:,} "
                "times {each:,} would make up to {keys:,} rows for each user, {keys:,} million for a million "
                "users; lower {queries_per_session}, or insist: {force:True}",
                most=MOST_KEYS,
                sessions=bounds.sessions,
                each=sensitivity(1, bounds.queries),
                keys=keys,
            )
        )
    return bounds
