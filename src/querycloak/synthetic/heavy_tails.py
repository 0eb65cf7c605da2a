"""Heavy-tailed choices and hashes, over whole arrays at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Hashes = NDArray[np.uint64]


class WeightedChoice:
    """A choice among lists of things, each list with weights of its own: `of(which list, share in [0, 1))`."""

    def __init__(self, lists: list[Floats]) -> None:
        self.first = np.concatenate([[0], np.cumsum([len(weights) for weights in lists])]).astype(np.int64)
        # The cumulative shares of list i lie in (i, i + 1]: one search serves all lists.
        self._cumulative = np.concatenate([i + np.cumsum(weights) / weights.sum() for i, weights in enumerate(lists)])

    def of(self, which: ArrayLike, share: Floats) -> Ints:
        """Index of the choice, counted through all lists."""
        lists = np.asarray(which, dtype=np.int64)
        place = np.searchsorted(self._cumulative, lists + share, side="right")
        return np.clip(place, self.first[lists], self.first[lists + 1] - 1).astype(np.int64)


def falling(number: int, power: float, flat: float = 1.0) -> Floats:
    """Weights that fall with the rank as Zipf and Mandelbrot say."""
    return np.asarray((np.arange(number) + flat) ** -power, dtype=np.float64)


def mixed(*parts: ArrayLike) -> Hashes:
    """A hash of several columns of numbers: the same for the same numbers, on every machine."""
    state: Hashes = np.zeros(1, dtype=np.uint64)
    for part in parts:
        column = np.asarray(part).astype(np.uint64)
        state = state * np.uint64(0x9E3779B97F4A7C15) + column + np.uint64(0xD1B54A32D192ED03)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        state ^= state >> np.uint64(31)
    return state


def share_of(hashes: Hashes) -> Floats:
    """A number in [0, 1) for each hash."""
    return np.asarray((hashes >> np.uint64(11)).astype(np.float64) / 2.0**53, dtype=np.float64)


def below(hashes: Hashes, bound: ArrayLike) -> Ints:
    """A whole number below a bound for each hash."""
    return np.asarray((share_of(hashes) * np.asarray(bound)).astype(np.int64))
