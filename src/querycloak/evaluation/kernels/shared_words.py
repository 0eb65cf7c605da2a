"""Suggestions from words: released queries that share the most words with a query, the most frequent first."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from querycloak.evaluation.no_data import NOTHING, UNKNOWN

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
    """For each group of queries the number of every word, the same for all, and the place of its query in the group."""
    split = [pc.split_pattern(texts.take(pa.array(group)).cast(pa.string()), " ") for group in groups]
    lengths = [pc.list_value_length(each).to_numpy(zero_copy_only=False) for each in split]
    flat = pa.concat_arrays([each.flatten() for each in split]).dictionary_encode()
    words = np.split(flat.indices.to_numpy().astype(np.int64), np.cumsum([length.sum() for length in lengths])[:-1])
    return words, [np.repeat(np.arange(len(length)), length) for length in lengths]
