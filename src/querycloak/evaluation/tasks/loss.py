"""Task loss: information left of the typed queries, word by word (normalised certainty penalty)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.task import ORIGINAL, Figure, Logs, Measure, Numbers, Subject
from querycloak.evaluation.tasks.profiles import released_queries
from querycloak.logs.searchlog import SearchLog
from querycloak.methods.distinct_queries import uses_of
from querycloak.methods.generalize.clusters import Generalised, Matcher, Tree, generalise, matcher_of
from querycloak.privacy.parameters import number_above_zero
from querycloak.releases.row_kinds import RowKind
from querycloak.releases.tables import OF_DRAWS
from querycloak.text.spans import Spans
from querycloak.text.wordnet import wordnet

CARPINETO = "Carpineto & Romano, K-theta-affinity privacy: Releasing infrequent query refinements safely, 2015"
TERROVITIS = "Terrovitis, Mamoulis & Kalnis, Privacy-preserving anonymization of set-valued data, VLDB 2008"
RIJSBERGEN = "van Rijsbergen, Information retrieval, 1979"

Degrees = NDArray[np.int32]
Mask = NDArray[np.bool_]
Floats = NDArray[np.float64]


def released_over(degrees: Degrees, ks: Sequence[int], counted: Mask | NDArray[np.integer] | None = None) -> Floats:
    """Amount with a degree of at least k, for each k: distinct queries, or the weights in `counted`."""
    order = np.argsort(degrees, kind="stable")
    weights = np.ones(len(degrees)) if counted is None else counted.astype(np.float64)[order]
    # What stands at or after the first degree of at least k.
    after = np.concatenate([np.cumsum(weights[::-1])[::-1], [0.0]])
    return after[np.searchsorted(degrees[order], ks, side="left")]


def share_released(degrees: Degrees, ks: Sequence[int], counted: Mask | None = None) -> Floats:
    """The share of queries that come out, of those counted."""
    total = len(degrees) if counted is None else int(counted.sum())
    return released_over(degrees, ks, counted) / max(1, total)


def f_beta_over(degrees: Degrees, sensitive: Mask, ks: Sequence[int], beta: float) -> Floats:
    """F_beta of releasing what is not sensitive; 0 where nothing harmless comes out."""
    harmless, all_released = released_over(degrees, ks, ~sensitive), released_over(degrees, ks)
    precision = harmless / np.maximum(all_released, 1)
    recall = harmless / max(1, int((~sensitive).sum()))
    weighted = beta**2 * precision + recall
    return np.where(weighted > 0, (beta**2 + 1) * precision * recall / np.maximum(weighted, 1e-300), 0.0)


def ncp(words: NDArray[np.int64], penalties: Floats) -> float | None:
    """The mean penalty over words; `words` is how many words each query, or part of one, stands for in the log."""
    total = int(np.asarray(words).sum())
    return float((np.asarray(words) * np.asarray(penalties)).sum()) / total if total else None


def sensitive_share(released: Mask, sensitive: Mask) -> float | None:
    """Share of the sensitive queries that come out."""
    return float(np.asarray(released)[np.asarray(sensitive)].mean()) if np.any(sensitive) else None


def query_share(released: Mask) -> float | None:
    """Share of all distinct queries that come out."""
    return float(np.asarray(released).mean()) if len(released) else None


def f_of(released: Mask, sensitive: Mask, beta: float) -> float:
    """F_beta of one release of what is not sensitive."""
    degrees = np.asarray(released).astype(np.int32)
    return float(f_beta_over(degrees, np.asarray(sensitive), [1], beta)[0])


def ncp_of_suppression(degrees: Degrees, words: NDArray[np.int64], ks: Sequence[int]) -> Floats:
    """NCP where queries come out as they are or not at all; `words` is how many words each stands for in the log."""
    return 1 - released_over(degrees, ks, words) / max(1, int(words.sum()))


def ncp_of_generalisation(
    own: Degrees, becomes: Degrees, covered: NDArray[np.int64], words: NDArray[np.int64], leaves_under: Degrees
) -> float:
    """NCP where one phrase of each query stands for it, as a concept; the other words are left out.

    `covered` and `words` are words of the phrase and of the query, times its searches; -1 stands for no concept.
    """
    total_leaves = int(leaves_under.max(initial=1))
    kept = becomes >= 0
    penalty = np.where(becomes[kept] == own[kept], 0.0, leaves_under[becomes[kept]] / total_leaves)
    lost = float((covered[kept] * penalty).sum()) + float(words.sum() - covered[kept].sum())
    return lost / max(1, int(words.sum()))


SHARE_RELEASED = Measure(
    "share_released", "share of the log's distinct queries that come out", f"{CARPINETO}, figure 5", "higher",
    compute=query_share,
)  # fmt: skip
NCP = Measure(
    "ncp",
    "normalised certainty penalty: for each word 0 if it comes out as it is, the share of the taxonomy's leaves under "
    "what stands for it, 1 if it is left out; the mean over all words of all searches",
    f"{TERROVITIS}; {CARPINETO}, figure 7",
    "lower",
    compute=ncp,
)
SENSITIVE_RELEASED = Measure(
    "sensitive_released", "share of the labelled sensitive queries that come out", "querycloak", "lower",
    compute=sensitive_share,
)  # fmt: skip


def f_beta(beta: float) -> Measure:
    """F of releasing what is not sensitive; below 1, beta makes it worse to release what is."""
    number_above_zero("beta", beta, "give a weight of recall such as 1, or 0.1")
    return Measure(
        "f_beta",
        "weighted harmonic mean of precision (share of what comes out that is not sensitive) and recall (share of what "
        "is not sensitive that comes out)",
        f"{RIJSBERGEN}; {CARPINETO}, figure 6",
        "higher",
        {"beta": beta},
        f_of,
    )


class Loss:
    """Words that come out as they were typed, more generally, or not at all."""

    name: ClassVar[str] = "loss"
    summary: ClassVar[str] = "how much of what was typed is left, word by word"

    measures = (NCP, SHARE_RELEASED)
    readings = ("all",)

    def unsupported_reason(self, subject: Subject) -> str | None:
        """Words that were drawn at random are neither kept, nor generalised, nor left out."""
        if set(subject.kinds) == {"phrases"}:
            return "it has words and phrases, and no queries of which some could be left out"
        if set(subject.kinds) - {"log", *OF_DRAWS} or subject.rows.is_verbatim or subject.rows is RowKind.GENERALISED:
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
        if subject.rows is RowKind.GENERALISED and subject.name != ORIGINAL:
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
        generalised, tree = self._generalised, Tree.of(taxonomy)
        becomes = generalised.becomes(int(subject.parameters["min_users"]))
        shown = pa.array([taxonomy.shown(concept) for concept in range(len(taxonomy))], pa.string())
        there = pc.is_in(shown, value_set=pc.unique(subject.table("log")["query"]))
        kept = (becomes >= 0) & (becomes != tree.root) & there.to_numpy(zero_copy_only=False)[becomes]
        covered, words = _words_covered(generalised.queries, matcher_of(taxonomy))
        times = self._searches(generalised.queries)
        leaves = tree.leaves_under
        general = np.where(becomes == generalised.concepts, 0.0, leaves[becomes] / int(leaves.max(initial=1)))
        penalties = np.where(kept, general, 1.0)
        # A query's phrase has the penalty of its concept; its other words are left out.
        weights = np.concatenate([covered * times, (words - covered) * times])
        value = NCP(weights, np.concatenate([penalties, np.ones(len(words))]))
        return value, int(weights.sum())

    def _searches(self, queries: pa.ChunkedArray) -> Numbers:
        table = self._log.engine.fetch(self._queries.select("query", "searches"))
        places = pc.index_in(queries, value_set=table["query"].combine_chunks())
        return np.asarray(table["searches"].cast(pa.int64()).to_numpy()[places.to_numpy()], np.int64)


_WITH_QUERIES = {"query", "queries"}


def all_queries(subject: Subject) -> pa.Array:
    """Every query that stands anywhere in a release as it was typed, once."""
    queries = []
    for kind, columns in subject.columns.items():  # tables of phrases or of single words hold no query
        with_queries = kind not in OF_DRAWS and not _WITH_QUERIES.isdisjoint(columns)
        if with_queries and (kind != "log" or subject.rows.is_verbatim):
            queries.append(pc.unique(released_queries(subject.table(kind), kind)[0]))
    return pc.unique(pa.concat_arrays([each.cast(pa.string()) for each in queries]))


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
