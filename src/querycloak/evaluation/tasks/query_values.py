"""The values of measures of which queries come out, for every k at once: private output."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Degrees = NDArray[np.int32]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


def released_over(degrees: Degrees, ks: Sequence[int], counted: Mask | NDArray[np.integer] | None = None) -> Floats:
    """How much has a degree of at least k, for each k: distinct queries, or whatever weights `counted` gives them."""
    order = np.argsort(degrees, kind="stable")
    weights = np.ones(len(degrees)) if counted is None else counted.astype(np.float64)[order]
    # What stands at or after the first degree of at least k.
    after = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]])
    return after[np.searchsorted(degrees[order], ks, side="left")]


def share_released(degrees: Degrees, ks: Sequence[int], counted: Mask | None = None) -> Floats:
    """The share of queries that come out, of those counted."""
    total = len(degrees) if counted is None else int(counted.sum())
    return released_over(degrees, ks, counted) / max(1, total)


def f_beta_over(degrees: Degrees, sensitive: Mask, ks: Sequence[int], beta: float) -> Floats:
    """F_beta of releasing what is not sensitive; 0 where nothing harmless comes out."""
    harmless, all_released = released_over(degrees, ks, ~sensitive), released_over(degrees, ks)
    precision = harmless / np.maximum(all_released, 1)
    recall = harmless / max(1, int((~sensitive).sum()))
    weighted = beta**2 * precision + recall
    return np.where(weighted > 0, (beta**2 + 1) * precision * recall / np.maximum(weighted, 1e-300), 0.0)


def ncp(words: NDArray[np.int64], penalties: Floats) -> float | None:
    """The mean penalty over words; `text` is how many words each query, or part of one, stands for in the log."""
    total = int(np.asarray(words).sum())
    return float((np.asarray(words) * np.asarray(penalties)).sum()) / total if total else None


def sensitive_share(released: Mask, sensitive: Mask) -> float | None:
    """Of the sensitive queries, how many come out."""
    return float(np.asarray(released)[np.asarray(sensitive)].mean()) if np.any(sensitive) else None


def query_share(released: Mask) -> float | None:
    """Of all distinct queries, how many come out."""
    return float(np.asarray(released).mean()) if len(released) else None


def f_of(released: Mask, sensitive: Mask, beta: float) -> float:
    """F_beta of one release of what is not sensitive."""
    degrees = np.asarray(released).astype(np.int32)
    return float(f_beta_over(degrees, np.asarray(sensitive), [1], beta)[0])


def ncp_of_suppression(degrees: Degrees, words: NDArray[np.int64], ks: Sequence[int]) -> Floats:
    """NCP where queries come out as they are or not at all; `text` is how many words each stands for in the log."""
    return 1 - released_over(degrees, ks, words) / max(1, int(words.sum()))


def ncp_of_generalisation(
    own: Degrees, becomes: Degrees, covered: NDArray[np.int64], words: NDArray[np.int64], leaves_under: Degrees
) -> float:
    """NCP where one phrase of each query stands for it, as a concept; the other words are left out.

    `covered` and `text` are words of the phrase and of the query, times its searches; -1 stands for no concept.
    """
    total_leaves = int(leaves_under.max(initial=1))
    kept = becomes >= 0
    penalty = np.where(becomes[kept] == own[kept], 0.0, leaves_under[becomes[kept]] / total_leaves)
    lost = float((covered[kept] * penalty).sum()) + float(words.sum() - covered[kept].sum())
    return lost / max(1, int(words.sum()))
