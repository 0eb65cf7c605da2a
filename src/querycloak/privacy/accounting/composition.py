"""Several releases about the same people: their sum, and a tighter bound beside it (composition.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.draws import losses_of
from querycloak.privacy.accounting.privacy_loss import Losses
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural, share
from querycloak.privacy.sampling.exact import four_digits_up, rounded_up, stated

CONDITION = (
    "holds if the number of releases and the noise of each were fixed beforehand; if they were decided after looking "
    "at earlier releases, only the sum holds"
)

ONE_RELEASE = "holds: everything in one release is fixed by its parameters"
ONE_STEP = "covers one step of the method only: nothing limits what the other steps reveal"


@dataclass(frozen=True)
class Composed:
    """The sum, and by privacy-loss distributions an epsilon at a delta; None if there is none at that delta."""

    epsilon_sum: float
    delta_sum: float
    epsilon: float | None
    delta: float
    condition: str = CONDITION

    def covering(self, what: str | None) -> Composed:
        """The sum with a condition that names what it covers; None leaves the condition as it is."""
        return self if what is None else replace(self, condition=f"{what}; it {self.condition}")

    @property
    def below_the_sum(self) -> bool:
        """True if this epsilon is below the sum's; its delta may be larger than the sum's."""
        return self.epsilon is not None and self.epsilon < self.epsilon_sum

    def to_json(self) -> dict[str, Any]:
        """The values that `--composition pld` prints and the card holds."""
        return {
            "sum": {"epsilon": self.epsilon_sum, "delta": self.delta_sum},
            "privacy_loss_distribution": {
                "epsilon": self.epsilon,
                "delta": self.delta,
                "below_the_sum": self.below_the_sum,
                "condition": self.condition,
            },
        }


def composed(losses: Losses, epsilon_sum: Fraction, delta_sum: Fraction, at_delta: float | None = None) -> Composed:
    """Both bounds; unless a delta is given, the tighter one is stated at twice the sum of deltas, at most 0.5.

    Twice, because noise and threshold may each use a whole delta, and the bound adds the two up (claim 3).
    """
    if at_delta is not None:
        at_delta = share("at_delta", at_delta, "give the delta at which to state epsilon, such as 1e-6")
    else:
        at_delta = min(rounded_up(2 * delta_sum), 0.5)
    epsilon = losses.epsilon_at(at_delta)
    readable = four_digits_up(epsilon) if epsilon else epsilon
    return Composed(rounded_up(epsilon_sum), rounded_up(delta_sum), readable, at_delta)


def composed_releases(
    proven: Guarantee, draws: Sequence[Mapping[str, Any]], releases: int, at_delta: float | None
) -> Composed:
    """Return both bounds for this number of releases that each guarantee `proven` and draw `draws`."""
    natural("releases", releases, "say how many releases there will be")
    if proven.epsilon is None or proven.delta is None:
        raise ParameterError("a rule about the output bounds nobody's belief, so there is nothing to add up")
    losses = losses_of(proven, draws) * releases
    curve = composed(losses, releases * stated(proven.epsilon), releases * stated(proven.delta), at_delta)
    one_step = None if proven.covers_release else ONE_STEP
    if releases > 1:
        return curve.covering(one_step)
    return replace(curve, condition=one_step or ONE_RELEASE)
