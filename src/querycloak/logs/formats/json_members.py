"""Scanner of JSON objects: requested members as spans of bytes, compiled, without building objects.

The scanner accepts only what it is sure about. A record that is no object, or that is odd (a name asked for twice, a
name with an escape, a surrogate, a huge number, deep nesting, anything that is not JSON), is left to `parse_object`,
whose word counts; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from querycloak.logs.formats.json_paths import (
    BUCKETS,
    CHILD,
    COLUMN,
    NAME,
    NAME_END,
    NEXT,
    NOWHERE,
    ODD,
    ODD_OBJECT,
    RANK,
    ROOT,
    Path,
    Paths,
    Tables,
)
from querycloak.logs.formats.json_values import (
    OBJECT,
    OTHER,
    TEXT,
    TRUE,
    after_blanks,
    scalar_end,
    string_end,
    unescape,
)
from querycloak.logs.reading.places import text_ends
from querycloak.text.compiled import inlined, kernel, part
from querycloak.text.spans import Bytes, Mask, Spans

_DEEPEST = 64
"""Objects nested deeper are odd; `parse_object` goes as deep as 1,024, and takes what is deeper for no object."""
_MOST_NAMES = 64
_OUTSIDE = -1
_NODE, _CLOSING, _DIGEST = 0, 1, 2
"""The lines of the scanner's stack: where it is among the names asked for, what closes that, and names seen."""
_IS_ODD, _IS_WRAPPED = 0, 1
# The scanner's tables are plain arrays: those in a tuple would be counted as used and unused at every step.


@dataclass(frozen=True)
class Members:
    """Values of the records at the requested paths; rows under `odd` are undefined."""

    data: Bytes
    counts: NDArray[np.int32]
    """Number of members of the document."""
    odd: Mask
    """True for records that are left to `parse_object`."""
    wrapped: Mask
    """True if the document was found inside the wrapper."""
    _columns: dict[Path, int]
    _kinds: NDArray[np.int8]
    _spans: NDArray[np.int32]

    def kind(self, path: str | None) -> NDArray[np.int8]:
        """Kind of value at a path, by record."""
        column = None if path is None else self._columns.get(path)
        return np.zeros(len(self.odd), np.int8) if column is None else self._kinds[column]

    def text(self, path: Path | None) -> Spans:
        """The texts and whole numbers at a path, or at the first of several that has one; anything else is empty."""
        column = None if path is None else self._columns.get(path)
        if column is None:
            nowhere = np.zeros(len(self.odd), np.int32)
            return Spans(self.data, nowhere, nowhere)
        return Spans(self.data, self._spans[2 * column], self._spans[2 * column + 1])


class WantedMembers:
    """Names, or dotted paths, to look for in each record; several that are tried in turn are one tuple.

    `wrapper` names a member that holds the document itself, if it is an object. With `any_case` names may differ in
    case. With `distinct`, a document that may have any name twice is odd: then `counts` are those of its object.
    An object at a path of `no_objects` makes a record odd.
    """

    def __init__(
        self,
        paths: Iterable[Path],
        *,
        wrapper: str | None = None,
        any_case: bool = False,
        distinct: bool = False,
        no_objects: Iterable[str] = (),
    ) -> None:
        self._paths = Paths((*paths, *(() if wrapper is None else (wrapper,))), no_objects)
        self._tables: Tables = self._paths.tables()
        self._settings = (0 if wrapper is None else self._paths.edge(wrapper), any_case, distinct)

    def scan(self, records: Spans) -> Members:
        """The members of each record, which must be UTF-8."""
        if (records.starts[1:] < records.starts[:-1]).any():  # the scanner goes forward
            records = Spans.of(records.strings())
        rows, columns = len(records), self._paths.columns
        kinds, spans = np.zeros((len(columns), rows), np.int8), np.zeros((2 * len(columns), rows), np.int32)
        counts, notes = np.zeros(rows, np.int32), np.zeros((2, rows), np.bool_)
        data = _read_only(records.data)
        stack = np.zeros((3, max(_DEEPEST, _MOST_NAMES)), np.int64)
        seen = np.full(len(self._tables.tree), -1, np.int32)
        escaped = _scan(
            data, text_ends(data), records.starts, records.ends, *self._tables, *self._settings,
            kinds, spans, counts, notes, stack, seen,
        )  # fmt: skip
        if escaped:
            data = data.copy()
            _unescape_all(data, spans)
            data.setflags(write=False)
        return Members(data, counts, notes[_IS_ODD], notes[_IS_WRAPPED], columns, kinds, spans)


def _read_only(data: Bytes) -> Bytes:
    """A read-only view of the bytes: the scanner is compiled for this type alone."""
    same = data.view()
    same.setflags(write=False)
    return same


@kernel
def _scan(  # type: ignore[no-untyped-def]
    data, text_ends, starts, ends, names, tree, buckets, wrapper, any_case, distinct,
    kinds, spans, counts, notes, stack, seen,
):  # fmt: skip
    """True if any text is left with its escapes: its end is then written as what `~` makes of it."""
    escapes, near = False, np.int64(0)
    for row in range(starts.size):
        at, stop = np.int64(starts[row]), np.int64(ends[row])
        if at < stop and data[at] != 123:  # an index name and a tab may come first
            while at < stop and data[at] != 9:
                at += 1
            at += 1
        while near and text_ends[near - 1] >= at:
            near -= 1
        while text_ends[near] < at:
            near += 1
        sound, escaped, near = _scan_object(
            data, text_ends, near, at, stop, names, tree, buckets, wrapper, any_case, distinct,
            kinds, spans, counts, notes, stack, seen, row,
        )  # fmt: skip
        notes[_IS_ODD, row] = not sound
        escapes |= escaped
    return escapes


@inlined
def _scan_object(  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911, PLR0912
    data, text_ends, near, at, stop, names, tree, buckets, wrapper, any_case, distinct,
    kinds, spans, counts, notes, stack, seen, row,
):  # fmt: skip
    """True if the bytes are one plain object, whose members are then written down; whether any has escapes; `near`."""
    at, near = after_blanks(data, near, at, stop)
    if at >= stop or data[at] != 123:
        return False, False, near
    depth, node, closing, fresh, escapes, at = 0, ROOT, 125, True, False, at + 1
    stack[_NODE, 0], stack[_CLOSING, 0] = node, closing
    while True:
        at, near = after_blanks(data, near, at, stop)
        if at >= stop:
            return False, escapes, near
        if data[at] != closing or not fresh:
            edge = 0
            if closing == 125:
                if data[at] != 34:
                    return False, escapes, near
                start = at + 1
                end, near, plain = string_end(data, text_ends, near, stop)
                if end >= 0 and node != NOWHERE:
                    edge = _member(
                        data, start, end, plain, names, tree, buckets, wrapper, any_case, distinct,
                        counts, stack, seen, node, row,
                    )  # fmt: skip
                if end < 0 or edge < 0:
                    return False, escapes, near
                at, near = _value_start(data, near, end + 1, stop)
                if at < 0:
                    return False, escapes, near
            if data[at] == 34:
                start = at + 1
                end, near, plain = string_end(data, text_ends, near, stop)
                at = end + 1
                if end < 0:
                    return False, escapes, near
                if edge:
                    escapes |= _keep(tree, kinds, spans, row, edge, TEXT, start, end, plain)
            elif data[at] == 123 or data[at] == 91:
                closing, depth, at, fresh = data[at] + 2, depth + 1, at + 1, True
                if depth == _DEEPEST or (edge and closing == 125 and tree[edge, ODD_OBJECT]):
                    return False, escapes, near
                node = _open(closing == 125, tree, wrapper, kinds, spans, counts, notes, stack, seen, depth, row, edge)
                stack[_NODE, depth], stack[_CLOSING, depth] = node, closing
                continue
            else:
                start = at
                at, kind = scalar_end(data, at, stop)
                if at < 0:
                    return False, escapes, near
                if edge:
                    _keep(tree, kinds, spans, row, edge, kind, start, at, True)
        at, near, depth = _after_value(data, stack, near, at, stop, depth)
        if at < 0 or depth < 0:
            return at >= 0, escapes, near
        node, closing, fresh = stack[_NODE, depth], stack[_CLOSING, depth], False


@inlined
def _value_start(data, near, at, stop):  # type: ignore[no-untyped-def]
    """Start of the value behind a name, -1 if there is none; and `near`."""
    at, near = after_blanks(data, near, at, stop)
    if at >= stop or data[at] != 58:
        return np.int64(-1), near
    at, near = after_blanks(data, near, at + 1, stop)
    return at if at < stop else np.int64(-1), near


@inlined
def _after_value(data, stack, near, at, stop, depth):  # type: ignore[no-untyped-def]
    """Behind the next comma, -1 if what follows is odd; `near`; and how deep that is, -1 behind the whole object."""
    while True:
        at, near = after_blanks(data, near, at, stop)
        if depth < 0:
            return at if at >= stop else np.int64(-1), near, depth
        if at < stop and data[at] == 44:
            return at + 1, near, depth
        if at >= stop or data[at] != stack[_CLOSING, depth]:
            return np.int64(-1), near, depth
        at, depth = at + 1, depth - 1


@inlined
def _member(  # type: ignore[no-untyped-def]
    data, start, end, plain, names, tree, buckets, wrapper, any_case, distinct, counts, stack, seen, node, row
):
    """The edge of a member's name, 0 if it is not requested, -1 if it is odd."""
    if not plain:
        return -1
    edge = _edge_of(data, start, end, names, tree, buckets, max(node, ROOT), any_case)
    if edge < 0:
        return -1
    if node == _OUTSIDE:  # of what surrounds the document, only a second document would matter
        return -1 if edge and edge == wrapper else 0
    if edge:
        if tree[edge, ODD] or seen[edge] == row:
            return -1
        seen[edge] = row
    if node == ROOT:
        counts[row] += 1
        if distinct and _seen_before(data, start, end, counts[row], stack):
            return -1
    return edge


@inlined
def _edge_of(data, start, end, names, tree, buckets, node, any_case):  # type: ignore[no-untyped-def]  # noqa: C901
    """The edge of this name below a node, 0 if there is none, -1 if only Unicode's tables could tell."""
    length, bucket = end - start, 0
    if length:
        bucket = ((data[start] | 32) + 3 * (data[end - 1] | 32) + 5 * length) % BUCKETS
    edge = buckets[node, bucket]
    while edge:
        first, i = tree[edge, NAME], 0
        if tree[edge, NAME_END] - first == length:
            while i < length:
                byte = data[start + i]
                if any_case and 65 <= byte <= 90:
                    byte |= 32
                if byte != names[first + i]:
                    break
                i += 1
            if i == length:
                return edge
        edge = tree[edge, NEXT]
    if any_case:
        for i in range(start, end):
            if data[i] == 0xE2:  # the Kelvin sign is the one other character whose small letter is in ASCII
                return -1
    return 0


@part
def _seen_before(data, start, end, count, stack):  # type: ignore[no-untyped-def]
    """True if this name, the document's `count`-th, may have come before; beyond many names it may."""
    if count > _MOST_NAMES:
        return True
    digest = np.int64(end - start)
    for i in range(start, end):
        digest = (digest ^ np.int64(data[i])) * np.int64(1099511628211)
    for i in range(count - 1):
        if stack[_DIGEST, i] == digest:
            return True
    stack[_DIGEST, count - 1] = digest
    return False


@part
def _open(is_object, tree, wrapper, kinds, spans, counts, notes, stack, seen, depth, row, edge):  # type: ignore[no-untyped-def]
    """Go into an object or a list: where that is among the names asked for."""
    if edge == 0:
        return NOWHERE
    if is_object and edge == wrapper and depth == 1:  # this is the document: forget what stood around it
        for column in range(kinds.shape[0]):
            kinds[column, row] = spans[2 * column, row] = spans[2 * column + 1, row] = 0
        counts[row], seen[:] = 0, -1
        notes[_IS_WRAPPED, row] = True
        stack[_NODE, 0] = _OUTSIDE
        return ROOT
    if tree[edge, COLUMN] >= 0 and tree[edge, RANK] == 0:
        kinds[tree[edge, COLUMN], row] = OBJECT if is_object else OTHER
    return tree[edge, CHILD] if is_object else NOWHERE


@inlined
def _keep(tree, kinds, spans, row, edge, kind, start, end, plain):  # type: ignore[no-untyped-def]
    """Write a value down; whether it is a text that has escapes."""
    column, rank = tree[edge, COLUMN], tree[edge, RANK]
    if column < 0:
        return False
    if rank:  # of several paths the first that holds a text counts
        if kind in (OTHER, TRUE) or start == end or 0 < kinds[column, row] < rank:
            return False
        kinds[column, row] = rank
    else:
        kinds[column, row] = kind
        if kind in (OTHER, TRUE):
            return False
    spans[2 * column, row], spans[2 * column + 1, row] = start, end if plain else ~end
    return not plain


@kernel
def _unescape_all(data, spans):  # type: ignore[no-untyped-def]
    """Undo the escapes of texts that have any, in place."""
    for column in range(0, spans.shape[0], 2):
        for row in range(spans.shape[1]):
            if spans[column + 1, row] < 0:
                spans[column + 1, row] = unescape(data, spans[column, row], ~spans[column + 1, row])
