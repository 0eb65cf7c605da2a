"""Queries as tokens: marks and words, parted by blanks; one function cuts for both engines (phrases.md, *Keys*)."""

from __future__ import annotations

from collections.abc import Iterator

import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.engines import Engine
from querycloak.language.word_model import BEGIN, END
from querycloak.text.word_boundaries import words_of

MOST_WORDS = 32
"""Queries of more words have no tokens: a rule on each text, so that no text can fill the memory."""
_CUT = pa.schema([("query", pa.string()), ("words", pa.string())])
_PLAIN = "^[a-z0-9]+( [a-z0-9]+)*$"
"""Texts that are their own words."""


class CutWords:
    """Batches of queries to queries with their words, blanks between; only where these differ from the query."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Cut batch after batch."""
        for batch in batches:
            queries = batch.column(0).cast(pa.string())
            others = queries.filter(pc.invert(pc.match_substring_regex(queries, _PLAIN)))
            words = pa.array([" ".join(words_of(query)) for query in others.to_pylist()], pa.string())
            cut = pa.record_batch([others, words], schema=_CUT)
            yield cut.filter(pc.not_equal(others, words))


def with_tokens(engine: Engine, uses: ir.Table) -> ir.Table:
    """Rows with a query as rows with its tokens (`tokens`); rows without words are left out."""
    differing = engine.stage(engine.mapped(uses.select("query").distinct(), CutWords(), _CUT))
    cut = differing.select(cut_query=differing["query"], cut_words=differing.words)
    joined = uses.left_join(cut, uses["query"] == cut.cut_query)
    joined = joined.mutate(words=joined.cut_words.coalesce(joined["query"]))
    number = (joined.words.length() - joined.words.replace(" ", "").length()).cast("int64") + 1
    kept = joined.filter((joined.words != "") & (number <= MOST_WORDS))
    tokens = f"{BEGIN} " + kept.words + f" {END}"
    return kept.mutate(tokens=tokens).drop("words", "cut_query", "cut_words", "query")
