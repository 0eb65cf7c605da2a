"""What several releases by one method would come to, before any of them is made (composition.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from querycloak.errors import ParameterError
from querycloak.privacy.accounting.composition import ONE_RELEASE, ONE_STEP, Composed, composed
from querycloak.privacy.accounting.draws import losses_of
from querycloak.privacy.guarantee import Guarantee
from querycloak.privacy.parameters import natural
from querycloak.privacy.sampling.exact import stated

__all__ = ["composed_releases"]


def composed_releases(
    proven: Guarantee, draws: Sequence[Mapping[str, Any]], releases: int, at_delta: float | None
) -> Composed:
    """Return both bounds for this number of releases that each guarantee `proven` and draw `draws`."""
    natural("releases", releases, "say how many releases there will be")
    if proven.epsilon is None or proven.delta is None:
        raise ParameterError("a rule about the output bounds nobody's belief, so there is nothing to add up")
    losses = losses_of(proven, draws) * releases
    found = composed(losses, releases * stated(proven.epsilon), releases * stated(proven.delta), at_delta)
    one_step = None if proven.covers_release else ONE_STEP
    if releases > 1:
        return found.covering(one_step)
    return replace(found, condition=one_step or ONE_RELEASE)
