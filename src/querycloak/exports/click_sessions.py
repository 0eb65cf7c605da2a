"""Sessions for click models, in the columns that CLAX reads: a Parquet row for each search with its results.

FOLDER/  sessions.parquet (query_id, doc_ids, query_doc_ids, positions, clicks)  queries.tsv  docs.tsv  rule.txt
Numbers begin at 1. A log with `clicked` has every result shown. A log of clicks alone has results down to its last
click; those in between that it does not name have number 0.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from querycloak.errors import ParameterError
from querycloak.releases.safe_text import safe_text

if TYPE_CHECKING:
    from querycloak.exports.export import Output
    from querycloak.releases.release import Release

_COLUMNS = ("query", "rank", "url")
_OF_SEARCH = ("session", "user", "day", "time", "query")
_DEEPEST = 100
_SHOWN = "Every result shown is listed, with whether it was clicked; a rank twice in a search counts once."
_CLICKED = (
    "The release has clicks alone: a search lists ranks 1 to its last click, document 0 is a result that it does not "
    "name, and searches without a click are left out. Leave document 0 out of training and measures: it has no click "
    "because only clicks have names."
)
IntArray = NDArray[np.int64]


def write(release: Release, output: Output, _grades: str, _levels: int) -> None:
    """Write sessions, the texts behind their numbers, and the rule."""
    sessions, queries, urls, rule = click_sessions(_log(release))
    buffer = io.BytesIO()
    pq.write_table(sessions, buffer)
    output.write(buffer.getvalue(), "sessions.parquet")
    for name, texts in (("queries.tsv", queries), ("docs.tsv", urls)):
        lines = (f"{number}\t{safe_text(text)}\n" for number, text in enumerate(texts.to_pylist(), start=1))
        output.write("".join(lines).encode(), name)
    output.write(f"{rule}\n".encode(), "rule.txt")


def _log(release: Release) -> pa.Table:
    table = release.tables.get("log")
    if table is None or not set(_COLUMNS) <= set(table.schema.names):
        raise ParameterError(
            f"clax needs a table log with rank and url, and this release has {', '.join(release.tables)}; "
            "eu-records and synthetic release one"
        )
    return release.table("log")


def click_sessions(log: pa.Table) -> tuple[pa.Table, pa.Array, pa.Array, str]:
    """Return the sessions, the queries and urls in the order of their numbers, and the rule."""
    has_views = "clicked" in log.column_names
    rows = log.filter(pc.and_(pc.is_valid(log["url"]), pc.is_valid(log["rank"]))).combine_chunks()
    ranks = rows["rank"].to_numpy().astype(np.int64)
    rows, ranks = rows.filter(pa.array((ranks >= 1) & (ranks <= _DEEPEST))), ranks[(ranks >= 1) & (ranks <= _DEEPEST)]
    query, queries = _numbered(rows["query"])
    url, urls = _numbered(rows["url"])
    search = searches(rows)
    clicked = rows["clicked"].to_numpy(zero_copy_only=False).astype(bool) if has_views else np.ones(len(ranks), bool)
    order = np.lexsort((~clicked, ranks, search))  # of a rank that a search has twice, the click comes first
    first = np.ones(order.size, bool)
    first[1:] = (np.diff(search[order]) != 0) | (np.diff(ranks[order]) != 0)
    kept = order[first]
    search, ranks, query, url, clicked = (each[kept] for each in (search, ranks, query, url, clicked))
    if not has_views:
        search, ranks, query, url, clicked = _down_to_last_click(search, ranks, query, url)
    starts = np.flatnonzero(np.diff(search, prepend=-1))
    offsets = pa.array(np.append(starts, search.size).astype(np.int32))
    pairs, pair = np.unique(np.stack([query, url]), axis=1, return_inverse=True)
    numbers = np.cumsum(pairs[1] > 0) * (pairs[1] > 0)
    lists = {
        "doc_ids": url,
        "query_doc_ids": numbers[pair.reshape(-1)] if pair.size else url,
        "positions": ranks,
        "clicks": clicked,
    }
    sessions = pa.table(
        {
            "query_id": pa.array(query[starts]),
            **{name: pa.ListArray.from_arrays(offsets, pa.array(values)) for name, values in lists.items()},
        }
    )
    return sessions, queries, urls, _SHOWN if has_views else _CLICKED


def _numbered(column: pa.ChunkedArray) -> tuple[IntArray, pa.Array]:
    """Numbers from 1, and the texts in their order."""
    encoded = pc.dictionary_encode(column).combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # no rows
        return np.empty(0, np.int64), pa.array([], pa.string())
    return encoded.indices.to_numpy().astype(np.int64) + 1, encoded.dictionary


def searches(rows: pa.Table) -> IntArray:
    """Return a number for each search: rows with the same session or user, day or time, and query."""
    number: IntArray = np.zeros(rows.num_rows, np.int64)
    for name in _OF_SEARCH:
        if name in rows.column_names and rows.num_rows:
            text = pc.fill_null(pc.cast(rows[name], pa.string()), "")
            codes = _numbered(text)[0]
            number = np.unique(number * (codes.max() + 1) + codes, return_inverse=True)[1].astype(np.int64)
    return number


def _down_to_last_click(
    search: IntArray, ranks: IntArray, query: IntArray, url: IntArray
) -> tuple[IntArray, IntArray, IntArray, IntArray, NDArray[np.bool_]]:
    """Every rank of a search down to its last click; url 0 and no click where the log names none."""
    starts = np.flatnonzero(np.diff(search, prepend=-1))
    depth = np.maximum.reduceat(ranks, starts) if starts.size else starts
    begins = np.concatenate([[0], np.cumsum(depth)])
    at = np.repeat(begins[:-1], np.diff(np.append(starts, search.size))) + ranks - 1
    urls, clicked = np.zeros(begins[-1], np.int64), np.zeros(begins[-1], bool)
    urls[at], clicked[at] = url, True
    positions = np.arange(begins[-1]) - np.repeat(begins[:-1], depth) + 1
    return np.repeat(search[starts], depth), positions, np.repeat(query[starts], depth), urls, clicked
