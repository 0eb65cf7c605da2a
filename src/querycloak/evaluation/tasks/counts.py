"""Task counts: error of published counts against true numbers of users, missing keys, and spurious keys."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, NamedTuple

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from querycloak.evaluation import released_cells
from querycloak.evaluation.released_cells import KEYS, KeysOfMethod, depends_on, true_users, unknown, whole_numbers
from querycloak.evaluation.subjects import NOT_OF_USERS
from querycloak.evaluation.task import NO_DATA, ORIGINAL, Figure, Logs, Measure, Numbers, Subject
from querycloak.logs.searchlog import SearchLog
from querycloak.logs.sequences import as_texts
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import Table

WIKIMEDIA = "Adeleye et al., Publishing Wikipedia usage data with strong privacy guarantees, arXiv 2308.16298, 2023"
OURS = "querycloak"
Floats = NDArray[np.float64]


def relative_errors(published: ArrayLike, true: ArrayLike) -> Floats:
    """|published - true| / true of each key; spurious keys, which no user has, are left out."""
    values, users = np.asarray(published, np.float64), np.asarray(true, np.float64)
    real = users > 0
    return np.asarray(np.abs(values[real] - users[real]) / users[real])


def mean_relative_error(published: ArrayLike, true: ArrayLike) -> float | None:
    """The mean of `relative_errors`."""
    errors = relative_errors(published, true)
    return float(errors.mean()) if errors.size else None


def median_relative_error(published: ArrayLike, true: ArrayLike) -> float | None:
    """The median of `relative_errors`."""
    errors = relative_errors(published, true)
    return float(np.median(errors)) if errors.size else None


def error_of_noise(published: ArrayLike, counted: ArrayLike, true: ArrayLike) -> float | None:
    """The mean of |published - counted| / true."""
    difference = np.abs(np.asarray(published, np.float64) - np.asarray(counted, np.float64))
    users = np.asarray(true, np.float64)
    real = users > 0
    return float((difference[real] / users[real]).mean()) if real.any() else None


def bias(published: ArrayLike, true: ArrayLike) -> float | None:
    """(sum of published - sum of true) / sum of true."""
    return _share(_total(published) - _total(true), _total(true))


def bias_of_noise(published: ArrayLike, counted: ArrayLike, true: ArrayLike) -> float | None:
    """(sum of published - sum of counted) / sum of true."""
    return _share(_total(published) - _total(counted), _total(true))


def drop_rate(true: ArrayLike, released: ArrayLike, least: int = 1, *, keys: ArrayLike | None = None) -> float | None:
    """The share of keys of at least `least` users that are missing.

    `true` has an entry for each key of the log and `released` whether it is there; or an entry for each number of
    users, with how many `keys` have it, and how many of these are there.
    """
    users = np.asarray(true, np.int64)
    numbers = np.ones(users.size) if keys is None else np.asarray(keys, np.float64)
    enough = users >= least
    there = float(np.asarray(released, np.float64)[enough].sum())
    return _share(float(numbers[enough].sum()) - there, float(numbers[enough].sum()))


def spurious_rate(true: ArrayLike) -> float | None:
    """The share of spurious rows, which no user has, from the users behind each row."""
    users = np.asarray(true, np.int64)
    return float((users == 0).mean()) if users.size else None


def key_share(true: ArrayLike, keys: int) -> float | None:
    """The share of the log's keys that are there, from the users behind each row and the number of all keys."""
    return _share(float((np.asarray(true) > 0).sum()), keys)


def volume_share(true: ArrayLike, volume: int) -> float | None:
    """Share of all (user, key) pairs of the log with a released key."""
    return _share(_total(true), volume)


def _total(values: ArrayLike) -> float:
    return float(np.asarray(values, np.float64).sum())


def _share(part: float, whole: float) -> float | None:
    return part / whole if whole else None


MEAN_RELATIVE_ERROR = Measure(
    "mean_relative_error", "mean over the keys that came out of |published count - users| / users", WIKIMEDIA, "lower",
    compute=mean_relative_error,
)  # fmt: skip
MEDIAN_RELATIVE_ERROR = Measure(
    "median_relative_error", "the median of the same", WIKIMEDIA, "lower", compute=median_relative_error
)
ERROR_OF_BOUNDING = Measure(
    "error_of_bounding", "the part of the mean relative error that is due to bounds per user: |users counted - users| "
    "/ users", OURS, "lower", compute=mean_relative_error,
)  # fmt: skip
ERROR_OF_NOISE = Measure(
    "error_of_noise", "the part of the mean relative error that is due to noise: |published count - users counted| / "
    "users", OURS, "lower", compute=error_of_noise,
)  # fmt: skip
BIAS = Measure(
    "bias", "how much too high (above 0) or too low the published counts are in all, as a share of the users", OURS,
    "none", compute=bias,
)  # fmt: skip
BIAS_OF_BOUNDING = Measure(
    "bias_of_bounding", "the part of the bias that is due to bounds per user", OURS, "none", compute=bias
)
BIAS_OF_NOISE = Measure(
    "bias_of_noise", "the part of the bias that is due to noise, and to being published only above a threshold", OURS,
    "none", compute=bias_of_noise,
)  # fmt: skip
DROP_RATE = Measure(
    "drop_rate", "share of the log's keys of at least this many users that are missing", WIKIMEDIA, "lower",
    compute=drop_rate,
)  # fmt: skip
SPURIOUS_RATE = Measure(
    "spurious_rate", "share of the rows that no user has", WIKIMEDIA, "lower", compute=spurious_rate
)
KEY_SHARE = Measure("key_share", "share of the log's keys that came out", OURS, "higher", compute=key_share)
VOLUME_SHARE = Measure(
    "volume_share", "share of the log's pairs of user and key whose key came out", OURS, "higher", compute=volume_share
)
COUNT_MEASURES = (
    MEAN_RELATIVE_ERROR, MEDIAN_RELATIVE_ERROR, ERROR_OF_BOUNDING, ERROR_OF_NOISE, BIAS, BIAS_OF_BOUNDING,
    BIAS_OF_NOISE, DROP_RATE, SPURIOUS_RATE, KEY_SHARE, VOLUME_SHARE,
)  # fmt: skip


LEAST_USERS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000)
"""Least number of users of keys in the drop rate."""
# In these logs a row is what a user asked, or a pair that was clicked; in others it stands for that.
_KEYS_OF_ROWS = {
    RowKind.ASKED: ("queries", "clicks"),
    RowKind.ALIKE: ("queries", "clicks"),
    RowKind.DRAWN: ("clicks",),
    RowKind.MADE_UP: ("clicks",),
    RowKind.COMPOSED: ("queries", "clicks"),
}


class Counts:
    """Published counts beside the true numbers of users, unbounded."""

    name: ClassVar[str] = "counts"
    summary: ClassVar[str] = "how near counts are to the true numbers of users, and what is missing"

    measures = COUNT_MEASURES
    readings = ("all",)

    def unsupported_reason(self, subject: Subject) -> str | None:
        """Needs counts, or rows of what was asked."""
        if countable(subject):
            return None
        if "log" in subject.kinds and subject.rows is RowKind.RECORDS:
            return "its rows are those of sessions, and say nothing about numbers of users"
        return (
            "its rows hold other texts in place of what was asked, so there are no counts to compare; "
            "queries, clicks, sessions, query-pool and k-anonymity publish counts"
        )

    def prepare(self, logs: Logs) -> PreparedCounts:
        """TRAIN; its tables are counted when a subject has them."""
        others = {kind for subject in logs.subjects if subject.name != ORIGINAL for kind in countable(subject)}
        return PreparedCounts(logs.train, others or set(KEYS))


def countable(subject: Subject) -> tuple[str, ...]:
    """The kinds of keys that a subject tells, in its tables or by the rows of its log."""
    kinds = set(subject.kinds)
    if "log" in subject.kinds and subject.name != ORIGINAL:
        keys = _KEYS_OF_ROWS.get(subject.rows, ())
        kinds |= {kind for kind in keys if kind == "queries" or "url" in subject.columns["log"]}
    return tuple(kind for kind in KEYS if kind in kinds)


def uncounted(subject: Subject, kind: str) -> str | None:
    """Reason that a subject's counts are not numbers of users; None if they are. Its keys are compared anyway."""
    if kind not in subject.kinds:
        return None  # users are counted in the rows of its log
    if subject.name == NO_DATA:
        return NOT_OF_USERS
    if "count" not in subject.columns[kind]:
        return "its keys came out without counts"
    if kind == "clicks" and subject.parameters.get("count_of") == "clicks":
        return "its counts are clicks, not users"
    return None


class Sizes(NamedTuple):
    """Numbers of users, and for each the number of keys with this many users."""

    users: Numbers
    keys: Numbers


class Truth(NamedTuple):
    """The users of every key of one kind, in the engine, and the sizes of these keys."""

    table: ir.Table
    sizes: Sizes


class Compared(NamedTuple):
    """True users of each released row; for comparable rows also the published count and the users it counts.

    `unpublished` and `why` say why there are none.
    """

    published: Numbers | None
    true: Numbers
    counted: Numbers | None
    why: str | None = None
    unpublished: str | None = None


class PreparedCounts:
    """The task for one TRAIN."""

    def __init__(self, train: SearchLog, kinds: Collection[str]) -> None:
        # Of the original only what releases have is counted: nothing else is compared with it.
        self._kinds = kinds
        self._log, self._truths = train, dict[tuple[object, ...], Truth]()
        self._bounded = dict[tuple[object, ...], ir.Table]()

    def scores(self, subject: Subject) -> Iterator[Figure]:
        """Every measure for each table: over all keys, by decades of true users, by numbers of users; then cells."""
        for kind in countable(subject):
            if kind not in self._kinds:
                continue
            why = unknown(kind, subject.parameters)
            if why is not None:
                yield Figure(KEY_SHARE, None, f"table={kind}", why=why)
                continue
            truth = self._truth(kind, subject)
            yield from figures(f"table={kind}", truth.sizes, self._compared(kind, truth, subject))
        yield from self._of_cells(subject)

    def _of_cells(self, subject: Subject) -> Iterator[Figure]:
        """The measures for cells: by attributes, and by ranks where views are counted."""
        tables: Mapping[str, Table] = getattr(subject, "cells", {})
        for kind in tables:
            table = released_cells.cells_table(tables, kind, subject.parameters)
            if table is None:
                continue
            card = released_cells.CellsOfCard.of(subject.parameters, getattr(subject, "log", {}))
            why = card.unsupported_reason(self._log, viewed="ranks" in table.column_names)
            if why is not None:
                yield Figure(KEY_SHARE, None, f"cells={kind}", why=why)
                continue
            yield from _figures_of_cells(f"cells={kind}", released_cells.counted_cells(self._log, kind, table, card))

    def _truth(self, kind: str, subject: Subject) -> Truth:
        key = depends_on(kind, subject.parameters)
        if key not in self._truths:
            table = self._log.engine.stage(true_users(self._log, kind, subject.parameters))
            sizes = self._log.engine.fetch(table.group_by("n").agg(keys=table.count())).sort_by("n")
            self._truths[key] = Truth(table, Sizes(whole_numbers(sizes["n"]), whole_numbers(sizes["keys"])))
        return self._truths[key]

    def _compared(self, kind: str, truth: Truth, subject: Subject) -> Compared:
        if subject.name == ORIGINAL:
            users = np.repeat(*truth.sizes)
            return Compared(users, users, users)
        escape, key = not self._log.source.choices.normalise, list(KEYS[kind])
        released = released_counts(subject, kind, escape=escape)
        bounds = KeysOfMethod((subject.method or "", subject.variant), subject.parameters)
        rows = self._log.engine.upload(only_pairs(released) if kind == "sessions" else released)
        joined = rows.left_join(truth.table, key).select(*key, "count", true=truth.table.n)
        unpublished = uncounted(subject, kind)
        why = unpublished or bounds.unsupported_reason(kind)
        if why is None:
            counted = truth.table if bounds.unbounded() else self._counted(bounds, kind, released)
            joined = joined.left_join(counted, key).select("count", "true", counted=counted.n)
        fetched = self._log.engine.fetch(joined)
        columns = ["true", "count", *([] if why else ["counted"])]
        # Engines hand rows over in any order, and sums of floats depend on it.
        ordered = fetched.sort_by([(name, "ascending") for name in columns])
        counted_users = None if why else whole_numbers(ordered["counted"])
        published = None if unpublished else whole_numbers(ordered["count"])
        return Compared(published, whole_numbers(ordered["true"]), counted_users, why, unpublished)

    def _counted(self, bounds: KeysOfMethod, kind: str, released: pa.Table) -> ir.Table:
        key = bounds.same_as(kind)
        if key not in self._bounded:
            self._bounded[key] = self._log.engine.stage(bounds.contributions(self._log, kind))
        return bounds.counted(self._log, kind, self._bounded[key], released)


def released_counts(subject: Subject, kind: str, *, escape: bool) -> pa.Table:
    """The key's columns and `count`, of a table or of the users in the rows of a log."""
    if kind in subject.kinds:
        table = subject.table(kind)
        if kind == "sessions":
            table = pa.table({"queries": as_texts(table["queries"], escape=escape), "count": table["count"]})
        return table
    key, rows = list(KEYS[kind]), subject.table("log")
    if kind == "clicks":
        rows = rows.filter(pc.is_valid(rows["url"]))
    once = rows.group_by(["user", *key]).aggregate([])
    return once.group_by(key).aggregate([("user", "count")]).rename_columns([*key, "count"])


def only_pairs(sequences: pa.Table) -> pa.Table:
    """Of texts of sequences those of two different queries."""
    texts = sequences["queries"]
    pairs = sequences.filter(pc.starts_with(texts, "2"))
    halves = pc.split_pattern(pc.utf8_slice_codeunits(pairs["queries"], 1), "\x1f")
    return pairs.filter(pc.not_equal(pc.list_element(halves, 0), pc.list_element(halves, 1)))


def figures(table: str, sizes: Sizes, compared: Compared) -> Iterator[Figure]:
    """All measures of one table; `table` is the slice of all its keys."""
    real = compared.true > 0
    all_keys, rows = int(sizes.keys.sum()), int(compared.true.size)
    whole = int((sizes.users * sizes.keys).sum())
    yield Figure(KEY_SHARE, KEY_SHARE(compared.true, all_keys), table, cases=all_keys, answered=rows)
    yield Figure(VOLUME_SHARE, VOLUME_SHARE(compared.true, whole), table, cases=whole)
    yield _figure(SPURIOUS_RATE, SPURIOUS_RATE(compared.true), table, rows)
    yield from _errors(table, compared, real)
    top = int(sizes.users.max(initial=0))
    for low in (10**power for power in range(len(str(top)))):
        decade = real & (compared.true >= low) & (compared.true < 10 * low)
        yield from _errors(f"{table},users={low}-{10 * low - 1}", compared, decade)
    there = np.bincount(np.searchsorted(sizes.users, compared.true[real]), minlength=sizes.users.size)
    for least in (least for least in LEAST_USERS if least <= top):
        enough = sizes.users >= least
        yield Figure(
            DROP_RATE, DROP_RATE(sizes.users, there, least, keys=sizes.keys),
            f"{table},users>={least}", cases=int(sizes.keys[enough].sum()), answered=int(there[enough].sum()),
        )  # fmt: skip


_OF_SELECTION = "cells of selected keys count, and which keys those are does not follow from the release"


def _figures_of_cells(where: str, cells: released_cells.CountedCells) -> Iterator[Figure]:
    """All measures of cells, and errors by values of attributes and by sizes of their groups."""
    compared = Compared(cells.published, cells.true, None, _OF_SELECTION)
    yield from figures(where, Sizes(cells.users, cells.cells), compared)
    for group in cells.groups:
        true, published = cells.true[group.rows], cells.published[group.rows]
        part, rows = f"{where},{group.name}", int(true.size)
        yield Figure(VOLUME_SHARE, VOLUME_SHARE(true, group.volume), part, cases=group.volume)
        yield _figure(SPURIOUS_RATE, SPURIOUS_RATE(true), part, rows)
        for measure in (MEAN_RELATIVE_ERROR, MEDIAN_RELATIVE_ERROR, BIAS):
            yield _figure(measure, measure(published[true > 0], true[true > 0]), part, int((true > 0).sum()))


def _errors(where: str, compared: Compared, chosen: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Iterator[Figure]:
    true, published = compared.true[chosen], None if compared.published is None else compared.published[chosen]
    for measure in (MEAN_RELATIVE_ERROR, MEDIAN_RELATIVE_ERROR, BIAS):
        value = None if published is None else measure(published, true)
        yield _figure(measure, value, where, true.size, compared.unpublished)
    counted = None if compared.counted is None else compared.counted[chosen]
    for measure in (ERROR_OF_BOUNDING, BIAS_OF_BOUNDING):
        yield _figure(measure, None if counted is None else measure(counted, true), where, true.size, compared.why)
    for measure in (ERROR_OF_NOISE, BIAS_OF_NOISE):
        known = counted is not None and published is not None
        yield _figure(measure, measure(published, counted, true) if known else None, where, true.size, compared.why)


def _figure(measure: Measure, value: float | None, where: str, rows: int, why: str | None = None) -> Figure:
    """A value over the rows of a slice, or why there is none."""
    reason = None if value is not None else why or "no such key came out"
    return Figure(measure, value, where, cases=rows, answered=rows, why=reason)
