"""Warnings about the numbers of a guarantee."""

from __future__ import annotations

from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural
from querycloak.privacy.sampling.exact import shown_up

__all__ = ["cautions_of"]

LARGE_EPSILON = 10.0
"""Above this a belief of 50 % may become one of 99.995 %."""
LARGE_DELTA = 1e-3


def cautions_of(guarantee: Guarantee, population_size: int | None = None) -> list[str]:
    """Say which numbers promise little; `population_size` is the number of users in the log, if public."""
    if population_size is not None:
        natural("population_size", population_size, "say how many users there are behind the log")
    if not guarantee.covers_release:
        return []  # its card says that it bounds nothing
    epsilon, delta = guarantee.numbers
    found = []
    if epsilon > LARGE_EPSILON:
        found.append(
            f"epsilon is {shown_up(epsilon)}: above {LARGE_EPSILON:g} it limits next to nothing, for a guess about one "
            "person may become near certainty; 1 or less is cautious"
        )
    if population_size is not None and delta * population_size > 1:
        found.append(
            f"delta is {shown_up(delta)}, above 1/{population_size:,}: the release may tell everything about somebody"
        )
    elif delta >= LARGE_DELTA:
        found.append(
            f"delta is {shown_up(delta)}: of a thousand users the release may tell everything about one; take a delta "
            "far below one divided by the number of users"
        )
    return found
