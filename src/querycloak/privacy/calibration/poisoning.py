"""Number of accounts of one person that bring out texts of their choice, by a table's parameters (poisoning.md)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any, Literal

from querycloak.privacy.calibration.accuracy import Stage
from querycloak.privacy.sampling.noise import Gaussian, Laplace

GRID = 256
"""Weights are whole multiples of 1/GRID: a user's weights have squares that sum up to at most GRID^2."""
Adding = Literal["counts", "weights", "records"]


@dataclass(frozen=True)
class ForcedOutRule:
    """Accounts that bring out texts that nobody else has, each text with a chance of about one half.

    `too_little`: the largest total with a chance below one half. `per_user`: how many texts of one account count; None
    if all do. `adding`: an account adds 1 to each of its texts (counts), or divides its weight among them (weights), or
    divides `per_user` records among them (records). `beside`: accounts that are enough for a text that holds a frequent
    query; None if that makes no difference. `key`: what comes out. `table`: the table that needs fewest, if several do.
    `crowd`: other users without whom nothing comes out.
    """

    too_little: int
    per_user: int | None = None
    adding: Adding = "counts"
    beside: int | None = None
    key: str = "text"
    table: str | None = None
    crowd: int = 0

    @property
    def accounts(self) -> int:
        """The number of accounts that one text needs."""
        return self.accounts_for(1)

    def accounts_for(self, texts: int) -> int:
        """The number of accounts that this many texts at once need; beyond the bound accounts work in groups."""
        groups, rest = divmod(texts, self.per_user or texts)
        return groups * self._within_bound(self.per_user or texts) + (self._within_bound(rest) if rest else 0)

    def _within_bound(self, texts: int) -> int:
        return self.too_little // self.added(texts) + 1

    def added(self, texts: int) -> int:
        """Amount that one account adds to each of this many texts."""
        if self.adding == "weights":
            return math.isqrt(GRID * GRID // texts)
        return (self.per_user or texts) // texts if self.adding == "records" else 1


def rule_of_table(parameters: Mapping[str, Any], *, records: bool = False) -> ForcedOutRule:
    """The rule of a table by what its card says; records: one user may count several times for one key."""
    threshold, per_user = parameters["threshold"], parameters.get("per_user")
    bound = per_user if isinstance(per_user, int) else None
    if parameters.get("selection") in ("weighted", "rounds", "multi-round"):
        return ForcedOutRule(_weight_of_one_half(parameters), bound, "weights")
    short = math.floor(threshold) - _most_ties_come_out(parameters)
    return ForcedOutRule(short, bound, "records" if records and bound else "counts")


def _weight_of_one_half(parameters: Mapping[str, Any]) -> int:
    """The largest weight with a chance of at most one half in all rounds and the decision together (poisoning.md).

    A card that states no noise: that of the decision alone, which is the threshold.
    """
    threshold, sigma = float(parameters["threshold"]), float(parameters.get("noise") or 0)
    floors, noises = (parameters.get(name) or [] for name in ("scout_floor", "scout_noise"))
    limits = zip([threshold, *floors], [sigma, *noises], strict=False)
    stages = [NormalDist(limit, noise) for limit, noise in limits if noise > 0]
    low, high = round(threshold * GRID), round((threshold + 8 * sigma) * GRID)
    while low < high:
        middle = (low + high + 1) // 2
        if math.prod(stage.cdf(middle / GRID) for stage in stages) <= 0.5:
            low = middle
        else:
            high = middle - 1
    return low


def _most_ties_come_out(parameters: Mapping[str, Any]) -> bool:
    """True if a key whose count is the threshold comes out more likely than not (histogram.md, claim 7)."""
    if not parameters.get("coin"):
        return False
    law = Laplace if parameters["selection"] == "laplace" else Gaussian
    stage = Stage(law(parameters["noise"]), parameters["threshold"], parameters["coin"])
    return stage.passes(parameters["threshold"]) >= 0.5
