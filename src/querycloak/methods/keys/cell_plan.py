"""Noise of cells: from the second part of a budget to sigma (proof: cells.md)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from querycloak.privacy.accounting.draws import GaussianRounds
from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.gaussian import largest_loss, noise_for, squared_loss
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import natural
from querycloak.privacy.sampling.exact import four_digits_up, rounded_down, stated
from querycloak.privacy.sampling.noise import Gaussian

CELLS_PER_USER = 16
MANY_CELLS_PER_USER = 64
"""Default where a user holds many keys that come out: results shown, phrases (docs/records.md, docs/phrases.md)."""
SEARCHES_PER_USER = 32
VIEWS_PER_USER = 32
LAST_RANK = 20
_SELECTING = 0.5
_POSITIONS = 0.1


@dataclass(frozen=True)
class CellPlan:
    """Noise of cells, of which each user changes at most `per_user`; and of events, of which each user adds `events`.

    `event_noise` is None if no events are counted.
    """

    budget: Budget
    noise: Gaussian
    per_user: int
    events: int = 0
    event_noise: Gaussian | None = None

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of the cells alone."""
        noise = self.event_noise
        events = "" if noise is None else f"; each user adds at most {self.events} events to counts with {noise.words}"
        because = (
            f"each user counts once for at most {self.per_user} cells; every public cell of a key that came out, held "
            f"or not, gets {self.noise.words}{events} (methods/keys/cells.md)"
        )
        return user_guarantee(self.budget.epsilon, self.budget.delta, because)

    def draw(self) -> GaussianRounds:
        """The draws, as a charge records them: no key of one user alone comes out here."""
        loss = squared_loss(self.noise, self.per_user)
        if self.event_noise is not None:
            loss += squared_loss(self.event_noise, self.events * self.events)
        return GaussianRounds(loss, 0.0)

    def parameters(self) -> dict[str, Any]:
        """Its parameters on the card."""
        numbers = {
            "cells_epsilon": self.budget.epsilon,
            "cells_noise": self.noise.sigma,
            "cells_per_user": self.per_user,
        }
        if self.event_noise is None:
            return numbers
        return {**numbers, "events_noise": self.event_noise.sigma, "events_per_user": self.events}


def split_budget(given: Budget) -> tuple[Budget, Budget]:
    """The parts for selecting keys and for counting their cells; together at most the whole."""
    selecting = [rounded_down(stated(part) * stated(_SELECTING)) for part in (given.epsilon, given.delta)]
    counting = [
        rounded_down(stated(part) - stated(first))
        for part, first in zip((given.epsilon, given.delta), selecting, strict=True)
    ]
    return Budget(*selecting), Budget(*counting)


def plan_cells(budget: Budget, per_user: int, *, events: int = 0, event_share: float = _POSITIONS) -> CellPlan:
    """The noise that a budget allows; with `events`, this share of mu^2 is theirs."""
    most = natural("cells_per_user", per_user, "say how many cells of one user count")
    loss = largest_loss(budget.epsilon, budget.delta)
    share = event_share if events else 0.0
    noise = _noise(loss * (1 - share), most)
    return CellPlan(budget, noise, most, events, _noise(loss * share, events * events) if events else None)


def _noise(loss: float, squared_change: float) -> Gaussian:
    return Gaussian(four_digits_up(noise_for(loss, squared_change)))
