"""The limit: what users could bring out if they were told, free of charge, which keys have a chance at all.

An oracle names the keys that would pass if all their users gave them full weight. Users put all their weight there, and
the whole budget is spent on the decision. Of three ways to share out that weight, the one that brings out most counts:
evenly; evenly at first, then told exact totals again and again so that weight leaves keys that pass anyway; and with
Laplace noise, one key after another filled. None is a mechanism: all look at the log without noise.
"""

from __future__ import annotations

import numpy as np

from bench.selection import policy_laplace
from bench.selection.accounting import Purse, purse
from bench.selection.holdings import Floats, Holdings, Ints
from bench.selection.weighted_gaussian import equal_weights, passing, summed

MOST = 256
TURNS = 30


def select(held: Holdings, budget: tuple[float, float], draw: np.random.Generator) -> Ints:
    """The keys that the best of the three ways brings out."""
    spend = purse(*budget)
    hopeful = held.kept((held.holders > spend.threshold(MOST))[held.key]).first(MOST)
    ways = (equal_weights(hopeful), _told_more(hopeful, spend))
    found = [passing(weights, spend, draw, MOST) for weights in ways]
    return max([*found, _one_by_one(held, budget, draw)], key=len)


def _told_more(kept: Holdings, spend: Purse) -> Floats:
    """Weights after several turns: of heavy keys users give less, of hopeless ones nothing."""
    threshold = spend.threshold(MOST)
    interest, total = np.ones(kept.keys), np.zeros(kept.keys)
    for turn in range(TURNS):
        length = np.sqrt(summed(kept.user, interest[kept.key] ** 2, kept.users))
        total = summed(kept.key, interest[kept.key] / length[kept.user], kept.keys)
        wanted = np.clip((threshold + 2 * spend.sigma) / np.maximum(total, 1e-9), 0.5, 2.0)
        interest = np.clip(interest * np.sqrt(wanted), 1e-3, 1e3)
        if turn % 3 == 2 and turn < TURNS - 1:  # what still lags behind is given up, later ones sooner
            lagging = total < threshold - (2.0 - 1.5 * turn / TURNS) * spend.sigma
            kept = kept.kept(~lagging[kept.key])
    return total


def _one_by_one(held: Holdings, budget: tuple[float, float], draw: np.random.Generator) -> Ints:
    """Laplace noise; nobody has more than one key that no one else has, for the oracle names shared ones only."""
    threshold = policy_laplace.threshold_of(*budget, most=1)
    hopeful = held.kept((held.holders > threshold)[held.key])
    return policy_laplace.select(hopeful, budget, draw, most=MOST, alpha=3.0, threshold=threshold)
