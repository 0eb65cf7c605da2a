"""What a thresholded noisy histogram costs: the formulas that histogram.md proves, rounded up."""

import math

from querycloak.privacy.calibration.hockey_stick import hockey_stick, tail_bounds
from querycloak.privacy.sampling.noise import Laplace, Noise

__all__ = ["any_passes", "histogram_delta", "laplace_delta", "own_chance"]

ROUNDING = 2.0**-48


def any_passes(p: float, keys: int) -> float:
    """Return 1-(1-p)^keys, rounded up: the chance that any of this many keys passes."""
    if p >= 1:
        return 1.0 if keys else 0.0
    return min(1.0, -math.expm1(keys * math.log1p(-p)) * (1 + ROUNDING))


def own_chance(noise: Noise, threshold: int, coin: float = 0.0) -> tuple[float, float]:
    """Return bounds of the chance that a key of one user comes out, with a coin at the threshold (claim 7)."""
    low, high = tail_bounds(noise, threshold)
    if not coin:
        return low, high
    lower, higher = tail_bounds(noise, max(threshold - 1, 0))
    mixed = (1 - coin) * low + coin * lower, (1 - coin) * high + coin * higher
    return mixed[0] * (1 - ROUNDING), min(1.0, mixed[1] * (1 + ROUNDING))


def laplace_delta(noise: Laplace, threshold: int, per_user: int, coin: float = 0.0) -> float:
    """Return delta at epsilon = per_user/scale (claim 2): the user's own keys are all that counts."""
    return any_passes(own_chance(noise, threshold, coin)[1], per_user)


def histogram_delta(
    noise: Noise, threshold: int, per_user: int, epsilon: float, *, draws: int = 1, most: float = 1.0, coin: float = 0.0
) -> float:
    """Return delta at any epsilon (claims 1 and 7); draws = 2 if published counts have fresh noise of the same law.

    Once delta is seen to exceed `most`, any number above it may be returned.
    """
    p_low, p_high = own_chance(noise, threshold, coin)
    worst = max(hockey_stick(noise, draws * per_user, epsilon), any_passes(p_high, per_user))
    if worst >= 1:
        return 1.0
    # H shrinks as own keys replace shared ones: one known value rules out most that come after it.
    loss_high = -math.log1p(-p_high) * (1 + ROUNDING)
    ceiling = 1.0
    for own in range(1, per_user + 1):
        if worst > most:
            break
        if any_passes(p_high, own) + ceiling <= worst:
            continue
        shared = draws * (per_user - own)
        adding = _adding(noise, shared, own, (p_low, p_high), epsilon)
        removing = hockey_stick(noise, shared, epsilon - own * loss_high)
        worst = max(worst, adding, removing)
        ceiling = hockey_stick(noise, shared, epsilon - per_user * loss_high)
    return min(1.0, worst)


def _adding(noise: Noise, shared: int, own: int, p: tuple[float, float], epsilon: float) -> float:
    """Return A(own) of claim 1, each place taking the end of p that makes it larger."""
    p_low, p_high = p
    loss_low = -math.log1p(-p_low) * (1 - ROUNDING)
    none_passes = min(1.0, math.exp(own * math.log1p(-p_low)) * (1 + ROUNDING))
    rest = none_passes * hockey_stick(noise, shared, epsilon + own * loss_low)
    return any_passes(p_high, own) + rest * (1 + ROUNDING)
