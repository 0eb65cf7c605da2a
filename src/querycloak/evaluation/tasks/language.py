"""Task language: fit of a release's language model to queries of held-out people.

Every subject gets a model of its own (`releases/release_model.py`): whole queries, n-grams of words and, the same for
all, a public model of characters. The original's model has the log itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.evaluation.subjects import QUERIES, lacks, table_of
from querycloak.evaluation.task import NO_DATA, READINGS, CaseScores, Floats, Logs, Measure, Subject
from querycloak.language.character_model import character_bits
from querycloak.language.query_model import QueryModel
from querycloak.language.word_model import Gram, contexts_of
from querycloak.releases.release_model import LONGEST, model_of_phrases, model_of_queries
from querycloak.text.word_boundaries import words_of

SEED = 1991
MOST_CASES = 20_000
"""Cases that are judged: of more, this many are drawn with a public seed."""
_CITATION = "Shannon, Prediction and entropy of printed English, Bell System Technical Journal 1951"


def _mean(values: Floats) -> float:
    """Mean over cases: of bits, or of 1 for each query that can be spelled."""
    return float(np.mean(values))


def _bits_per_character(bits: Floats, characters: Floats) -> float:
    """Bits of all queries over their characters, the end of each included."""
    return float(np.sum(bits) / np.sum(characters))


BITS_PER_QUERY = Measure(
    "bits_per_query",
    "bits that the model needs for a query: minus log2 of its probability",
    _CITATION,
    "lower",
    compute=_mean,
)
BITS_PER_CHARACTER = Measure(
    "bits_per_character",
    "bits for all queries together, over their characters",
    _CITATION,
    "lower",
    compute=_bits_per_character,
)
EXPRESSIBLE = Measure(
    "expressible",
    "share of (user, query) pairs that a release can spell: it holds the query, or every word of it",
    "Kim, Gopi, Kulkarni & Yekhanin, Differentially private n-gram extraction, NeurIPS 2021",
    "higher",
    compute=_mean,
)


@dataclass(frozen=True)
class Language:
    """Each distinct query of a test user: its bits, and whether the release can spell it."""

    name: ClassVar[str] = "language"
    summary: ClassVar[str] = "how well a release's model predicts queries of others, in bits; what it can spell"
    citation: ClassVar[str] = _CITATION

    most_cases: int = MOST_CASES
    seed: int = SEED

    measures = (BITS_PER_QUERY, BITS_PER_CHARACTER, EXPRESSIBLE)
    readings = READINGS

    def unsupported_reason(self, subject: Subject) -> str | None:
        """It needs phrases, or queries in any table."""
        if "phrases" in subject.kinds:
            return None
        why = lacks(subject, QUERIES)
        return why and f"{why}; phrases and queries have what a model is made of"

    def prepare(self, logs: Logs) -> PreparedLanguage:
        """Every test user's distinct queries; a sample if there are many."""
        return PreparedLanguage(logs, self.most_cases, self.seed)


class PreparedLanguage:
    """The task for one TEST."""

    def __init__(self, logs: Logs, most_cases: int, seed: int) -> None:
        rows = logs.test.rows
        pairs = logs.test.engine.fetch(rows.select("user", "query").distinct().order_by(["user", "query"]))
        users = pairs["user"].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        chosen: NDArray[np.int64] = np.arange(len(users))
        if len(users) > most_cases:
            # Pairs are in order of text: the same log gives the same sample, however it was read.
            chosen = np.sort(np.random.default_rng(seed).choice(len(users), most_cases, replace=False))
        self._users = users[chosen]
        texts = pairs["query"].combine_chunks().take(chosen).dictionary_encode()
        self._distinct: list[str] = texts.dictionary.to_pylist()
        self._query = texts.indices.to_numpy().astype(np.int64)
        # Of a text and its end, as the model of characters spells it.
        self._characters = np.array([len(query) + 1 for query in self._distinct], np.float64)[self._query]

    def case_queries(self) -> pa.StringArray:
        """The query of each case."""
        return pa.array(self._distinct, pa.string()).take(pa.array(self._query))

    def scores(self, subject: Subject) -> Iterator[CaseScores]:
        """All cases."""
        bits, spelled = self._judged(subject)
        yield CaseScores(BITS_PER_QUERY, bits, self._users)
        yield CaseScores(BITS_PER_CHARACTER, bits / self._characters, self._users, weights=self._characters)
        yield CaseScores(EXPRESSIBLE, spelled, self._users)

    def _judged(self, subject: Subject) -> tuple[Floats, Floats]:
        """The bits of each case, and 1 if it can be spelled; every distinct query is judged once."""
        model = self._model(subject)
        if model is None:
            bits = np.array([character_bits(query) for query in self._distinct])
            return bits[self._query], np.zeros(len(self._query))
        bits = np.array([model.bits(query) for query in self._distinct])
        spelled = np.array([model.expresses(query) for query in self._distinct], np.float64)
        return bits[self._query], spelled[self._query]

    def _model(self, subject: Subject) -> QueryModel | None:
        """The model of a subject; None if it holds nothing, or knows no data: characters alone."""
        if subject.name == NO_DATA:
            return None
        try:
            if "phrases" in subject.kinds:
                whole = _counts(subject.table("queries")) if "queries" in subject.kinds else {}
                return model_of_phrases(subject.table("phrases").to_batches(), whole)
            return model_of_queries(_counts(table_of(subject, QUERIES)), self._contexts)
        except ParameterError:  # an empty release
            return None

    @cached_property
    def _contexts(self) -> frozenset[Gram]:
        """Contexts of the words of the cases: the original's other n-grams are not needed."""
        return frozenset(contexts_of(map(words_of, self._distinct), LONGEST))


def _counts(table: pa.Table) -> dict[str, float]:
    return dict(zip(table["query"].to_pylist(), map(float, table["count"].to_pylist()), strict=True))
