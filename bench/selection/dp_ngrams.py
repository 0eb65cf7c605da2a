"""DP n-grams (DPNE): single items first; longer sequences only of parts that came out, which need no threshold for
keys of one user alone, since the candidates are known.

Kim, Gopi, Kulkarni and Yekhanin, *Differentially Private n-gram Extraction*, NeurIPS 2021. In round k every candidate
(its first k-1 and its last k-1 items came out, and all single items did) gets noise, held or not, and comes out
above a threshold at which candidates that nobody holds are expected to be at most `spurious` of what came out before.
Here items are the queries of a user's sequences, and what is counted are the sequences of two and three.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from bench.selection import weighted_gaussian
from bench.selection.accounting import Purse
from bench.selection.holdings import Holdings, Ints

LONGEST = 3


def select(
    held: Holdings,
    purse: Purse,
    draw: np.random.Generator,
    *,
    most: int,
    shares: tuple[float, ...] = (0.25, 0.5, 0.25),
    spurious: float = 0.01,
) -> Ints:
    """The sequences that come out and that somebody holds; `shares` of mu^2 for sequences of 1, 2 and 3 items."""
    if held.parts is None:
        raise ValueError("DP n-grams are for keys that are sequences")
    first = Purse(purse.squared * shares[0], purse.own)  # only here can a key of one user alone come out
    single = np.zeros(int(held.parts.max()) + 1, bool)
    single[weighted_gaussian.select(_items_of(held), first, draw, most=most)] = True
    pairs = held.parts[:, 2] < 0
    known = single[held.parts[:, 0]] & single[held.parts[:, 1]]
    items = int(single.sum())
    both = _round(held, pairs & known, items**2, items, shares[1], purse, draw, most, spurious)
    left, right, candidates = _extended(held.parts, both, single.size)
    triples = ~pairs & left & right
    three = _round(held, triples, candidates, both.size, shares[2], purse, draw, most, spurious)
    return np.union1d(both, three)


def _items_of(held: Holdings) -> Holdings:
    """The single items of users' sequences."""
    assert held.parts is not None
    number = int(held.parts.max()) + 1
    columns = [np.c_[held.user, held.parts[held.key, place]] for place in range(held.parts.shape[1])]
    rows = np.concatenate(columns)
    rows = rows[rows[:, 1] >= 0]
    coded = np.unique(rows[:, 0] * number + rows[:, 1])
    return Holdings(coded // number, coded % number, held.users, number)


def _round(
    held: Holdings,
    known: NDArray[np.bool_],
    candidates: int,
    before: int,
    share: float,
    purse: Purse,
    draw: np.random.Generator,
    most: int,
    spurious: float,
) -> Ints:
    """The held keys among the candidates that come out."""
    if not candidates or not before:
        return np.zeros(0, np.int64)
    sigma = 1 / np.sqrt(purse.squared * share)
    threshold = sigma * norm.isf(min(0.5, spurious * before / candidates))
    weights = weighted_gaussian.equal_weights(held.kept(known[held.key]).first(most))
    noisy = weights + sigma * draw.standard_normal(held.keys)
    return np.flatnonzero(known & (noisy > threshold))


def _extended(parts: Ints, both: Ints, items: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
    """Of every key whether its first and its last two items came out as a pair; and how many triples can be made."""
    out = np.unique(parts[both, 0] * items + parts[both, 1])
    left = np.isin(parts[:, 0] * items + parts[:, 1], out)
    right = np.isin(parts[:, 1] * items + parts[:, 2], out)
    ends, starts = (np.bincount(parts[both, place], minlength=items) for place in (1, 0))
    return left, right, int((ends * starts).sum())
