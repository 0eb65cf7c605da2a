"""Noisy counts of (query, url) pairs (proof: clicks.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from querycloak.errors import ParameterError
from querycloak.methods.keys.one_table import OneTable
from querycloak.methods.method import Variant
from querycloak.methods.option import option
from querycloak.privacy.calibration.table_plan import Times
from querycloak.privacy.parameters import natural, refuse
from querycloak.sentence import Sentence

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog

TABLE = "clicks"
KEY = ("query", "url")
CLICKS_PER_KEY, CLICKS_PER_USER = 4, 16


@dataclass(frozen=True, kw_only=True)
class Clicks(OneTable):
    """Release the pairs that enough users clicked, each with a noisy number of users.

    Give the budget (epsilon, delta), or explicit noise and a threshold: the scale of Laplace or the sigma of Gaussian
    noise, and the count that a pair must exceed.
    """

    name = "clicks"
    summary = "Noisy counts of (query, url) pairs."
    keys: ClassVar = {TABLE: KEY}

    count_of: Literal["users", "clicks"] = option(
        "users",
        help="clicks: users decide which pairs come out; then a part of the budget pays for counts of the clicks on "
        "these.",
    )
    clicks_per_key: int | None = option(
        help="With clicks: how many clicks of one user on one pair count; 4 if not given."
    )
    clicks_per_user: int | None = option(
        help="With clicks: how many clicks of one user on all pairs that came out count; 16 if not given."
    )
    views: bool = option(
        False,
        help="Select pairs by viewers, and release their viewers and clickers by rank; a second table has views and "
        "clicks at each rank.",
    )
    variant: Variant = option("default", help="paper: as published, to compare with.")

    def __post_init__(self) -> None:
        self.check_count_of()
        super().__post_init__()

    def check_count_of(self) -> None:
        """Refuse options that do not fit the counted quantity."""
        if self.count_of == "clicks":
            if self.epsilon is None or self.two_draws or self.counts == "none":
                refuse_clicks()
            return
        for name in ("clicks_per_key", "clicks_per_user"):
            if vars(self)[name] is not None:
                refuse(name, Sentence("left out without {count_of:clicks}"), vars(self)[name], "users are counted")

    @property
    def times(self) -> Times | None:
        """Number of clicks of one user that count, for a pair and in all."""
        if self.count_of != "clicks":
            return None
        each = CLICKS_PER_KEY if self.clicks_per_key is None else self.clicks_per_key
        most = CLICKS_PER_USER if self.clicks_per_user is None else self.clicks_per_user
        most = natural("clicks_per_user", most, "say how many clicks of one user count")
        return Times(min(natural("clicks_per_key", each, "say how many clicks on one pair count"), most), most)

    def parameters(self) -> dict[str, Any]:
        """Given options, and the numbers computed from them."""
        times = self.times
        if times is None:
            return {**super().parameters(), **({"views": True} if self.views else {})}
        counted = {"count_of": "clicks", "clicks_per_key": times.per_key, "clicks_per_user": times.per_user}
        return {**super().parameters(), **counted}

    @property
    def viewed(self) -> bool:
        """True if pairs are selected and counted by viewers."""
        return self.views

    def rows(self, log: SearchLog) -> ir.Table:
        """The rows with a click; with views, the results shown."""
        if self.views:
            from querycloak.methods.keys.cell_counts import ranked_views

            return ranked_views(log)
        from querycloak.methods.clicked import clicks_of

        return clicks_of(log)


def refuse_clicks() -> NoReturn:
    """Refuse to count clicks: they are counted in a second release of the same budget."""
    raise ParameterError.of(
        "{count_of:clicks} is for a budget ({epsilon}, {delta}), and a draw of its own: leave {noise}, "
        "{threshold}, {two_draws}, {counts:none} and the paper variant out"
    )
