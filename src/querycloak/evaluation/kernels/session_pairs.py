"""Pairs of queries within sessions: anywhere later, or right after."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.evaluation.kernels.weighted_pairs import WeightedPairs
from querycloak.evaluation.numbered_logs import Steps

_PAIRS_AT_ONCE = 1 << 25


def session_starts(steps: Steps) -> NDArray[np.int64]:
    """Start of each session, and the end of the last."""
    return np.append(np.flatnonzero(steps.begins), len(steps.begins)).astype(np.int64)


def next_pairs(steps: Steps, queries: int) -> WeightedPairs:
    """Number of times that a query was asked right after another in a session."""
    inside = ~steps.begins[1:]
    left, right = steps.query[:-1][inside], steps.query[1:][inside]
    return WeightedPairs.of(left, right, np.ones(len(left)), queries)


def later_pairs(steps: Steps, queries: int) -> WeightedPairs:
    """Number of times that a query was asked anywhere after another in a session; no query follows itself."""
    starts = session_starts(steps)
    lengths = np.diff(starts)
    reached = np.cumsum(lengths * (lengths - 1) // 2)
    parts: list[WeightedPairs] = []
    first = 0
    while first < len(lengths):
        # Some sessions at a time, one at least: a single session of thousands of queries has millions of pairs.
        before = int(reached[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(reached, before + _PAIRS_AT_ONCE, side="right")))
        room = int(reached[last - 1]) - before
        keys = _later(steps.query, starts[first : last + 1], room, np.int64(queries))
        distinct, counts = np.unique(keys, return_counts=True)
        left, right = (distinct // queries).astype(np.int32), (distinct % queries).astype(np.int32)
        parts.append(WeightedPairs(left, right, counts.astype(np.float64), queries))
        first = last
    return _together(parts, queries)


def _together(parts: list[WeightedPairs], queries: int) -> WeightedPairs:
    if len(parts) == 1:
        return parts[0]
    columns = [
        np.concatenate([getattr(part, name) for part in parts] or [np.empty(0)]) for name in ("left", "right", "weight")
    ]
    return WeightedPairs.of(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2], queries)


@njit(cache=True, nogil=True)
def _later(query, starts, room, queries):  # type: ignore[no-untyped-def]
    """Every pair of different queries of one session, in order, as one number each."""
    keys = np.empty(room, np.int64)
    used = 0
    for session in range(starts.size - 1):
        for i in range(starts[session], starts[session + 1]):
            for j in range(i + 1, starts[session + 1]):
                if query[i] != query[j]:
                    keys[used] = query[i] * queries + query[j]
                    used += 1
    return keys[:used]
