"""The paid gate: a noisy number of users decides whether a log is released (proof: user_gate.md)."""

import numpy as np
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.draws import PublicCounts
from querycloak.privacy.guarantee import Guarantee, compose, user_guarantee
from querycloak.privacy.parameters import whole
from querycloak.privacy.sampling.noise import Laplace
from querycloak.privacy.sampling.randomness import Randomness
from querycloak.sentence import Sentence

__all__ = ["DRAW", "GATE", "LEAST", "NOISE", "gated", "passes"]

NOISE = Laplace(50.0)
LEAST = 196
"""The noisy number of users from which on a log is released."""
GATE = user_guarantee(
    0.02,
    None,
    f"a gate: the number of users with a kept row (or click), with {NOISE.words}, is at least {LEAST}",
)
DRAW = PublicCounts(NOISE, 1)


def passes(users: int, randomness: Randomness, runs: int = 1) -> NDArray[np.bool_]:
    """Return whether a log of this many users is let through, in each of `runs` independent runs."""
    whole("users", users, "count the users with a kept row", least=0)
    return users + randomness.noise(NOISE, runs) >= LEAST


def gated(proven: Guarantee) -> Guarantee:
    """The guarantee of a release behind the gate: the sum of both (claim 2)."""
    if not proven.covers_release or (proven.unit, proven.neighbours) != (GATE.unit, GATE.neighbours):
        raise ParameterError(
            Sentence(
                "{paid_gate:True} goes with differential privacy for each user, which this method does not have; "
                "{refuse_empty:True} refuses a log of which nothing is kept"
            )
        )
    return compose([proven, GATE])
