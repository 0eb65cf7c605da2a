"""The paid gate of a release: its users are counted, it is paid, and its noise decides (proof: paid_gate.md)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from querycloak.errors import InputError, ParameterError
from querycloak.privacy import order
from querycloak.privacy.accounting.draws import PublicCounts
from querycloak.privacy.accounting.gaussian_filter import GaussianCost, cost_of
from querycloak.privacy.guarantee import Guarantee, compose, user_guarantee
from querycloak.privacy.ledger.payment import Bill, Payment, payment_of
from querycloak.privacy.parameters import whole
from querycloak.privacy.sampling.noise import Laplace
from querycloak.sentence import Action

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from querycloak.logs.searchlog import SearchLog
    from querycloak.privacy.ledger.ledger import Ledger
    from querycloak.privacy.sampling.randomness import Randomness

NOISE = Laplace(50.0)
LEAST = 196
"""The noisy number of users from which on a log is released."""
GATE = user_guarantee(
    0.02,
    None,
    f"a gate: the number of users with a kept row (or click), with {NOISE.words}, is at least {LEAST}",
)
DRAW = PublicCounts(NOISE, 1)
NAME = "paid-gate"
DESCRIPTION = {"noise": {"law": NOISE.law, "scale": NOISE.scale}, "least": LEAST, "epsilon": GATE.epsilon}
"""The entry `gate` in the card's `log`."""
_BILL = Bill(NAME, GATE, {**DESCRIPTION, "mechanisms": [DRAW.to_json()]})


def is_gated(card_log: Any) -> bool:
    """True if a release was made behind the gate, by the part `log` of its card."""
    return bool(card_log.get("gate"))


def passes(users: int, randomness: Randomness, runs: int = 1) -> NDArray[np.bool_]:
    """Return whether a log of this many users is let through, in each of `runs` independent runs."""
    whole("users", users, "count the users with a kept row", least=0)
    return users + randomness.noise(NOISE, runs) >= LEAST


def gated(proven: Guarantee) -> Guarantee:
    """The guarantee of a release behind the gate: the sum of both (claim 2)."""
    if not proven.covers_release or (proven.unit, proven.neighbours) != (GATE.unit, GATE.neighbours):
        raise ParameterError.of(
            "{paid_gate:True} goes with differential privacy for each user, which this method does not have; "
            "{refuse_empty:True} refuses a log of which nothing is kept"
        )
    return compose([proven, GATE])


@dataclass(frozen=True)
class PaidGate:
    """A gate before a release, with a payment of its own."""

    payment: Payment

    @classmethod
    def checked(cls, bill: Bill, ledger: Ledger | None, population: str | None) -> PaidGate:
        """The gate before the release of a bill, if both can be paid."""
        both = {**bill.parameters, "mechanisms": [*bill.parameters.get("mechanisms", ()), DRAW.to_json()]}
        together = replace(bill, guarantee=gated(bill.guarantee), parameters=both, campaign=None)
        payment_of(ledger, population, together).check()
        return cls(payment_of(ledger, population, _BILL))

    @property
    def cost(self) -> GaussianCost:
        """Cost of the gate under a Gaussian limit."""
        return cost_of(GATE, [DRAW.to_json()])

    def count(self, log: SearchLog) -> int:
        """Number of users with a kept row or, if clicks are counted, with a kept click. Private."""
        rows = log.clicks if log.clicks_counted else log.asked
        return int(log.engine.fetch(rows.agg(users=rows.user.nunique()))["users"].to_pylist()[0] or 0)

    def require(self, users: int, randomness: Randomness) -> None:
        """Pay, draw, and refuse a log with too few users."""
        with order.paying():
            accounting = self.payment.pay(users).accounting
        with order.drawing():
            if passes(users, randomness)[0]:
                return
        charged = "" if accounting.charge is None else f" (charge {accounting.charge} to {accounting.population!r})"
        raise InputError.of(
            "the paid gate refuses: with noise, fewer than {least} users have a row or click that is kept. It "
            "costs epsilon {epsilon:g}{charged}; nothing else was charged, and nothing was drawn from the log. "
            "{inspect} shows, privately, what was read",
            least=LEAST,
            epsilon=GATE.epsilon,
            charged=charged,
            inspect=Action("querycloak.profile(log)", ("querycloak", "inspect", "LOG")),
        )


def with_gate(proven: Guarantee, *, paid_gate: bool) -> Guarantee:
    """The guarantee of a release, behind the gate if there is one."""
    return gated(proven) if paid_gate else proven
