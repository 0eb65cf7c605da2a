"""A_Click and A_Session as Zhang and Yang (ICTIR 2017) state them, and what is proven of them (histogram.md, claim 5).

`paper_claimed` is the formula behind their Table 4.
"""

import math
from fractions import Fraction

from querycloak.privacy.budget import Budget
from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.calibration import laplace_noise
from querycloak.privacy.calibration.deltas import ROUNDING, any_passes
from querycloak.privacy.calibration.histogram_plan import check_delta
from querycloak.privacy.calibration.hockey_stick import tail_bounds
from querycloak.privacy.guarantee import Guarantee, user_guarantee
from querycloak.privacy.parameters import checked_bound, whole
from querycloak.privacy.sampling.exact import rounded_up, stated
from querycloak.privacy.sampling.noise import Laplace

__all__ = ["paper_claimed", "paper_guarantees", "paper_knobs", "paper_proven"]


def paper_claimed(scale: float, threshold: float, sensitivity: int) -> tuple[float, float]:
    """Return (epsilon, delta) as Zhang and Yang (ICTIR 2017) state them for A_Click and A_Session."""
    # 1 + 1/(2 e^((K-1)/b) - 1) without overflow.
    unseen = -math.log1p(-math.exp(-(threshold - 1) / scale) / 2) if threshold >= 1 else math.inf
    log_alpha = max(1 / scale, unseen)
    exponent = min((sensitivity - threshold) / scale, 700.0)
    return sensitivity * (log_alpha + 1 / scale), sensitivity / 2 * math.exp(exponent)


def paper_proven(noise: Laplace, threshold: int, sensitivity: int, *, continuous: bool = False) -> float:
    """Return the delta of the paper's variant at epsilon = 2 sensitivity/scale (claim 5).

    Holds for sensitivity <= threshold.
    """
    if continuous:
        all_on_one = math.exp((sensitivity - threshold) / noise.scale) / 2 * (1 + ROUNDING)
        one = math.exp((1 - threshold) / noise.scale) / 2 * (1 + ROUNDING)
    else:
        all_on_one = tail_bounds(noise, threshold + 1 - sensitivity)[1]
        one = tail_bounds(noise, threshold)[1]
    return max(all_on_one, any_passes(one, sensitivity))


def paper_guarantees(noise: Laplace, threshold: int, sensitivity: int) -> tuple[Guarantee, Guarantee]:
    """Return what Zhang and Yang (ICTIR 2017) claim for A_Click or A_Session, and what is proven of it."""
    threshold = whole("threshold", threshold, "give the count K that a key must exceed", least=1)
    sensitivity = checked_bound(sensitivity)
    epsilon, delta = paper_claimed(noise.scale, threshold, sensitivity)
    # A claimed delta below 1 also makes the sensitivity at most the threshold, as claim 5 needs.
    check_delta(delta, threshold)
    claimed = user_guarantee(epsilon, delta, "as stated by Zhang and Yang, ICTIR 2017")
    proven = user_guarantee(
        rounded_up(2 * sensitivity / Fraction(noise.scale)),
        paper_proven(noise, threshold, sensitivity),
        because=f"each user adds at most {sensitivity} to all counts together; a key comes out if its count, with "
        f"{noise.words}, exceeds {threshold}, and a second count is published, with fresh noise of the same scale "
        "(privacy/calibration/histogram.md, claim 5)",
    )
    return claimed, proven


def paper_knobs(epsilon: float, delta: float, *bounds: int) -> tuple[Laplace, int]:
    """Return the noise and the least threshold whose proven guarantee, added up over tables, stays within a budget."""
    budget = Budget(epsilon, delta)
    noise = laplace_noise(2 * checked_bound(sum(bounds)), stated(budget.epsilon))
    return noise, smallest_integer(lambda threshold: _fits(noise, threshold, budget.delta, bounds))


def _fits(noise: Laplace, threshold: int, delta: float, bounds: tuple[int, ...]) -> bool:
    if threshold < max(bounds):  # as claim 5 needs
        return False
    # A claimed delta of 1 or more would not even be a claim.
    claimable = all(paper_claimed(noise.scale, threshold, bound)[1] < 1 for bound in bounds)
    return claimable and sum(paper_proven(noise, threshold, bound) for bound in bounds) * (1 + 2**-40) <= delta
