"""Sessions as rows of queries, and their subsequences: windows per user on any engine, no sort of the whole log.

A session ends where its user pauses for longer than the gap. Consecutive rows of one query count as one query: they
are several clicks of a search, or pages of its results. Sessions of one query are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from querycloak.logs.reading.schema import MINUTE, microseconds_of

# Normalised queries hold no control character; in other queries these two are escaped.
_BETWEEN, _ESCAPE = "\x1f", "\x1e"
_ESCAPED = {_ESCAPE: _ESCAPE + "0", _BETWEEN: _ESCAPE + "1"}
_PLACES = 1024  # as in contribution_bounding.once_per_key: `earliest` is a time and a rank in one number


def session_queries(rows: ir.Table, gap_minutes: float, most: int) -> ir.Table:
    """user, began (microseconds) and the first `most` queries of each session: q0, q1, ..., null beyond its end."""
    steps = steps_of(rows, gap_minutes)
    order = ibis.window(group_by=steps.user, order_by=[steps.at, steps.query])
    ahead = {f"q{i}": steps.query.lead(i).over(order) for i in range(1, most)}
    ends = {f"ends{i}": steps.begins.lead(i).over(order) for i in range(1, most)}
    seen = steps.mutate(**ahead, **ends)
    seen = seen.filter(seen.begins & ~seen.ends1.fill_null(True))
    queries = {"q0": seen.query, "q1": seen.q1}
    inside = ibis.literal(True)
    for i in range(2, most):
        inside = inside & ~seen[f"ends{i}"].fill_null(True)
        queries[f"q{i}"] = ibis.ifelse(inside, seen[f"q{i}"], ibis.null("string"))
    return seen.select("user", began=seen.at, **queries)


def steps_of(rows: ir.Table, gap_minutes: float) -> ir.Table:
    """user, at (microseconds), query and begins, without repeats; begins: whether the query starts a session."""
    at = microseconds_of(rows.time)
    order = ibis.window(group_by=rows.user, order_by=[rows.time, rows.query])
    steps = rows.select(
        "user", "query", at=at, pause=at - at.lag().over(order), repeats=rows.query == rows.query.lag().over(order)
    )
    # A repeat keeps its session alive: pauses are measured between rows, before repeats are left out.
    steps = steps.mutate(begins=(steps.pause > gap_minutes * MINUTE).fill_null(True))
    return steps.filter(steps.begins | ~steps.repeats).select("user", "at", "query", "begins")


def first_sessions(sessions: ir.Table, most: int) -> ir.Table:
    """Each user's first `most` sessions."""
    order = ibis.window(group_by=sessions.user, order_by=sessions.began)
    numbered = sessions.mutate(place=ibis.row_number().over(order))
    return numbered.filter(numbered.place < most).drop("place")


def affordable_sessions(sessions: ir.Table, most: int, characters: int) -> ir.Table:
    """Each user's first sessions whose subsequences have at most this number of characters together.

    Each query of a session of n occurs in 2^(n-1) subsequences: a few megabytes of one user could fill any memory.
    """
    queries = [sessions[f"q{i}"] for i in range(most)]
    number, long = (
        sum((value.cast("int64") for value in values), start=ibis.literal(0, "int64"))
        for values in ([q.notnull() for q in queries], [(q.length() + 1).fill_null(0) for q in queries])
    )
    times = number.cases(*[(n, ibis.literal(1 << (n - 1), "int64")) for n in range(2, most + 1)])
    order = ibis.window(group_by=sessions.user, order_by=sessions.began, preceding=None, following=0)
    written = sessions.mutate(written=times * long)
    so_far = written.mutate(written=written.written.sum().over(order))
    return so_far.filter(so_far.written <= characters).drop("written")


def subsequences(sessions: ir.Table, most: int, *, escape: bool, repeats: bool) -> ir.Table:
    """user, queries and earliest: a row for each subsequence of two or more queries of a session.

    repeats: whether subsequences that hold one query twice in a row count; the session has other queries between.
    `queries` is one text for each list, its length before its queries: of equal times, short lists come first.
    """
    texts = [_escaped(sessions[f"q{i}"]) if escape else sessions[f"q{i}"] for i in range(most)]
    chosen = [
        _joined(length, [texts[i] for i in places], () if repeats else _apart(places))
        for length in range(2, most + 1)
        for places in combinations(range(most), length)
    ]
    rows = sessions.select("user", queries=ibis.array(chosen).unnest(), earliest=sessions.began * _PLACES)
    return rows.filter(rows.queries.notnull())


def _apart(places: Sequence[int]) -> list[int]:
    """Indices of places with a gap before them: only there can the query of the place before be repeated."""
    return [at for at in range(1, len(places)) if places[at] - places[at - 1] > 1]


def _joined(length: int, texts: list[ir.StringValue], may_repeat: Sequence[int] = ()) -> ir.StringValue:
    """One text; null if the session is shorter, or if a text of `may_repeat` equals the one before it."""
    whole = ibis.literal(chr(ord("0") + length)) + texts[0]
    for text in texts[1:]:
        whole = whole + _BETWEEN + text
    for at in may_repeat:
        whole = ibis.ifelse(texts[at] == texts[at - 1], ibis.null("string"), whole)
    return whole


def queries_of(sequence: ir.StringValue) -> ir.ArrayValue:
    """The queries of a text that `subsequences` wrote, still escaped."""
    return sequence.substr(1).split(_BETWEEN)


def _escaped(text: ir.StringValue) -> ir.StringValue:
    for char, written in _ESCAPED.items():
        text = text.replace(char, written)
    return text


def once_per_sequence(sequences: ir.Table) -> ir.Table:
    """Each user's distinct sequences, at their earliest times."""
    return sequences.group_by(["user", "queries"]).agg(earliest=sequences.earliest.min())


def later_queries(sessions: ir.Table, *, escape: bool) -> ir.Table:
    """user and queries, once each: pairs of different queries of one session, in order of time, adjacent or not.

    sessions: searches with the number of their session. queries: a text as `subsequences` writes it.
    """
    grouped = sessions.group_by(["user", "session", "query"])
    # Some place of one query lies before some place of another if its first lies before the other's last.
    places = grouped.agg(first=sessions.number.min(), last=sessions.number.max())
    later = places.select("user", "session", later=places.query, last=places["last"])
    both = places.drop("last").inner_join(later, ["user", "session"])
    both = both.filter((both["first"] < both["last"]) & (both.query != both.later))
    texts = [_escaped(text) if escape else text for text in (both.query, both.later)]
    return both.select("user", queries=_joined(2, texts)).distinct()


def session_steps(rows: ir.Table, gap_minutes: float) -> ir.Table:
    """user, session, number (the place in time), query and before: the query before it, null at a session's start.

    Rows equal in time and query are one step. A repeated query is a step whose `before` is the same query.
    """
    at = microseconds_of(rows.time)
    order = ibis.window(group_by=rows.user, order_by=[rows.time, rows.query])
    steps = rows.select("user", "query", at=at, pause=at - at.lag().over(order), before=rows.query.lag().over(order))
    steps = steps.mutate(begins=(steps.pause > gap_minutes * MINUTE).fill_null(True))
    steps = steps.filter(steps.begins | (steps.query != steps.before) | (steps.pause > 0))
    so_far = ibis.window(group_by=steps.user, order_by=[steps.at, steps.query], preceding=None, following=0)
    return steps.select(
        "user",
        session=steps.begins.cast("int64").sum().over(so_far).cast("int64"),
        number=ibis.row_number().over(ibis.window(group_by=steps.user, order_by=[steps.at, steps.query])),
        query=steps.query,
        before=ibis.ifelse(steps.begins, ibis.null("string"), steps.before),
    )


def pairs_of_steps(steps: ir.Table, among: ir.Table, most: int, *, repeats: bool) -> ir.Table:
    """user, query, next_query and earliest, once each: pairs of queries of `among` in one session, adjacent or not.

    steps: those of `session_steps`. most: number of different queries of a session that count, the first ones.
    """
    moves = steps.filter(steps.before.isnull() | (steps.before != steps.query)).semi_join(among, "query")
    places = moves.group_by(["user", "session", "query"]).agg(first=moves.number.min(), last=moves.number.max())
    order = ibis.window(group_by=[places.user, places.session], order_by=places["first"])
    places = places.mutate(place=ibis.row_number().over(order))
    places = places.filter(places.place < most).drop("place")
    later = places.select("user", "session", next_query=places.query, last=places["last"])
    both = places.drop("last").inner_join(later, ["user", "session"])
    # Some place of one query lies before some place of another if its first lies before the other's last.
    both = both.filter(both["first"] < both["last"])
    both = both if repeats else both.filter(both.query != both.next_query)
    return both.group_by(["user", "query", "next_query"]).agg(earliest=both["first"].min())


def as_texts(lists: pa.Array, *, escape: bool) -> pa.Array:
    """The lists of queries as the texts that `subsequences` writes."""
    whole = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    queries = whole.flatten()
    for char, written in _ESCAPED.items() if escape else ():
        queries = pc.replace_substring(queries, char, written)
    lengths = pc.list_value_length(whole)
    ends = np.cumsum(lengths.to_numpy(zero_copy_only=False))
    offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, queries), _BETWEEN)
    digits = pa.array([chr(ord("0") + length) for length in range((pc.max(lengths).as_py() or 0) + 1)], pa.string())
    return pc.binary_join_element_wise(digits.take(lengths), joined, "")


def as_lists(texts: pa.Array) -> pa.ListArray:
    """The lists of queries that `subsequences` wrote as texts."""
    whole = texts.combine_chunks() if isinstance(texts, pa.ChunkedArray) else texts
    lists = pc.split_pattern(pc.utf8_slice_codeunits(whole, 1), _BETWEEN)
    queries = lists.flatten()
    for char, written in reversed(_ESCAPED.items()):
        queries = pc.replace_substring(queries, written, char)
    return pa.ListArray.from_arrays(lists.offsets, queries)
