"""Consistent counts: no phrase is asked by more users than the phrases within it (phrases.md, *Consistency*)."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_GROUP = "group"


def consistent(keys: pa.Table, within: Sequence[str] = ()) -> pa.Table:
    """Keys (column `phrase`: tokens with blanks between) whose counts are at most those of the runs within them.

    Keys of few tokens come first, so a bound passes on from run to run. Missing counts stay and bound nothing.
    within: columns; rows bound each other only where all of them are equal.
    """
    if "count" not in keys.column_names or not keys.num_rows:
        return keys
    grouped = keys.append_column(_GROUP, _groups(keys, within))
    tokens = pc.count_substring(grouped["phrase"], " ").to_numpy()
    bounded = grouped.slice(0, 0)
    for number in sorted(set(tokens.tolist())):
        longer = grouped.filter(pa.array(tokens == number))
        bounded = pa.concat_tables([bounded, _bounded(longer, bounded)])
    return bounded.drop_columns([_GROUP])


def _bounded(longer: pa.Table, shorter: pa.Table) -> pa.Table:
    """The longer keys with counts of at most the counts of their two ends, where these are known."""
    counts = longer["count"].combine_chunks()
    names = _names(shorter, shorter["phrase"])
    bounds = shorter["count"].combine_chunks()
    for end in ("^[^ ]+ ", " [^ ]+$"):
        part = pc.replace_substring_regex(longer["phrase"], end, "")
        place = pc.index_in(_names(longer, part), names)
        least = pc.min_element_wise(counts, bounds.take(place))  # of those that are not missing
        counts = pc.if_else(pc.is_null(counts), counts, least)
    return longer.set_column(longer.column_names.index("count"), "count", counts)


def _groups(keys: pa.Table, within: Sequence[str]) -> pa.Array:
    """Text for the values of these columns in each row, different for different values."""
    texts = pa.repeat(pa.scalar("", pa.string()), keys.num_rows)
    for name in within:
        codes = keys[name].combine_chunks().dictionary_encode().indices.cast(pa.string())
        texts = pc.binary_join_element_wise(texts, codes, " ")
    return texts


def _names(table: pa.Table, phrases: pa.ChunkedArray) -> pa.Array:
    return pc.binary_join_element_wise(table[_GROUP], phrases, "\t").combine_chunks()
