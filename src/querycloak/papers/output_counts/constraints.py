"""The constraints as whole numbers, so that whether they hold is certain (optimal.md, paper variant, step 2)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from querycloak.methods.optimal.holdings import Holdings
from querycloak.methods.optimal.objectives import Objective
from querycloak.papers.hong2012 import chance_to_appear
from querycloak.privacy.budget import Budget
from querycloak.privacy.sampling.exact import stated
from querycloak.privacy.sampling.randomness import IntArray

UNIT = 1 << 40
"""Logarithms are counted in units of 2^-40."""
_SLACK = 2.0**-50
"""More than all rounding of one logarithm: a quotient, a log1p and a product."""
_NO_LIMIT = 1 << 62
_NEARLY = 1e-12


@dataclass(frozen=True, eq=False)
class Packing:
    """Rows that must not be overloaded: sum over pairs of x times weight is at most a row's capacity.

    The entries of pair p stand from starts[p] to starts[p + 1]; the first `users` rows are the users', the others
    the queries'. most: what a single pair may reach by its own rows alone.
    """

    starts: IntArray
    row: IntArray
    weight: IntArray
    capacity: IntArray
    most: IntArray
    users: int

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return int(self.starts.size - 1)

    def loads(self, counts: IntArray) -> IntArray:
        """Load of each row under these output counts."""
        loads = np.zeros(self.capacity.size, dtype=np.int64)
        np.add.at(loads, self.row, self.weight * np.repeat(counts, np.diff(self.starts)))
        return loads

    def holds(self, counts: IntArray) -> bool:
        """True if every row carries no more than it may; computed in whole numbers."""
        return bool((counts >= 0).all() and (counts <= self.most).all() and (self.loads(counts) <= self.capacity).all())


class PairLimit(NamedTuple):
    """B in units, rounded down; and the largest share of a pair that one user may have, the delta that is proven."""

    units: int
    share: Fraction


def limit(epsilon: float, delta: float) -> PairLimit:
    """B = min(epsilon, log(1/(1-delta)))."""
    units = math.floor(min(epsilon, -math.log1p(-delta)) * (1 - _SLACK) * UNIT)
    return PairLimit(units, stated(chance_to_appear(Budget(epsilon, delta))))


def weights(holdings: Holdings) -> IntArray:
    """Log t_ijk = log(c_ij / (c_ij - c_ijk)) of every count, in units, rounded up."""
    total = holdings.totals[holdings.pair]
    # log1p of the odds is well conditioned everywhere; the counts are whole numbers below 2^53.
    exact = np.log1p(holdings.count / (total - holdings.count))
    scaled: IntArray = np.ceil(exact * (1 + _SLACK) * UNIT).astype(np.int64)
    return scaled


def packing(holdings: Holdings, bound: PairLimit, objective: Objective) -> Packing:
    """The users' constraints with B = bound, and those that the objective adds."""
    starts, row, weight = holdings.starts, holdings.user, weights(holdings)
    weight = np.where(_just_fits(holdings, bound.share), np.minimum(weight, bound.units), weight)
    capacity = np.full(holdings.users, bound.units, dtype=np.int64)
    if objective.once_per_query:
        starts, row, weight, capacity = _with_queries(holdings, row, weight, capacity)
    # reduceat needs every pair to have an entry: each has two, because pairs of one user are dropped.
    within = capacity[row] // weight
    most = np.minimum.reduceat(within, starts[:-1]) if starts.size > 1 else np.zeros(0, dtype=np.int64)
    return Packing(starts, row, weight, capacity, np.minimum(most, objective.most or _NO_LIMIT), holdings.users)


def _just_fits(holdings: Holdings, share: Fraction) -> NDArray[np.bool_]:
    """True if a user's part of a pair is at most the share; for parts so close to it that rounding would decide.

    A pair of two users who have half of it each fits delta = 1/2, and no rounded logarithm could tell. A weight cut
    down to a row's whole capacity stays certain: beside such a unit there is room for nothing else in the row.
    """
    total = holdings.totals[holdings.pair]
    close = np.flatnonzero(np.abs(holdings.count / total - float(share)) < _NEARLY)
    fitting = np.zeros(total.size, dtype=np.bool_)
    parts = np.stack([holdings.count[close], total[close]])
    different, place = np.unique(parts, axis=1, return_inverse=True)
    exact = [Fraction(int(count), int(whole)) <= share for count, whole in different.T]
    fitting[close] = np.array(exact, dtype=np.bool_)[place.ravel()]
    return fitting


def _with_queries(
    holdings: Holdings, row: IntArray, weight: IntArray, capacity: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """A further row for each query, with one pair."""
    ends = holdings.starts[1:]
    row = np.insert(row, ends, holdings.users + holdings.query)
    weight = np.insert(weight, ends, 1)
    queries = int(holdings.query.max()) + 1 if holdings.pairs else 0
    starts = holdings.starts + np.arange(holdings.pairs + 1)
    return starts, row, weight, np.concatenate([capacity, np.ones(queries, dtype=np.int64)])


def least_delta(holdings: Holdings) -> float:
    """The smallest delta at which any pair at all can come out: private, it is computed from the log."""
    heaviest = np.maximum.reduceat(weights(holdings), holdings.starts[:-1])
    return -math.expm1(-int(heaviest.min()) / UNIT) * (1 + 1e-9)
