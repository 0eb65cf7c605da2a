"""Task ranking: whether the urls of a query stand in the order in which other people click them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from querycloak.evaluation.kernels.graphs import Graphs
from querycloak.evaluation.kernels.kendall import TAU_B, UNDEFINED, taus
from querycloak.evaluation.kernels.weighted_pairs import WeightedPairs
from querycloak.evaluation.measure import Measure
from querycloak.evaluation.subject_tables import CLICKS, lacks
from querycloak.evaluation.task import READINGS, CaseScores, Figure, Floats, Logs, Subject


class Ranking:
    """Kendall's tau-b between urls by released count and by clicks in TEST, over the urls of TEST."""

    name: ClassVar[str] = "ranking"
    summary: ClassVar[str] = "the urls of a query in the order in which other people click them"
    citation: ClassVar[str] = "Kendall, The treatment of ties in ranking problems, Biometrika 1945"

    @property
    def measures(self) -> tuple[Measure, ...]:
        """Agreement of two orders, and how often there is none to be told."""
        return TAU_B, UNDEFINED

    @property
    def readings(self) -> tuple[str, ...]:
        """All three."""
        return READINGS

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It takes clicks."""
        why = lacks(subject, CLICKS)
        return why and f"{why}; clicks, sessions, optimal and k-anonymity have clicks"

    def prepare(self, logs: Logs) -> PreparedRanking:
        """The queries of TEST with two urls or more that were not clicked equally often."""
        return PreparedRanking(logs.graphs)


class PreparedRanking:
    """The task for one TEST.

    A case is a query, with all users' clicks: cases are drawn as wholes for intervals. Drawing users instead would make
    ties of what is none and break those that are.
    """

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        clicks = graphs.logs.test.click_counts()
        several = np.diff(clicks.starts) >= 2
        ordered = several & ~np.isnan(taus(clicks.weight, clicks.weight, clicks.starts))
        self._starts = np.concatenate([[0], np.cumsum(np.diff(clicks.starts)[ordered])])
        kept = ordered[clicks.left]
        self._clicks = WeightedPairs(clicks.left[kept], clicks.right[kept], clicks.weight[kept], clicks.lefts)
        self._volume, self._tied = clicks.totals[ordered], int(several.sum() - ordered.sum())

    def scores(self, subject: Subject) -> Iterator[CaseScores | Figure]:
        """What the subject does not have counts 0; where all is tied there is no tau, and the case is not answered."""
        released = _looked_up(self._graphs.clicks(subject), self._clicks, self._graphs.logs.urls)
        values = taus(released, self._clicks.weight, self._starts)
        cases = np.arange(len(values))
        for where, undefined in (("test", self._tied), ("release", UNDEFINED(values))):
            yield Figure(UNDEFINED, undefined, f"tied={where}", cases=len(values) + self._tied)
        yield CaseScores(TAU_B, values, cases, pooled=True)
        yield CaseScores(TAU_B, values, cases, "weight=clicks", weights=self._volume, pooled=True)


def _looked_up(pairs: WeightedPairs, wanted: WeightedPairs, rights: int) -> Floats:
    """The weights of the pairs wanted; 0 where there is none."""
    held = pairs.left.astype(np.int64) * rights + pairs.right
    key = wanted.left.astype(np.int64) * rights + wanted.right
    at = np.minimum(np.searchsorted(held, key), max(0, len(held) - 1))
    found = held[at] == key if len(held) else np.zeros(len(key), np.bool_)
    return np.where(found, pairs.weight[at] if len(held) else 0.0, 0.0)
