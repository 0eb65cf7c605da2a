"""Cells of the public parts: what is counted of each user, and how far one user can move the counts (synthetic.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from querycloak.logs.reformulations import KINDS

GAP_MINUTES = 30
"""The pause that ends a session."""
SESSIONS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 63, 79, 100, 126, 158, 200, 316, 500)
"""The least number of sessions in each bin of users."""
MOST_SESSIONS = 1000
SEARCHES = 12
"""Sessions of this many searches or more are one cell."""
PAUSES = (0, 5, 10, 20, 40, 60, 90, 120, 180, 300, 480, 720, 1080, 1440, 1800)
"""The least number of seconds in each bin of pauses, and the most in the last."""
HOURS = 168
FIRST, AGAIN = "first", "again"
STEPS = (FIRST, AGAIN, *KINDS)
"""A session's first query, one of these that the user asked before, and the kinds of reformulation."""
CLICKS = 5
"""Numbers of clicks of a search: 0 to 3, and 4 or more."""
WORDS = 10
"""Queries of this many words or more are one cell."""
RANKS = 13
"""No rank, 1 to 10, 11 to 20, 21 and more."""


@dataclass(frozen=True)
class Cells:
    """A public part of noisy counts: its number of cells, and what one user may add.

    once: 1 to each of `most` cells at most; otherwise `most` events, all perhaps to one cell.
    """

    number: int
    most: int
    once: bool = False

    @property
    def squared(self) -> int:
        """The square of the length by which one user moves the counts."""
        return self.most if self.once else self.most**2


CELLS: Mapping[str, Cells] = {
    "users": Cells(len(SESSIONS), 1),
    "sessions": Cells(SEARCHES, 4),
    "hours": Cells(HOURS, 16, once=True),
    "pauses": Cells(len(PAUSES) - 1, 8),
    "kinds": Cells(len(STEPS), 8),
    "sources": Cells(2 * CLICKS, 8),
    "lengths": Cells(WORDS, 8),
    "ranks": Cells(2 * RANKS, 8),
}
