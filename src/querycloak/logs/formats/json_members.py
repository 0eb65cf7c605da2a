"""The members of JSON objects that somebody asks for, as spans of bytes, compiled: no object is built.

The scanner accepts only what it is sure about. A record that is no object, or that is odd (a name asked for twice, a
name with an escape, a surrogate, a huge number, deep nesting, anything that is not JSON), is left to `parse_object`,
whose word counts; the tests compare the two.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

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
from querycloak.words.spans import Bytes, Mask, Spans

_DEEPEST = 64
"""Objects nested deeper are odd; `parse_object` goes as deep as 1,024, and takes what is deeper for no object."""
_MOST_NAMES = 64
_SETTINGS, _ROOT = 0, 1
_NOWHERE, _OUTSIDE = 0, -1
_OPEN_NODE, _OPEN_OBJECT, _DIGEST = 0, 1, 2
"""The lines of the scanner's stack: where it is among the names asked for, whether in an object, and names seen."""
# The scanner's tables are plain arrays: those in a tuple would be counted as used and unused at every step.


@dataclass(frozen=True)
class Members:
    """What the records hold under the paths asked for; rows under `odd` mean nothing."""

    data: Bytes
    _edges: dict[str, int]
    _found: NDArray[np.int32]

    @property
    def odd(self) -> Mask:
        """Which records are left to `parse_object`."""
        odd: Mask = self._found[2] > 0
        return odd

    @property
    def counts(self) -> NDArray[np.int32]:
        """How many members the document has."""
        counts: NDArray[np.int32] = self._found[0]
        return counts

    @property
    def wrapped(self) -> Mask:
        """Whether the document was found inside the wrapper."""
        wrapped: Mask = self._found[1] > 0
        return wrapped

    def kind(self, path: str | None) -> NDArray[np.int32]:
        """What stands at a path, by record."""
        edge = None if path is None else self._edges.get(path)
        return np.zeros(self._found.shape[1], np.int32) if edge is None else self._found[3 * edge]

    def text(self, path: str | None) -> Spans:
        """The texts and whole numbers at a path; anything else is empty."""
        edge = None if path is None else self._edges.get(path)
        if edge is None:
            nowhere = np.zeros(self._found.shape[1], np.int32)
            return Spans(self.data, nowhere, nowhere)
        return Spans(self.data, self._found[3 * edge + 1], self._found[3 * edge + 2])


class Wanted:
    """Names, or dotted paths, to look for in each record.

    `wrapper` names a member that holds the document itself, if it is an object. With `any_case` names may differ in
    case. With `distinct`, a document that may have any name twice is odd: then `counts` are those of its object.
    """

    def __init__(
        self, paths: Iterable[str], *, wrapper: str | None = None, any_case: bool = False, distinct: bool = False
    ) -> None:
        nodes: list[dict[str, tuple[int, bool]]] = [{}, {}]  # none is the settings' line
        ends: dict[str, tuple[int, str]] = {}
        for path in (*paths, *(() if wrapper is None else (wrapper,))):
            end = _add_path(nodes, path)
            if end is not None:
                ends[path] = end
        places = [(node, name) for node, edges in enumerate(nodes) for name in edges]
        numbers = {place: number for number, place in enumerate(places, start=len(nodes))}
        self._edges = {path: numbers[end] for path, end in ends.items()}
        self._names, self._tree = _tables(nodes)
        self._tree[_SETTINGS] = (0 if wrapper is None else self._edges[wrapper], any_case, distinct, len(nodes))

    def scan(self, records: Spans) -> Members:
        """The members of each record, which must be UTF-8."""
        data = records.data.copy()  # escapes are undone in place
        found = np.zeros((3 * len(self._tree), len(records)), np.int32)
        stack = np.zeros((3, max(_DEEPEST, _MOST_NAMES)), np.int64)
        _scan(data, records.starts, records.ends, self._names, self._tree, found, stack)
        data.setflags(write=False)
        return Members(data, self._edges, found)


def _add_path(nodes: list[dict[str, tuple[int, bool]]], path: str) -> tuple[int, str] | None:
    """Where a path ends, step by step; a member of the whole remaining name would come first, and is odd."""
    node, rest = _ROOT, path
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


def _tables(nodes: list[dict[str, tuple[int, bool]]]) -> tuple[Bytes, NDArray[np.int64]]:
    """The names, one after another, and a table with a line for the settings, each node and each edge.

    A node: its first edge, the one after its last, and which lengths its names have. An edge: where its name begins
    and ends, the node below it, and whether it is odd.
    """
    names, lines, first = bytearray(), [], len(nodes)
    for node in nodes:
        lengths = {min(len(_encoded(name)), 62) for name in node}
        lines.append((first, first + len(node), sum(1 << length for length in lengths), 0))
        first += len(node)
    for node in nodes:
        for name, (child, odd) in node.items():
            lines.append((len(names), len(names) + len(_encoded(name)), child, int(odd)))
            names += _encoded(name)
    return np.frombuffer(bytes(names) or b"\0", np.uint8), np.array(lines, np.int64)


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogatepass")


@njit(cache=True, nogil=True)
def _scan(data, starts, ends, names, tree, found, stack):  # type: ignore[no-untyped-def]
    for row in range(starts.size):
        at, stop = np.int64(starts[row]), np.int64(ends[row])
        if at < stop and data[at] != 123:  # an index name and a tab may come first
            while at < stop and data[at] != 9:
                at += 1
            at += 1
        found[2, row] = not _scan_object(data, at, stop, names, tree, found, row, stack)


@njit(cache=True, nogil=True)
def _scan_object(data, at, stop, names, tree, found, row, stack):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911, PLR0912
    """Whether the bytes are one plain object, whose members are then written down."""
    at = after_blanks(data, at, stop)
    if at >= stop or data[at] != 123:
        return False
    depth, fresh, at, closing = 0, True, at + 1, 125
    stack[_OPEN_NODE, 0], stack[_OPEN_OBJECT, 0] = _ROOT, 1
    while True:
        at = after_blanks(data, at, stop)
        if at >= stop:
            return False
        if data[at] == closing:
            if not fresh:  # a comma before the end
                return False
            at, depth = at + 1, depth - 1
        else:
            edge = 0
            if closing == 125:
                at, edge = _name(data, at, stop, names, tree, found, row, stack, depth)
                if at < 0:
                    return False
            if data[at] == 123 or data[at] == 91:
                depth += 1
                if depth == _DEEPEST:
                    return False
                closing = data[at] + 2
                _open(closing == 125, tree, found, row, stack, depth, edge)
                at, fresh = at + 1, True
                continue
            at = _value(data, at, stop, found, row, edge)
            if at < 0:
                return False
        while depth >= 0:
            closing = 125 if stack[_OPEN_OBJECT, depth] else 93
            at = after_blanks(data, at, stop)
            if at >= stop:
                return False
            if data[at] == 44:
                at, fresh = at + 1, False
                break
            if data[at] != closing:
                return False
            at, depth = at + 1, depth - 1
        if depth < 0:
            return after_blanks(data, at, stop) >= stop


@njit(cache=True, nogil=True)
def _name(data, at, stop, names, tree, found, row, stack, depth):  # type: ignore[no-untyped-def]  # noqa: C901, PLR0911
    """Where the value of the member begins, -1 if the member is odd; and the edge of its name, 0 if nobody asks."""
    if data[at] != 34:
        return -1, 0
    start = at + 1
    end, plain = string_end(data, start, stop)
    if end < 0:
        return -1, 0
    edge, node = 0, stack[_OPEN_NODE, depth]
    if node != _NOWHERE:
        if not plain:
            return -1, 0
        edge = _edge_of(data, start, end, names, tree, max(node, _ROOT))
        if edge < 0:
            return -1, 0
        if node == _OUTSIDE:  # of what surrounds the document, only a second document would matter
            if edge == tree[_SETTINGS, 0]:
                return -1, 0
            edge = 0
        elif edge and (tree[edge, 3] or found[3 * edge, row] != ABSENT):
            return -1, 0
        if node == _ROOT:
            found[0, row] += 1
            if tree[_SETTINGS, 2] and _seen(data, start, end, found[0, row], stack):
                return -1, 0
    at = after_blanks(data, end + 1, stop)
    if at >= stop or data[at] != 58:
        return -1, 0
    at = after_blanks(data, at + 1, stop)
    return (at, edge) if at < stop else (-1, 0)


@njit(cache=True, nogil=True)
def _edge_of(data, start, end, names, tree, node):  # type: ignore[no-untyped-def]  # noqa: C901
    """The edge of this name below a node, 0 if there is none, -1 if only Unicode's tables could tell."""
    length, any_case = end - start, tree[_SETTINGS, 1]
    if any_case:
        for i in range(start, end):
            if data[i] == 0xE2:  # the Kelvin sign is the one other character whose small letter is in ASCII
                return -1
    if not (tree[node, 2] >> min(length, 62)) & 1:
        return 0
    for edge in range(tree[node, 0], tree[node, 1]):
        first = tree[edge, 0]
        if tree[edge, 1] - first != length:
            continue
        same = True
        for i in range(length):
            byte = data[start + i]
            if any_case and 65 <= byte <= 90:
                byte |= 32
            if byte != names[first + i]:
                same = False
                break
        if same:
            return edge
    return 0


@njit(cache=True, nogil=True)
def _seen(data, start, end, count, stack):  # type: ignore[no-untyped-def]
    """Whether this name, the document's `count`-th, may have come before; beyond many names it may."""
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


@njit(cache=True, nogil=True)
def _open(is_object, tree, found, row, stack, depth, edge):  # type: ignore[no-untyped-def]
    """Go into an object or a list."""
    stack[_OPEN_OBJECT, depth], stack[_OPEN_NODE, depth] = is_object, _NOWHERE
    if edge == 0:
        return
    if is_object and edge == tree[_SETTINGS, 0] and depth == 1:  # this is the document: forget what stood around it
        for line in range(found.shape[0]):
            found[line, row] = 0
        found[1, row] = 1
        stack[_OPEN_NODE, 0], stack[_OPEN_NODE, 1] = _OUTSIDE, _ROOT
        return
    found[3 * edge, row] = OBJECT if is_object else OTHER
    if is_object:
        stack[_OPEN_NODE, depth] = tree[edge, 2]


@njit(cache=True, nogil=True)
def _value(data, at, stop, found, row, edge):  # type: ignore[no-untyped-def]
    """Where a text, a number or a literal ends, -1 if it is odd; it is written down if there is an edge for it."""
    start, kind = at, OTHER
    if data[at] == 34:
        start, kind = at + 1, TEXT
        end, plain = string_end(data, start, stop)
        if end < 0:
            return -1
        at = end + 1
        if edge and not plain:
            end = unescape(data, start, end)
    elif data[at] == 45 or 48 <= data[at] <= 57:
        at, kind = number_end(data, at, stop)
        end = at
    else:
        at = literal_end(data, at, stop)
        end = at
    if edge and at >= 0:
        found[3 * edge, row] = kind
        if kind != OTHER:
            found[3 * edge + 1, row], found[3 * edge + 2, row] = start, end
    return at
