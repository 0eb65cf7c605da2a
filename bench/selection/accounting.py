"""One accounting for all: Gaussian rounds are composed exactly, half of delta is for keys of one user alone.

privacy/calibration/selection.md (claims 2 to 4), with continuous noise. The papers use the same halves, and
compose several rounds by zCDP or by adding epsilons: they get more keys here than by their own accounting.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bench.selection.holdings import Floats
from querycloak.privacy.calibration.gaussian import largest_loss

OWN_KEYS = 0.5


@dataclass(frozen=True)
class Purse:
    """What may be spent: mu^2 of Gaussian rounds, and the chance that a key of one user alone comes out."""

    squared: float
    own: float

    def part(self, share: float) -> Purse:
        """A part of both."""
        return Purse(self.squared * share, self.own * share)

    def rounds(self, first: float) -> tuple[Purse, Purse]:
        """Two rounds, the first with this share."""
        return self.part(first), self.part(1 - first)

    @property
    def sigma(self) -> float:
        """The noise on weights of Euclidean length 1 that spends all."""
        return 1 / math.sqrt(self.squared)

    def threshold(self, most: int) -> float:
        """What a key must exceed if a user of t keys of its own gives each at most 1/sqrt(t), t up to `most`.

        Gopi et al., ICML 2020, Theorem 5.1; the same in DP-SIPS and MAD.
        """
        t = np.arange(1, most + 1)
        each = -np.expm1(np.log1p(-self.own) / t)
        return float((1 / np.sqrt(t) + self.sigma * norm.isf(each)).max())

    def passes(self, weights: Floats, most: int, draw: np.random.Generator) -> NDArray[np.bool_]:
        """Of every key whether its weight with noise exceeds the threshold."""
        return np.asarray(weights + self.sigma * draw.standard_normal(weights.size) > self.threshold(most))


def purse(epsilon: float, delta: float) -> Purse:
    """All of a budget."""
    return Purse(largest_loss(epsilon, delta * (1 - OWN_KEYS)), delta * OWN_KEYS)
