"""Task suggestion: which queries a user will ask next in a session, by what others asked and clicked.

The rule without sessions suggests released queries that share the most words with a query, the most frequent first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.graphs import Graphs, session_starts
from querycloak.evaluation.numbered_logs import Steps
from querycloak.evaluation.rank_measures import RANK_MEASURES, Hits, scores
from querycloak.evaluation.similar_queries import click_index, followers, suggested
from querycloak.evaluation.subjects import CLICKS, LATER, NOTHING, UNKNOWN, lacks, without_a_word
from querycloak.evaluation.task import NO_DATA, READINGS, CaseScores, Logs, Subject

OF_A_WORD = 64
"""Queries that are looked at for each word: those with the largest counts."""
Numbers = NDArray[np.int64]


def sharing_words(
    asked: NDArray[np.int32], texts: pa.Array, counts: NDArray[np.float64], first: NDArray[np.int32]
) -> NDArray[np.int32]:
    """Fill up lists of suggestions (`first`, one row for each query asked) with released queries that share words.

    A query that holds all words comes before one that holds some of them; then the larger count decides.
    texts: all queries by number. counts: of each, 0 for those that are not released.
    """
    released = np.flatnonzero(counts > 0)
    released = released[np.lexsort((released, -counts[released]))]
    words, place = _words(texts, asked.astype(np.int64), released)
    mine, theirs = (np.unique(np.stack([word, at]), axis=1) for word, at in zip(words, place, strict=True))
    start = np.searchsorted(theirs[0], mine[0])
    number = np.minimum(np.searchsorted(theirs[0], mine[0], side="right") - start, OF_A_WORD)
    query = np.repeat(mine[1], number)
    offset = np.arange(len(query)) - np.repeat(np.cumsum(number) - number, number)
    candidate = theirs[1][np.repeat(start, number) + offset]
    pairs, shared = np.unique(query * max(1, len(released)) + candidate, return_counts=True)
    query, candidate = pairs // max(1, len(released)), pairs % max(1, len(released))
    other = released[candidate] != asked[query]
    return _filled(first, query[other], candidate[other], shared[other], released)


def _filled(
    first: NDArray[np.int32], query: Numbers, candidate: Numbers, shared: Numbers, released: Numbers
) -> NDArray[np.int32]:
    """Append candidates, by shared words and rank, to the suggestions that come first; each once."""
    most = first.shape[1]
    row, column = np.nonzero(first != NOTHING)
    queries = np.concatenate([row, query])
    earlier = first[row, column].astype(np.int64)
    # Unknown suggestions are different texts: none of them makes room for another.
    numbers = np.concatenate([np.where(earlier == UNKNOWN, UNKNOWN - column, earlier), released[candidate]])
    rank = np.concatenate([column - most, candidate])
    order = np.lexsort((rank, np.concatenate([np.full(len(row), -np.inf), -shared.astype(np.float64)]), queries))
    queries, numbers = queries[order], numbers[order]
    _, once = np.unique(np.stack([queries, numbers]), axis=1, return_index=True)
    once.sort()
    queries, numbers = queries[once], numbers[once]
    at = np.arange(len(queries)) - np.searchsorted(queries, queries)
    lists = np.full(first.shape, NOTHING, np.int32)
    lists[queries[at < most], at[at < most]] = np.maximum(numbers[at < most], UNKNOWN)
    return lists


def _words(texts: pa.Array, *groups: Numbers) -> tuple[list[Numbers], list[Numbers]]:
    """By group of queries: the number of each word, one numbering for all groups, and its query in the group."""
    split = [pc.split_pattern(texts.take(pa.array(group)).cast(pa.string()), " ") for group in groups]
    lengths = [pc.list_value_length(each).to_numpy(zero_copy_only=False) for each in split]
    flat = pa.concat_arrays([each.flatten() for each in split]).dictionary_encode()
    words = np.split(flat.indices.to_numpy().astype(np.int64), np.cumsum([length.sum() for length in lengths])[:-1])
    return words, [np.repeat(np.arange(len(length)), length) for length in lengths]


MOST = 5
COSINE_SHARE = 0.5
PHRASES = "phrases"
_NAMES = ("P@5", "R@5")


@dataclass(frozen=True)
class Suggestion:
    """For every prefix of a test session, five queries by what follows its last query and by shared clicks.

    A release of words suggests the query without one of its words, then released queries that share words with it.

    `cosine_share` is lambda, which the paper does not print. `most_queries_of_a_url` leaves out urls that more queries
    share; nothing is left out by default.
    """

    name: ClassVar[str] = "suggestion"
    summary: ClassVar[str] = "the queries that a user asks later in a session, suggested after each of its queries"
    citation: ClassVar[str] = "Zhang & Yang, Deriving differentially private session logs, ICTIR 2017"

    cosine_share: float = COSINE_SHARE
    most_queries_of_a_url: int | None = None

    measures = tuple(RANK_MEASURES[name] for name in _NAMES)
    readings = READINGS

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It takes clicks, sequences of queries or words; the rule without data drops a word of the query."""
        why = None if subject.name == NO_DATA or PHRASES in subject.kinds else lacks(subject, CLICKS, LATER)
        return why and f"{why}; sessions, clicks, query-pool, optimal and k-anonymity give what suggestions are made of"

    def prepare(self, logs: Logs) -> PreparedSuggestion:
        """The prefixes of all sessions of TEST with two queries or more."""
        return PreparedSuggestion(self, logs.graphs)


class PreparedSuggestion:
    """The task for one TEST."""

    def __init__(self, task: Suggestion, graphs: Graphs) -> None:
        self._task, self._graphs = task, graphs
        self._cases = KnownPrefixes.of(graphs.logs.test.steps, graphs.logs.queries)
        self._asked, self._which = np.unique(self._cases.query, return_inverse=True)

    def case_queries(self) -> pa.LargeStringArray:
        """The last query of each prefix."""
        return self._graphs.logs.vocabulary["query"].texts.take(pa.array(self._cases.query))

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """A prefix without any suggestion is not answered."""
        cases = self._cases
        lists = self._lists(subject)[self._which]
        unanswered = lists[:, 0] == NOTHING
        for name, values in scores(_NAMES, cases.hits(lists)).items():
            values[unanswered] = np.nan
            yield CaseScores(RANK_MEASURES[name], values, cases.user, units=cases.session)

    def _lists(self, subject: Subject) -> NDArray[np.int32]:
        """Five suggestions for each query asked."""
        task, logs = self._task, self._graphs.logs
        if subject.name == NO_DATA:
            return self._reformulated()
        if PHRASES in subject.kinds:
            texts = logs.vocabulary["query"].texts
            return sharing_words(self._asked, texts, self._graphs.queries(subject), self._reformulated())
        index = click_index(self._graphs.clicks(subject), logs.urls, task.most_queries_of_a_url)
        follow = followers(self._graphs.later(subject))
        return suggested(self._asked, index, follow, task.cosine_share, MOST, logs.engine.threads)

    def _reformulated(self) -> NDArray[np.int32]:
        """The queries asked without one of their words."""
        texts = self._graphs.logs.vocabulary["query"].texts
        return without_a_word(texts.take(pa.array(self._asked)), texts, MOST)


@dataclass(frozen=True, eq=False)
class KnownPrefixes:
    """Prefixes of sessions by their last query; true are the later queries of the session other than that one."""

    query: NDArray[np.int32]
    user: NDArray[np.int64]
    session: NDArray[np.int64]
    true: NDArray[np.int64]
    place: NDArray[np.int64]
    # Every session's distinct queries as one sorted number each, with the last place where each was asked.
    keys: NDArray[np.int64]
    last: NDArray[np.int64]
    queries: int

    @classmethod
    def of(cls, steps: Steps, queries: int) -> KnownPrefixes:
        """All proper prefixes; consecutive repeats are one query already, so each has something later."""
        starts = session_starts(steps)
        lengths = np.diff(starts)
        session = np.repeat(np.arange(len(lengths), dtype=np.int64), lengths)
        place = np.arange(len(session), dtype=np.int64)
        key = session * queries + steps.query
        order = np.argsort(key, kind="stable")
        ends = np.append(key[order][1:] != key[order][:-1], True) if len(key) else np.empty(0, np.bool_)
        last_asked = np.zeros(len(key), np.int64)
        last_asked[order[ends]] = 1
        # Distinct queries from each place to the end of its session.
        up_to = np.concatenate([[0], np.cumsum(last_asked)])
        later = up_to[starts[1:]][session] - up_to[place + 1] - (1 - last_asked)
        proper = place + 1 < starts[1:][session]
        return cls(
            steps.query[proper], steps.user[proper].astype(np.int64), session[proper], later[proper], place[proper],
            key[order[ends]], order[ends].astype(np.int64), queries,
        )  # fmt: skip

    def hits(self, suggestions: NDArray[np.int32]) -> Hits:
        """Ranks of the suggestions that are later queries of their session, as hits of the cases."""
        key = self.session[:, None] * self.queries + suggestions
        at = np.minimum(np.searchsorted(self.keys, key), max(0, len(self.keys) - 1))
        there = (suggestions >= 0) & (self.keys[at] == key) & (self.last[at] > self.place[:, None])
        case, rank = np.nonzero(there)
        return Hits.of_pairs(case, rank + 1, self.true)
