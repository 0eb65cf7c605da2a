"""The integer noises and their exact laws: symmetric, on all integers, with probabilities to any digit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import ClassVar

from querycloak.privacy.parameters import number_above_zero
from querycloak.privacy.sampling.exact import Bounds, Chance, exp_minus

LARGEST_NOISE = 2**14
"""Above this, counts of any log we know of drown, and the exact tables grow without use."""


@dataclass(frozen=True)
class Laplace:
    """Integer Laplace noise: Pr[Z = z] is proportional to e^(-|z|/scale), scale's exact value."""

    law: ClassVar[str] = "laplace"
    scale: float

    def __post_init__(self) -> None:
        way_out = "give the scale b of the noise, such as 0.5, or a budget"
        checked = number_above_zero("noise scale", self.scale, way_out, most=LARGEST_NOISE)
        object.__setattr__(self, "scale", checked)

    @property
    def size(self) -> float:
        """The scale, as `--noise` takes it."""
        return self.scale

    @property
    def words(self) -> str:
        """The noise as a sentence names it."""
        return f"integer Laplace noise of scale {self.scale:.6g}"

    def pmf(self, z: int) -> Chance:
        """Return Pr[Z = z]."""
        return Chance(lambda bits: _laplace_pmf(self.scale, abs(z), bits))

    def tail(self, m: int) -> Chance:
        """Return Pr[Z >= m]."""
        if m <= 0:
            return _complement(self.tail(1 - m))
        return Chance(lambda bits: _laplace_tail(self.scale, m, bits))

    def survival(self, start: int, bits: int) -> Iterator[Bounds]:  # noqa: ARG002 (memoryless: no matter where)
        """Yield bounds of Pr[Z >= start+j | Z >= start], start >= 0, for j = 1, 2, ... while any is left."""
        q_low, q_high = exp_minus(1 / Fraction(self.scale), bits)
        low = high = 1 << bits
        for _ in range(math.ceil(self.scale * bits) + 1):
            low, high = low * q_low >> bits, -(-high * q_high >> bits)
            yield low, high


@dataclass(frozen=True)
class Gaussian:
    """Discrete Gaussian noise: Pr[Z = z] is proportional to e^(-z^2/(2 sigma^2)), sigma's exact value.

    Canonne, Kamath and Steinke, "The Discrete Gaussian for Differential Privacy", NeurIPS 2020.
    """

    law: ClassVar[str] = "gaussian"
    sigma: float

    def __post_init__(self) -> None:
        way_out = "give the sigma of the noise, such as 3.9, or a budget"
        checked = number_above_zero("noise sigma", self.sigma, way_out, most=LARGEST_NOISE)
        object.__setattr__(self, "sigma", checked)

    @property
    def size(self) -> float:
        """Sigma, as `--noise` takes it."""
        return self.sigma

    @property
    def words(self) -> str:
        """The noise as a sentence names it."""
        return f"discrete Gaussian noise of sigma {self.sigma:.6g}"

    def pmf(self, z: int) -> Chance:
        """Return Pr[Z = z]."""
        return Chance(lambda bits: _gaussian_pmf(self.sigma, abs(z), bits))

    def tail(self, m: int) -> Chance:
        """Return Pr[Z >= m]."""
        if m <= 0:
            return _complement(self.tail(1 - m))
        return Chance(lambda bits: _gaussian_tail(self.sigma, m, bits))

    def survival(self, start: int, bits: int) -> Iterator[Bounds]:
        """Yield bounds of Pr[Z >= start+j | Z >= start], start >= 0, for j = 1, 2, ... while any is left."""
        tails = _gaussian_tails(self.sigma, bits)
        if start >= len(tails):
            yield 0, 1 << bits
            return
        whole_low, whole_high = tails[start]
        for low, high in tails[start + 1 :]:
            yield _ratio((low, high), (whole_low, whole_high), bits)

    def survives(self, start: int, j: int) -> Chance:
        """Return Pr[Z >= start+j | Z >= start] for start >= 0 and one j > 0."""

        def bounds(bits: int) -> Bounds:
            tails = _gaussian_tails(self.sigma, bits)
            if start + j >= len(tails):
                return 0, 1 << bits
            return _ratio(tails[start + j], tails[start], bits)

        return Chance(bounds)


Noise = Laplace | Gaussian


def _complement(chance: Chance) -> Chance:
    # Tails are irrational, so neither bound is reached and the half-open interval may be turned round.
    def bounds(bits: int) -> Bounds:
        low, high = chance.bounds(bits)
        return (1 << bits) - high, (1 << bits) - low

    return Chance(bounds)


def _ratio(part: Bounds, whole: Bounds, bits: int) -> Bounds:
    """Return bounds of part/whole, both known in the same units."""
    most = -((-part[1] << bits) // whole[0]) if whole[0] > 0 else 1 << bits
    return (part[0] << bits) // whole[1], min(most, 1 << bits)


def _laplace_tail(scale: float, m: int, bits: int) -> Bounds:
    q = exp_minus(1 / Fraction(scale), bits)
    one = 1 << bits
    return _ratio(exp_minus(m / Fraction(scale), bits), (one + q[0], one + q[1]), bits)


def _laplace_pmf(scale: float, z: int, bits: int) -> Bounds:
    q_low, q_high = exp_minus(1 / Fraction(scale), bits)
    low, high = exp_minus(z / Fraction(scale), bits)
    one = 1 << bits
    part = low * (one - q_high) >> bits, -(-high * (one - q_low) >> bits)
    return _ratio(part, (one + q_low, one + q_high), bits)


def _gaussian_pmf(sigma: float, z: int, bits: int) -> Bounds:
    weights = _gaussian_weights(sigma, bits)
    part = weights[z] if z < len(weights) else (0, 1)
    return _ratio(part, _gaussian_total(sigma, bits), bits)


def _gaussian_tail(sigma: float, m: int, bits: int) -> Bounds:
    tails = _gaussian_tails(sigma, bits)
    part = tails[m] if m < len(tails) else (0, tails[-1][1])
    return _ratio(part, _gaussian_total(sigma, bits), bits)


@lru_cache(maxsize=16)
def _gaussian_weights(sigma: float, bits: int) -> tuple[Bounds, ...]:
    """Return bounds of the weights of z = 0, 1, ... as far as they reach 2^-bits.

    From z to z+1 the weight shrinks by e^(-(2z+1)/(2 sigma^2)), and that factor by e^(-1/sigma^2).
    """
    variance = Fraction(sigma) ** 2
    step = exp_minus(1 / (2 * variance), bits)
    shrink = exp_minus(1 / variance, bits)
    weight = (1 << bits, 1 << bits)
    weights = [weight]
    for _ in range(_gaussian_reach(sigma, bits)):
        weight = _product(weight, step, bits)
        step = _product(step, shrink, bits)
        weights.append(weight)
    return tuple(weights)


def _gaussian_reach(sigma: float, bits: int) -> int:
    return math.ceil(sigma * math.sqrt(2 * bits * math.log(2))) + 1


def _product(a: Bounds, b: Bounds, bits: int) -> Bounds:
    return a[0] * b[0] >> bits, -(-a[1] * b[1] >> bits)


@lru_cache(maxsize=16)
def _gaussian_tails(sigma: float, bits: int) -> tuple[Bounds, ...]:
    """Return bounds of the weight at or above z, for z = 0, 1, ..."""
    weights = _gaussian_weights(sigma, bits)
    # Beyond the last weight, below 2^-bits, lies less than a geometric series of ratio e^(-reach/sigma^2).
    low, high = 0, math.ceil(2 + sigma * sigma / (len(weights) - 1))
    tails = []
    for weight_low, weight_high in reversed(weights):
        low, high = low + weight_low, high + weight_high
        tails.append((low, high))
    return tuple(reversed(tails))


def _gaussian_total(sigma: float, bits: int) -> Bounds:
    low, high = _gaussian_tails(sigma, bits)[1]
    return 2 * low + (1 << bits), 2 * high + (1 << bits)


MOST_EXPECTED = 32
"""Events expected at once: a table of the law has a few times as many rows."""


@dataclass(frozen=True)
class RareEvents:
    """The number X of n independent events of one chance below one half that happen."""

    n: int
    chance: Chance

    def survival(self, start: int, bits: int) -> Iterator[Bounds]:
        """Yield bounds of Pr[X >= j] for j = 1, 2, ... (start is 0), in units of 2^-bits.

        From j to j+1 the weight changes by the factor (n-j)/(j+1) p/(1-p). Every product is rounded outwards, and
        the digits beyond `bits` are more than the roundings of n factors can reach.
        """
        if start != 0:
            raise ValueError("events are counted from none")
        precision = bits + 2 * self.n.bit_length() + 64 + 4 * MOST_EXPECTED
        extra, one = precision - bits, 1 << precision
        p_low, p_high = self.chance.bounds(precision)
        missed = one - p_high, one - p_low
        weight = _power(missed, self.n, precision)
        low, high = one - weight[1], one - weight[0]
        for j in range(self.n):
            yield max(low, 0) >> extra, (max(high, 0) >> extra) + 1
            weight = (
                weight[0] * p_low * (self.n - j) // ((j + 1) * missed[1]),
                -(-weight[1] * p_high * (self.n - j) // ((j + 1) * missed[0])),
            )
            low, high = low - weight[1], high - weight[0]
        while True:
            yield 0, 1


def share_out(n: int, chance: Chance) -> list[tuple[int, int]]:
    """Return (size, number) of parts that n events are counted in, so that few are expected in each."""
    size = max(1, min(n, int(MOST_EXPECTED / chance.up())))
    parts = [(size, n // size), (n % size, 1)]
    return [(events, number) for events, number in parts if events and number]


def _power(base: Bounds, exponent: int, bits: int) -> Bounds:
    low, high = 1 << bits, 1 << bits
    for digit in bin(exponent)[2:]:
        low, high = low * low >> bits, -(-high * high >> bits)
        if digit == "1":
            low, high = low * base[0] >> bits, -(-high * base[1] >> bits)
    return low, high
