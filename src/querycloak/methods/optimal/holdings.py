"""Pairs of each user with their counts: input of the paper's variant (optimal.md, paper variant, step 1)."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from querycloak.errors import InputError
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.clicked import clicks_of
from querycloak.privacy.sampling.randomness import IntArray

KEY = ("query", "url")
PRIVATE = "private, not for publication:"
"""Beginning of errors that reveal something computed from the log without noise."""


@dataclass(frozen=True, eq=False)
class Holdings:
    """The counts c_ijk, pair after pair: those of pair p stand from starts[p] to starts[p + 1]."""

    starts: IntArray
    user: IntArray
    count: IntArray
    users: int
    query: IntArray
    keys: pa.Table | None = field(default=None, repr=False)

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return int(self.starts.size - 1)

    @property
    def pair(self) -> IntArray:
        """The pair of each count."""
        return np.repeat(np.arange(self.pairs), np.diff(self.starts))

    @property
    def totals(self) -> IntArray:
        """The counts c_ij."""
        return _sums(self.count, self.starts)

    @property
    def size(self) -> int:
        """|D|: the sum of all counts."""
        return int(self.count.sum())


def of_counts(
    pair: IntArray, user: IntArray, count: IntArray, query: IntArray | None = None, keys: pa.Table | None = None
) -> Holdings:
    """Holdings from one row for each (pair, user), in any order; pairs of a single user are dropped."""
    order = np.lexsort((user, pair))
    pair, user, count = pair[order], user[order], count[order]
    shared = np.bincount(pair) > 1 if pair.size else np.zeros(0, dtype=np.bool_)
    kept = shared[pair]
    pairs, numbered = np.unique(pair[kept], return_inverse=True)
    users, holder = np.unique(user[kept], return_inverse=True)
    starts = np.searchsorted(numbered, np.arange(pairs.size + 1)).astype(np.int64)
    queries = np.arange(pairs.size) if query is None else np.unique(query[pairs], return_inverse=True)[1]
    return Holdings(
        starts,
        holder.astype(np.int64),
        count[kept].astype(np.int64),
        int(users.size),
        queries.astype(np.int64),
        None if keys is None else keys.take(pa.array(pairs)),
    )


def of_log(log: SearchLog) -> Holdings:
    """The holdings of a log: its clicks counted by user, query and url, where at least two users share the pair."""
    clicks = clicks_of(log)
    counts = log.engine.stage(clicks.group_by(["user", *KEY]).agg(n=clicks.count()))
    log.checked(guaranteed=True)  # before anything is said about what there is
    holders = counts.group_by(list(KEY)).agg(holders=counts.count())
    shared = counts.semi_join(holders.filter(holders.holders > 1), list(KEY))
    table = log.engine.fetch(shared.order_by([*KEY, "user"]))
    if table.num_rows == 0:
        raise InputError.of(
            "{private} no (query, url) pair is held by two users, and pairs of a single user cannot be released; "
            "give a larger log, or keep less of each address: {keep_url:host}",
            private=PRIVATE,
        )
    texts = [_codes(table[name]) for name in KEY]
    changed = np.zeros(table.num_rows, dtype=np.bool_)
    for codes in texts:
        changed[1:] |= codes[1:] != codes[:-1]
    first = np.flatnonzero(np.concatenate([[True], changed[1:]]))
    keys = table.select(KEY).take(pa.array(first)).combine_chunks()
    return of_counts(np.cumsum(changed), _codes(table["user"]), table["n"].to_numpy(), texts[0][first], keys)


def _codes(column: pa.ChunkedArray) -> IntArray:
    encoded = column.combine_chunks().dictionary_encode()
    codes: IntArray = encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


def _sums(values: IntArray, starts: IntArray) -> IntArray:
    ends = np.concatenate([[0], np.cumsum(values)])
    sums: IntArray = ends[starts[1:]] - ends[starts[:-1]]
    return sums
