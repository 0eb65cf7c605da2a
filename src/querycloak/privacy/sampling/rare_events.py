"""How many of very many unlikely events happen: the binomial law, to any number of digits."""

from collections.abc import Iterator
from dataclasses import dataclass

from querycloak.privacy.sampling.exact import Bounds, Chance

__all__ = ["MOST_EXPECTED", "RareEvents", "share_out"]

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
