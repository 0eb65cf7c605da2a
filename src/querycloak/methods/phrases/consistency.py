"""Consistent counts: no phrase is asked by more users than the phrases within it (phrases.md, *Consistency*)."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def consistent(keys: pa.Table, within: str | None = None) -> pa.Table:
    """Keys (column `phrase`: tokens with blanks between) whose counts are at most those of the runs within them.

    Keys of few tokens come first, so a bound passes on from run to run. Missing counts stay and bound nothing.
    within: a column; rows bound each other only where it is equal.
    """
    if "count" not in keys.column_names or not keys.num_rows:
        return keys
    tokens = pc.count_substring(keys["phrase"], " ").to_numpy()
    bounded = keys.slice(0, 0)
    for number in sorted(set(tokens.tolist())):
        longer = keys.filter(pa.array(tokens == number))
        bounded = pa.concat_tables([bounded, _bounded(longer, bounded, within)])
    return bounded


def _bounded(longer: pa.Table, shorter: pa.Table, within: str | None) -> pa.Table:
    """The longer keys with counts of at most the counts of their two ends, where these are known."""
    counts = longer["count"].combine_chunks()
    names = _names(shorter, shorter["phrase"], within)
    bounds = shorter["count"].combine_chunks()
    for end in ("^[^ ]+ ", " [^ ]+$"):
        part = pc.replace_substring_regex(longer["phrase"], end, "")
        place = pc.index_in(_names(longer, part, within), names)
        least = pc.min_element_wise(counts, bounds.take(place))  # of those that are not missing
        counts = pc.if_else(pc.is_null(counts), counts, least)
    return longer.set_column(longer.column_names.index("count"), "count", counts)


def _names(table: pa.Table, phrases: pa.ChunkedArray, within: str | None) -> pa.Array:
    if within is None:
        return phrases.combine_chunks()
    return pc.binary_join_element_wise(table[within].cast(pa.string()), phrases, "\t").combine_chunks()
