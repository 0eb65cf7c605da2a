"""From a budget to the knobs of the papers' own variants: one scale and one threshold for all tables."""

from querycloak.privacy.chance.noise import Laplace
from querycloak.privacy.prices.calibration import calibrate, first_threshold
from querycloak.privacy.prices.deltas import paper_claimed, paper_proven

__all__ = ["paper_knobs"]


def paper_knobs(epsilon: float, delta: float, *bounds: int) -> tuple[Laplace, int]:
    """Return the noise and the least threshold whose proven guarantee, added up over tables, stays within a budget."""
    # Calibrating one Laplace draw over 2 D keys gives the scale 2 D / epsilon, rounded so that it holds exactly.
    noise = calibrate(epsilon, delta, 2 * sum(bounds), law="laplace").noise
    if not isinstance(noise, Laplace):
        raise TypeError("calibration to Laplace noise gave another")
    return noise, first_threshold(lambda threshold: _fits(noise, threshold, delta, bounds))


def _fits(noise: Laplace, threshold: int, delta: float, bounds: tuple[int, ...]) -> bool:
    if threshold < max(bounds):  # as claim 5 needs
        return False
    # A claimed delta of 1 or more would not even be a claim.
    claimable = all(paper_claimed(noise.scale, threshold, bound)[1] < 1 for bound in bounds)
    return claimable and sum(paper_proven(noise, threshold, bound) for bound in bounds) * (1 + 2**-40) <= delta
