"""The model of a release: which of its tables say how often queries and phrases were asked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping

import pyarrow as pa

from querycloak.errors import ParameterError
from querycloak.language.query_model import QueryModel
from querycloak.language.word_model import BEGIN, END, Gram, grams_of
from querycloak.releases.release import Release
from querycloak.releases.tables import Table, batches_of, summed_phrases
from querycloak.text.word_boundaries import joined, words_of

LONGEST = 3
"""Words of an n-gram that is cut from whole queries."""
WORDS_OF_A_QUERY = 3
"""The mean of AOL's distinct queries, rounded: for releases in which no word ends a query."""


def model_of(release: Release) -> QueryModel:
    """Return the model of a release that has phrases, queries, clicks or a log."""
    return model_of_tables(release.tables)


def model_of_tables(tables: Mapping[str, Table], contexts: Container[Gram] | None = None) -> QueryModel:
    """Return the model of a release's tables, summed over attributes; contexts: as for `model_of_queries`."""
    queries = _whole_queries(tables)
    if "phrases" in tables:
        return model_of_phrases(batches_of(summed_phrases(tables["phrases"])), queries)
    if not queries:
        raise ParameterError(
            f"a model needs phrases, queries, clicks or a log with rows, and this release has {', '.join(tables)}; "
            "phrases and queries release them"
        )
    return model_of_queries(queries, contexts)


def model_of_phrases(phrases: Iterable[pa.RecordBatch], queries: Mapping[str, float]) -> QueryModel:
    """Return the model of a table `phrases`, with counts of whole queries beside it.

    A phrase that begins and ends a query is a whole query, too.
    """
    grams: dict[Gram, float] = {}
    whole: dict[str, float] = {}
    ends = 0.0
    for batch in phrases:
        counts = batch["count"].to_pylist() if "count" in batch.schema.names else [1] * batch.num_rows
        columns = (batch[name].to_pylist() for name in ("phrase", "begins", "ends"))
        for phrase, begins, ending, count in zip(*columns, counts, strict=True):
            words = tuple(phrase.split(" "))
            number = float(1 if count is None else max(count, 0))
            grams[(BEGIN,) * begins + words + (END,) * ending] = number
            if begins and ending:
                whole[joined(words)] = number
            elif ending and len(words) == 1:
                ends += number
    # Where no end came out, a query of words alone would be impossible.
    grams[(END,)] = ends or sum(number for gram, number in grams.items() if len(gram) == 1) / WORDS_OF_A_QUERY
    return QueryModel({**whole, **queries}, grams)


def model_of_queries(queries: Mapping[str, float], contexts: Container[Gram] | None = None) -> QueryModel:
    """Return the model of whole queries with counts; contexts: limits the model to continuations of these."""
    return QueryModel(queries, grams_of(((words_of(query), n) for query, n in queries.items()), LONGEST, contexts))


def _whole_queries(tables: Mapping[str, Table]) -> dict[str, float]:
    """Return counts of whole queries from the first table that has them; a missing count is 1."""
    counts: dict[str, float] = {}
    for kind in ("queries", "clicks", "log"):
        if kind in tables:
            for query, count in _counted(tables[kind]):
                counts[query] = counts.get(query, 0.0) + count
            break
    return counts


def _counted(table: Table) -> Iterator[tuple[str, float]]:
    for batch in batches_of(table):
        names = batch.schema.names
        counts = batch["count"].to_pylist() if "count" in names else [1] * batch.num_rows
        for query, count in zip(batch["query"].to_pylist(), counts, strict=True):
            yield query, float(1 if count is None else max(count, 0))
