"""Drawing users for output counts, and names for them (optimal.md, paper variant, steps 5 and 6)."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from querycloak.methods.optimal.paper.holdings import Holdings
from querycloak.privacy.sampling.randomness import IntArray, Randomness


def sample(holdings: Holdings, counts: IntArray, randomness: Randomness) -> tuple[IntArray, IntArray, IntArray]:
    """Pair, user and count after drawing x_ij users for each pair, each with probability c_ijk / c_ij."""
    pair = np.repeat(np.arange(holdings.pairs), counts)
    # Lay all counts end to end: a uniform place within a pair's stretch falls on user k with probability c_ijk / c_ij.
    ends = np.cumsum(holdings.count)
    begins = np.concatenate([[0], ends])[holdings.starts[:-1]]
    place = begins[pair] + randomness.below_each(holdings.totals[pair])
    drawn = np.searchsorted(ends, place, side="right")
    entry, number = np.unique(drawn, return_counts=True)
    return holdings.pair[entry], holdings.user[entry], number.astype(np.int64)


def named(user: IntArray, randomness: Randomness) -> pa.Array:
    """A fresh random name for every user, the same wherever that user stands; it says nothing about who it was."""
    _, numbered = np.unique(user, return_inverse=True)
    people = int(numbered.max()) + 1 if numbered.size else 0
    numbers = randomness.below(1 << 63, people)
    # Two users of one name would be one; drawn again as a whole, names stay uniform among different ones.
    while np.unique(numbers).size < people:
        numbers = randomness.below(1 << 63, people)
    digits = np.frombuffer(numbers.astype(">u8").tobytes().hex().encode(), dtype="S16")
    return pa.array(digits.astype(str), pa.string()).take(pa.array(numbered))


def log_table(keys: pa.Table, pair: IntArray, names: pa.Array, count: IntArray) -> pa.Table:
    """The rows of a log: user, query, url, count; largest count first, then by name and pair."""
    texts = keys.take(pa.array(pair))
    columns = {"user": names, "query": texts["query"], "url": texts["url"], "count": pa.array(count)}
    order = [("count", "descending"), *((name, "ascending") for name in ("user", "query", "url"))]
    return pa.table(columns).sort_by(order)
