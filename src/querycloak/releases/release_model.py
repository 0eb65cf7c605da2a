"""The model of a release: which of its tables say how often queries and phrases were asked."""

from __future__ import annotations

from collections.abc import Iterator

from querycloak.errors import ParameterError
from querycloak.language.query_model import QueryModel
from querycloak.language.word_model import BEGIN, END, Gram, grams_of
from querycloak.releases.release import Release
from querycloak.releases.tables import batches_of
from querycloak.text.word_boundaries import words_of

_LONGEST = 3
"""Words of an n-gram that is cut from whole queries."""


def model_of(release: Release) -> QueryModel:
    """Return the model of a release that has phrases, queries, clicks or a log."""
    queries = _whole_queries(release)
    if "phrases" in release.tables:
        return QueryModel(queries, _phrases(release))
    if not queries:
        has = ", ".join(release.tables)
        raise ParameterError(
            f"a model needs phrases, queries, clicks or a log with rows, and this release has {has}; "
            "phrases and queries release them"
        )
    return QueryModel(queries, grams_of(((words_of(query), count) for query, count in queries.items()), _LONGEST))


def _whole_queries(release: Release) -> dict[str, float]:
    """Return counts of whole queries from the first table that has them; a missing count is 1."""
    counts: dict[str, float] = {}
    for kind in ("queries", "clicks", "log"):
        if kind in release.tables:
            for query, count in _counted(release, kind):
                counts[query] = counts.get(query, 0.0) + count
            break
    return counts


def _counted(release: Release, kind: str) -> Iterator[tuple[str, float]]:
    for batch in batches_of(release.tables[kind]):
        names = batch.schema.names
        counts = batch["count"].to_pylist() if "count" in names else [1] * batch.num_rows
        for query, count in zip(batch["query"].to_pylist(), counts, strict=True):
            yield query, float(1 if count is None else max(count, 0))


def _phrases(release: Release) -> dict[Gram, float]:
    grams: dict[Gram, float] = {}
    ends = 0.0
    for batch in batches_of(release.tables["phrases"]):
        columns = (batch[name].to_pylist() for name in ("phrase", "begins", "ends", "count"))
        for phrase, begins, ending, count in zip(*columns, strict=True):
            words = tuple(phrase.split(" "))
            number = float(1 if count is None else max(count, 0))
            grams[(BEGIN,) * begins + words + (END,) * ending] = number
            ends += number if ending and not begins and len(words) == 1 else 0.0
    grams[(END,)] = ends
    return grams
