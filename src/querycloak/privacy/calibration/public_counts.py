"""Counts of public keys: the cut that keeps spurious rows few, and the noise that a share of a budget buys.

A spurious row is a row that no user has: a public key of count zero whose noise exceeds the cut.

Proof: methods/sessions/sessions.md, "Pairs of released queries". What is printed follows from noisy numbers alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from querycloak.privacy.calibration.bisection import smallest_integer
from querycloak.privacy.calibration.gaussian import noise_for
from querycloak.privacy.sampling.exact import float_up, four_digits_up, stated
from querycloak.privacy.sampling.noise import Gaussian, Laplace, Noise
from querycloak.privacy.sampling.randomness import IntArray

SPURIOUS = Fraction(1, 100)
"""The largest expected number of spurious rows per printed row."""
DRAWN_SPURIOUS = 64
"""Expected spurious rows above the lowest cut, at most; with more than 4,096 keys, the root of their number."""


@dataclass(frozen=True)
class PublicPlan:
    """Noise of a table whose keys are public, and how many of them one user counts for, once each."""

    noise: Noise
    per_user: int

    @classmethod
    def of_loss(cls, squared: float, per_user: int) -> PublicPlan:
        """Gaussian noise that costs no more than this mu^2 (selection.md, claim 2)."""
        return cls(Gaussian(four_digits_up(noise_for(squared, per_user))), per_user)

    @classmethod
    def of_epsilon(cls, epsilon: float, per_user: int) -> PublicPlan:
        """Laplace noise that costs no more than this epsilon."""
        return cls(Laplace(float_up(per_user / stated(epsilon))), per_user)


def public_cut(noise: Noise, keys: int) -> int:
    """The least cut that at most one of this many keys of count zero is expected to exceed."""
    return smallest_integer(lambda cut: keys * noise.tail(cut + 1).up() <= 1)


@lru_cache(maxsize=65536)
def expected_spurious(noise: Noise, cut: int, keys: int) -> float:
    """Expected number of keys above the cut, of this many of count zero, rounded up."""
    return keys * noise.tail(cut + 1).up() * (1 + 2.0**-50)


def lowest_cut(noise: Noise, keys: int) -> int:
    """The cut above which noisy counts are drawn: a function of noise and number of keys."""
    return cut_for(noise, keys, max(DRAWN_SPURIOUS, int(keys**0.5)))


@lru_cache(maxsize=4096)
def cut_for(noise: Noise, keys: int, expected: Fraction | int) -> int:
    """The least cut, 0 or more, above which at most `expected` of these keys of count zero are expected."""
    return smallest_integer(lambda cut: expected_spurious(noise, cut, keys) <= expected, above=-1, first=1)


def quiet_cut(noisy: IntArray, noise: Noise, keys: int) -> int:
    """The least cut at which at most one spurious row in a hundred printed ones is expected.

    noisy: the noisy counts above `lowest_cut`. If no cut fits, it is the one that a single row would need.
    """
    return int(quiet_cuts(noisy, np.zeros(noisy.size, np.int64), 1, noise, keys)[0])


def quiet_cuts(noisy: IntArray, run: IntArray, runs: int, noise: Noise, keys: int) -> IntArray:
    """The quiet cuts of several runs; run: the run of each noisy count."""
    lowest, highest = lowest_cut(noise, keys), cut_for(noise, keys, SPURIOUS)
    cuts, open_runs = np.full(runs, highest), np.ones(runs, np.bool_)
    for cut in range(lowest, highest):
        fewest = math.ceil(Fraction(expected_spurious(noise, cut, keys)) / SPURIOUS)
        quiet = open_runs & (np.bincount(run[noisy > cut], minlength=runs) >= fewest)
        cuts[quiet], open_runs = cut, open_runs & ~quiet
        if not open_runs.any():
            break
    return cuts
