"""Random numbers for a search inside compiled code: no guarantee depends on them.

Whatever is protected by chance is drawn by privacy/randomness.py; these only decide what to try next.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def below(state, bound):  # type: ignore[no-untyped-def]
    """An integer below the bound; the state, one word in an array, moves on by one step of SplitMix64."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    word = state[0]
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return np.int64((word ^ (word >> np.uint64(31))) % np.uint64(bound))
