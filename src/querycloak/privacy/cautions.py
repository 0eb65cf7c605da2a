"""What should make somebody think twice about the numbers of a guarantee."""

from __future__ import annotations

from querycloak.privacy.chance.exact import shown_up
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural

__all__ = ["cautions_of"]


def cautions_of(guarantee: Guarantee, population_size: int | None = None) -> list[str]:
    """Say which numbers promise little; `population_size` is how many users there are behind the log, if public."""
    if population_size is None or guarantee.delta is None:
        return []
    natural("population_size", population_size, "say how many users there are behind the log")
    if guarantee.delta * population_size <= 1:
        return []
    return [
        f"delta is {shown_up(guarantee.delta)}, above 1/{population_size:,}: somebody may well be given away entirely"
    ]
