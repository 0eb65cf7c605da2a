"""Common interface of the plans of a table, for any selection."""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, NamedTuple

from querycloak.privacy.accounting.draws import Draw
from querycloak.privacy.calibration.accuracy import ReleaseProbability
from querycloak.privacy.calibration.poisoning import ForcedOutRule, rule_of_table
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.sampling.noise import Noise


class Times(NamedTuple):
    """Bounds on one user's clicks: at most `per_key` on one key, and `per_user` on all keys."""

    per_key: int
    per_user: int

    def within(self, keys: int) -> Times:
        """The bounds for a user with at most this number of keys."""
        return Times(min(self.per_key, self.per_user), min(self.per_user, self.per_key * keys))

    @property
    def squared(self) -> int:
        """Largest sum of squares of one user's contributions to the counts."""
        return self.per_key * self.per_user


class TablePlan(ABC):
    """Selection and counts of the keys of one table (partition selection), with their guarantee.

    A plan is public: it follows from a budget or from explicit noise, never from a log. `noise` is added to the count
    or weight of a key, which must then exceed `threshold`, in the plan's own units; keys without counts are drawn by
    their chances instead (`KeysOnlyPlan`). `per_user` is the contribution bound: the number of keys of one user that
    count.
    """

    noise: Noise
    threshold: int
    per_user: int
    epsilon: float
    delta: float

    @property
    @abstractmethod
    def selection(self) -> str:
        """Kind of selection: laplace, gaussian, truncated-geometric, weighted or multi-round."""

    @property
    @abstractmethod
    def counts(self) -> str:
        """Kind of counts, as on the card: one-draw, fresh-draw, weighed, or none."""

    @property
    def enough_users(self) -> int:
        """Number of users without other keys who bring out a key that nobody else has, more likely than not."""
        return self.forced_out.accounts

    @property
    def forced_out(self) -> ForcedOutRule:
        """Number of accounts of one person that bring out texts of their choice, by the parameters on the card."""
        return rule_of_table(self.parameters())

    def accounts_for(self, texts: int) -> int:
        """Number of accounts that bring out this many texts at once (poisoning.md)."""
        return self.forced_out.accounts_for(texts)

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the parameters on the card."""

    @abstractmethod
    def draw(self) -> Draw:
        """Return its draws, as a charge records them for composition."""

    @abstractmethod
    def gain(self, keys: int) -> Fraction:
        """Return what a user with this number of keys adds, over what a key needs to come out (bound_choice.md)."""

    @abstractmethod
    def route(self) -> ReleaseProbability:
        """Return how a key comes out and is counted: what margins and numbers of users follow from (accuracy.md)."""

    @property
    @abstractmethod
    def rows_of_one_user(self) -> float:
        """Expected number, at most, of released rows that one user alone has (accuracy.md, claim 5)."""

    def guarantee(self, unprotected: tuple[str, ...] = ()) -> Guarantee:
        """Return the proven guarantee of this table alone; the method adds what it leaves unprotected."""
        return user_guarantee(self.epsilon, self.delta, self._because(), unprotected)

    @abstractmethod
    def _because(self) -> str:
        """Say in a few plain clauses why the guarantee holds, and where the proof is."""
