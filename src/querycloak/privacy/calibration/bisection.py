"""First number at which a monotone rule holds, by bisection: every calibration searches here.

A rule is monotone if it stays true once it is true. Brackets and precisions are arguments, so that each caller's digits
are its own choice.
"""

import math
from collections.abc import Callable

FOUR_DIGITS = 1.00005
"""The ratio of two numbers that agree to about four digits."""


def smallest_integer(fits: Callable[[int], bool], *, above: int = -1, first: int = 1) -> int:
    """Return the smallest integer larger than `above` that fits; `first` is where the search begins to double."""
    low, high = above, first
    while not fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def smallest_number(fits: Callable[[float], bool], *, ratio: float, floor: float = 0.0) -> float:
    """Return a number above 0 that fits and is at most `ratio` times the smallest one; none below `floor` is tried.

    The search goes from 1 on by factors of 2, then by geometric means.
    """
    high = 1.0
    while not fits(high):
        high *= 2
    low = high / 2
    while low > floor and fits(low):
        low, high = low / 2, low
    while high > low * ratio:
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def bisected(
    fits: Callable[[float], bool], low: float, high: float, *, precision: float, floor: float = 0.0
) -> tuple[float, float]:
    """Return a number that does not fit and one that does, by arithmetic means of two such numbers.

    It ends when they differ by at most `precision` times the higher one, or when that has fallen below `floor`.
    """
    while high - low > precision * high and high >= floor:
        middle = (low + high) / 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return low, high
