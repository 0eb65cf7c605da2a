"""Task completion: most popular completion, the baseline of all query completion.

Of the queries that begin with what was typed, the ten that were asked most. A release without a table of queries has
sums of clicks, of sequences or of rows in its place, which count a user several times. A release of words has the list
of its model: released queries, queries that words spell, public phrases (`language/query_model.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numba import njit
from numpy.typing import NDArray

from querycloak.evaluation.graphs import Graphs
from querycloak.evaluation.rank_measures import RANK_MEASURES, Hits, scores
from querycloak.evaluation.subjects import QUERIES, lacks
from querycloak.evaluation.task import NO_DATA, READINGS, CaseScores, Logs, Subject
from querycloak.text.english import public_phrases, public_queries

NOTHING, UNKNOWN = -1, -2
"""No further completion; one that stands in no log and no release."""


class SortedTexts(NamedTuple):
    """Texts in one array of UTF-8 bytes, in order; text i is `data[offsets[i]:offsets[i + 1]]`."""

    data: NDArray[np.uint8]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, texts: pa.LargeStringArray) -> SortedTexts:
        """The texts of an Arrow array, without a copy of their bytes."""
        _, offsets, data = texts.buffers()
        places = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        return cls(np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8), places)


def ranges(prefixes: SortedTexts, texts: SortedTexts) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """By prefix: the first text that begins with it, and the first after these."""
    bounds: tuple[NDArray[np.int64], NDArray[np.int64]] = _ranges(prefixes, texts)
    return bounds


def most_popular(
    first: NDArray[np.int64], last: NDArray[np.int64], counts: NDArray[np.float64], most: int
) -> NDArray[np.int32]:
    """Of each range of texts those with the largest counts above 0, ties by text; `NOTHING` where there are fewer."""
    suggestions: NDArray[np.int32] = _most_popular(first, last, counts, most)
    return suggestions


def followed(lists: NDArray[np.int32], others: NDArray[np.int32]) -> NDArray[np.int32]:
    """Fill up each list with the other list of the same row, without what it has already."""
    again = (others[:, :, None] == lists[:, None, :]).any(axis=2)
    both = np.hstack([lists, np.where(again, NOTHING, others)])
    order = np.argsort(both == NOTHING, axis=1, kind="stable")[:, : lists.shape[1]]
    filled: NDArray[np.int32] = np.take_along_axis(both, order, axis=1)
    return filled


@njit(cache=True, nogil=True)
def _ranges(prefixes, texts):  # type: ignore[no-untyped-def]
    number = prefixes.offsets.size - 1
    first, last = np.empty(number, np.int64), np.empty(number, np.int64)
    for place in range(number):
        begin, end = prefixes.offsets[place], prefixes.offsets[place + 1]
        first[place] = _bound(prefixes.data, begin, end, texts, 0)
        last[place] = _bound(prefixes.data, begin, end, texts, 1)
    return first, last


@njit(cache=True, nogil=True)
def _bound(data, begin, end, texts, beyond):  # type: ignore[no-untyped-def]
    """The first text whose beginning is at least the prefix (0), or comes after it (1)."""
    low, high = 0, texts.offsets.size - 1
    while low < high:
        middle = (low + high) // 2
        if _compared(data, begin, end, texts.data, texts.offsets[middle], texts.offsets[middle + 1]) < beyond:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True, nogil=True)
def _compared(prefix, begin, end, data, start, stop):  # type: ignore[no-untyped-def]
    """-1, 0 or 1 as the text's beginning comes before the prefix, is it, or comes after it."""
    for at in range(end - begin):
        if start + at >= stop:
            return -1
        theirs, ours = data[start + at], prefix[begin + at]
        if theirs != ours:
            return -1 if theirs < ours else 1
    return 0


@njit(cache=True, nogil=True)
def _most_popular(first, last, counts, most):  # type: ignore[no-untyped-def]
    suggestions = np.full((first.size, most), NOTHING, np.int32)
    best = np.zeros(most)
    for place in range(first.size):
        best[:] = 0.0
        for text in range(first[place], last[place]):
            count = counts[text]
            if count <= best[-1]:  # texts come in order, so an equal one comes too late
                continue
            at = most - 1
            while at > 0 and count > best[at - 1]:
                best[at], suggestions[place, at] = best[at - 1], suggestions[place, at - 1]
                at -= 1
            best[at], suggestions[place, at] = count, text
    return suggestions


MOST = 10
LONGEST = 10
SEED = 2011
PHRASES = "phrases"
_NAMES = ("RR@10", "Success@10")


@dataclass(frozen=True)
class Completion:
    """Each distinct query of a test user from a few of its first letters, their number drawn with a public seed."""

    name: ClassVar[str] = "completion"
    summary: ClassVar[str] = "what a user is typing, completed from its first letters by what was asked most"
    citation: ClassVar[str] = "Bar-Yossef & Kraus, Context-sensitive query auto-completion, WWW 2011"

    seed: int = SEED

    measures = tuple(RANK_MEASURES[name] for name in _NAMES)
    readings = READINGS

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It needs queries with counts, in any table."""
        why = lacks(subject, QUERIES)
        return why and f"{why}; queries, query-pool, k-anonymity, clicks and sessions have queries with counts"

    def prepare(self, logs: Logs) -> PreparedCompletion:
        """Every test user's distinct queries of two letters or more, one prefix each."""
        return PreparedCompletion(logs.graphs, self.seed)


class PreparedCompletion:
    """The task for one TEST."""

    def __init__(self, graphs: Graphs, seed: int) -> None:
        self._graphs = graphs
        user, query = graphs.logs.test.distinct_queries()
        texts = graphs.logs.vocabulary["query"].texts
        letters = pc.utf8_length(texts).to_numpy(zero_copy_only=False)
        typed = letters[query] >= 2
        self._user, self._query = user[typed].astype(np.int64), query[typed]
        longest = np.minimum(LONGEST, letters[self._query] - 1)
        # Users and queries are in order of text: the same log gives the same prefixes, however it was read.
        self._length = np.random.default_rng(seed).integers(1, longest, endpoint=True)
        self._texts, self._ranges = texts, _ranges_of(texts, self._query, self._length, texts)
        self._known = graphs.logs.train.search_counts()[self._query] > 0

    def case_queries(self) -> pa.LargeStringArray:
        """The query of each case."""
        return self._texts.take(pa.array(self._query))

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """All cases, by length of the prefix, and by whether TRAIN has the query."""
        lists, wanted = self._lists(subject)
        case, place = np.nonzero(lists == wanted[:, None])
        hits = Hits.of_pairs(case, place + 1, np.ones(len(lists), np.int64))
        for name, values in scores(_NAMES, hits).items():
            values[lists[:, 0] == NOTHING] = np.nan
            for part, chosen in self._slices():
                yield CaseScores(RANK_MEASURES[name], values[chosen], self._user[chosen], part)

    def _lists(self, subject: Subject) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Ten texts for each case, as numbers, and the number of the query wanted."""
        if subject.name == NO_DATA:
            return self._public_lists(public_phrases()), self._query
        first, last, which = self._ranges
        lists = most_popular(first, last, self._graphs.queries(subject), MOST)[which]
        return (followed(lists, self._public) if PHRASES in subject.kinds else lists), self._query

    @cached_property
    def _public(self) -> NDArray[np.int32]:
        """The public completions of each case."""
        return self._public_lists(public_queries())

    def _public_lists(self, phrases: pa.Table) -> NDArray[np.int32]:
        """Ten public phrases for each case by their weights, as numbers of the log's texts; `UNKNOWN` for others."""
        texts = phrases.column(0).cast(pa.large_string()).combine_chunks()
        first, last, which = _ranges_of(self._texts, self._query, self._length, texts)
        lists = most_popular(first, last, phrases.column(1).to_numpy().astype(np.float64), MOST)
        known = pc.fill_null(pc.index_in(texts, value_set=self._texts), UNKNOWN).to_numpy(zero_copy_only=False)
        numbers: NDArray[np.int32] = np.where(lists == NOTHING, NOTHING, known[lists]).astype(np.int32)[which]
        return numbers

    def _slices(self) -> Iterator[tuple[str | None, NDArray[np.bool_]]]:
        yield None, np.ones(len(self._query), np.bool_)
        for length in range(1, LONGEST + 1):
            yield f"prefix={length}", self._length == length
        yield "train=yes", self._known
        yield "train=no", ~self._known


def _ranges_of(
    texts: pa.LargeStringArray, query: NDArray[np.int32], length: NDArray[np.int64], among: pa.LargeStringArray
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The ranges of texts `among` that begin with the cases' prefixes, each once, and which of them is each case's."""
    everything = SortedTexts.of(among)
    first, last = np.empty(len(query), np.int64), np.empty(len(query), np.int64)
    for letters in np.unique(length):
        chosen = np.flatnonzero(length == letters)
        prefixes = pc.utf8_slice_codeunits(texts.take(pa.array(query[chosen])), 0, int(letters))
        first[chosen], last[chosen] = ranges(SortedTexts.of(prefixes), everything)
    distinct, which = np.unique(np.column_stack([first, last]), axis=0, return_inverse=True)
    return distinct[:, 0].copy(), distinct[:, 1].copy(), which.ravel()
