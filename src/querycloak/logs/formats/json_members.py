"""The members of JSON objects that somebody asks for, as spans of bytes, compiled: no object is built.

The scanner accepts only what it is sure about. A record that is no object, or that is odd (a name asked for twice, a
name with an escape, a surrogate, a huge number, deep nesting, anything that is not JSON), is left to `parse_object`,
whose word counts; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from querycloak.logs.formats.json_values import (
    ABSENT,
    OBJECT,
    OTHER,
    TEXT,
    after_blanks,
    literal_end,
    number_end,
    string_end,
    unescape,
)
from querycloak.words.spans import Bytes, Mask, Positions, Spans

_DEEPEST = 64
"""Objects nested deeper are odd; `parse_object` goes as deep as 1,024, and takes what is deeper for no object."""
_MOST_NAMES = 64
_NOWHERE, _OUTSIDE = -1, -2


class _Tree(NamedTuple):
    """The names asked for: each node has edges, each edge a name, and perhaps a node below it."""

    names: Bytes
    starts: Positions
    ends: Positions
    children: Positions
    odd: Mask
    first_edges: Positions
    lengths: NDArray[np.uint64]
    wrapper: int
    any_case: bool
    counted: bool


class _Rows(NamedTuple):
    """What was found: by edge and record, and by record."""

    kinds: NDArray[np.int8]
    starts: NDArray[np.int32]
    ends: NDArray[np.int32]
    counts: NDArray[np.int32]
    wrapped: Mask
    odd: Mask


class _Stack(NamedTuple):
    """The objects and lists that are open, and a digest of each name of the document."""

    nodes: Positions
    objects: Mask
    digests: NDArray[np.uint64]


@dataclass(frozen=True)
class Members:
    """What the records hold under the paths asked for; rows under `odd` mean nothing."""

    data: Bytes
    odd: Mask
    counts: NDArray[np.int32]
    """How many members the document has, if that was asked for."""
    wrapped: Mask
    """Whether the document was found inside the wrapper."""
    _edges: dict[str, int]
    _rows: _Rows

    def kind(self, path: str | None) -> NDArray[np.int8]:
        """What stands at a path, by record."""
        edge = None if path is None else self._edges.get(path)
        return np.zeros(len(self.odd), np.int8) if edge is None else self._rows.kinds[edge]

    def text(self, path: str | None) -> Spans:
        """The texts and whole numbers at a path; anything else is empty."""
        edge = None if path is None else self._edges.get(path)
        if edge is None:
            nowhere = np.zeros(len(self.odd), np.int32)
            return Spans(self.data, nowhere, nowhere)
        return Spans(self.data, self._rows.starts[edge], self._rows.ends[edge])


class Wanted:
    """Names, or dotted paths, to look for in each record.

    `wrapper` names a member that holds the document itself, if it is an object. With `any_case` names may differ in
    case. With `counted`, members of the document are counted, each name once.
    """

    def __init__(
        self, paths: Iterable[str], *, wrapper: str | None = None, any_case: bool = False, counted: bool = False
    ) -> None:
        nodes: list[dict[str, tuple[int, bool]]] = [{}]
        ends: dict[str, tuple[int, str]] = {}
        for path in (*paths, *(() if wrapper is None else (wrapper,))):
            end = _add_path(nodes, path)
            if end is not None:
                ends[path] = end
        places = [(node, name) for node, edges in enumerate(nodes) for name in edges]
        numbers = {place: number for number, place in enumerate(places)}
        self._edges = {path: numbers[end] for path, end in ends.items()}
        wrapping = _NOWHERE if wrapper is None else self._edges[wrapper]
        self._tree = _tree(nodes, wrapping, any_case=any_case, counted=counted)

    def scan(self, records: Spans) -> Members:
        """The members of each record, which must be UTF-8."""
        shape = (len(self._tree.children), len(records))
        data = records.data.copy()  # escapes are undone in place
        rows = _Rows(
            kinds=np.zeros(shape, np.int8),
            starts=np.zeros(shape, np.int32),
            ends=np.zeros(shape, np.int32),
            counts=np.zeros(len(records), np.int32),
            wrapped=np.zeros(len(records), np.bool_),
            odd=np.zeros(len(records), np.bool_),
        )
        stack = _Stack(np.zeros(_DEEPEST, np.int32), np.zeros(_DEEPEST, np.bool_), np.zeros(_MOST_NAMES, np.uint64))
        _scan(data, records.starts, records.ends, self._tree, rows, stack)
        data.setflags(write=False)
        return Members(data, rows.odd, rows.counts, rows.wrapped, self._edges, rows)


def _add_path(nodes: list[dict[str, tuple[int, bool]]], path: str) -> tuple[int, str] | None:
    """Where a path ends, step by step; a member of the whole remaining name would come first, and is odd."""
    node, rest = 0, path
    while "." in rest:
        nodes[node][rest] = (_NOWHERE, True)
        first, _, rest = rest.partition(".")
        if not rest:
            return None
        child, odd = nodes[node].get(first, (_NOWHERE, False))
        if child == _NOWHERE:
            child = len(nodes)
            nodes.append({})
            nodes[node][first] = (child, odd)
        node = child
    nodes[node].setdefault(rest, (_NOWHERE, False))
    return node, rest


def _tree(nodes: list[dict[str, tuple[int, bool]]], wrapper: int, *, any_case: bool, counted: bool) -> _Tree:
    edges = [edge for node in nodes for edge in node.items()]
    names = [name.encode("utf-8", "surrogatepass") for name, _ in edges]
    ends = np.cumsum([len(name) for name in names], dtype=np.int32)
    lengths = [sum({1 << min(len(name.encode("utf-8", "surrogatepass")), 63) for name in node}) for node in nodes]
    return _Tree(
        names=np.frombuffer(b"".join(names) or b"\0", np.uint8),
        starts=ends - np.array([len(name) for name in names], np.int32),
        ends=ends,
        children=np.array([child for _, (child, _) in edges], np.int32),
        odd=np.array([odd for _, (_, odd) in edges], np.bool_),
        first_edges=np.cumsum([0, *(len(node) for node in nodes)], dtype=np.int32),
        lengths=np.array(lengths, np.uint64),
        wrapper=wrapper,
        any_case=any_case,
        counted=counted,
    )


@njit(cache=True, nogil=True)
def _scan(data, starts, ends, tree, rows, stack):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        at, stop = starts[row], ends[row]
        if at < stop and data[at] != 123:  # an index name and a tab may come first
            while at < stop and data[at] != 9:
                at += 1
            at += 1
        rows.odd[row] = not _scan_object(data, at, stop, tree, rows, row, stack)


@njit(cache=True, nogil=True)
def _scan_object(data, at, stop, tree, rows, row, stack):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911, PLR0912
    """Whether the bytes are one plain object, whose members are then written down."""
    at = after_blanks(data, at, stop)
    if at >= stop or data[at] != 123:
        return False
    depth, fresh, at = 0, True, at + 1
    stack.nodes[0], stack.objects[0] = 0, True
    while True:
        at = after_blanks(data, at, stop)
        if at >= stop:
            return False
        if data[at] == (125 if stack.objects[depth] else 93):
            if not fresh:  # a comma before the end
                return False
            at, depth = at + 1, depth - 1
        else:
            edge = -1
            if stack.objects[depth]:
                at, edge = _name(data, at, stop, tree, rows, row, stack, depth)
                if at < 0:
                    return False
            if data[at] == 123 or data[at] == 91:
                depth += 1
                if depth == _DEEPEST:
                    return False
                _open(data[at] == 123, tree, rows, row, stack, depth, edge)
                at, fresh = at + 1, True
                continue
            at = _value(data, at, stop, rows, row, edge)
            if at < 0:
                return False
        while depth >= 0:
            at = after_blanks(data, at, stop)
            if at >= stop:
                return False
            if data[at] == 44:
                at, fresh = at + 1, False
                break
            if data[at] != (125 if stack.objects[depth] else 93):
                return False
            at, depth = at + 1, depth - 1
        if depth < 0:
            return after_blanks(data, at, stop) >= stop


@njit(cache=True, nogil=True)
def _name(data, at, stop, tree, rows, row, stack, depth):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911
    """Where the value of the member begins, -1 if the member is odd; and the edge of its name, -1 if nobody asks."""
    if data[at] != 34:
        return -1, -1
    start = at + 1
    end, plain = string_end(data, start, stop)
    if end < 0:
        return -1, -1
    edge, node = -1, stack.nodes[depth]
    if node != _NOWHERE:
        if not plain:
            return -1, -1
        edge = _edge_of(data, start, end, tree, max(node, 0))
        if edge == -2:
            return -1, -1
        if node == _OUTSIDE:  # of what surrounds the document, only a second document would matter
            if edge == tree.wrapper:
                return -1, -1
            edge = -1
        elif edge >= 0 and (tree.odd[edge] or rows.kinds[edge, row] != ABSENT):
            return -1, -1
        if node == 0 and tree.counted and not _count(data, start, end, rows, row, stack.digests):
            return -1, -1
    at = after_blanks(data, end + 1, stop)
    if at >= stop or data[at] != 58:
        return -1, -1
    at = after_blanks(data, at + 1, stop)
    return (at, edge) if at < stop else (-1, -1)


@njit(cache=True, nogil=True)
def _edge_of(data, start, end, tree, node):  # type: ignore[no-untyped-def]  # noqa: C901
    """The edge of this name below a node, -1 if there is none, -2 if only Unicode's tables could tell."""
    length = end - start
    if tree.any_case:
        for i in range(start, end):
            if data[i] == 0xE2:  # the Kelvin sign is the one other character whose small letter is in ASCII
                return -2
    if not (tree.lengths[node] >> np.uint64(min(length, 63))) & np.uint64(1):
        return -1
    for edge in range(tree.first_edges[node], tree.first_edges[node + 1]):
        if tree.ends[edge] - tree.starts[edge] != length:
            continue
        same = True
        for i in range(length):
            byte = data[start + i]
            if tree.any_case and 65 <= byte <= 90:
                byte += 32
            if byte != tree.names[tree.starts[edge] + i]:
                same = False
                break
        if same:
            return edge
    return -1


@njit(cache=True, nogil=True)
def _count(data, start, end, rows, row, digests):  # type: ignore[no-untyped-def]
    """Count a name; false if it may have come before, or if there are too many."""
    digest = np.uint64(14695981039346656037)
    for i in range(start, end):
        digest = (digest ^ np.uint64(data[i])) * np.uint64(1099511628211)
    count = rows.counts[row]
    if count == _MOST_NAMES:
        return False
    for i in range(count):
        if digests[i] == digest:
            return False
    digests[count] = digest
    rows.counts[row] = count + 1
    return True


@njit(cache=True, nogil=True)
def _open(is_object, tree, rows, row, stack, depth, edge):  # type: ignore[no-untyped-def]
    """Go into an object or a list."""
    stack.objects[depth], stack.nodes[depth] = is_object, _NOWHERE
    if edge < 0:
        return
    if is_object and edge == tree.wrapper and depth == 1:  # this is the document: forget what stood around it
        for other in range(tree.children.size):
            rows.kinds[other, row] = ABSENT
            rows.starts[other, row] = rows.ends[other, row] = 0
        rows.counts[row], rows.wrapped[row] = 0, True
        stack.nodes[0], stack.nodes[1] = _OUTSIDE, 0
        return
    rows.kinds[edge, row] = OBJECT if is_object else OTHER
    if is_object:
        stack.nodes[depth] = tree.children[edge]


@njit(cache=True, nogil=True)
def _value(data, at, stop, rows, row, edge):  # type: ignore[no-untyped-def]
    """Where a text, a number or a literal ends, -1 if it is odd; it is written down if there is an edge for it."""
    start, kind = at, OTHER
    if data[at] == 34:
        start, kind = at + 1, TEXT
        end, plain = string_end(data, start, stop)
        if end < 0:
            return -1
        at = end + 1
        if edge >= 0 and not plain:
            end = unescape(data, start, end)
    elif data[at] == 45 or 48 <= data[at] <= 57:
        at, kind = number_end(data, at, stop)
        end = at
    else:
        at = literal_end(data, at, stop)
        end = at
    if edge >= 0 and at >= 0:
        rows.kinds[edge, row] = kind
        if kind != OTHER:
            rows.starts[edge, row], rows.ends[edge, row] = start, end
    return at
