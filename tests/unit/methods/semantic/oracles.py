"""Slow and plain: the definitions of semantic.md, pair by pair, as the fast code's oracles."""

from __future__ import annotations

import math
from fractions import Fraction

from querycloak.text.taxonomy import Taxonomy


def similarity(taxonomy: Taxonomy, a: int, b: int) -> float:
    """Sanchez et al. (2018), equation 5."""
    mine, theirs = set(taxonomy.ancestors(a).tolist()), set(taxonomy.ancestors(b).tolist())
    return 1 - math.log2(1 + len(mine ^ theirs) / len(mine | theirs))


def quality(taxonomy: Taxonomy, criterion: str, topics: list[int], a: int, b: int) -> float:
    """Equations 5, 6 and 12."""
    if criterion == "nsqc":
        return float(a == b)
    if criterion == "sqc2" and topics[a] != topics[b]:
        return 0.0
    return similarity(taxonomy, a, b)


def qualities(taxonomy: Taxonomy, criterion: str = "sqc1", topics: list[int] | None = None) -> list[list[float]]:
    every = range(len(taxonomy))
    return [[quality(taxonomy, criterion, topics or [0] * len(taxonomy), a, b) for b in every] for a in every]


def loss(weights: list[list[int]]) -> float:
    """max over outputs of ln(max Pr / min Pr) over inputs, from whole numbers."""
    totals = [sum(row) for row in weights]
    chances = [[Fraction(w, total) for w in row] for row, total in zip(weights, totals, strict=True)]
    ratios = (max(column) / min(column) for column in zip(*chances, strict=True))
    return max(math.log(ratio) for ratio in ratios)


def real_loss(quality_table: list[list[float]], exponent: float) -> float:
    """The same of real exponentials."""
    weights = [[math.exp(exponent * q) for q in row] for row in quality_table]
    chances = [[w / sum(row) for w in row] for row in weights]
    return max(math.log(max(column) / min(column)) for column in zip(*chances, strict=True))
