"""Task pairs: which (query, url) pairs a release keeps, how often, and which of them users hold together."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np

from querycloak.errors import InputError
from querycloak.evaluation.measure import Measure
from querycloak.evaluation.task import ORIGINAL, Figure, Logs, Subject
from querycloak.evaluation.tasks.pair_measures import HONG, WITH_USERS, pair_measures, values
from querycloak.evaluation.tasks.pair_values import DIFF_RATIO_BINS, Output, output_of, output_of_log
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.optimal.holdings import Holdings, of_log

SUPPORTS = (0.002, 0.0005, 0.0001)
"""From which share of all clicks on a pair is frequent."""
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


class Pairs:
    """Frequent pairs, their supports, and what users hold together."""

    name: ClassVar[str] = "pairs"
    summary: ClassVar[str] = "which (query, url) pairs come out, how often, and together with which"

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Those of section 6 of the paper; frequent by the first of `SUPPORTS`."""
        declared = pair_measures(SUPPORTS[0])
        return (*(declared[name] for name in declared if name != "diff_ratio"), WITHIN_RATIO)

    @property
    def readings(self) -> tuple[str, ...]:
        """Figures over pairs."""
        return ("all",)

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It needs urls."""
        if "clicks" in subject.kinds or "url" in subject.columns.get("log", ()):
            return None
        return "it has no urls, so no pairs; clicks, sessions, optimal and k-anonymity have"

    def prepare(self, logs: Logs) -> PreparedPairs:
        """Who holds which pair in TRAIN."""
        return PreparedPairs(logs.train)


class PreparedPairs:
    """The task for one TRAIN."""

    def __init__(self, train: SearchLog) -> None:
        self._held: Holdings | None
        try:
            self._held = of_log(train)
        except InputError:  # no pair has two users
            self._held = None

    def scores(self, subject: Subject) -> Iterator[Figure]:
        """Every measure, by support where it depends on that."""
        if self._held is None:
            yield Figure(pair_measures(SUPPORTS[0])["recall"], None, why="no pair of TRAIN has two users")
            return
        output = self._output(self._held, subject)
        for support in SUPPORTS:
            yield from figures(self._held, output, support, whole=support == SUPPORTS[0])

    def _output(self, held: Holdings, subject: Subject) -> Output:
        if subject.name == ORIGINAL:
            return output_of_log(held)
        # A log has users, and so says more than a table.
        in_log = "url" in subject.columns.get("log", ())
        return output_of(held, subject.table("log" if in_log else "clicks"))


def figures(held: Holdings, output: Output, support: float, *, whole: bool) -> Iterator[Figure]:
    """The measures at one support; with `whole` those, too, that do not depend on it."""
    found, where = values(held, output, support), f"support={support:g}"
    frequent = int((held.totals / held.size >= support).sum())
    for name, measure in pair_measures(support).items():
        if name == "diff_ratio" and name in found:
            for most in _OFF:
                yield _told(WITHIN_RATIO, within_ratio(found[name], most), f"{where},off<={most:g}", frequent)
        elif name in _OF_ALL_PAIRS:
            if whole:
                yield _told(measure, found[name], None, held.pairs)
        elif name in WITH_USERS and name not in found:
            shown = WITHIN_RATIO if name == "diff_ratio" else measure
            yield Figure(
                shown, None, where, why="it has no users; optimal has them, and k-anonymity if its keys are log"
            )
        else:
            yield _told(measure, found[name], where, frequent)


def _told(measure: Measure, value: float | None, where: str | None, pairs: int) -> Figure:
    why = None if value is not None else "no frequent pair to compare" if pairs else "TRAIN has no pair as frequent"
    return Figure(measure, value, where, cases=pairs, why=why)
