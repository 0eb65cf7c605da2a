"""Slow and simple forms of what the privacy package computes: laws by enumeration, bounds on chance."""

import math
from decimal import Decimal, localcontext
from functools import lru_cache, reduce

import numpy as np
from numpy.typing import NDArray

from querycloak.privacy.sampling.noise import Laplace, Noise

Array = NDArray[np.float64]
TRUNCATION = 1e-11
"""How much of a law may be missing where it is enumerated."""


@lru_cache(maxsize=256)
def law(noise: Noise) -> tuple[int, Array]:
    """Return a reach and the float probabilities of -reach..reach; what lies beyond is below 1e-15."""
    if isinstance(noise, Laplace):
        reach = math.ceil(36 * noise.scale) + 2
        weights = np.exp(-np.abs(np.arange(-reach, reach + 1)) / noise.scale)
    else:
        reach = math.ceil(9 * noise.sigma) + 2
        weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / noise.sigma) ** 2)
    return reach, weights / weights.sum()


def one_key(count: int | None, noise: Noise, threshold: int, values: range) -> Array:
    """Return the chances that a key stays away or comes out with each of the values; None: no such key."""
    outcome = np.zeros(len(values) + 1)
    if count is None:
        outcome[0] = 1.0
        return outcome
    reach, chances = law(noise)
    for z, chance in zip(range(-reach, reach + 1), chances, strict=True):
        at = count + z - values.start + 1 if count + z > threshold else 0
        outcome[at] += chance
    return outcome


def one_key_two_draws(count: int | None, noise: Noise, published_noise: Noise, threshold: int, values: range) -> Array:
    """Return the same where a fresh draw is published."""
    passes = 0.0 if count is None else float(one_key(count, noise, threshold, values)[1:].sum())
    outcome = np.zeros(len(values) + 1)
    if count is not None:
        outcome = passes * one_key(count, published_noise, -(10**9), values)
    outcome[0] += 1 - passes
    return outcome


def divergence(keys: list[tuple[Array, Array]], epsilon: float) -> float:
    """Return the hockey-stick divergence, the larger way, of independent keys with these pairs of laws."""
    with_user = reduce(np.multiply.outer, [pair[0] for pair in keys])
    without = reduce(np.multiply.outer, [pair[1] for pair in keys])
    adding = np.maximum(with_user - math.exp(epsilon) * without, 0).sum()
    removing = np.maximum(without - math.exp(epsilon) * with_user, 0).sum()
    return float(max(adding, removing))


def values_for(noise: Noise, counts: list[int]) -> range:
    reach = law(noise)[0]
    return range(min([0, *counts]) - reach - 1, max([0, *counts]) + reach + 8)


def exact_hockey_stick(noise: Noise, s: int, e: float) -> Decimal:
    """Return H_s(e) to some 40 digits from the exact law, by integer convolution."""
    bits = 220
    reach = math.ceil((150 * noise.scale) if isinstance(noise, Laplace) else 17 * noise.sigma) + 2
    one = np.array([noise.pmf(z).floor(bits) for z in range(-reach, reach + 1)], dtype=object)
    total = reduce(np.convolve, [one] * s)
    with localcontext() as context:
        context.prec = 60
        scale = Decimal(2) ** (bits * s)
        if isinstance(noise, Laplace):
            return _by_enumeration(noise, s, e)
        losses = [(Decimal(i - s * reach) + Decimal(s) / 2) / Decimal(noise.sigma) ** 2 for i in range(total.size)]
        parts = (
            Decimal(int(weight)) / scale * (1 - (Decimal(e) - loss).exp())
            for weight, loss in zip(total, losses, strict=True)
            if loss > Decimal(e)
        )
        return sum(parts, start=Decimal(0))


def _by_enumeration(noise: Laplace, s: int, e: float) -> Decimal:
    """Return H_s(e) for Laplace from the two possible losses of each key."""
    b = Decimal(noise.scale)
    q = (-1 / b).exp()
    parts = (
        math.comb(s, k) * q ** (s - k) / (1 + q) ** s * max(Decimal(0), 1 - (Decimal(e) - (2 * k - s) / b).exp())
        for k in range(s + 1)
    )
    return sum(parts, start=Decimal(0))


def surprising(observed: int, n: int, p: float, alarm: float = 1e-9) -> bool:
    """Return whether a Binomial(n, p) lies this far off with probability below `alarm` (Bernstein)."""
    log = math.log(2 / alarm)
    return abs(observed - n * p) > math.sqrt(2 * n * p * (1 - p) * log) + log
