"""Noisy counts of (query, url) pairs (proof: clicks.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from querycloak.errors import ParameterError
from querycloak.methods.method import VARIANTS, budget_or_knobs, checked_choice
from querycloak.privacy.accounting import Plan, checked_bound, paper_guarantees, price
from querycloak.privacy.calibration import calibrate
from querycloak.privacy.deltas import paper_claimed, paper_proven
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.noise import Gaussian, Laplace, Noise

if TYPE_CHECKING:
    import ibis.expr.types as ir

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.ledger import Ledger
    from querycloak.privacy.randomness import Randomness
    from querycloak.releases.release import Release

KEY = ("query", "url")
SELECTIONS = ("laplace", "gaussian")
UNPROTECTED = (
    "the parameters of the release",
    "that the log was read at all: not more than --max-bad of its rows were bad, and its format was recognised",
)
# How many pairs a user may add to: many where the threshold grows with the root of it, one where it grows with it.
PER_USER = {"gaussian": 32, "laplace": 1, "paper": 4}
_HIGHEST_THRESHOLD = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Clicks:
    """Release the pairs that enough users clicked, each with a noisy number of users.

    Give the budget (epsilon, delta), or the knobs (noise, threshold): scale of Laplace or sigma of Gaussian noise,
    and the count that a pair must exceed.
    """

    name: ClassVar[str] = "clicks"

    epsilon: float | None = None
    delta: float | None = None
    noise: float | None = None
    threshold: int | None = None
    selection: str | None = None
    per_user: int | None = None
    two_draws: bool = False
    variant: str = "default"
    plan: Plan = field(init=False, repr=False)
    _guarantees: tuple[Guarantee | None, Guarantee] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        checked_choice("variant", self.variant, VARIANTS)
        if self.selection is not None:
            checked_choice("selection", self.selection, SELECTIONS)
        given = budget_or_knobs(
            {"epsilon": self.epsilon, "delta": self.delta}, {"noise": self.noise, "threshold": self.threshold}
        )
        claimed: Guarantee | None = None
        if self.variant == "paper":
            plan, claimed, proven = self._paper_plan(given)
        else:
            plan = self._plan(given)
            proven = plan.guarantee(UNPROTECTED)
        object.__setattr__(self, "plan", plan)
        object.__setattr__(self, "_guarantees", (claimed, proven))

    def _bound(self, law: str) -> int:
        return checked_bound(self.per_user if self.per_user is not None else PER_USER[law])

    def _plan(self, given: str) -> Plan:
        if given == "budget":
            bound = self._bound(self.selection or "gaussian")
            return calibrate(self.epsilon, self.delta, bound, law=self.selection, two_draws=self.two_draws)  # type: ignore[arg-type]
        noise = _noise(self.selection or "laplace", self.noise)
        fresh = noise if self.two_draws else None
        return price(noise, self.threshold, self._bound(self.selection or "laplace"), fresh=fresh)  # type: ignore[arg-type]

    def _paper_plan(self, given: str) -> tuple[Plan, Guarantee, Guarantee]:
        if self.selection not in (None, "laplace") or self.two_draws:
            raise ParameterError(
                "the paper variant has Laplace noise and two draws of its own: leave those options out"
            )
        bound = self._bound("paper")
        if given == "knobs":
            noise, threshold = Laplace(self.noise), self.threshold  # type: ignore[arg-type]
        else:
            noise, threshold = _paper_knobs(self.epsilon, self.delta, bound)  # type: ignore[arg-type]
        claimed, proven = paper_guarantees(noise, threshold, bound, unprotected=UNPROTECTED)  # type: ignore[arg-type]
        plan = Plan(noise, threshold, bound, proven.epsilon, proven.delta, noise)  # type: ignore[arg-type]
        return plan, claimed, proven

    def parameters(self) -> dict[str, Any]:
        """What was given and what was solved for."""
        law = "laplace" if isinstance(self.plan.noise, Laplace) else "gaussian"
        return {
            "selection": law,
            "noise": _size(self.plan.noise),
            "threshold": self.plan.threshold,
            "per_user": self.plan.per_user,
            "two_draws": self.plan.fresh is not None,
            "fresh_noise": self.plan.fresh and _size(self.plan.fresh),
        }

    def claimed(self) -> Guarantee | None:
        """What Zhang and Yang say, in the paper variant."""
        return self._guarantees[0]

    def proven(self) -> Guarantee:
        """What clicks.md proves."""
        return self._guarantees[1]

    def contributions(self, log: SearchLog) -> ir.Table:
        """What each user may add: a row for each 1 that is counted."""
        from querycloak.logs.bounding import first_records, once_per_key

        if self.variant == "paper":
            return first_records(log.clicks, self.plan.per_user)
        return once_per_key(log.clicks, KEY)

    def release(
        self,
        log: SearchLog,
        *,
        ledger: Ledger | None = None,
        population: str | None = None,
        randomness: Randomness | None = None,
    ) -> Release:
        """Count, charge, draw."""
        from querycloak.methods.releasing import make_release, require_budget
        from querycloak.methods.selecting import count, count_records
        from querycloak.privacy.randomness import Randomness

        require_budget(self, ledger, population)
        counting = count_records if self.variant == "paper" else count
        counted = counting(log.engine, self.contributions(log), KEY, self.plan)
        log.checked()
        drawing = randomness or Randomness()
        return make_release(
            self,
            log,
            lambda: {"clicks": counted.release(drawing).table},
            counts="one-draw" if self.plan.fresh is None else "fresh-draw",
            plans=[self.plan],
            ledger=ledger,
            population=population,
            seeded=not drawing.private,
        )


def _noise(law: str, size: object) -> Noise:
    return Laplace(size) if law == "laplace" else Gaussian(size)  # type: ignore[arg-type]


def _size(noise: Noise) -> float:
    return noise.scale if isinstance(noise, Laplace) else noise.sigma


def _paper_knobs(epsilon: float, delta: float, bound: int) -> tuple[Laplace, int]:
    """The paper's noise and the least threshold whose proven guarantee stays within a budget."""
    # Calibrating one Laplace draw over 2 D keys gives the scale 2 D / epsilon, rounded so that it holds exactly.
    noise = calibrate(epsilon, delta, 2 * bound, law="laplace").noise
    if not isinstance(noise, Laplace):
        raise TypeError("calibration to Laplace noise gave another")
    low, high = bound, _HIGHEST_THRESHOLD
    while low < high:
        middle = (low + high) // 2
        # A claimed delta of 1 or more would not even be a claim.
        if paper_proven(noise, middle, bound) <= delta and paper_claimed(noise.scale, middle, bound)[1] < 1:
            high = middle
        else:
            low = middle + 1
    return noise, low
