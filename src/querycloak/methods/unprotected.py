"""Unprotected facts that several methods share, in the words of their cards; each method's note lists the same."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from querycloak.privacy.guarantee import Guarantee

ALWAYS = (
    "the parameters of the release",
    "that the log could be read, and in which format if its owner did not name it",
)
BAD_ROWS = "that the share of bad rows in the log was within the owner's limit"
KEPT_ROWS = "that rows (and clicks, if clicks are counted) were kept, as the owner was told before paying"
CHOSEN_ON_LOG = "parameters chosen after looking at the log"
DRAWN_AGAIN = (
    "that a run of this release ended after its charge and before anything was written; the release was drawn again "
    "under the same charge, which assumes that the end of that run did not depend on what it had drawn"
)
WITHOUT_GUARANTEE = (*ALWAYS, BAD_ROWS)
"""Without a guarantee, a log with too many bad rows is refused."""
TWO_RELEASES = "the difference between two releases of one log"
SEARCHES_OF_EACH = "how many searches of each person were released"


def with_unprotected(proven: Guarantee, *facts: str) -> Guarantee:
    """The guarantee with more unprotected facts, in the owner's words or in ours; each is listed once."""
    more = tuple(fact for fact in facts if fact not in proven.unprotected)
    return replace(proven, unprotected=(*proven.unprotected, *more))
