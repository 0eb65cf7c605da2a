"""The values to which a release adds noise, and how far one user may change them: private, for tests of a guarantee.

A step may look at the results of earlier ones. A proof must hold for every such result, so the caller supposes one
(`Past`), the same for two neighbouring logs. `steps_of` dispatches on the class of what was counted.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import singledispatch

from querycloak.privacy.sampling.noise import Noise

Number = int | float | Fraction


@dataclass(frozen=True)
class Past:
    """Assumed outcome of earlier steps, equal for both neighbours: a public function of a cell's name.

    share: which part of all cells came out, by a digest of their names. lightened: cells that looked so heavy that
    users give them the least weight. queries: those of both logs; a query that only one of them holds may have come
    out, and then both are counted given that.
    """

    name: str = "everything came out"
    share: float = 1.0
    lightened: frozenset[str] = frozenset()
    queries: frozenset[str] = frozenset()

    def came_out(self, cell: str) -> bool:
        """True if the cell was let through."""
        digest = hashlib.blake2b(f"{self.name}\t{cell}".encode(), digest_size=4).digest()
        return int.from_bytes(digest) < self.share * 2**32


@dataclass(frozen=True)
class Limit:
    """A number about one log alone that must not exceed another."""

    what: str
    value: Number
    most: Number


@dataclass(frozen=True)
class Step:
    """Values that one step adds noise to, and the bound of one user's change as the method's proof states it."""

    name: str
    centres: Mapping[str, Number] = field(default_factory=dict)
    """By cell; a cell that is missing is 0, and is drawn in no log that lacks it."""
    l1: Number = math.inf
    l2_squared: Number = math.inf
    most: Number = math.inf
    noise: Noise | None = None
    threshold: int | None = None
    """Threshold of cells that come from the log; None if cells are public."""
    tie_probability: float = 0.0
    """The chance of a cell that equals the threshold."""
    passes: Callable[[int], float] | None = None
    """The chance of a cell by its centre, rounded up, where no noise decides."""
    passed_before: Mapping[str, float] = field(default_factory=dict)
    """The chance that a cell passes the earlier rounds that it must pass, rounded up; 1 if it is missing."""
    limits: Sequence[Limit] = ()
    group: str = ""
    """Steps of one group are drawn together: the chances of their own cells add up."""


@singledispatch
def steps_of(counted: object, past: Past) -> Sequence[Step]:
    """The steps of what a method counted, given the outcome of earlier ones; empty if its class is not registered.

    `@steps_of.register` adds the class of another method's counts (docs/audits.md).
    """
    _ = counted, past
    return []


def prefixed(name: str, steps: Iterable[Step], group: str | None = None) -> list[Step]:
    """The steps, each with `name` before its own; of this group unless that is None."""
    return [replace(each, name=f"{name}: {each.name}", group=each.group if group is None else group) for each in steps]


def each_is_drawn(cells: Iterable[str], drawn: Mapping[str, Number]) -> Limit:
    """No cell with users may be skipped: otherwise one more user decides whether the cells of others are drawn."""
    return Limit("cells that somebody holds and that draw no noise", len(set(cells) - set(drawn)), 0)


def named(cells: Iterable[Iterable[object]], values: Iterable[int]) -> dict[str, int]:
    """Numbers by the name of their cell."""
    return {"\t".join(map(str, cell)): value for cell, value in zip(cells, values, strict=True)}
