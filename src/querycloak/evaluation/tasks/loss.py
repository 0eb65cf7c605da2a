"""Task loss: how much of what was typed is left, word by word (normalised certainty penalty)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.measure import Measure
from querycloak.evaluation.task import ORIGINAL, Figure, Logs, Numbers, Subject
from querycloak.evaluation.tasks.profiles import released_queries
from querycloak.evaluation.tasks.query_measures import NCP, SHARE_RELEASED
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.generalize.clusters import Generalised, Tree, generalise
from querycloak.methods.generalize.phrases import Matcher, matcher_of
from querycloak.methods.uses import uses_of
from querycloak.text.spans import Spans
from querycloak.text.wordnet import wordnet

AS_IT_IS = ("asked", "alike", "drawn", "made-up")
"""Rows of logs in which a query is what was typed."""


class Loss:
    """Words that come out as they were typed, more generally, or not at all."""

    name: ClassVar[str] = "loss"
    summary: ClassVar[str] = "how much of what was typed is left, word by word"

    @property
    def measures(self) -> tuple[Measure, ...]:
        """The penalty over all words, and the share of distinct queries."""
        return (NCP, SHARE_RELEASED)

    @property
    def readings(self) -> tuple[str, ...]:
        """Figures over all words."""
        return ("all",)

    def unsupported_reason(self, subject: Subject) -> str | None:
        """Words that were drawn at random are neither kept, nor generalised, nor left out."""
        if set(subject.kinds) - {"log"} or subject.rows in (*AS_IT_IS, "generalised"):
            return None
        return (
            "its words were drawn at random, and the penalty is defined for words that are kept, generalised or "
            "left out; task profiles measures such a release"
        )

    def prepare(self, logs: Logs) -> PreparedLoss:
        """The words of TRAIN."""
        return PreparedLoss(logs.train)


class PreparedLoss:
    """The task for one TRAIN."""

    def __init__(self, train: SearchLog) -> None:
        self._log = train
        self._queries = train.engine.stage(_query_words(train))
        self._generalised: Generalised | None = None

    def scores(self, subject: Subject) -> Iterator[Figure]:
        """The penalty, and for queries as they are the share of them."""
        if subject.rows == "generalised" and subject.name != ORIGINAL:
            value, words = self._of_concepts(subject)
            yield Figure(NCP, value, cases=words)
            yield Figure(SHARE_RELEASED, None, why="queries became concepts: none comes out as it is")
            return
        kept = self._kept(subject)
        yield Figure(NCP, NCP(kept["words"], 1.0 - kept["released"]), cases=int(kept["words"].sum()))
        share = float((kept["queries"] * kept["released"]).sum() / max(1, int(kept["queries"].sum())))
        yield Figure(SHARE_RELEASED, share, cases=int(kept["queries"].sum()))

    def _kept(self, subject: Subject) -> dict[str, Numbers]:
        """queries and words of TRAIN that came out (released is 1) and that did not."""
        table = self._queries
        totals = table.agg(queries=table.count(), words=table.words.sum())
        whole = _numbers(self._log.engine.fetch(totals))
        if subject.name == ORIGINAL:
            return whole | {"released": np.ones(1, np.int64)}
        there = table.semi_join(self._log.engine.upload(pa.table({"query": all_queries(subject)})), "query")
        out = _numbers(self._log.engine.fetch(there.agg(queries=there.count(), words=there.words.sum())))
        parts = {name: np.array([out[name][0], whole[name][0] - out[name][0]]) for name in whole}
        return parts | {"released": np.array([1, 0])}

    def _of_concepts(self, subject: Subject) -> tuple[float | None, int]:
        """The penalty of queries that became concepts, which TRAIN and the least number of users decide."""
        taxonomy = wordnet()
        if self._generalised is None:
            self._generalised = generalise(self._log.engine, uses_of(self._log), taxonomy)
        found, tree = self._generalised, Tree.of(taxonomy)
        becomes = found.becomes(int(subject.parameters["min_users"]))
        shown = pa.array([taxonomy.shown(concept) for concept in range(len(taxonomy))], pa.string())
        there = pc.is_in(shown, value_set=pc.unique(subject.table("log")["query"]))
        kept = (becomes >= 0) & (becomes != tree.root) & there.to_numpy(zero_copy_only=False)[becomes]
        covered, words = _words_covered(found.queries, matcher_of(taxonomy))
        times = self._searches(found.queries)
        leaves = tree.leaves_under
        general = np.where(becomes == found.concepts, 0.0, leaves[becomes] / int(leaves.max(initial=1)))
        penalties = np.where(kept, general, 1.0)
        # A query's phrase has the penalty of its concept; its other words are left out.
        weights = np.concatenate([covered * times, (words - covered) * times])
        value = NCP(weights, np.concatenate([penalties, np.ones(len(words))]))
        return value, int(weights.sum())

    def _searches(self, queries: pa.ChunkedArray) -> Numbers:
        table = self._log.engine.fetch(self._queries.select("query", "searches"))
        found = pc.index_in(queries, value_set=table["query"].combine_chunks())
        return np.asarray(table["searches"].cast(pa.int64()).to_numpy()[found.to_numpy()], np.int64)


def all_queries(subject: Subject) -> pa.Array:
    """Every query that stands anywhere in a release as it was typed, once."""
    found = []
    for kind in subject.kinds:
        if kind != "log" or subject.rows in AS_IT_IS:
            found.append(pc.unique(released_queries(subject.table(kind), kind)[0]))
    return pc.unique(pa.concat_arrays([each.cast(pa.string()) for each in found]))


def _query_words(log: SearchLog) -> ir.Table:
    """query, its searches, and its words times its searches."""
    searches = log.rows.select("user", "time", "query").distinct()
    counted = searches.group_by("query").agg(searches=searches.count())
    gaps = counted.query.length() - counted.query.replace(" ", "").length()
    return counted.mutate(words=((gaps + 1) * counted.searches).cast("int64"))


def _words_covered(queries: pa.ChunkedArray, matcher: Matcher) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    parts = [matcher.matches(Spans.of(chunk))[1:] for chunk in queries.chunks]
    covered, words = (np.concatenate([np.empty(0, np.int64), *(part[i] for part in parts)]) for i in (0, 1))
    return covered.astype(np.int64), words.astype(np.int64)


def _numbers(row: pa.Table) -> dict[str, Numbers]:
    return {
        name: np.asarray(pc.fill_null(row[name].cast(pa.int64()), 0).to_numpy(), np.int64) for name in row.column_names
    }
