"""Numbers without rounding error: decimals as they are written, and probabilities to any number of digits."""

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction

from querycloak.errors import EngineError

Bounds = tuple[int, int]
"""A lower bound and an upper one that is not reached, in units of 2^-bits."""

MOST_BITS = 1 << 16


def stated(number: float) -> Fraction:
    """Return the decimal that a float prints as: what a person who reads it takes it to mean."""
    return Fraction(repr(float(number)))


def rounded_up(exact: Fraction) -> float:
    """Return the smallest float that does not print as less than `exact`."""
    number = exact.numerator / exact.denominator
    while stated(number) < exact:
        number = math.nextafter(number, math.inf)
    return number


def rounded_down(exact: Fraction) -> float:
    """Return a number of at most 12 digits that does not print as more than `exact`, which is above 0."""
    number = float(f"{exact.numerator / exact.denominator:.12g}")
    while stated(number) > exact:
        number = float(f"{number * (1 - 1e-11):.12g}")
    return number


def four_digits_up(number: float | Fraction) -> float:
    """Return a number of four significant digits, so that people can read it, that does not print as less."""
    exact = number if isinstance(number, Fraction) else stated(number)
    # Decimal division is correctly rounded, whatever the digits of what it divides.
    context = Context(prec=4, rounding=ROUND_CEILING)
    return float(context.divide(Decimal(exact.numerator), Decimal(exact.denominator)))


def four_digits_down(number: float) -> float:
    """Return a number of four significant digits that does not print as more."""
    return float(Context(prec=4, rounding=ROUND_FLOOR).create_decimal(repr(float(number))))


def shown_up(number: float) -> str:
    """Return a part of a guarantee as people read it: four digits at most, and never less than it is."""
    return f"{four_digits_up(number):.4g}"


def float_up(exact: Fraction) -> float:
    """Return the smallest float whose binary value is not less than `exact`."""
    number = exact.numerator / exact.denominator
    return math.nextafter(number, math.inf) if Fraction(number) < exact else number


def exp_minus(x: Fraction, bits: int) -> Bounds:
    """Return bounds of e^-x for x >= 0, a few units of 2^-bits apart."""
    if x == 0:
        return 1 << bits, 1 << bits
    if x > bits:  # e^-x < 2^-bits
        return 0, 1
    digits = bits * 30103 // 100000 + 12
    numerator, denominator = Decimal(x.numerator), Decimal(x.denominator)
    x_low = Context(prec=digits, rounding=ROUND_FLOOR).divide(numerator, denominator)
    x_high = Context(prec=digits, rounding=ROUND_CEILING).divide(numerator, denominator)
    # Decimal.exp is correctly rounded: one unit in the last place more covers it. Python's minus sign would
    # round to the surrounding context's digits, copy_negate does not.
    context = Context(prec=digits)
    low = context.next_minus(context.exp(x_high.copy_negate()))
    high = context.next_plus(context.exp(x_low.copy_negate()))
    low_numerator, low_denominator = low.as_integer_ratio()
    high_numerator, high_denominator = high.as_integer_ratio()
    return (low_numerator << bits) // low_denominator, -((-high_numerator << bits) // high_denominator)


class Chance:
    """A probability whose binary digits are certain, to any number of digits.

    `bounds(bits)` returns a lower bound and an upper one that is not reached, in units of 2^-bits; they close
    in as bits grow.
    """

    def __init__(self, bounds: Callable[[int], Bounds]) -> None:
        self.bounds = bounds
        self._floors: dict[int, int] = {}

    @classmethod
    def exactly(cls, probability: Fraction | int) -> "Chance":
        """Return the chance of a rational probability."""
        n, d = Fraction(probability).as_integer_ratio()
        return cls(lambda bits: ((n << bits) // d, (n << bits) // d + 1))

    def floor(self, bits: int) -> int:
        """Return the first binary digits of the probability as one integer, floor(p * 2^bits)."""
        if bits not in self._floors:
            self._floors[bits] = self._certain_floor(bits)
        return self._floors[bits]

    def _certain_floor(self, bits: int) -> int:
        guard = 64
        while bits + guard <= MOST_BITS:
            low, high = self.bounds(bits + guard)
            if low >> guard == high - 1 >> guard:
                return low >> guard
            guard *= 2
        raise EngineError("the digits of a probability did not settle; this is a bug in querycloak")

    def up(self) -> float:
        """Return the probability rounded up, almost always to the next float."""
        return self._enclosure()[1]

    def down(self) -> float:
        """Return the probability rounded down, almost always to the next float."""
        return self._enclosure()[0]

    def _enclosure(self) -> tuple[float, float]:
        bits = 160
        low, high = self.bounds(bits)
        # Small probabilities need more digits until 64 of them are significant.
        while low < 1 << 64 and bits < 1300:
            bits *= 2
            low, high = self.bounds(bits)
        below, above = low / (1 << bits), high / (1 << bits)
        if Fraction(below) > Fraction(low, 1 << bits):
            below = math.nextafter(below, 0.0)
        if Fraction(above) < Fraction(high, 1 << bits):
            above = math.nextafter(above, math.inf)
        return below, min(above, 1.0)
