"""The values of measures of a release in the log's own schema, beside the log: private output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.methods.optimal.paper.holdings import Holdings
from querycloak.privacy.chance.randomness import IntArray
from querycloak.utility.pair_measures import pair_measures

FloatArray = NDArray[np.float64]
DIFF_RATIO_BINS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True, eq=False)
class Output:
    """The rows of a release: pairs by their number in the log (-1 if no two users of the log hold it)."""

    pair: IntArray
    user: IntArray
    count: IntArray

    @property
    def size(self) -> int:
        """|O|: the sum of all counts."""
        return int(self.count.sum())

    def totals(self, pairs: int) -> IntArray:
        """The output counts x_ij of the log's pairs."""
        known = self.pair >= 0
        return np.bincount(self.pair[known], self.count[known], minlength=pairs).astype(np.int64)


def output_of(log: Holdings, table: pa.Table) -> Output:
    """The rows of a `log` table, their pairs numbered as in the log."""
    if log.keys is None:
        raise TypeError("these holdings do not know the names of their pairs")
    numbered = log.keys.append_column("pair", pa.array(np.arange(log.pairs)))
    rows = table.append_column("row", pa.array(np.arange(table.num_rows)))
    joined = rows.join(numbered, ["query", "url"], join_type="left outer").sort_by("row")
    pair = pc.fill_null(joined["pair"], -1).to_numpy()
    user = joined["user"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
    return Output(pair.astype(np.int64), user.astype(np.int64), joined["count"].to_numpy().astype(np.int64))


def values(log: Holdings, output: Output, support: float) -> dict[str, Any]:
    """Every measure that `pair_measures` declares, by name."""
    before = log.totals / log.size
    kept = output.totals(log.pairs)
    after = kept / max(1, output.size)
    frequent, frequent_after = before >= support, after >= support
    distance = float(np.abs(after - before)[frequent].sum())
    queries = np.unique(log.query[kept > 0]).size
    mine, theirs = _incidence(log.user, log.pair, frequent), _incidence(output.user, output.pair, frequent)
    found = {
        "precision": _ratio(int((frequent & frequent_after).sum()), int(frequent_after.sum())),
        "recall": _ratio(int((frequent & frequent_after).sum()), int(frequent.sum())),
        "support_distance": distance,
        "average_support_distance": _ratio(distance, int(frequent.sum())),
        "diversity": _ratio(int((kept > 0).sum()), log.pairs),
        "query_diversity": _ratio(queries, np.unique(log.query).size),
        "size": output.size / log.size,
        "diff_ratio": diff_ratio_by_rank(log, output, frequent).tolist(),
        "association_error": _variation(_together(mine), _together(theirs)),
        "pairs_per_user_error": _variation(_held(mine), _held(theirs)),
    }
    return {name: found[name] for name in pair_measures(support)}


def diff_ratio(before: FloatArray, after: FloatArray) -> IntArray:
    """How many triplets differ by up to 10 %, 20 %, ..., 100 % of their share, and by more."""
    ratio = np.abs(after - before) / before
    # A bin takes its upper edge in, but for rounding.
    place = np.searchsorted(DIFF_RATIO_BINS[1:] + 1e-9, ratio)
    return np.bincount(place, minlength=DIFF_RATIO_BINS.size).astype(np.int64)


def diff_ratio_by_rank(log: Holdings, output: Output, frequent: NDArray[np.bool_]) -> IntArray:
    """DiffRatio of frequent pairs, the k-th most active user of the log against the k-th of the release."""
    mine = _ranked(log.pair, log.count, frequent)
    known = output.pair >= 0
    theirs = _ranked(output.pair[known], output.count[known], frequent)
    after = np.zeros(mine[0].size)
    most = max(int(mine[1].max(initial=0)), int(theirs[1].max(initial=0))) + 1
    place = np.searchsorted(theirs[0] * most + theirs[1], mine[0] * most + mine[1])
    found = np.minimum(place, max(0, theirs[0].size - 1))
    if theirs[0].size:
        same = (theirs[0][found] == mine[0]) & (theirs[1][found] == mine[1])
        after[same] = theirs[2][found[same]] / max(1, output.size)
    return diff_ratio(mine[2] / log.size, after)


def _ranked(pair: IntArray, count: IntArray, frequent: NDArray[np.bool_]) -> tuple[IntArray, IntArray, IntArray]:
    """Pair, rank and count of the triplets of frequent pairs, the largest count of a pair first."""
    kept = frequent[pair]
    pair, count = pair[kept], count[kept]
    order = np.lexsort((-count, pair))
    pair, count = pair[order], count[order]
    rank = np.arange(pair.size) - np.searchsorted(pair, pair)
    return pair, rank.astype(np.int64), count


def _incidence(user: IntArray, pair: IntArray, frequent: NDArray[np.bool_]) -> Any:
    """Which user holds which frequent pair, as a sparse matrix of zeros and ones."""
    from scipy import sparse

    number = np.cumsum(frequent) - 1
    known = (pair >= 0) & frequent[pair]
    shape = (int(user.max(initial=-1)) + 1, int(frequent.sum()))
    matrix = sparse.csr_matrix((np.ones(int(known.sum())), (user[known], number[pair[known]])), shape=shape)
    matrix.data[:] = 1.0
    return matrix


def _together(matrix: Any) -> FloatArray:
    """How many users hold each two frequent pairs."""
    both = (matrix.T @ matrix).toarray()
    counts: FloatArray = both[np.triu_indices(both.shape[0], 1)]
    return counts


def _held(matrix: Any) -> FloatArray:
    """How many users hold 1, 2, ... frequent pairs."""
    numbers = np.asarray(matrix.sum(axis=1)).ravel().astype(np.int64)
    return np.bincount(numbers, minlength=matrix.shape[1] + 1)[1:].astype(np.float64)


def _variation(first: FloatArray, second: FloatArray) -> float | None:
    """Total variation between two sets of counts as distributions; nothing where one is empty."""
    if first.sum() == 0 or second.sum() == 0:
        return None
    return float(np.abs(first / first.sum() - second / second.sum()).sum()) / 2


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
