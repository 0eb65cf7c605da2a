"""Tasks of `evaluate` whose figures also come by band of queries: head, torso and tail."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.aggregations import RowLabel, rows_of
from querycloak.evaluation.evaluation import figure_row
from querycloak.evaluation.evaluation_file import Row
from querycloak.evaluation.task import CaseScores, Figure, Floats, Logs, Measure, Numbers, Subject, Task, tasks_named
from querycloak.evaluation.tasks.click_model import PERPLEXITY, RANKS, PreparedClickModel
from querycloak.evaluation.tasks.language import Language

BANDS = ("head", "torso", "tail")
HEAD_SHARE = 0.001
"""Head: queries of at least this share of TRAIN's users. Tail: queries of one of them or of nobody. Torso: the rest."""
RESAMPLES, SEED = 200, 2015
Scored = tuple[float | None, float | None, float | None]
"""Value, and low and high of its 95 % interval."""
MOST_CASES = 6_000


def band_of(users: Numbers, log_users: int) -> Numbers:
    """Number of the band of queries that this many users of TRAIN asked."""
    return np.where(users >= max(3.0, HEAD_SHARE * log_users), 0, np.where(users >= 2, 1, 2))


def bands_of_texts(logs: Logs, texts: pa.Array) -> Numbers:
    """Number of the band of each text."""
    rows, engine = logs.train.rows, logs.train.engine
    shared = rows.group_by("query").agg(users=rows.user.nunique())
    counted = engine.fetch(shared.filter(shared.users >= 2))
    everybody = int(engine.fetch(rows.user.nunique().as_table())[0][0].as_py())
    coded = texts.dictionary_encode()
    place = pc.index_in(coded.dictionary.cast(pa.string()), counted["query"].combine_chunks().cast(pa.string()))
    users = counted["users"].combine_chunks().take(place).fill_null(0).to_numpy(zero_copy_only=False)
    bands: Numbers = band_of(users.astype(np.int64), everybody)[coded.indices.to_numpy()]
    return bands


@dataclass(frozen=True)
class BandedTask:
    """A task that yields its own figures and, for each band, those of the cases whose query is in it."""

    task: Any

    @property
    def name(self) -> str:
        """The task's own name."""
        return str(self.task.name)

    @property
    def summary(self) -> str:
        """The task's own summary."""
        return str(self.task.summary)

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The task's own measures."""
        measures: tuple[Measure, ...] = self.task.measures
        return measures

    @property
    def readings(self) -> tuple[str, ...]:
        """The task's own readings."""
        readings: tuple[str, ...] = self.task.readings
        return readings

    def unsupported_reason(self, subject: Subject) -> str | None:
        """The task's own reason."""
        reason: str | None = self.task.unsupported_reason(subject)
        return reason

    def prepare(self, logs: Logs) -> PreparedBands | PreparedClickBands:
        """The task's cases, and the band of each."""
        prepared = self.task.prepare(logs)
        if isinstance(prepared, PreparedClickModel):
            return PreparedClickBands(prepared, logs)
        return PreparedBands(prepared, bands_of_texts(logs, prepared.case_queries()))


@dataclass(frozen=True, eq=False)
class PreparedBands:
    """A task with cases, for one TEST."""

    prepared: Any
    band: Numbers

    def scores(self, subject: Subject) -> Iterator[CaseScores | Figure]:
        """Scores of all cases, then band by band."""
        for scores in self.prepared.scores(subject):
            yield scores
            if isinstance(scores, CaseScores) and scores.slice is None:
                yield from (self._of_band(scores, number) for number in range(len(BANDS)))

    def _of_band(self, scores: CaseScores, number: int) -> CaseScores:
        here = self.band == number
        users = np.arange(int(here.sum())) if scores.pooled else scores.users[here]
        units, weights = (None if each is None else each[here] for each in (scores.units, scores.weights))
        return replace(
            scores, scores=scores.scores[here], users=users, slice=BANDS[number], units=units, weights=weights
        )


class PreparedClickBands:
    """The click model for one TEST: perplexity with intervals over queries, which are drawn as wholes."""

    def __init__(self, prepared: PreparedClickModel, logs: Logs) -> None:
        self._prepared = prepared
        views = prepared.views
        texts = pa.array([], pa.string()) if views is None else views["query"].combine_chunks()
        self._query = texts.dictionary_encode().indices.to_numpy().astype(np.int64)
        self._band = bands_of_texts(logs, texts)

    def scores(self, subject: Subject) -> Iterator[Figure]:
        """Overall, then band by band."""
        views = self._prepared.views
        if views is None:
            return
        rank = views["rank"].to_numpy().astype(np.int64) - 1
        clicks, number = (views[name].to_numpy().astype(np.float64) for name in ("clicks", "n"))
        chances = np.clip(self._prepared.predicted(subject, views, rank)[1], 1e-6, 1 - 1e-6)
        bits = -(clicks * np.log2(chances) + (number - clicks) * np.log2(1 - chances))
        for part, here in ((None, self._band >= 0), *((name, self._band == place) for place, name in enumerate(BANDS))):
            value, low, high = perplexity(self._query[here], rank[here], bits[here], number[here])
            cases = int(number[here].sum())
            yield Figure(PERPLEXITY, value, part, low, high, cases=cases, answered=cases)


def perplexity(query: Numbers, rank: Numbers, bits: Floats, views: Floats) -> tuple[float, float, float]:
    """Mean over ranks of 2 to the bits of a view, and its 95 % interval over queries."""
    codes, place = np.unique(query, return_inverse=True)
    key, size = place * RANKS + rank, len(codes) * RANKS
    sums = np.hstack([np.bincount(key, each, size).reshape(-1, RANKS) for each in (bits, views)])
    random = np.random.default_rng(SEED)
    drawn = [_overall(_drawn(len(codes), random) @ sums) for _ in range(RESAMPLES)]
    low, high = np.quantile(drawn, [0.025, 0.975])
    return _overall(sums.sum(0)), float(low), float(high)


def _drawn(queries: int, random: np.random.Generator) -> Floats:
    """Number of times that each query is drawn."""
    return np.bincount(random.integers(queries, size=queries), minlength=queries).astype(np.float64)


def _overall(sums: NDArray[np.float64]) -> float:
    bits, views = sums[:RANKS], sums[RANKS:]
    return float(np.mean(2 ** (bits[views > 0] / views[views > 0])))


def judged_in_bands(logs: Logs, task: str, measure: str) -> Iterator[tuple[str, dict[str | None, Scored]]]:
    """For each subject one measure of a task: over all cases (None), then by band. Empty if the task does not apply."""
    chosen = _fewer_cases(tasks_named([task])[0])
    able = [each for each in logs.subjects if chosen.unsupported_reason(each) is None]
    prepared = BandedTask(chosen).prepare(logs) if able else None
    for subject in logs.subjects:
        rows: list[Row] = []
        for scores in prepared.scores(subject) if prepared is not None and subject in able else ():
            if scores.measure.name == measure and scores.slice in (None, *BANDS):
                about = RowLabel(subject.name, None, task)
                one = (
                    [figure_row(about, scores)]
                    if isinstance(scores, Figure)
                    else rows_of(about, [scores], [scores], logs.test_users)
                )
                rows += [row for row in one if row.reading == "all" and row.slice in (None, *BANDS)]
        yield subject.name, {row.slice: (row.value, row.low, row.high) for row in rows} or {None: (None, None, None)}


def _fewer_cases(task: Task) -> Task:
    """Language has fewer cases than by default, because its models are slow."""
    return replace(task, most_cases=MOST_CASES) if isinstance(task, Language) else task
