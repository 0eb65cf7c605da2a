"""Task pairs: which (query, url) pairs a release keeps, how often, and which of them users hold together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.errors import InputError
from querycloak.evaluation.subjects import NOT_OF_USERS
from querycloak.evaluation.task import NO_DATA, ORIGINAL, Figure, Logs, Measure, Subject
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.method import DRAWN_TOTAL
from querycloak.methods.optimal.holdings import Holdings, of_log
from querycloak.privacy.parameters import share
from querycloak.privacy.sampling.randomness import IntArray

HONG = "Hong, Vaidya, Lu & Wu, Differentially private search log sanitization with optimal output utility, EDBT 2012"
OURS = "querycloak, after the same paper"
MISSING_PAIRS = "with missing pairs counted: F-UMP fixes the output size, so that an empty output is none"
WITH_USERS = ("diff_ratio", "association_error", "pairs_per_user_error")
"""Measures that a release without users does not have."""


def pair_measures(support: float) -> dict[str, Measure]:
    """All measures by name, with pairs frequent from this support on."""
    share("support", support, "give the share of all clicks that makes a pair frequent, such as 0.002")
    frequent = {"support": support}
    declared = [
        Measure("precision", "share of the release's frequent pairs that are frequent in the log", f"{HONG}, eq. 9",
                "higher", frequent, precision),
        Measure("recall", "share of the log's frequent pairs that are frequent in the release", f"{HONG}, eq. 9",
                "higher", frequent, recall),
        Measure("support_distance", "sum over the log's frequent pairs of how far supports are apart; a pair that does "
                "not come out counts 1, the most that two supports can differ", f"{HONG}, eq. 5, {MISSING_PAIRS}",
                "lower", frequent, support_distance),
        Measure("average_support_distance", "the same for each such pair", f"{HONG}, section 6.3", "lower", frequent,
                average_support_distance),
        Measure("diversity", "share of the log's shared pairs that come out", f"{HONG}, section 6.4", "higher",
                compute=diversity),
        Measure("query_diversity", "share of the queries of shared pairs that come out", f"{HONG}, section 5.3",
                "higher", compute=query_diversity),
        Measure("size", "rows of the release, each as often as its count, as a share of the log's", f"{HONG}, table 4",
                "higher", compute=size),
        Measure("diff_ratio", "how many triplets of user and frequent pair are off by a tenth, two tenths ... of their "
                "share; users are compared by rank within a pair, as names are made up", f"{HONG}, eq. 10", "none",
                frequent, diff_ratio_by_rank),
        Measure("association_error", "total variation between which two frequent pairs users hold together, in the log "
                "and in the release", OURS, "lower", frequent, association_error),
        Measure("pairs_per_user_error", "total variation between how many frequent pairs users hold, of those who hold "
                "any", OURS, "lower", frequent, pairs_per_user_error),
    ]  # fmt: skip
    return {measure.name: measure for measure in declared}


_OF_SUPPORTS = ("precision", "recall", "support_distance", "average_support_distance", "diversity")


def values(log: Holdings, output: ReleasedPairs, support: float) -> dict[str, Any]:
    """The value of every measure by name, those of users only where the release has some."""
    before, after = supports(log, output)
    return {
        name: measure(before, after) if name in _OF_SUPPORTS else measure(log, output)
        for name, measure in pair_measures(support).items()
        if output.user is not None or name not in WITH_USERS
    }


FloatArray = NDArray[np.float64]
DIFF_RATIO_BINS = np.linspace(0.0, 1.0, 11)


@dataclass(frozen=True, eq=False)
class ReleasedPairs:
    """The rows of a release: pairs by their number in the log, or behind these; no users where it has none.

    total: what the release states that its counts are shares of; None if it states none.
    """

    pair: IntArray
    count: IntArray
    user: IntArray | None = None
    total: int | None = None

    @property
    def size(self) -> int:
        """|O|: the sum of all counts."""
        return int(self.count.sum())

    def totals(self, pairs: int) -> IntArray:
        """The output counts x_ij, of the log's pairs first."""
        return np.bincount(self.pair, self.count, minlength=pairs).astype(np.int64)


def output_of(log: Holdings, table: pa.Table) -> ReleasedPairs:
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
    return ReleasedPairs(joined["pair"].to_numpy().astype(np.int64), count, user)


def _beyond(keys: pa.Table, table: pa.Table) -> pa.Table:
    """The pairs of a table that are not among the keys, each once."""
    pairs = table.select(["query", "url"]).group_by(["query", "url"]).aggregate([])
    return pairs.join(keys, ["query", "url"], join_type="left anti").sort_by(
        [("query", "ascending"), ("url", "ascending")]
    )


def output_of_log(log: Holdings) -> ReleasedPairs:
    """The log itself, as a release of all that it holds."""
    return ReleasedPairs(log.pair, log.count, log.user)


def supports(log: Holdings, output: ReleasedPairs) -> tuple[FloatArray, FloatArray]:
    """`before` and `after`, of equal length."""
    after = output.totals(log.pairs) / max(1, output.size)
    before = np.zeros(after.size)
    before[: log.pairs] = log.totals / log.size
    return before, after


def shares(log: Holdings, pairs_in_all: int, output: ReleasedPairs) -> tuple[FloatArray, FloatArray]:
    """`before` and `after` as shares of all pairs that users hold, each once, pairs of a single user included.

    after: by the total that the release states; without one a reader has nothing but |O|.
    """
    after = output.totals(log.pairs) / max(1, output.size if output.total is None else output.total)
    before = np.zeros(after.size)
    before[: log.pairs] = np.diff(log.starts) / max(1, pairs_in_all)
    return before, after


def precision(before: FloatArray, after: FloatArray, support: float) -> float | None:
    """Share of the release's frequent pairs that are frequent in the log."""
    return _ratio(int(((before >= support) & (after >= support)).sum()), int((after >= support).sum()))


def recall(before: FloatArray, after: FloatArray, support: float) -> float | None:
    """Share of the log's frequent pairs that are frequent in the release."""
    return _ratio(int(((before >= support) & (after >= support)).sum()), int((before >= support).sum()))


def support_distance(before: FloatArray, after: FloatArray, support: float) -> float:
    """The sum over the log's frequent pairs of |after - before|; of 1 for a pair that does not come out.

    Equation 5 of the paper takes |0 - before| for a missing pair. F-UMP minimises it for outputs of one fixed size.
    Between releases of any size it would prefer an empty one, whose sum is the frequent pairs' share of the log, to one
    that holds frequent pairs alone, whose supports add up to 1.
    """
    distances = np.where(after > 0, np.abs(after - before), 1.0)
    return float(distances[before >= support].sum())


def average_support_distance(before: FloatArray, after: FloatArray, support: float) -> float | None:
    """`support_distance` for each of the log's frequent pairs: from 0 to 1, and 1 if none of them comes out."""
    return _ratio(support_distance(before, after, support), int((before >= support).sum()))


def diversity(before: FloatArray, after: FloatArray) -> float | None:
    """Share of the log's pairs that come out."""
    return _ratio(int(((before > 0) & (after > 0)).sum()), int((before > 0).sum()))


def query_diversity(log: Holdings, output: ReleasedPairs) -> float | None:
    """Share of the queries of the log's pairs that come out."""
    kept = output.totals(log.pairs)[: log.pairs] > 0
    return _ratio(int(np.unique(log.query[kept]).size), int(np.unique(log.query).size))


def size(log: Holdings, output: ReleasedPairs) -> float | None:
    """|O| / |D|."""
    return _ratio(output.size, log.size)


def diff_ratio(before: FloatArray, after: FloatArray) -> IntArray:
    """Number of triplets that differ by up to 10 %, 20 %, ..., 100 % of their share, and by more."""
    ratio = np.abs(after - before) / before
    # A bin takes its upper edge in, but for rounding.
    place = np.searchsorted(DIFF_RATIO_BINS[1:] + 1e-9, ratio)
    return np.bincount(place, minlength=DIFF_RATIO_BINS.size).astype(np.int64)


def diff_ratio_by_rank(log: Holdings, output: ReleasedPairs, support: float) -> list[int]:
    """DiffRatio of frequent pairs, the k-th most active user of the log against the k-th of the release."""
    frequent = log.totals / log.size >= support
    mine = _ranked(log.pair, log.count, frequent)
    known = output.pair < log.pairs
    theirs = _ranked(output.pair[known], output.count[known], frequent)
    after = np.zeros(mine[0].size)
    most = max(int(mine[1].max(initial=0)), int(theirs[1].max(initial=0))) + 1
    place = np.searchsorted(theirs[0] * most + theirs[1], mine[0] * most + mine[1])
    nearest = np.minimum(place, max(0, theirs[0].size - 1))
    if theirs[0].size:
        same = (theirs[0][nearest] == mine[0]) & (theirs[1][nearest] == mine[1])
        after[same] = theirs[2][nearest[same]] / max(1, output.size)
    return [int(number) for number in diff_ratio(mine[2] / log.size, after)]


def _ranked(pair: IntArray, count: IntArray, frequent: NDArray[np.bool_]) -> tuple[IntArray, IntArray, IntArray]:
    """Pair, rank and count of the triplets of frequent pairs, the largest count of a pair first."""
    kept = frequent[pair]
    pair, count = pair[kept], count[kept]
    order = np.lexsort((-count, pair))
    pair, count = pair[order], count[order]
    rank = np.arange(pair.size) - np.searchsorted(pair, pair)
    return pair, rank.astype(np.int64), count


def association_error(log: Holdings, output: ReleasedPairs, support: float) -> float | None:
    """Total variation between which two frequent pairs users hold together."""
    from scipy import sparse

    counts = [sparse.triu(each.T @ each, 1).tocsr() for each in _incidences(log, output, support)]
    if any(each.sum() == 0 for each in counts):
        return None
    before, after = (each / each.sum() for each in counts)
    return float(abs(before - after).sum()) / 2


def pairs_per_user_error(log: Holdings, output: ReleasedPairs, support: float) -> float | None:
    """Total variation between how many frequent pairs users hold, of those who hold any."""
    pairs_of_users = [
        np.asarray(each.sum(axis=1)).ravel().astype(np.int64) for each in _incidences(log, output, support)
    ]
    most = max(int(each.max(initial=0)) for each in pairs_of_users) + 1
    counts = [np.bincount(each, minlength=most)[1:].astype(np.float64) for each in pairs_of_users]
    if any(each.sum() == 0 for each in counts):
        return None
    before, after = (each / each.sum() for each in counts)
    return float(np.abs(before - after).sum()) / 2


def _incidences(log: Holdings, output: ReleasedPairs, support: float) -> tuple[Any, Any]:
    if output.user is None:
        raise TypeError("this release has no users: what they hold together cannot be told")
    frequent = log.totals / log.size >= support
    return _incidence(log.user, log.pair, frequent), _incidence(output.user, output.pair, frequent)


def _incidence(user: IntArray, pair: IntArray, frequent: NDArray[np.bool_]) -> Any:
    """Sparse matrix of zeros and ones: user by frequent pair."""
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


SHARE = 0.001
"""Least share of all pairs that users hold at which a pair is frequent."""
SHARE_MEASURES = tuple(
    Measure(name, meaning, OURS, better, {"support": SHARE}, compute)
    for name, meaning, better, compute in (
        ("share_precision", "share of the pairs that the release makes out to be a thousandth of all pairs that users "
         "hold, which are; by the total that it states, or by its rows", "higher", precision),
        ("share_recall", "share of the pairs that are a thousandth of all, which the release makes out to be",
         "higher", recall),
        ("share_distance", "sum over these pairs of how far their shares of all pairs are apart; 1 for a missing one",
         "lower", support_distance),
    )
)  # fmt: skip
SUPPORTS = (0.002, 0.0005, 0.0001)
"""Least shares of all clicks at which a pair is frequent."""
_OF_ALL_PAIRS = ("diversity", "query_diversity", "size")
_OFF = (0.1, 0.2, 0.5, 1.0)


def within_ratio(histogram: Sequence[int], most: float) -> float | None:
    """The share of triplets that are off by at most this part of their share, from what `diff_ratio` counts."""
    places = int(np.searchsorted(DIFF_RATIO_BINS[1:], most - 1e-9)) + 1
    return sum(histogram[:places]) / sum(histogram) if any(histogram) else None


WITHIN_RATIO = Measure(
    "within_ratio",
    "share of triplets of user and frequent pair whose share is off by at most this part (DiffRatio, added up)",
    f"{HONG}, eq. 10", "higher", compute=within_ratio,
)  # fmt: skip


_PAPERS = pair_measures(SUPPORTS[0])
_MEASURES = (*(_PAPERS[name] for name in _PAPERS if name != "diff_ratio"), WITHIN_RATIO, *SHARE_MEASURES)
"""Measures of section 6 of the paper, for pairs that are frequent by the first of `SUPPORTS`; and our own."""


class Pairs:
    """Frequent pairs, their supports, and what users hold together."""

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = "which (query, url) pairs come out, how often, and together with which"

    measures = _MEASURES
    readings = ("all",)

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It needs urls."""
        if "clicks" in subject.kinds or "url" in subject.columns.get("log", ()):
            return None
        return "it has no urls, so no pairs; clicks, sessions, optimal and k-anonymity have"

    def prepare(self, logs: Logs) -> PreparedPairs:
        """Pairs of each user in TRAIN."""
        return PreparedPairs(logs.train)


class PreparedPairs:
    """The task for one TRAIN."""

    def __init__(self, train: SearchLog) -> None:
        self._holdings: Holdings | None
        self._pairs_in_all = 0
        try:
            self._holdings = of_log(train)
            each = train.clicks.select("user", "query", "url").distinct()
            self._pairs_in_all = int(train.engine.fetch(each.aggregate(n=each.count()))["n"][0].as_py())
        except InputError:  # no pair has two users
            self._holdings = None

    def scores(self, subject: Subject) -> Iterator[Figure]:
        """Every measure, by support where it depends on that."""
        if self._holdings is None:
            yield Figure(pair_measures(SUPPORTS[0])["recall"], None, why="no pair of TRAIN has two users")
            return
        output = self._output(self._holdings, subject)
        for support in SUPPORTS:
            for figure in figures(self._holdings, output, support, whole=support == SUPPORTS[0]):
                uncounted = subject.name == NO_DATA and figure.measure.name == "size"
                yield replace(figure, value=None, why=NOT_OF_USERS) if uncounted else figure
        yield from self._figures_of_shares(self._holdings, output, original=subject.name == ORIGINAL)

    def _figures_of_shares(self, holdings: Holdings, output: ReleasedPairs, *, original: bool) -> Iterator[Figure]:
        if original:  # users, not clicks
            output = replace(output, count=np.ones_like(output.count), total=self._pairs_in_all)
        before, after = shares(holdings, self._pairs_in_all, output)
        for measure in SHARE_MEASURES:
            yield _figure(measure, measure(before, after), f"support={SHARE:g}", int((before >= SHARE).sum()))

    def _output(self, holdings: Holdings, subject: Subject) -> ReleasedPairs:
        if subject.name == ORIGINAL:
            return output_of_log(holdings)
        # A log has users, and so says more than a table.
        in_log = "url" in subject.columns.get("log", ())
        output = output_of(holdings, subject.table("log" if in_log else "clicks"))
        return replace(output, total=subject.parameters.get(DRAWN_TOTAL) if subject.method == "optimal" else None)


def figures(holdings: Holdings, output: ReleasedPairs, support: float, *, whole: bool) -> Iterator[Figure]:
    """The measures at one support; with `whole` those, too, that do not depend on it."""
    results, where = values(holdings, output, support), f"support={support:g}"
    frequent = int((holdings.totals / holdings.size >= support).sum())
    for name, measure in pair_measures(support).items():
        if name == "diff_ratio" and name in results:
            for most in _OFF:
                yield _figure(WITHIN_RATIO, within_ratio(results[name], most), f"{where},off<={most:g}", frequent)
        elif name in _OF_ALL_PAIRS:
            if whole:
                yield _figure(measure, results[name], None, holdings.pairs)
        elif name in WITH_USERS and name not in results:
            shown = WITHIN_RATIO if name == "diff_ratio" else measure
            yield Figure(
                shown, None, where, why="it has no users; optimal has them, and k-anonymity if its keys are log"
            )
        else:
            yield _figure(measure, results[name], where, frequent)


def _figure(measure: Measure, value: float | None, where: str | None, pairs: int) -> Figure:
    why = None if value is not None else "no frequent pair to compare" if pairs else "TRAIN has no pair as frequent"
    return Figure(measure, value, where, cases=pairs, why=why)
