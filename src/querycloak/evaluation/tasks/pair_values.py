"""The values of measures of (query, url) pairs, beside the log: private output.

A support is a pair's share of all clicks. `before` are the supports of the log's pairs, `after` those of the same
pairs in the release and, behind them, those of pairs that the log has not (or that only one user holds).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.methods.optimal.holdings import Holdings
from querycloak.privacy.sampling.randomness import IntArray

FloatArray = NDArray[np.float64]
DIFF_RATIO_BINS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True, eq=False)
class Output:
    """The rows of a release: pairs by their number in the log, or behind these; no users where it has none."""

    pair: IntArray
    count: IntArray
    user: IntArray | None = None

    @property
    def size(self) -> int:
        """|O|: the sum of all counts."""
        return int(self.count.sum())

    def totals(self, pairs: int) -> IntArray:
        """The output counts x_ij, of the log's pairs first."""
        return np.bincount(self.pair, self.count, minlength=pairs).astype(np.int64)


def output_of(log: Holdings, table: pa.Table) -> Output:
    """The rows of a `log` or `clicks` table that have a url, their pairs numbered; counts below 0 are 0."""
    if log.keys is None:
        raise TypeError("these holdings do not know the names of their pairs")
    table = table.filter(pc.is_valid(table["url"]))
    others = _beyond(log.keys, table)
    numbered = pa.concat_tables([log.keys, others.select(log.keys.column_names)])
    numbered = numbered.append_column("pair", pa.array(np.arange(numbered.num_rows)))
    rows = table.append_column("row", pa.array(np.arange(table.num_rows)))
    joined = rows.join(numbered, ["query", "url"], join_type="inner").sort_by("row")
    count = np.ones(joined.num_rows, np.int64)
    if "count" in table.column_names:
        count = np.maximum(joined["count"].to_numpy().astype(np.int64), 0)
    user = None
    if "user" in table.column_names:
        user = joined["user"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        user = user.astype(np.int64)
    return Output(joined["pair"].to_numpy().astype(np.int64), count, user)


def _beyond(keys: pa.Table, table: pa.Table) -> pa.Table:
    """The pairs of a table that are not among the keys, each once."""
    pairs = table.select(["query", "url"]).group_by(["query", "url"]).aggregate([])
    return pairs.join(keys, ["query", "url"], join_type="left anti").sort_by(
        [("query", "ascending"), ("url", "ascending")]
    )


def output_of_log(log: Holdings) -> Output:
    """The log itself, as a release of all that it holds."""
    return Output(log.pair, log.count, log.user)


def supports(log: Holdings, output: Output) -> tuple[FloatArray, FloatArray]:
    """`before` and `after`, of equal length."""
    after = output.totals(log.pairs) / max(1, output.size)
    before = np.zeros(after.size)
    before[: log.pairs] = log.totals / log.size
    return before, after


def precision(before: FloatArray, after: FloatArray, support: float) -> float | None:
    """Of the release's frequent pairs, how many are frequent in the log."""
    return _ratio(int(((before >= support) & (after >= support)).sum()), int((after >= support).sum()))


def recall(before: FloatArray, after: FloatArray, support: float) -> float | None:
    """Of the log's frequent pairs, how many are frequent in the release."""
    return _ratio(int(((before >= support) & (after >= support)).sum()), int((before >= support).sum()))


def support_distance(before: FloatArray, after: FloatArray, support: float) -> float:
    """The sum of |after - before| over the log's frequent pairs."""
    return float(np.abs(after - before)[before >= support].sum())


def average_support_distance(before: FloatArray, after: FloatArray, support: float) -> float | None:
    """The mean of |after - before| over the log's frequent pairs."""
    return _ratio(support_distance(before, after, support), int((before >= support).sum()))


def diversity(before: FloatArray, after: FloatArray) -> float | None:
    """Of the log's pairs, how many come out."""
    return _ratio(int(((before > 0) & (after > 0)).sum()), int((before > 0).sum()))


def query_diversity(log: Holdings, output: Output) -> float | None:
    """Of the queries of the log's pairs, how many come out."""
    kept = output.totals(log.pairs)[: log.pairs] > 0
    return _ratio(int(np.unique(log.query[kept]).size), int(np.unique(log.query).size))


def size(log: Holdings, output: Output) -> float | None:
    """|O| / |D|."""
    return _ratio(output.size, log.size)


def diff_ratio(before: FloatArray, after: FloatArray) -> IntArray:
    """How many triplets differ by up to 10 %, 20 %, ..., 100 % of their share, and by more."""
    ratio = np.abs(after - before) / before
    # A bin takes its upper edge in, but for rounding.
    place = np.searchsorted(DIFF_RATIO_BINS[1:] + 1e-9, ratio)
    return np.bincount(place, minlength=DIFF_RATIO_BINS.size).astype(np.int64)


def diff_ratio_by_rank(log: Holdings, output: Output, support: float) -> list[int]:
    """DiffRatio of frequent pairs, the k-th most active user of the log against the k-th of the release."""
    frequent = log.totals / log.size >= support
    mine = _ranked(log.pair, log.count, frequent)
    known = output.pair < log.pairs
    theirs = _ranked(output.pair[known], output.count[known], frequent)
    after = np.zeros(mine[0].size)
    most = max(int(mine[1].max(initial=0)), int(theirs[1].max(initial=0))) + 1
    place = np.searchsorted(theirs[0] * most + theirs[1], mine[0] * most + mine[1])
    found = np.minimum(place, max(0, theirs[0].size - 1))
    if theirs[0].size:
        same = (theirs[0][found] == mine[0]) & (theirs[1][found] == mine[1])
        after[same] = theirs[2][found[same]] / max(1, output.size)
    return [int(number) for number in diff_ratio(mine[2] / log.size, after)]


def _ranked(pair: IntArray, count: IntArray, frequent: NDArray[np.bool_]) -> tuple[IntArray, IntArray, IntArray]:
    """Pair, rank and count of the triplets of frequent pairs, the largest count of a pair first."""
    kept = frequent[pair]
    pair, count = pair[kept], count[kept]
    order = np.lexsort((-count, pair))
    pair, count = pair[order], count[order]
    rank = np.arange(pair.size) - np.searchsorted(pair, pair)
    return pair, rank.astype(np.int64), count


def association_error(log: Holdings, output: Output, support: float) -> float | None:
    """Total variation between which two frequent pairs users hold together."""
    from scipy import sparse

    counts = [sparse.triu(each.T @ each, 1).tocsr() for each in _incidences(log, output, support)]
    if any(each.sum() == 0 for each in counts):
        return None
    before, after = (each / each.sum() for each in counts)
    return float(abs(before - after).sum()) / 2


def pairs_per_user_error(log: Holdings, output: Output, support: float) -> float | None:
    """Total variation between how many frequent pairs users hold, of those who hold any."""
    held = [np.asarray(each.sum(axis=1)).ravel().astype(np.int64) for each in _incidences(log, output, support)]
    most = max(int(each.max(initial=0)) for each in held) + 1
    counts = [np.bincount(each, minlength=most)[1:].astype(np.float64) for each in held]
    if any(each.sum() == 0 for each in counts):
        return None
    before, after = (each / each.sum() for each in counts)
    return float(np.abs(before - after).sum()) / 2


def _incidences(log: Holdings, output: Output, support: float) -> tuple[Any, Any]:
    if output.user is None:
        raise TypeError("this release has no users: what they hold together cannot be told")
    frequent = log.totals / log.size >= support
    return _incidence(log.user, log.pair, frequent), _incidence(output.user, output.pair, frequent)


def _incidence(user: IntArray, pair: IntArray, frequent: NDArray[np.bool_]) -> Any:
    """Which user holds which frequent pair, as a sparse matrix of zeros and ones."""
    from scipy import sparse

    number = np.cumsum(frequent) - 1
    known = pair < frequent.size
    user, pair = user[known], pair[known]
    user, pair = user[frequent[pair]], pair[frequent[pair]]
    shape = (int(user.max(initial=-1)) + 1, int(frequent.sum()))
    matrix = sparse.csr_matrix((np.ones(user.size), (user, number[pair])), shape=shape)
    matrix.data[:] = 1.0
    return matrix


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
