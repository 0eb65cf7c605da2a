"""Baseline `no-data` of every task: a rule without any log.

The rule knows public text and the question that TEST asks, nothing else. Where a task compares tables with TRAIN, the
tables are those of public phrases with their public frequency (`text/english.py`). The share of the log's value that a
release keeps says little without it: a release may keep a large share and add nothing to this rule.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.task import NO_DATA, Baseline
from querycloak.logs.searchlog import SearchLog
from querycloak.text.english import public_phrases

NO_USERS = "without a log nobody's searches are known"
NOT_OF_USERS = "its counts are those of printed books, not of users"
NOTHING, UNKNOWN = -1, -2
"""No further suggestion; a suggestion that stands in neither log."""


class NoData(Baseline):
    """Public phrases by public frequency, and an address guessed from each; `log` decides the form of addresses."""

    name = method = NO_DATA

    def __init__(self, log: SearchLog) -> None:
        self._log = log

    @property
    def kinds(self) -> tuple[str, ...]:
        """Queries and clicks; no clicks if the log can hold none."""
        return ("queries", "clicks") if self._log.source.reader.holds_clicks else ("queries",)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The columns of each table."""
        columns = {"queries": ("query", "count"), "clicks": ("query", "url", "count")}
        return {kind: columns[kind] for kind in self.kinds}

    @property
    def parameters(self) -> Mapping[str, Any]:
        """None: nothing was chosen."""
        return {}

    def table(self, kind: str) -> pa.Table:
        """Public phrases; in `clicks` with the address guessed from each."""
        phrases = public_phrases().rename_columns(["query", "count"])
        return phrases if kind == "queries" else with_guesses(phrases, self._log)


def with_guesses(table: pa.Table, log: SearchLog) -> pa.Table:
    """query, url and count: the address http://www.QUERY.com, blanks removed, in the form in which the log keeps it.

    A query that is an address already (www.QUERY.org, QUERY.net) keeps its own ending.
    """
    scheme = "" if log.source.choices.keep_url == "host" else "http://"
    joined = pc.replace_substring(table["query"].cast(pa.string()), " ", "")
    names = pc.replace_substring_regex(joined, r"^(https?://)?(www\.)?", "")
    endings = pc.if_else(pc.match_substring_regex(names, r"\.[a-z]{2,4}$"), "", ".com")
    urls = pc.binary_join_element_wise(f"{scheme}www.", names, endings, "")
    return pa.table({"query": table["query"], "url": urls, "count": table["count"]})


def guessed_clicks(test: SearchLog) -> pa.Table:
    """The guess for each query with clicks of TEST: the question asked, not its answer."""
    queries = test.engine.fetch(test.clicks.select("query").distinct())
    return with_guesses(queries.append_column("count", pa.array(np.ones(queries.num_rows, np.int64))), test)


def without_a_word(queries: pa.Array, texts: pa.Array, most: int) -> NDArray[np.int32]:
    """By query: indices into `texts` of the query without its last word, without its last but one, and so on.

    `NOTHING` follows the last of them: a query of one word has none. `UNKNOWN` is a suggestion that is not in `texts`.
    """
    words = pc.split_pattern(queries.cast(pa.string()), " ")
    lengths = pc.list_value_length(words).to_numpy(zero_copy_only=False).astype(np.int64)
    numbers = np.full((len(queries), most), NOTHING, np.int32)
    flat, ends = words.flatten(), np.cumsum(lengths)
    for place in range(most):
        able = lengths > max(1, place)
        dropped = np.zeros(len(flat), np.bool_)
        dropped[ends[able] - 1 - place] = True
        offsets = np.concatenate([[0], np.cumsum(lengths - able)])
        kept = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), flat.filter(pa.array(~dropped)))
        suggestions = pc.binary_join(kept, " ").cast(texts.type)
        known = pc.fill_null(pc.index_in(suggestions, value_set=texts), UNKNOWN).to_numpy(zero_copy_only=False)
        known = np.where((known[:, None] == numbers[:, :place]).any(axis=1), UNKNOWN, known)  # "new new york", twice
        numbers[able, place] = known[able]
    return numbers
