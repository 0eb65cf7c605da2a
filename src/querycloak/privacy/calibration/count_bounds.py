"""How often, where that is counted instead of how many users: what one user may add (proof: histogram.md, claim 9)."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Times"]


class Times(NamedTuple):
    """At most `per_key` for one key, and `per_user` for all keys of a user."""

    per_key: int
    per_user: int

    def within(self, keys: int) -> Times:
        """The same where a user has no more than this number of keys."""
        return Times(min(self.per_key, self.per_user), min(self.per_user, self.per_key * keys))

    @property
    def squared(self) -> int:
        """The most that the squares of what a user adds can sum up to."""
        return self.per_key * self.per_user
